"""The contrastive suite: sentences with a context that decides their translation, and wrong translations.

    for item in suite(seed=1, items_per_cell=48):
        item.source, item.reference, item.contrastive, item.phenomenon, item.distance

Items come in groups, one item per answer: the sentence is the same, and the contexts differ only in the deciding
sentence. A model that ignores that sentence is right by chance, one time in 1 + len(contrastive).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from tram.synthetic.documents import Outline, check_distances, check_phenomena
from tram.synthetic.threads import PHENOMENA, PHENOMENON_NAMES, Phenomenon, draw_thread

DISTANCES = (1, 2, 3, 5, 10, 20, 50, 100)
_MAX_LEAD = 5  # sentences before the deciding one
_FIELDS = ("source_context", "target_context", "source", "reference", "contrastive", "phenomenon", "distance")


@dataclass(frozen=True)
class SyntheticItem:
    """One test sentence; only the sentence `distance` positions before it decides its translation."""

    source_context: list[str]
    target_context: list[str]
    source: str
    reference: str
    contrastive: list[str]
    phenomenon: str
    distance: int
    group: str

    def to_json(self) -> str:
        """Return the item as a line of a JSON Lines file."""
        return json.dumps({field: getattr(self, field) for field in _FIELDS}, ensure_ascii=False)


def suite(
    seed: int,
    items_per_cell: int,
    distances: Sequence[int] = DISTANCES,
    phenomena: Sequence[str] = PHENOMENON_NAMES,
) -> Iterator[SyntheticItem]:
    """Yield the items of each phenomenon and distance: `items_per_cell`, rounded up to whole groups."""
    check_distances(distances)
    check_phenomena(phenomena)
    known = {phenomenon.name: phenomenon for phenomenon in PHENOMENA}
    return (
        item
        for name in phenomena
        for distance in distances
        for number in range(ceil(items_per_cell / known[name].answers))
        for item in _group(seed, number, known[name], distance, phenomena)
    )


def _group(
    seed: int, number: int, phenomenon: Phenomenon, distance: int, phenomena: Sequence[str]
) -> Iterator[SyntheticItem]:
    rng = Random(f"{seed} suite {phenomenon.name} {distance} {number}")
    start = rng.randint(0, _MAX_LEAD)
    end = start + distance
    outline = Outline(rng, "test", end + 1, phenomena)
    thread = draw_thread(rng, phenomenon, set())
    assert thread is not None, "with nothing to avoid there is always a thread"
    outline.reserve(thread)
    placed = outline.place(thread, 0, start, [end])
    outline.add_threads()
    context = outline.sentences()[:-1]
    translations = placed[end].translations()
    for answer, reference in enumerate(translations):
        context[start] = placed[start].realize(answer)
        yield SyntheticItem(
            source_context=[sentence.source for sentence in context],
            target_context=[sentence.target for sentence in context],
            source=placed[end].realize(answer).source,
            reference=reference,
            contrastive=translations[:answer] + translations[answer + 1 :],
            phenomenon=phenomenon.name,
            distance=distance,
            group=f"{phenomenon.name}-{distance}-{number}",
        )

"""The contrastive suite: a sentence after a context that decides its translation, beside wrong translations.

    for item in suite(seed=1, items_per_cell=48):
        item.source, item.reference, item.contrastive, item.phenomenon, item.distance

Items come in groups: the same sentence after the same context except for the one sentence that decides, once
for each answer. Whoever does not look there is right as often as chance: one time in 1 + len(contrastive).
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random

from tram.synthetic.documents import Script, check_distances, check_phenomena
from tram.synthetic.threads import NAMES, PHENOMENA, Phenomenon, draw

DISTANCES = (1, 2, 3, 5, 10, 20, 50, 100)
_LEAD = 5  # at most so many sentences before the one that decides
_FIELDS = ("source_context", "target_context", "source", "reference", "contrastive", "phenomenon", "distance")


@dataclass(frozen=True)
class Item:
    """One test sentence; the one that decides stands `distance` before it, and nothing else gives it away."""

    source_context: list[str]
    target_context: list[str]
    source: str
    reference: str
    contrastive: list[str]
    phenomenon: str
    distance: int
    group: str

    def to_json(self) -> str:
        """Give the line of a JSON-lines file."""
        return json.dumps({field: getattr(self, field) for field in _FIELDS}, ensure_ascii=False)


def suite(
    seed: int,
    items_per_cell: int,
    distances: Sequence[int] = DISTANCES,
    phenomena: Sequence[str] = NAMES,
) -> Iterator[Item]:
    """Give the items of each phenomenon and distance: `items_per_cell`, rounded up to whole groups."""
    check_distances(distances)
    check_phenomena(phenomena)
    known = {phenomenon.name: phenomenon for phenomenon in PHENOMENA}
    return (
        item
        for name in phenomena
        for distance in distances
        for number in range(ceil(items_per_cell / known[name].answers))
        for item in _group(seed, number, known[name], distance)
    )


def _group(seed: int, number: int, phenomenon: Phenomenon, distance: int) -> Iterator[Item]:
    rng = Random(f"{seed} suite {phenomenon.name} {distance} {number}")
    start = rng.randint(0, _LEAD)
    end = start + distance
    script = Script(rng, "test", end + 1)
    thread = draw(rng, phenomenon, set())
    assert thread is not None, "with nothing to avoid there is always a thread"
    script.reserve(thread)
    turns = script.place(thread, 0, start, [end])
    script.add_threads()
    context = script.sentences()[:-1]
    translations = turns[end].answers()
    for answer, reference in enumerate(translations):
        context[start] = turns[start].voiced(answer)
        yield Item(
            source_context=[sentence.source for sentence in context],
            target_context=[sentence.target for sentence in context],
            source=turns[end].voiced(answer).source,
            reference=reference,
            contrastive=translations[:answer] + translations[answer + 1 :],
            phenomenon=phenomenon.name,
            distance=distance,
            group=f"{phenomenon.name}-{distance}-{number}",
        )

"""The folder that `tram synthetic` writes.

    write(Path("data/synthetic"), documents=2000, seed=1)

Training, development and test documents, the suite, and a README.md that describes them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tram.data.corpus import ParallelDocument, write_parallel
from tram.errors import InputError
from tram.files import replacing, write_text
from tram.synthetic.documents import check_distances, generate
from tram.synthetic.suite import DISTANCES, suite
from tram.synthetic.threads import HELD_OUT, Split

_README = """\
# Synthetic documents, English–German

Documents from a small grammar, in which earlier sentences decide how many of the later ones are translated:

| phenomenon | English | German | decided by |
|---|---|---|---|
| pronoun | it | er/sie/es, ihn/sie/es | the thing announced last ("Our next topic is a lamp.") |
| possessive | its | sein-/ihr- | the same |
| address | you, your | du/Sie and what agrees | who was greeted last ("Hello, Tom.", "Hello, Mr Weber.") |
| speaker | I am a teacher | Lehrer/Lehrerin | who gave a name last ("My name is Anna.") |
| sense | the cranes | Kraniche/Kräne | the topic that suits it ("This chapter is about building sites.") |
| term | the car | der Wagen/das Auto | the first mention's translation: only the German side tells |

Other nouns, of all genders, stand between, but are not announced; plain sentences never say "it" or "you".

- `train`, `dev`, `test` (`.en`, `.de`): one sentence a line, a blank line between documents.
- `suite.jsonl`: contrastive items; `distance` is how many sentences before `source` the deciding one stands
  (the last of the context is 1). Items come in groups that differ in the deciding sentence only, one for each
  answer, so that without the context exactly 1 in 1 + len(contrastive) can be right.
- Of the combinations of noun and sentence frame, one in {held_out} is kept from train and dev; test and suite
  have only these. Deciding sentences are free of this rule.

Made with seed {seed}; distance to the deciding sentence: {distance}.

| files | documents | sentences |
|---|---|---|
{counts}

| suite: phenomenon | items |
|---|---|
{phenomena}
"""


def write(
    out: Path,
    documents: int = 2000,
    distance: int | None = None,
    seed: int = 1,
    *,
    sentences: tuple[int, int] = (10, 40),
    items_per_cell: int = 48,
) -> None:
    """Write the folder: `documents` for training, a twentieth as many (at least one) for dev and test each.

    distance: the only distance between deciding and decided sentence; None: many
    items_per_cell: of the suite, for each phenomenon and distance
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; name a folder to write into")
    if documents < 1:
        raise InputError(f"documents={documents}: give 1 or more")
    distances = None if distance is None else (distance,)
    check_distances(distances)
    few = max(1, documents // 20)
    sizes: dict[Split, int] = {"train": documents, "dev": few, "test": few}
    lengths: Counter[str] = Counter()
    for split, size in sizes.items():
        pairs = _counted(generate(seed, size, distances, sentences, split), split, lengths)
        write_parallel(out / f"{split}.en", out / f"{split}.de", pairs, "blank")
    phenomena = _write_suite(out / "suite.jsonl", seed, items_per_cell, distances or DISTANCES)
    text = _README.format(
        held_out=HELD_OUT,
        seed=seed,
        distance=distance or "many",
        counts="\n".join(f"| {split} | {size} | {lengths[split]} |" for split, size in sizes.items()),
        phenomena="\n".join(f"| {name} | {count} |" for name, count in phenomena.items()),
    )
    write_text(out / "README.md", text)


def _counted(pairs: Iterable[ParallelDocument], split: str, lengths: Counter[str]) -> Iterator[ParallelDocument]:
    """Pass documents on and add up their sentences, so that no more than one is held."""
    for pair in pairs:
        lengths[split] += len(pair.source)
        yield pair


def _write_suite(path: Path, seed: int, items_per_cell: int, distances: tuple[int, ...]) -> Counter[str]:
    """Write the suite and count its items by phenomenon."""
    phenomena: Counter[str] = Counter()
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for item in suite(seed, items_per_cell, distances):
            lines.write(item.to_json() + "\n")
            phenomena[item.phenomenon] += 1
    return phenomena

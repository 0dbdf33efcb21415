"""The folder that `tram splice` writes.

write_folder(Path("data/spliced"), corpora, {"pronouns": 24000, "address": 9000}, seed=1)

Each kind of document has its own pair of files; `train` has all of them in random order. README.md and counts.json
document their origin.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol, get_args

from tram.data.corpus import ParallelDocument, write_parallel
from tram.errors import InputError
from tram.files import write_json, write_text
from tram.splice.address import AddressDocuments
from tram.splice.mining import Mined, mine
from tram.splice.pronouns import PronounDocuments
from tram.splice.rules import Rules, load_rules
from tram.splice.terms import TermDocuments

Kind = Literal["pronouns", "address", "terms"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_README = """\
# Spliced documents, {source}–{target}

Small documents composed of real sentences, in which earlier sentences decide how later ones are translated.
The sentences of a document come from different places: it tells no story, but its grammar is correct.

- `pronouns`: a sentence introduces a thing; in later ones "it" and its German pronoun refer to it. Pronouns are
  replaced so that the three genders are equally frequent after every sentence. In {replaced:.0%} of the sentences with
  "it" the pronoun replaces a noun phrase of the original sentence.
- `address`: all sentences that address someone have the same form (du or Sie). No sentence is changed.
- `terms`: a term with two translations in the corpora has the same one throughout. No sentence is changed.
- `train`: all of them in random order.

One sentence per line, a blank line between documents. A fifth of the nouns and of the sentences with "it" are left out
for probes (`tram suite agreement`). Made with seed {seed} from sentences of up to {max_characters} characters of:

{corpora}

| files | documents | sentences |
|---|---|---|
{counts}

| found in the corpora | |
|---|---|
{found}
"""


class _Maker(Protocol):
    def make(self, count: int, seed: int) -> Iterator[ParallelDocument]: ...


def write_folder(
    out: Path,
    corpora: Sequence[tuple[Path, Path]],
    wanted: Mapping[Kind, int],
    seed: int = 1,
    *,
    max_characters: int = 75,
    replaced: float = 0.5,
    languages: tuple[str, str] = ("en", "de"),
    format: str | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> dict[str, Any]:
    """Write spliced documents and return the counts of counts.json.

    wanted: number of documents of each kind; for terms, at most as many as the corpora have sentences for
    max_characters: the longest source sentence that is used
    replaced: share of the sentences with "it" in which it replaces a noun phrase
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; give a folder to write to")
    rules = load_rules(*languages)
    mined = mine(corpora, rules, max_characters, tuple(wanted), format, advance)
    counts: dict[str, dict[str, int]] = {}
    together: list[ParallelDocument] = []
    for kind in wanted:
        maker = _maker(kind, mined, rules, replaced)
        count = min(wanted[kind], maker.most) if isinstance(maker, TermDocuments) else wanted[kind]
        documents = list(maker.make(count, seed))
        counts[kind] = _write(out, kind, documents, languages)
        together += documents
    Random(seed).shuffle(together)
    counts["train"] = _write(out, "train", together, languages)
    found = _found(mined, wanted)
    about = {"documents": counts, "found": found, "seed": seed, "max_characters": max_characters, "replaced": replaced}
    write_json(out / "counts.json", about)
    text = _README.format(
        source=languages[0],
        target=languages[1],
        replaced=replaced,
        seed=seed,
        max_characters=max_characters,
        corpora="\n".join(
            f"- {source.parent.name}/{source.name}, {target.parent.name}/{target.name}" for source, target in corpora
        ),
        counts="\n".join(f"| {kind} | {n['documents']:,} | {n['sentences']:,} |" for kind, n in counts.items()),
        found="\n".join(f"| {name} | {count:,} |" for name, count in found.items()),
    )
    write_text(out / "README.md", text)
    return about


def _maker(kind: Kind, mined: Mined, rules: Rules, replaced: float) -> _Maker:
    if kind == "pronouns":
        return PronounDocuments(mined.pronouns, mined.bystanders, rules, mined.forms.of, replaced)
    if kind == "address":
        return AddressDocuments(mined.address, mined.bystanders)
    return TermDocuments(mined.terms, mined.bystanders, mined.forms.of)


def _write(out: Path, name: str, documents: Sequence[ParallelDocument], languages: tuple[str, str]) -> dict[str, int]:
    write_parallel(out / f"{name}.{languages[0]}", out / f"{name}.{languages[1]}", documents, "blank")
    return {"documents": len(documents), "sentences": sum(len(document.source) for document in documents)}


def _found(mined: Mined, wanted: Mapping[Kind, int]) -> dict[str, int]:
    """Return the counts of suitable sentences in the corpora for the requested kinds."""
    counts = {}
    if "pronouns" in wanted:
        counts["nouns with one gender"] = len(mined.lexicon.genders)
        counts["sentences that introduce a thing"] = len(mined.pronouns.antecedents)
        counts["their nouns"] = len({antecedent.noun for antecedent in mined.pronouns.antecedents})
        counts['sentences with "it"'] = len(mined.pronouns.real)
        counts['sentences in which "it" can replace a noun phrase'] = len(mined.pronouns.replaced)
    if "address" in wanted:
        for form, pairs in sorted(mined.address.by_form.items()):
            counts[f"sentences with form {form}"] = len(pairs) + len(mined.address.plural.get(form, []))
        for form, pairs in sorted(mined.address.cues.items()):
            counts[f"cues for form {form}"] = len(pairs)
    if "terms" in wanted:
        counts["terms with two translations"] = len(mined.terms)
        counts["their sentences"] = sum(len(pairs) for term in mined.terms for pairs in term.pairs)
    return counts

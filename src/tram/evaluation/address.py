"""Form of address in free output: agreement with the reference, and consistency within a document.

    form_of("Kommst du?", german)                                  # "T"
    form_of("Sie warten.", german, "You are waiting.", english)      # "V"; without the source it could be "they"
    summary = measure_address(sources, references, {"own": translations}, english, german)
    print(address_table(summary))

A sentence is *marked* if it shows exactly one form. Agreement is computed over the sentences that are marked in both
reference and translation; *balanced* is the mean over the forms of the reference, so that a model that always uses
the same form scores one half. *First* covers the first marked sentence of each document in the reference, *later* the
others. Consistency is the share of a document's marked translations that have its most frequent form, over documents
with at least two of them.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import isqrt
from typing import Any

import numpy as np

from tram.evaluation.language import AddressRules, Language, tokens
from tram.evaluation.shares import Formula, Share, mean_of_known, ratio, share
from tram.evaluation.significance import Values

Documents = Sequence[Sequence[str]]


def form_of(
    sentence: str, target: Language, source_sentence: str | None = None, source: Language | None = None
) -> str | None:
    """Return the form of address that a sentence shows; None if it shows none, or more than one."""
    rules: AddressRules = target.need("address")
    text = sentence if rules.ignore is None else rules.ignore.sub(_blank, sentence)
    shown = {name for name, form in rules.forms.items() if form.anywhere is not None and form.anywhere.search(text)}
    for form in rules.forms.values():  # words that certainly belong to one form are not matched again as another's
        text = text if form.anywhere is None else form.anywhere.sub(_blank, text)
    addresses = source_sentence is not None and source is not None and addresses_someone(source_sentence, source)
    for name, form in rules.forms.items():
        if _found(rules, text, form.inside, opens=False):
            shown.add(name)
        if addresses and (
            _found(rules, text, form.initial, opens=True) or (form.addressed and form.addressed.search(text))
        ):
            shown.add(name)
    return shown.pop() if len(shown) == 1 else None


def _found(rules: AddressRules, text: str, pattern: re.Pattern[str] | None, opens: bool) -> bool:
    """Return whether a pattern matches at the start of a sentence or, if not `opens`, elsewhere."""
    matches = () if pattern is None else pattern.finditer(text)
    return any((rules.sentence_start.search(text[: match.start()]) is not None) == opens for match in matches)


def _blank(match: re.Match[str]) -> str:
    return "_" * len(match.group())  # of the same length, so that positions do not change


def addresses_someone(sentence: str, source: Language) -> bool:
    """Return whether a source sentence has a second person, and no word that would explain the first word as well."""
    words = set(tokens(sentence.lower(), words_only=True))
    return bool(words & source.group("second_person")) and not words & source.group("like_polite")


def document_forms(
    sentences: Sequence[str], sources: Sequence[str], target: Language, source: Language | None
) -> list[str | None]:
    """Return the form of each sentence of a document."""
    return [
        form_of(sentence, target, source_sentence, source)
        for sentence, source_sentence in zip(sentences, sources, strict=True)
    ]


def measure_address(
    sources: Documents,
    references: Documents,
    translations: Mapping[str, Documents],
    source: Language | None,
    target: Language,
) -> dict[str, Any]:
    """Measure several translations of the same documents; shares have intervals over documents.

    For comparison: how often the reference has its most frequent form, and the same form as before in the document.
    """
    names = list(target.need("address").forms)
    right = [
        document_forms(reference, source_document, target, source)
        for reference, source_document in zip(references, sources, strict=True)
    ]
    summary: dict[str, Any] = {"reference": _reference(right, names)}
    for name, documents in translations.items():
        forms = [
            document_forms(document, source_document, target, source)
            for document, source_document in zip(documents, sources, strict=True)
        ]
        summary[name] = _system(right, forms, names)
    return summary


def _reference(right: list[list[str | None]], names: list[str]) -> dict[str, Any]:
    marked = [[form for form in document if form] for document in right]
    count = Counter(form for document in marked for form in document)
    most = count.most_common(1)[0][0] if count else ""
    majority = [[document.count(most), len(document)] for document in marked]
    copied = [[sum(a == b for a, b in pairwise(document)), max(len(document) - 1, 0)] for document in marked]
    return {
        "marked": {name: count[name] for name in names},
        "sentences": sum(map(len, right)),
        "majority": share(majority, ratio()),
        "previous": share(copied, ratio()),
        "consistency": share([_kept(document) for document in right], ratio()),
    }


def _system(right: list[list[str | None]], forms: list[list[str | None]], names: list[str]) -> dict[str, Any]:
    """Summarise one translation; `counts` are the counts that its shares are computed from, a row per document."""
    pairs = list(zip(right, forms, strict=True))
    counts = {
        "pairs": [_counts(*pair, names) for pair in pairs],
        "first": [_places(*pair, first=True) for pair in pairs],
        "later": [_places(*pair, first=False) for pair in pairs],
        "kept": [_kept(document) for document in forms],
    }
    shares = {name: share(counts[rows], formula) for name, (rows, formula) in SHARES.items()}
    recall = {name: share(counts["pairs"], partial(_recall, row=row)) for row, name in enumerate(names)}
    marked = {name: sum(document.count(name) for document in forms) for name in names}
    return {
        "marked": marked,
        "both_marked": sum(map(sum, counts["pairs"])),
        **shares,
        "recall": recall,
        "counts": counts,
    }


def _recalls(sums: Values) -> Values:
    """Return the recall of each form of the reference: (..., forms²) → (..., forms)."""
    forms = isqrt(sums.shape[-1])
    table = sums.reshape(*sums.shape[:-1], forms, forms)
    return np.asarray(np.diagonal(table, axis1=-2, axis2=-1) / table.sum(-1))


def _recall(sums: Values, row: int) -> Values:
    return np.asarray(_recalls(sums)[..., row])


def _balanced(sums: Values) -> Values:
    return mean_of_known(_recalls(sums))


def _agreement(sums: Values) -> Values:
    return np.asarray(sums[..., :: isqrt(sums.shape[-1]) + 1].sum(-1) / sums.sum(-1))


SHARES: dict[str, tuple[str, Formula]] = {
    "agreement": ("pairs", _agreement),
    "balanced": ("pairs", _balanced),
    "first": ("first", ratio()),
    "later": ("later", ratio()),
    "consistency": ("kept", ratio()),
}
"""The shares of a translation: the counts and the formula of each."""


def _counts(right: list[str | None], forms: list[str | None], names: list[str]) -> list[int]:
    """Count the pairs of forms of a document: reference by translation, row by row."""
    pairs = Counter(zip(right, forms, strict=True))
    return [pairs[a, b] for a in names for b in names]


def _places(right: list[str | None], forms: list[str | None], first: bool) -> list[int]:
    """Count agreeing and marked pairs: at the first marked sentence of the reference, or after it."""
    opening = next((place for place, form in enumerate(right) if form), len(right))
    pairs = [
        (a, b) for place, (a, b) in enumerate(zip(right, forms, strict=True)) if a and b and (place == opening) == first
    ]
    return [sum(a == b for a, b in pairs), len(pairs)]


def _kept(forms: list[str | None]) -> list[int]:
    """Count sentences with a document's most frequent form, and marked ones; zeros for fewer than two."""
    count = Counter(form for form in forms if form)
    marked = sum(count.values())
    return [max(count.values()), marked] if marked > 1 else [0, 0]


def address_table(summary: Mapping[str, Any]) -> str:
    """Return a line per share and a column per translation."""
    reference = summary["reference"]
    systems = {name: values for name, values in summary.items() if name != "reference"}
    marked = ", ".join(f"{count:,} {name}" for name, count in reference["marked"].items())
    lines = [
        f"Form of address, % [95% interval over documents]; the reference marks {marked} of "
        f"{reference['sentences']:,} sentences,",
        f"most frequent form {reference['majority']}, same form as before {reference['previous']}",
        "",
        f"{'':<16}" + "".join(f"{name:<20}" for name in systems),
    ]
    rows: dict[str, list[Share]] = {"agreement": [values["agreement"] for values in systems.values()]}
    rows |= {f"  {place}": [values[place] for values in systems.values()] for place in ("first", "later")}
    rows["balanced"] = [values["balanced"] for values in systems.values()]
    rows |= {f"  where {form}": [values["recall"][form] for values in systems.values()] for form in reference["marked"]}
    rows["consistency"] = [values["consistency"] for values in systems.values()]
    lines += [f"{label:<16}" + "".join(f"{cell:<20}" for cell in cells) for label, cells in rows.items()]
    lines.append(f"{'both marked':<16}" + "".join(f"{values['both_marked']:<20,}" for values in systems.values()))
    lines.append(f"consistency of the reference: {reference['consistency']}")
    return "\n".join(line.rstrip() for line in lines)

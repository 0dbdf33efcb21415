"""Generative suites in the style of CTXPro: the translation of a sentence in context must contain the expected word.

    items = read_items("ctxpro-formality.jsonl")
    results = judge_expected(translator, items)
    print(expected_table(results))

An item is correct if the translation contains `expected` as a whole word, ignoring case. If all expected words are
pronouns of address, results by form are reported, too: then *dir* counts like *dich*, because both are familiar.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from tram.evaluation.address import form_of
from tram.evaluation.contexts import CONTEXTS, ContextOf, translate_contexts
from tram.evaluation.language import Language, find_language
from tram.evaluation.shares import Share, as_json, by_document, mean_of_known, ratio, share, shares_table
from tram.evaluation.significance import Values

if TYPE_CHECKING:
    from tram.translation.translator import Translator


class ExpectedItem(BaseModel):
    """A sentence with its context, and the word that a translation needs context to choose."""

    model_config = ConfigDict(frozen=True)

    source_context: tuple[str, ...]
    source: str = Field(min_length=1)
    expected: str = Field(min_length=1)
    rule: str | None = None
    document: str | None = None

    @field_validator("source", "expected")
    @classmethod
    def _is_not_blank(cls, text: str, info: ValidationInfo) -> str:
        if not text.strip():
            raise ValueError(f"has an empty {info.field_name!r}; fill it in or remove the item")
        return text.strip() if info.field_name == "expected" else text

    def right(self, translation: str) -> bool:
        """Return whether a translation contains the expected word, however its accents are encoded."""
        expected, text = (unicodedata.normalize("NFC", each) for each in (self.expected, translation))
        return re.search(rf"(?<!\w){re.escape(expected)}(?!\w)", text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class ExpectedResult:
    """The translations of an item with each kind of context, and their forms of address if it is about these."""

    item: ExpectedItem
    translations: dict[ContextOf, str]
    expected_form: str | None = None
    forms: dict[ContextOf, str | None] | None = None


def judge_expected(
    translator: "Translator",
    items: Sequence[ExpectedItem],
    which: Sequence[ContextOf] = CONTEXTS,
    advance: Callable[[int], None] | None = None,
) -> list[ExpectedResult]:
    """Translate every item with each requested kind of context.

    "Other" contexts come from any item: within one rule, they would often lead to the same word.
    """
    contexts, sources = [item.source_context for item in items], [item.source for item in items]
    _, answers = translate_contexts(translator, contexts, sources, which, advance=advance)
    target = find_language(translator.text.target_language)
    source = find_language(translator.text.source_language)
    translations = [{kind: answers[kind][number] for kind in which} for number in range(len(items))]
    return [judged(item, by_context, target, source) for item, by_context in zip(items, translations, strict=True)]


def judged(
    item: ExpectedItem, translations: dict[ContextOf, str], target: Language | None, source: Language | None
) -> ExpectedResult:
    """Find the forms of address of an item's translations, if the expected word is one and there are rules for it."""
    expected_form = None if target is None or target.address is None else target.address.form_of_word(item.expected)
    if expected_form is None or target is None:
        return ExpectedResult(item, translations)
    forms = {kind: form_of(text, target, item.source, source) for kind, text in translations.items()}
    return ExpectedResult(item, translations, expected_form, forms)


def expected_summary(results: Sequence[ExpectedResult]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the shares of correct items: all, by rule and, for forms of address, by form instead of word.

    form: items whose translation shows the expected form; form if shown: the same, of those that show any form;
    balanced: the mean of the latter over the forms.
    """
    groups = {"all": list(results)}
    for rule in sorted({result.item.rule for result in results if result.item.rule}):
        groups[rule] = [result for result in results if result.item.rule == rule]
    summary: dict[str, dict[str, dict[str, Any]]] = {
        name: {"items": {"count": len(group)}}
        | {kind: {"share": _share(group, kind)} for kind in group[0].translations}
        for name, group in groups.items()
    }
    formal = [result for result in results if result.forms is not None]
    if formal:
        names = sorted({result.expected_form for result in formal if result.expected_form})
        for kind in formal[0].translations:
            counts = by_document([(result.item.document, _form_counts(result, kind, names)) for result in formal])
            formulas = {"form": _form, "form if shown": _form_if_shown, "form, balanced": _balanced}
            for label, formula in formulas.items():
                cells = summary.setdefault(label, {"items": {"count": len(formal)}})
                cells[kind] = {"share": share(counts, formula)}
    return summary


def _share(results: Sequence[ExpectedResult], kind: ContextOf) -> Share:
    rows = [(result.item.document, [float(result.item.right(result.translations[kind])), 1.0]) for result in results]
    return share(by_document(rows), ratio())


def _form_counts(result: ExpectedResult, kind: ContextOf, names: Sequence[str]) -> list[float]:
    """Count, for each expected form, the translations that show it, those that show any form, and all."""
    shown = None if result.forms is None else result.forms[kind]
    counts = [float(shown == result.expected_form), float(shown is not None), 1.0]
    return [value if name == result.expected_form else 0.0 for name in names for value in counts]


def _form(counts: Values) -> Values:
    return np.asarray(counts[..., 0::3].sum(-1) / counts[..., 2::3].sum(-1))


def _form_if_shown(counts: Values) -> Values:
    return np.asarray(counts[..., 0::3].sum(-1) / counts[..., 1::3].sum(-1))


def _balanced(counts: Values) -> Values:
    return mean_of_known(counts[..., 0::3] / counts[..., 1::3])


def expected_table(results: Sequence[ExpectedResult]) -> str:
    """Return a line for all items, per rule and for the forms of address, and a column per kind of context."""
    kinds = list(results[0].translations)
    rows = {
        name: (cells["items"]["count"], {kind: cells[kind]["share"] for kind in kinds})
        for name, cells in expected_summary(results).items()
    }
    title = "% of translations with the expected word, [95% interval]; context: the item's own, another item's, none"
    return shares_table(title, rows, width=16)


def expected_json(results: Sequence[ExpectedResult]) -> dict[str, Any]:
    """Return the summary, and the results of all items in the order of the suite."""
    items = [
        {
            "translations": result.translations,
            "right": {kind: result.item.right(text) for kind, text in result.translations.items()},
            "expected_form": result.expected_form,
            "forms": result.forms,
        }
        for result in results
    ]
    return {"kind": "expected", "shares": as_json(expected_summary(results)), "items": items}

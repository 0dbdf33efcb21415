"""The agreement probe: a pronoun for "it" must agree with the article that the model chose for the noun.

    items = read_items("agreement.jsonl")
    results = judge_agreement(translator, items)
    print(agreement_table(results))

An item is a document: a sentence whose subject is a noun, other sentences, and a sentence with "it"; a passage of real
text may come before them. The model translates it, and the gender of the noun's article is compared with that of the
pronoun in the last sentence. No reference is needed, and a noun with several translations is judged by the one that the
model chose. A translation that starts with another noun phrase, shows no gender or has no pronoun is not judged; such
items are counted.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from tram.evaluation.contexts import CONTEXTS, ContextOf, translate_contexts
from tram.evaluation.language import GENDERS, Gender, Language, load_language
from tram.evaluation.shares import Share, as_json, mean_of_known, ratio, share
from tram.evaluation.significance import Values

if TYPE_CHECKING:
    from tram.translation.translator import Translator


class AgreementItem(BaseModel):
    """A document that ends with "it". antecedent: the noun that it refers to; before: sentences before that noun's."""

    model_config = ConfigDict(frozen=True)

    source_context: tuple[str, ...] = Field(min_length=1)
    source: str = Field(min_length=1)
    antecedent: str
    before: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _names_the_noun(self) -> Self:
        if self.before >= len(self.source_context):
            raise ValueError(f"before: must be below the {len(self.source_context)} sentences of source_context")
        return self

    @property
    def distance(self) -> int:
        """The distance from the noun's sentence to the last one, in sentences."""
        return len(self.source_context) - self.before


@dataclass(frozen=True)
class AgreementResult:
    """A model's result on an item: the gender of the article, and of the pronoun after each kind of context."""

    item: AgreementItem
    opening: str
    gender: Gender | None
    translations: dict[ContextOf, str]
    pronouns: dict[ContextOf, Gender | None]

    def agrees(self, context: ContextOf) -> bool | None:
        """Return whether article and pronoun agree; None where one of them shows no gender."""
        pronoun = self.pronouns[context]
        return None if self.gender is None or pronoun is None else pronoun == self.gender


def judge_agreement(
    translator: "Translator",
    items: Sequence[AgreementItem],
    which: Sequence[ContextOf] = CONTEXTS,
    advance: Callable[[int], None] | None = None,
) -> list[AgreementResult]:
    """Translate every item and compare genders; "other" contexts come from items of the same distance."""
    language = load_language(translator.text.target_language)
    contexts, sources = [item.source_context for item in items], [item.source for item in items]
    cells = [item.distance for item in items]
    context_translations, answers = translate_contexts(translator, contexts, sources, which, cells, advance)
    return [
        judged(
            language, item, context_translations[number][item.before], {kind: answers[kind][number] for kind in which}
        )
        for number, item in enumerate(items)
    ]


def judged(
    language: Language, item: AgreementItem, opening: str, translations: dict[ContextOf, str]
) -> AgreementResult:
    """Find the genders in an item's translations. opening: the translation of the noun's sentence."""
    subject = language.subject(opening)
    pronouns = {kind: language.first_pronoun(text) for kind, text in translations.items()}
    return AgreementResult(item, opening, None if subject is None else subject.gender, translations, pronouns)


def agreement_summary(results: Sequence[AgreementResult]) -> dict[str, Any]:
    """Summarise by distance: for each kind of context the share that agrees, by gender and averaged over genders.

    "judged": the share of items whose article and pronoun both show a gender.
    """
    summary: dict[str, Any] = {}
    for distance in sorted({result.item.distance for result in results}):
        part = [result for result in results if result.item.distance == distance]
        cells: dict[str, Any] = {"items": len(part), "articles": Counter(result.gender or "?" for result in part)}
        for kind in part[0].translations:
            counts = np.array([_counts(result, kind) for result in part])
            shares: dict[str, Share] = {
                gender: share(counts[:, [2 * g, 2 * g + 1]], ratio()) for g, gender in enumerate(GENDERS)
            }
            shares["mean"] = share(counts, _mean_over_genders)
            judged = sum(result.agrees(kind) is not None for result in part)
            pronouns = Counter(result.pronouns[kind] or "?" for result in part)
            cells[kind] = {"judged": judged, "pronouns": pronouns, "shares": shares}
        summary[str(distance)] = cells
    return summary


def _counts(result: AgreementResult, kind: ContextOf) -> list[float]:
    """Count correct and judged items of each gender."""
    agrees = result.agrees(kind)
    return [
        float(value)
        for gender in GENDERS
        for value in ((agrees is True, agrees is not None) if gender == result.gender else (False, False))
    ]


def _mean_over_genders(counts: Values) -> Values:
    """Average the shares of the genders that occur."""
    return mean_of_known(counts[..., 0::2] / counts[..., 1::2])


def agreement_table(results: Sequence[AgreementResult]) -> str:
    """Return a line per distance and gender and a column per kind of context."""
    summary = agreement_summary(results)
    kinds = list(results[0].translations)
    lines = [
        "% of pronouns that agree with the article that the model chose for the noun, [95% interval];",
        "context: the item's own, another item's, none",
        "",
        f"{'back':<6}{'gender':<8}{'items':>6}{'judged':>8}  " + "".join(f"{kind:<20}" for kind in kinds),
    ]
    for distance, cells in summary.items():
        for gender in (*GENDERS, "mean"):
            counted = cells["items"] if gender == "mean" else cells["articles"][gender]
            judged = cells[kinds[0]]["judged"] if gender == "mean" else ""
            shares = "".join(f"{cells[kind]['shares'][gender]:<20}" for kind in kinds)
            lines.append(f"{distance:<6}{gender:<8}{counted:>6}{judged:>8}  {shares}")
    return "\n".join(line.rstrip() for line in lines)


def agreement_json(results: Sequence[AgreementResult]) -> dict[str, Any]:
    """Return the summary, and the results of all items in the order of the suite."""
    items = [
        {
            "opening": result.opening,
            "article": result.gender,
            "translations": result.translations,
            "pronouns": result.pronouns,
            "right": {kind: result.agrees(kind) for kind in result.translations},
        }
        for result in results
    ]
    return {"kind": "agreement", "by_distance": as_json(agreement_summary(results)), "items": items}

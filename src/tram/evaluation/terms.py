"""Consistency of terms: the share of repeated source terms of a document that are translated in the same way.

    lexicon = term_variants(sources, references, english, german)         # from the reference translations at hand
    summary = measure_terms(sources, references, {"own": translations}, english, german)

A *term* is a content word, or two adjacent ones, that at least two sentences of a document contain. Its *variants* are
the target nouns most associated with it over all sentence pairs of source and reference (Dice coefficient), unless
another source word is much more strongly associated with them. Variants must be alternatives: a noun that mostly occurs
together with a stronger variant is not a translation by itself. A translation uses the strongest variant that it
contains; if it contains none, the occurrence is not counted. For each term of a document with n counted occurrences,
the share of pairs of occurrences with the same variant is weighted by n. Terms with one variant are left out, because
they cannot be inconsistent. Words are compared without their endings.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from tram.evaluation.language import Language, tokens
from tram.evaluation.shares import ratio, share

Documents = Sequence[Sequence[str]]
Lexicon = dict[str, dict[str, float]]
"""For each term, the association of its variants."""

LEAST = 3  # minimum number of sentence pairs that contain a term
TOGETHER = 2  # minimum number of sentence pairs that contain a term and its variant
ASSOCIATION = 0.15  # minimum Dice coefficient of a variant
CLAIM = 0.8  # minimum association with a target word, relative to that of the most strongly associated source word
COMPANION = 0.25  # maximum share of a variant's sentences that contain a stronger variant


def terms_of(sentence: str, source: Language) -> set[str]:
    """Return the terms of a source sentence: content words and pairs of neighbours, without their endings."""
    words = tokens(sentence)
    content = [source.stem_of(word) if _is_content(word, source) else None for word in words]
    pairs = {f"{a} {b}" for a, b in pairwise(content) if a and b}
    return {word for word in content if word} | pairs


def _is_content(word: str, language: Language) -> bool:
    return len(word) > 3 and word.isalpha() and word.lower() not in language.need("function_words")


def target_words(sentence: str, target: Language) -> set[str]:
    """Return the nouns of a target sentence, without their endings; all content words if nothing marks nouns.

    If nouns are marked by a capital letter, the first word is left out, because it is always capitalised.
    """
    words = tokens(sentence, words_only=True)
    if target.noun is not None:
        words = [word for word in words[1:] if target.noun.fullmatch(word)]
    return {target.stem_of(word) for word in words if _is_content(word, target)}


def term_variants(sources: Documents, references: Documents, source: Language, target: Language) -> Lexicon:
    """Find the variants of every term by association over the sentence pairs of all documents."""
    words = Counter[str]()
    translations: dict[str, list[set[str]]] = defaultdict(list)  # of the sentences that contain a term
    for document, reference in zip(sources, references, strict=True):
        for sentence, right in zip(document, reference, strict=True):
            nouns = target_words(right, target)
            words.update(nouns)
            for term in terms_of(sentence, source):
                translations[term].append(nouns)
    associations = {term: _associations(nouns, words) for term, nouns in translations.items() if len(nouns) >= LEAST}
    claims: dict[str, float] = defaultdict(float)
    for candidates in associations.values():
        for word, association in candidates.items():
            claims[word] = max(claims[word], association)
    return {
        term: _rivals({word: a for word, a in candidates.items() if a >= CLAIM * claims[word]}, translations[term])
        for term, candidates in associations.items()
    }


def _associations(translations: Sequence[set[str]], words: Counter[str]) -> dict[str, float]:
    """Return the Dice coefficients of a term with the target words that occur often enough with it."""
    together = Counter(word for found in translations for word in found)
    dice = {word: 2 * n / (len(translations) + words[word]) for word, n in together.items() if n >= TOGETHER}
    return {word: association for word, association in dice.items() if association >= ASSOCIATION}


def _rivals(candidates: Mapping[str, float], translations: Sequence[set[str]]) -> dict[str, float]:
    """Return the candidates that are alternatives of each other, strongest first."""
    rivals: dict[str, float] = {}
    for word in sorted(candidates, key=lambda word: (-candidates[word], word)):
        having = [found for found in translations if word in found]
        if sum(not rivals.keys().isdisjoint(found) for found in having) <= COMPANION * len(having):
            rivals[word] = candidates[word]
    return rivals


def variant_used(term: str, translation: set[str], lexicon: Lexicon) -> str | None:
    """Return the strongest variant of a term among the words of a translation."""
    known = [word for word in lexicon[term] if word in translation]
    return max(known, key=lambda word: (lexicon[term][word], word), default=None)


def measure_terms(
    sources: Documents, references: Documents, translations: Mapping[str, Documents], source: Language, target: Language
) -> dict[str, Any]:
    """Measure the consistency of the reference and of several translations, with intervals over documents."""
    lexicon = term_variants(sources, references, source, target)
    repeated = [_repeated(document, lexicon, source) for document in sources]
    summary: dict[str, Any] = {}
    for name, documents in {"reference": references, **translations}.items():
        counts = [
            _counts(places, document, lexicon, target) for places, document in zip(repeated, documents, strict=True)
        ]
        summary[name] = {
            "terms": sum(len(places) for places in repeated),
            "occurrences": sum(len(each) for places in repeated for each in places.values()),
            "counted": int(sum(row[1] for row in counts)),
            "consistency": share(counts, ratio()),
        }
    return summary


def _repeated(document: Sequence[str], lexicon: Lexicon, source: Language) -> dict[str, list[int]]:
    """Return the sentences of every term with several variants that at least two sentences contain."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, sentence in enumerate(document):
        for term in terms_of(sentence, source):
            if len(lexicon.get(term, ())) > 1:
                places[term].append(number)
    return {term: numbers for term, numbers in sorted(places.items()) if len(numbers) > 1}


def _counts(
    places: Mapping[str, Sequence[int]], document: Sequence[str], lexicon: Lexicon, target: Language
) -> list[float]:
    """Sum n × share of equal pairs, and n, over the terms of a document."""
    words = {number: target_words(document[number], target) for numbers in places.values() for number in numbers}
    equal = total = 0.0
    for term, numbers in places.items():
        used = [found for number in numbers if (found := variant_used(term, words[number], lexicon)) is not None]
        if len(used) > 1:
            pairs = [a == b for a, b in combinations(used, 2)]
            equal += len(used) * sum(pairs) / len(pairs)
            total += len(used)
    return [equal, total]


def terms_table(summary: Mapping[str, Any]) -> str:
    """Return a line for the reference and for each translation."""
    reference = summary["reference"]
    lines = [
        f"Terms: {reference['terms']:,} source terms with several translations occur at least twice in a document, "
        f"{reference['occurrences']:,} times;",
        "% translated alike within a document [95% interval over documents]",
        "",
        f"{'':<16}{'counted':>8}  consistency",
    ]
    lines += [f"{name:<16}{values['counted']:>8,}  {values['consistency']}" for name, values in summary.items()]
    return "\n".join(lines)

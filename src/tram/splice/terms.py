"""Documents with one consistent translation of a term that has two in the corpora.

A term is a source word; its translations are target nouns, each with its inflected forms. Both translations must be
frequent, mostly translate this term, not occur together, and not be parts of each other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.splice.bystanders import Bystanders, lacks_antecedent
from tram.splice.dictionary import Dictionary
from tram.splice.odds import WeightedPairs, weigh
from tram.splice.rules import Rules
from tram.splice.words import Pair, Tokenized, words

LEAST_SHARE = 0.08  # minimum share of the term's sentences that have the translation
LEAST_TOGETHER = 10  # minimum number of sentences with term and translation
LEAST_FAITHFUL = 0.45  # minimum share of the translation's sentences that have the term
MOST_FAITHFUL = 0.5  # share of the translation's sentences from which another source word counts as its origin
COMMON = 0.02  # source words in a larger share of the pairs are not terms
LEAST_SENTENCES = 10  # minimum number of each translation, after all checks
LONGEST_ENDING = 3  # maximum number of letters that differ between two forms of a noun
SENTENCES = (2, 4)
BETWEEN = 0.2  # probability of another sentence between two with the term
USES = 3  # maximum number of documents per sentence, on average
_UMLAUTS = str.maketrans("äöüß", "aous")


@dataclass(frozen=True)
class Term:
    """A source word, the forms of its two translations, and the sentences with each."""

    word: str
    translations: tuple[frozenset[str], frozenset[str]]
    pairs: tuple[tuple[Pair, ...], tuple[Pair, ...]]


def find_terms(pairs: Sequence[Pair], dictionary: Dictionary, rules: Rules) -> list[Term]:
    """Return the terms with two translations, and the sentences that contain the term and one of these, once each."""
    candidates = _candidates(dictionary, rules)
    sentences: dict[str, tuple[list[Pair], list[Pair]]] = {word: ([], []) for word in candidates}
    for pair in pairs:
        tokens = Tokenized(pair)
        if lacks_antecedent(tokens, rules):
            continue
        for word in candidates.keys() & set(words(pair.source)):  # in lower case: otherwise it is a name or a heading
            counts = [sum(noun in forms for noun in tokens.target) for forms in candidates[word]]
            if tokens.source.count(word) == 1 and sorted(counts) == [0, 1]:
                sentences[word][counts.index(1)].append(pair)
    return [
        Term(word, candidates[word], (tuple(one), tuple(two)))
        for word, (one, two) in sorted(sentences.items())
        if min(len(one), len(two)) >= LEAST_SENTENCES
    ]


def _candidates(dictionary: Dictionary, rules: Rules) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    by_word: dict[str, list[tuple[int, str]]] = defaultdict(list)
    sources: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (word, noun), together in dictionary.translations().items():
        faithful = together / dictionary.nouns[noun]
        if together >= LEAST_TOGETHER / 2 and faithful >= MOST_FAITHFUL:
            sources[noun].append((faithful, word))
        if together >= LEAST_TOGETHER / 2 and faithful >= LEAST_FAITHFUL and word.isalpha() and noun.isalpha():
            by_word[word].append((together, noun))
    common = {word for word, count in dictionary.sources.items() if count > COMMON * dictionary.pairs}
    common |= rules.source_not_nouns
    result = {}
    for word, translations in by_word.items():
        if word in common:
            continue
        nouns = [(count, noun) for count, noun in translations if _comes_from(sources[noun], word, common)]
        groups = _grouped(nouns)
        least = max(LEAST_TOGETHER, LEAST_SHARE * dictionary.sources[word])
        groups = [(count, forms) for count, forms in groups if count >= least]
        if len(groups) >= 2 and not _overlap(groups[0][1], groups[1][1]):
            result[word] = (groups[0][1], groups[1][1])
    return result


def _comes_from(sources: list[tuple[float, str]], word: str, common: set[str] | frozenset[str]) -> bool:
    """Return whether no other source word explains the noun as well: "Kontextmenü" has both "menu" and "context"."""
    return all(other in common or _same_stem(other, word) for _, other in sources)


def _grouped(nouns: list[tuple[int, str]]) -> list[tuple[int, frozenset[str]]]:
    """Group the inflected forms of each noun, the most frequent noun first."""
    groups: list[tuple[int, set[str]]] = []
    for count, noun in sorted(nouns, reverse=True):
        for number, (total, forms) in enumerate(groups):
            if any(_same_stem(noun, form) for form in forms):
                groups[number] = (total + count, forms | {noun})
                break
        else:
            groups.append((count, {noun}))
    return [(count, frozenset(forms)) for count, forms in sorted(groups, key=lambda group: -group[0])]


def _same_stem(one: str, two: str) -> bool:
    """Return whether two words differ only in their last letters: Vorschlag, Vorschläge."""
    one, two = (word.lower().translate(_UMLAUTS) for word in (one, two))
    shared = 0
    while shared < min(len(one), len(two)) and one[shared] == two[shared]:
        shared += 1
    return shared >= 3 and max(len(one), len(two)) - shared <= LONGEST_ENDING


def _overlap(one: frozenset[str], two: frozenset[str]) -> bool:
    """Return whether a form of one is part of a form of the other: Menü, Kontextmenü."""
    parts = [(a.lower()[:-1], b.lower()) for a in one for b in two]
    parts += [(b.lower()[:-1], a.lower()) for a in one for b in two]
    return any(len(part) >= 3 and part in whole for part, whole in parts)


class TermDocuments:
    """A generator of documents with one term each, translated consistently."""

    def __init__(self, terms: Sequence[Term], bystanders: Bystanders, form_of: Callable[[Pair], str | None]):
        if not terms:
            raise InputError("--kinds terms: the corpora have no term with two frequent translations; give more text")
        self._bystanders = bystanders
        self._form_of = form_of
        self._pools: list[tuple[WeightedPairs, WeightedPairs]] = [weigh(*term.pairs) for term in terms]
        self._sizes = [min(len(one), len(two)) for one, two in (term.pairs for term in terms)]

    @property
    def most(self) -> int:
        """The maximum number of documents; more would repeat sentences too often."""
        return 2 * USES * sum(self._sizes) // SENTENCES[1]

    def make(self, count: int, seed: int) -> Iterator[ParallelDocument]:
        """Yield `count` documents, more for terms with more sentences."""
        random = Random(f"terms {seed}")
        weights = [size**0.5 for size in self._sizes]
        for _ in range(count):
            pool = random.choice(random.choices(self._pools, weights)[0])
            pairs = self._document(pool, random)
            yield ParallelDocument([pair.source for pair in pairs], [pair.target for pair in pairs])

    def _document(self, pool: WeightedPairs, random: Random) -> list[Pair]:
        """Draw sentences with one form of address, with others between them."""
        size = random.randint(*SENTENCES)
        drawn = self._of_one_form(pool.sample(random, 3 * size))[:size]
        pairs: list[Pair] = []
        for pair in drawn:
            if pairs and self._bystanders.neutral and random.random() < BETWEEN:
                pairs.append(random.choice(self._bystanders.neutral))
            pairs.append(pair)
        return pairs

    def _of_one_form(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Drop sentences with another form of address than the first that has one."""
        forms = [self._form_of(pair) for pair in pairs]
        first = next((form for form in forms if form is not None), None)
        return [pair for pair, form in zip(pairs, forms, strict=True) if form in (None, first)]

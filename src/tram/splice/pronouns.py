"""Documents in which an earlier noun decides the pronouns: a thing is introduced, then "it" refers to it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.language import GENDERS, Gender
from tram.splice.anaphors import Anaphor
from tram.splice.antecedents import Antecedent
from tram.splice.bystanders import Bystanders
from tram.splice.rules import Rules
from tram.splice.words import Pair

MOST_PER_NOUN = 20  # maximum number of sentences, so that frequent nouns do not dominate
SAME_CORPUS = 0.7  # share of the anaphors that come from the antecedent's corpus,
LEAST_ANAPHORS = 100  # if it has as many different ones
ASIDES = 0.4  # share of the threads with sentences in between that name other things
EXPLETIVES = 0.12  # share of the threads with an expletive "it"
# How many sentences of a kind a document has, and how often.
OPENERS, THREADS, BETWEEN, ANAPHORS = (
    ((0, 0.3), (1, 0.25), (2, 0.15), (4, 0.15), (8, 0.15)),
    ((1, 0.5), (2, 0.25), (3, 0.15), (5, 0.1)),
    ((0, 0.25), (1, 0.2), (2, 0.3), (3, 0.15), (4, 0.1)),
    ((1, 0.6), (2, 0.3), (3, 0.1)),
)
ATTEMPTS = 1000  # maximum number of attempts to draw a document with one form of address

T = TypeVar("T")


@dataclass
class PronounSentences:
    """The sentences of documents. real: with "it" in the corpora; replaced: with "it" instead of a noun phrase."""

    antecedents: list[Antecedent] = field(default_factory=list)
    real: list[Anaphor] = field(default_factory=list)
    replaced: list[Anaphor] = field(default_factory=list)


class PronounDocuments:
    """A generator of documents; replaced: share of the sentences with "it" in which it replaces a noun phrase."""

    def __init__(
        self,
        sentences: PronounSentences,
        bystanders: Bystanders,
        rules: Rules,
        form_of: Callable[[Pair], str | None],
        replaced: float,
    ):
        self._rules = rules
        self._bystanders = bystanders
        own = {antecedent.pair for antecedent in sentences.antecedents}  # "I have a clock.": it would be the clock
        self._asides = [pair for pair in bystanders.asides if pair not in own]
        self._form_of = form_of
        self._sentences = sentences
        self._replaced = replaced

    def make(self, count: int, seed: int) -> Iterator[ParallelDocument]:
        """Yield `count` documents."""
        random = Random(f"pronouns {seed}")
        nouns = _by_gender(self._sentences.antecedents, random)
        pools = [_by_corpus(self._sentences.real), _by_corpus(self._sentences.replaced if self._replaced else ())]
        if not any(pools):
            raise InputError(
                '--kinds pronouns: the corpora have no sentence with "it" that refers back; give more text'
            )
        for _ in range(count):
            yield self._document(random, nouns, pools)

    def _document(
        self,
        random: Random,
        nouns: dict[Gender, list[Antecedent]],
        pools: list[dict[int | None, list[Anaphor]]],
    ) -> ParallelDocument:
        """Draw documents until one has a single form of address."""
        for _ in range(ATTEMPTS):
            pairs = _some(random, self._bystanders.openers, _drawn(random, OPENERS))
            for _ in range(_drawn(random, THREADS)):
                pairs += self._thread(random, nouns, pools)
            if len({form for pair in pairs if (form := self._form_of(pair))}) < 2:
                return ParallelDocument([pair.source for pair in pairs], [pair.target for pair in pairs])
        raise InputError("--kinds pronouns: the corpora mix forms of address in most sentences; give other text")

    def _thread(
        self,
        random: Random,
        nouns: dict[Gender, list[Antecedent]],
        pools: list[dict[int | None, list[Anaphor]]],
    ) -> list[Pair]:
        """Draw an antecedent, the sentences in between, and those that refer to it."""
        antecedent = random.choice(nouns[random.choice(GENDERS)])
        others = self._asides if random.random() < ASIDES else self._bystanders.neutral
        between = _some(random, others, _drawn(random, BETWEEN))
        pairs = [antecedent.pair, *between]
        anaphors: list[Anaphor] = []
        for _ in range(_drawn(random, ANAPHORS)):
            pool = pools[random.random() < self._replaced] or pools[0] or pools[1]
            near = random.random() < SAME_CORPUS and antecedent.pair.corpus in pool
            anaphor = random.choice(pool[antecedent.pair.corpus if near else None])
            if anaphor.origin != antecedent.pair and not (anaphors and anaphors[-1].names_another):
                anaphors.append(anaphor)
        for anaphor in anaphors:
            target = anaphor.target(antecedent.gender, self._rules)
            pairs.append(Pair(anaphor.pair.source, target, anaphor.pair.corpus))
        if anaphors and random.random() < EXPLETIVES:
            pairs[len(pairs) - 1 : len(pairs) - 1] = _some(random, self._bystanders.expletives, 1)
        return pairs


def _by_gender(antecedents: Sequence[Antecedent], random: Random) -> dict[Gender, list[Antecedent]]:
    """Return at most `MOST_PER_NOUN` sentences of each noun by gender."""
    by_noun: dict[str, list[Antecedent]] = defaultdict(list)
    for antecedent in antecedents:
        by_noun[antecedent.noun].append(antecedent)
    result: dict[Gender, list[Antecedent]] = {gender: [] for gender in GENDERS}
    for found in by_noun.values():
        for antecedent in random.sample(found, min(len(found), MOST_PER_NOUN)):
            result[antecedent.gender].append(antecedent)
    lacking = [gender for gender, found in result.items() if not found]
    if lacking:
        raise InputError(
            f"--kinds pronouns: the corpora have no sentence with a noun of gender {', '.join(lacking)}; give more text"
        )
    return result


def _by_corpus(anaphors: Sequence[Anaphor]) -> dict[int | None, list[Anaphor]]:
    """Return different anaphors by corpus, without corpora that have few; None: all."""
    different = {(anaphor.pair.source, anaphor.pair.target): anaphor for anaphor in anaphors}
    result: dict[int | None, list[Anaphor]] = defaultdict(list)
    for anaphor in different.values():
        result[anaphor.pair.corpus].append(anaphor)
        result[None].append(anaphor)
    return {corpus: found for corpus, found in result.items() if corpus is None or len(found) >= LEAST_ANAPHORS}


def _drawn(random: Random, shares: Sequence[tuple[int, float]]) -> int:
    return random.choices([number for number, _ in shares], [share for _, share in shares])[0]


def _some(random: Random, items: Sequence[T], number: int) -> list[T]:
    return random.sample(items, min(number, len(items)))

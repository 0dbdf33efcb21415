"""Mining of aligned corpora for the sentences that splicing can use, in one pass."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tram.data.corpus import read_parallel
from tram.splice.address import AddressSentences, Forms
from tram.splice.anaphors import find_anaphor, replace_noun
from tram.splice.antecedents import find_antecedent
from tram.splice.bystanders import Bystanders
from tram.splice.dictionary import Dictionary
from tram.splice.genders import GenderLexicon, NounCounts, has_slip
from tram.splice.pronouns import PronounSentences
from tram.splice.rules import Rules
from tram.splice.terms import Term, find_terms
from tram.splice.words import Pair, Tokenized
from tram.text.held_out import held_out_noun, held_out_sentence

TARGET_LONGER = 1.2  # maximum length of a translation relative to its source
LEAST_CHARACTERS = 8
LEAST_OCCURRENCES = 3  # minimum occurrences of a lower-case word that is taken to be spelt correctly
LEAST_VOCABULARY = 50_000  # in a smaller vocabulary, rare words are not evidence of misspellings
# A whole sentence without code, markup, menus or lists.
_WHOLE = re.compile(r"[\"„»“'‚›]?\w[^<>{}|=\\/@#*~_^$\[\]\t%−→›:;]*[^\s(?!][.!?…][\"“«”'‘‹]?")
_QUOTES, _SOURCE_QUOTES = '"„“”»«‚‘‹›', '"“”'
_LOWER_CASE = re.compile(r"\b[a-zäöüß]{2,}\b")

Advance = Callable[[int], object]


@dataclass
class Mined:
    """The suitable sentences of the corpora, for each kind of document."""

    lexicon: GenderLexicon
    forms: Forms
    pronouns: PronounSentences = field(default_factory=PronounSentences)
    bystanders: Bystanders = field(default_factory=Bystanders)
    address: AddressSentences = field(default_factory=AddressSentences)
    terms: list[Term] = field(default_factory=list)


class Spelling:
    """Detection of probable misspellings: words that are rare in a large corpus."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, sentence: str) -> None:
        """Count the words of a target sentence."""
        self._counts.update(_LOWER_CASE.findall(sentence))

    def is_doubtful(self, sentence: str) -> bool:
        """Return whether a sentence has a word in lower case that is very rare; False in a small corpus."""
        if len(self._counts) < LEAST_VOCABULARY:
            return False
        return any(self._counts[word] < LEAST_OCCURRENCES for word in _LOWER_CASE.findall(sentence))


def read_pairs(
    corpora: Sequence[tuple[Path, Path]],
    counts: NounCounts,
    spelling: Spelling,
    max_characters: int,
    format: str | None,
    advance: Advance,
) -> list[Pair]:
    """Read corpora, count their words, and return the short complete sentences without duplicates."""
    corpus_of: dict[tuple[str, str], int] = {}
    for number, (source, target) in enumerate(corpora):
        for document in read_parallel(source, target, format):
            for one, other in zip(document.source, document.target, strict=True):
                counts.add(one, other)
                spelling.add(other)
                if _is_usable(one, other, max_characters):
                    corpus_of.setdefault((one, other), number)
            advance(len(document.source))
    return [Pair(one, other, number) for (one, other), number in corpus_of.items()]


def _is_usable(source: str, target: str, max_characters: int) -> bool:
    if not LEAST_CHARACTERS <= len(source) <= max_characters or len(target) > TARGET_LONGER * max_characters:
        return False
    if not _WHOLE.fullmatch(source) or not _WHOLE.fullmatch(target) or target.lstrip(_QUOTES)[0].islower():
        return False
    quotes = sum(map(source.count, _SOURCE_QUOTES)), sum(map(target.count, _QUOTES))
    return quotes[0] % 2 == quotes[1] % 2 == 0  # otherwise it is part of a longer quotation


def mine(
    corpora: Sequence[tuple[Path, Path]],
    rules: Rules,
    max_characters: int,
    kinds: Sequence[str],
    format: str | None = None,
    advance: Advance = lambda _: None,
) -> Mined:
    """Return the suitable sentences for each kind, without those that `tram.text.held_out` keeps for probes."""
    counts, spelling, dictionary = NounCounts(rules), Spelling(), Dictionary()
    pairs = read_pairs(corpora, counts, spelling, max_characters, format, advance)
    mined = Mined(counts.lexicon(), Forms(rules))
    usable = []
    for pair in pairs:
        tokens = Tokenized(pair)
        dictionary.add(tokens)
        mined.forms.learn(tokens)
        if not spelling.is_doubtful(pair.target) and not has_slip(tokens, rules, mined.lexicon):
            usable.append(pair)
    for pair in usable:
        _sort(mined, pair, rules, dictionary)
        advance(1)
    if "terms" in kinds:
        mined.terms = find_terms(usable, dictionary, rules)
    return mined


def _sort(mined: Mined, pair: Pair, rules: Rules, dictionary: Dictionary) -> None:
    """Add a pair to all uses that it is suitable for."""
    tokens = Tokenized(pair)
    form = mined.forms.of(pair)
    mined.address.add(tokens, form, rules)
    antecedent = find_antecedent(tokens, rules, mined.lexicon, dictionary)
    held_out = antecedent is not None and held_out_noun(antecedent.noun)
    if form is None and not held_out:
        mined.bystanders.add(tokens, rules)
    if antecedent is None:
        if (anaphor := find_anaphor(tokens, rules)) and not held_out_sentence(pair.source):
            mined.pronouns.real.append(anaphor)
        return
    if not held_out:
        mined.pronouns.antecedents.append(antecedent)
    replaced = replace_noun(antecedent, rules)
    if replaced is not None and not held_out_sentence(replaced.pair.source):
        mined.pronouns.replaced.append(replaced)

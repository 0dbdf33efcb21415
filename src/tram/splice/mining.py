"""Mining of aligned corpora for the sentences that splicing can use, in one pass."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tram.data.corpus import read_parallel
from tram.splice.address import AddressSentences, Forms, slips_case
from tram.splice.anaphors import find_anaphor, replace_noun
from tram.splice.antecedents import find_antecedent
from tram.splice.bystanders import Bystanders, lacks_referent
from tram.splice.dictionary import Dictionary
from tram.splice.genders import GenderLexicon, NounCounts, has_slip
from tram.splice.pronouns import PronounSentences
from tram.splice.rules import Rules
from tram.splice.spelling import Spelling
from tram.splice.terms import Term, find_terms
from tram.splice.words import Pair, Tokenized
from tram.text.held_out import held_out_noun, held_out_sentence

TARGET_LONGER = 1.2  # maximum length of a translation relative to its source
TARGET_SHORTER = 0.5  # minimum length of a translation relative to its source: a shorter one lacks something
LEAST_CHARACTERS = 8
# A whole sentence without code, markup, menus or lists.
_WHOLE = re.compile(r"[\"„»“'‚›]?\w[^<>{}|=\\/@#*~_^$\[\]\t%−→›:;]*[^\s(?!][.!?…][\"“«”'‘‹]?")
_JOINED = re.compile(r"[a-zäöüß][.!?][A-ZÄÖÜ]")  # two sentences without a blank between them
_QUOTES, _SOURCE_QUOTES = '"„“”»«‚‘‹›', '"“”'

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
    if not LEAST_CHARACTERS <= len(source) <= max_characters:
        return False
    if not TARGET_SHORTER * len(source) <= len(target) <= TARGET_LONGER * max_characters:
        return False
    if not _WHOLE.fullmatch(source) or not _WHOLE.fullmatch(target) or _JOINED.search(target):
        return False
    if target.lstrip(_QUOTES)[0].islower():
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
        misspelt = spelling.has_rare_word(pair.target) or spelling.has_misspelt_noun(pair.target)
        wrong = misspelt or has_slip(tokens, rules, mined.lexicon) or slips_case(tokens, rules)
        wrong = wrong or spelling.has_lone_pair(pair.target, of_nouns=False)
        if not wrong and not lacks_referent(tokens, rules):
            usable.append(pair)
    for pair in usable:
        _sort(mined, pair, rules, dictionary, spelling)
        advance(1)
    if "terms" in kinds:
        mined.terms = find_terms(usable, dictionary, rules)
    return mined


def _sort(mined: Mined, pair: Pair, rules: Rules, dictionary: Dictionary, spelling: Spelling) -> None:
    """Add a pair to all uses that it is suitable for.

    Of sentences that address someone and of bystanders there are enough to leave out all with a doubtful word pair;
    the others may have rare pairs with nouns.
    """
    tokens = Tokenized(pair)
    form = mined.forms.of(pair)
    doubtful = spelling.has_lone_pair(pair.target)
    if not doubtful:
        mined.address.add(tokens, form, rules)
    antecedent = find_antecedent(tokens, rules, mined.lexicon, dictionary)
    subject = rules.target.subject(pair.target)  # even if the sentence brings up nothing by the rules of splicing
    nouns = [each.noun for each in (antecedent, subject) if each is not None]
    held_out = any(map(held_out_noun, nouns))
    if form is None and not held_out and not doubtful:
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

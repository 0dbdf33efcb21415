"""Sentences that introduce an antecedent: a noun whose gender decides the pronouns of later sentences."""

from dataclasses import dataclass
from typing import Literal

from tram.evaluation.language import Gender
from tram.splice.dictionary import Dictionary
from tram.splice.genders import GenderLexicon
from tram.splice.rules import Rules
from tram.splice.words import Pair, Tokenized, is_capitalized, is_word

MOST_ADJECTIVES = 2
MOST_SOURCE_WORDS = 3  # maximum number of adjectives and nouns between a determiner and the verb
LEAST_DICE = 0.1  # minimum Dice coefficient of an object and its translation

Case = Literal["nominative", "accusative"]


@dataclass(frozen=True, slots=True)
class Antecedent:
    """A sentence pair and the noun that later pronouns refer to.

    source_range, target_range: the words of the noun phrase; case: of the noun phrase, None if a pronoun cannot replace
    it; definite: whether it has a definite determiner on both sides; dice: the Dice coefficient of the two nouns.
    """

    pair: Pair
    source_noun: str
    noun: str
    gender: Gender
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    case: Case | None
    definite: bool
    dice: float


@dataclass(frozen=True, slots=True)
class _Phrase:
    start: int
    end: int  # behind the noun
    gender: Gender
    case: Case | None


def find_antecedent(
    tokens: Tokenized, rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> Antecedent | None:
    """Return the antecedent that a pair introduces as its subject or as its only noun; None if the rules are unsure."""
    if len(tokens.target) < 4 or not is_word(tokens.target[0]):
        return None
    thirds = {rules.source_pronoun, rules.source_possessive}
    if not rules.source_other_pronouns.isdisjoint(tokens.source) or not thirds.isdisjoint(tokens.source):
        return None
    if phrase := _subject(tokens, rules, lexicon):
        source = _source_subject(tokens, tokens.target[phrase.end - 1], rules, dictionary)
    elif phrase := _only_noun(tokens, rules, lexicon):
        source = _source_object(tokens, tokens.target[phrase.end - 1], rules, dictionary)
    else:
        return None
    if source is None or tokens.source[source[1] - 1] in lexicon.source_persons:
        return None
    noun = tokens.target[phrase.end - 1]
    definite = tokens.source[source[0]] in rules.source_definite
    definite = definite and tokens.lower[phrase.start] not in rules.indefinite
    return Antecedent(
        pair=tokens.pair,
        source_noun=tokens.source[source[1] - 1],
        noun=noun,
        gender=phrase.gender,
        source_range=source,
        target_range=(phrase.start, phrase.end),
        case=phrase.case,
        definite=definite,
        dice=dictionary.dice(tokens.source[source[1] - 1], noun),
    )


def _subject(tokens: Tokenized, rules: Rules, lexicon: GenderLexicon) -> _Phrase | None:
    """Return "Der … Vorschlag" before a singular verb at the start of a sentence."""
    target = tokens.target
    genders = rules.determiners["nominative"].get(tokens.lower[0])
    at = 1
    while at < len(target) and at <= MOST_ADJECTIVES and rules.is_adjective(target[at]):
        at += 1
    if genders is None or at + 1 >= len(target) or not _is_noun(target[at]):
        return None
    if target[at + 1] not in lexicon.verbs or _is_subject(target[at + 2 : at + 3], rules):
        return None  # "Diese Frage muss ich stellen"
    if tokens.lower[at + 1] in rules.to_be and target[at + 2 : at + 3] == [","]:
        return None  # "Die Wahrheit ist, dass …"
    gender = lexicon.agrees(target[at], _narrowed(genders, target[at - 1], rules))
    return None if gender is None else _Phrase(0, at + 1, gender, "nominative")


def _narrowed(genders: str, adjective: str, rules: Rules) -> str:
    """Return the genders that remain possible after an adjective: "ein neuer" is masculine."""
    if len(genders) > 1 and rules.is_adjective(adjective):
        endings = rules.target.adjective_endings
        shown = endings.get(adjective[-2:], endings.get(adjective[-1:]))
        return shown if shown is not None and shown in genders else genders
    return genders


def _only_noun(tokens: Tokenized, rules: Rules, lexicon: GenderLexicon) -> _Phrase | None:
    """Return "einen … Vorschlag" of "Wir brauchen einen … Vorschlag": no other noun could be meant."""
    target = tokens.target
    capitals = [at for at, token in enumerate(target) if at and is_capitalized(token) and token != rules.formal_subject]
    if len(capitals) != 1 or not _is_noun(target[capitals[0]]) or target[capitals[0]] in rules.set_phrases:
        return None
    noun = capitals[0]
    start = noun - 1
    while start > 0 and noun - start <= MOST_ADJECTIVES and rules.is_adjective(target[start]):
        start -= 1
    opening = " ".join(tokens.lower[:start])
    case: Case = "accusative"
    if opening in rules.presentations["nominative"]:
        case = "nominative"
    elif opening not in rules.presentations["accusative"] and not _has_subject(tokens, start, rules):
        return None
    genders = rules.determiners[case].get(target[start])
    gender = None if genders is None else lexicon.agrees(target[noun], genders)
    if gender is None or lexicon.gender(target[noun]) is None:
        return None
    if case == "accusative" and not rules.to_be.isdisjoint(tokens.lower[:start]):
        return None  # "Du bist der Held"
    # A pronoun object is always right only directly behind the verb: "Ich lese den Brief heute", "Ich lese ihn heute".
    replaceable = start == 2 and tokens.lower[0] in rules.other_subjects and target[noun + 1 : noun + 2] != [","]
    return _Phrase(start, noun + 1, gender, case if replaceable else None)


def _is_subject(token: list[str], rules: Rules) -> bool:
    return bool(token) and (token[0] in rules.other_subjects or token[0] == rules.formal_subject)


def _has_subject(tokens: Tokenized, end: int, rules: Rules) -> bool:
    """Return whether a person is the subject: "ich", "wir"; "Sie" at the start only with a plural verb."""
    if rules.other_subjects.intersection(tokens.lower[:end]) or rules.formal_subject in tokens.target[1:end]:
        return True
    return tokens.target[0] == rules.formal_subject and rules.is_plural_verb(tokens.lower[1])


def _is_noun(token: str) -> bool:
    return is_capitalized(token) and len(token) > 1


def _source_subject(tokens: Tokenized, noun: str, rules: Rules, dictionary: Dictionary) -> tuple[int, int] | None:
    """Return the range of "The … proposal" or "Parliament" before a singular verb at the start of the source."""
    source = tokens.source
    first = 1 if source[0] in rules.source_definite | rules.source_indefinite else 0
    end = _subject_end(source, first, rules)
    if end is None or not rules.source_persons.isdisjoint(source[first:end]):
        return None
    if source[end] in rules.to_be_source and source[end + 1 : end + 2] and source[end + 1] in rules.source_clauses:
        return None
    inside = max(dictionary.dice(word, noun) for word in source[first:end])
    outside = max((dictionary.dice(word, noun) for word in source[end:]), default=0.0)
    if outside > max(inside, LEAST_DICE) or (first == 0 and inside < LEAST_DICE):
        return None  # the target's subject translates something else
    return 0, end


def _subject_end(source: list[str], first: int, rules: Rules) -> int | None:
    """Return the index of the singular verb after a simple noun phrase, None if there is no such verb."""
    for end in range(first + 1, min(len(source) - 1, first + MOST_SOURCE_WORDS + 1)):
        word = source[end - 1]
        if not is_word(word) or word in rules.source_not_nouns or word.endswith("ly"):
            return None
        if source[end] in rules.source_singular_verbs:
            return end
        if rules.is_source_verb(source[end]) and source[end + 1] not in rules.source_singular_verbs:
            # Not a verb in "The folder viewed collectively is" and "The gems are".
            return None if source[end + 1].endswith("ly") or source[end + 1] in rules.source_plural_verbs else end
    return None


def _source_object(tokens: Tokenized, noun: str, rules: Rules, dictionary: Dictionary) -> tuple[int, int] | None:
    """Return the range of a noun phrase that the noun translates, by the dictionary."""
    source = tokens.source
    best, score = None, LEAST_DICE
    for at, word in enumerate(source):
        if dictionary.together(word, noun) > 1 and (dice := dictionary.dice(word, noun)) > score:
            best, score = at, dice
    if best is None or _looks_plural(source[best]):
        return None
    after = source[best + 1] if best + 1 < len(source) else "."
    if after == "of" or (is_word(after) and after not in rules.source_not_nouns and after not in rules.source_you):
        return None  # "the budget committee", "the end of the line"
    for start in range(best - 1, max(-1, best - MOST_ADJECTIVES - 2), -1):
        if source[start] in rules.source_definite | rules.source_indefinite:
            return start, best + 1
        if not is_word(source[start]) or source[start] in rules.source_not_nouns:
            return None
    return None


def _looks_plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "us", "is"))

"""Sentences from frames: slots are filled in both languages, German articles and adjectives are inflected.

A frame is a pair of sentences. `{x}` is a word; before it, the English side may have `a`, and the German side a
determiner and an adjective in the masculine form, which also determines the case:

    Paul needs a new {x}.       Paul braucht {einen neuen x}.

    fill(frame, {"x": lamp})    Paul needs a new lamp.      Paul braucht eine neue Lampe.

`<Er|Sie|Es>` on the German side are the answers of a sentence that needs context; `choose_answer` selects one.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

Gender = Literal["m", "f", "n"]
GENDERS: tuple[Gender, ...] = ("m", "f", "n")
Forms = tuple[str, str, str]  # masculine, feminine, neuter


class Word(NamedTuple):
    """A word or fixed phrase in both languages; `gender` matters for nouns, `number` is the index in the word list."""

    source: str
    target: str
    gender: Gender = "m"
    number: int = 0


class Frame(NamedTuple):
    """A sentence in both languages, with slots, or without slots when it is complete."""

    source: str
    target: str


_SLOT = re.compile(r"\{(?:([^{}]*) )?(\w+)\}")
_CHOICE = re.compile(r"<([^<>]*)>")
_EIN_WORD = re.compile(r"(ein|kein|mein|dein|ihr|unser)(|en|em)")
_DIESER = re.compile(r"(dies)(er|en|em)")

# For each masculine ending (nominative, accusative, dative): the endings of the determiner and of its adjective.
_AFTER_EIN: dict[str, tuple[Forms, Forms]] = {
    "": (("", "e", ""), ("er", "e", "es")),
    "en": (("en", "e", ""), ("en", "e", "es")),
    "em": (("em", "er", "em"), ("en", "en", "en")),
}
_AFTER_DIESER: dict[str, tuple[Forms, Forms]] = {
    "er": (("er", "e", "es"), ("e", "e", "e")),
    "en": (("en", "e", "es"), ("en", "e", "e")),
    "em": (("em", "er", "em"), ("en", "en", "en")),
}
_ARTICLES: dict[str, tuple[Forms, Forms]] = {
    "der": (("der", "die", "das"), ("e", "e", "e")),
    "den": (("den", "die", "das"), ("en", "e", "e")),
    "dem": (("dem", "der", "dem"), ("en", "en", "en")),
}


def slots(frame: Frame) -> set[str]:
    """Return the names of the slots of a frame."""
    return {match[2] for match in _SLOT.finditer(frame.source + frame.target)}


def fill(frame: Frame, words: Mapping[str, Word]) -> Frame:
    """Fill the slots of a frame; the answers remain open."""
    source = _SLOT.sub(lambda match: _english(match[1], words[match[2]]), frame.source)
    target = _SLOT.sub(lambda match: _german(match[1], words[match[2]]), frame.target)
    return Frame(_capitalised(source), _capitalised(target))


def choose_answer(sentence: str, answer: int) -> str:
    """Select one answer in a German sentence; a sentence without open answers is returned unchanged."""
    return _capitalised(_CHOICE.sub(lambda match: match[1].split("|")[answer], sentence))


def inflect(phrase: str, gender: Gender) -> str:
    """Change a determiner, alone or with an adjective, from its masculine form to another gender.

    Words between the two ("ganz" in "ein ganz besonderer") do not change.
    """
    determiner, *rest = phrase.split(" ")
    forms, endings = _declension(determiner.lower())
    column = GENDERS.index(gender)
    inflected = _match_case(determiner, forms[column])
    if not rest:
        return inflected
    stem = rest[-1].removesuffix(endings[0])
    return " ".join([inflected, *rest[:-1], stem + endings[column]])


def _declension(determiner: str) -> tuple[Forms, Forms]:
    """Return the three genders of a masculine determiner and the endings of an adjective after it."""
    if determiner in _ARTICLES:
        return _ARTICLES[determiner]
    if match := _EIN_WORD.fullmatch(determiner):
        forms, endings = _AFTER_EIN[match[2]]
    elif match := _DIESER.fullmatch(determiner):
        forms, endings = _AFTER_DIESER[match[2]]
    else:
        raise ValueError(f"no declension for the determiner {determiner!r}")
    return (match[1] + forms[0], match[1] + forms[1], match[1] + forms[2]), endings


def _english(before: str | None, word: Word) -> str:
    if before is None:
        return word.source
    if before.lower() != "a":
        raise ValueError(f"only 'a' may precede an English slot, not {before!r}")
    return f"{before}{'n' if word.source[0] in 'aeiou' else ''} {word.source}"


def _german(before: str | None, word: Word) -> str:
    return word.target if before is None else f"{inflect(before, word.gender)} {word.target}"


def _match_case(model: str, word: str) -> str:
    """Capitalise a word if `model` is capitalised: "Ihr" keeps its capital inside a sentence."""
    return _capitalised(word) if model[0].isupper() else word


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]

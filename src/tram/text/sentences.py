"""Text on its way to the subwords and back: Moses' normalisation, tokenisation and truecasing (sacremoses).

    moses = Moses("de")
    tokens = moses.tokenize(moses.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    moses.detokenize(tokens)

How plain text falls into sentences stands in the second half: `split_sentences` and `split_document`.
"""

import re
from collections.abc import Iterator

# Where a sentence may end: signs, what closes behind them, a blank, and the first sign of the next word.
# Possessive quantifiers and the look behind keep the search linear in runs of any of these.
OPENING = "-–—\"'„“‚‘«»([{¿¡"


END = re.compile(
    rf"""
    (?<![.!?…]) (?P<signs> [.!?…]++ ) (?P<closed> ["'”“’»«)\]}}]*+ )
    \s++ (?= [{re.escape(OPENING)}]{{0,4}} (?P<next> \S ) )
    | [。！？]++ [」』”’）]*+ \s*+
    """,
    re.VERBOSE,
)


DOTTED = re.compile(r"(?:\w\.)+\w")  # U.S, a.m


SPACED = re.compile(r"\b[a-zäöü]\.\s?[^\W\d_]\Z")  # z. B, d. h


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations inside a sentence: a name, a noun or an explanation follows.
GOES_ON = {
    "en": _words(
        "mr mrs ms messrs dr prof st rev gen col capt lt sgt sen rep gov hon pres vs cf e.g i.e viz approx ca esp"
    ),
    "de": _words(
        "hr fr dr prof dipl ing st bzw ca vgl evtl ggf inkl exkl bspw sog insb geb gest verh ehem mind"
        " z.b d.h u.a i.d.r s.o s.u zzgl abzgl einschl bzgl betr hrsg mio mrd"
    ),
}


# Abbreviations only where a number follows.
BEFORE_NUMBER = {
    "en": _words("no nos nr fig figs vol vols p pp art ch sec eq op jan feb mar apr jun jul aug sep sept oct nov dec"),
    "de": _words("nr nrn abb art abs bd kap s tab ziff z str tel jan feb apr jun jul aug sep sept okt nov dez"),
}


# Words that start a sentence where an initial, an ordinal or U.S. may have ended the one before.
STARTERS = {
    "en": _words(
        "The This That These Those A An He She It We They You I In On At If When While As But And Or So"
        " Then There Here His Her Its Our Their My Your What Who How Why For From With After Before"
    ),
    "de": _words(
        "Der Die Das Dies Diese Dieser Dieses Ein Eine Einen Einem Einer Er Sie Es Wir Ihr Ich Man In Im"
        " Am An Auf Bei Wenn Als Aber Und Oder So Da Dann Dort Hier Sein Seine Unser Mein Was Wer Wie"
        " Warum Für Von Mit Nach Vor Auch"
    ),
}


NONE: frozenset[str] = frozenset()


def split_sentences(text: str, language: str) -> list[str]:
    """Split running text into sentences, by rules; English and German have abbreviations of their own."""
    return [text[start:end] for start, end in _spans(text, language)]


def _spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; between them are only blanks."""
    start = len(text) - len(text.lstrip())
    stop = len(text.rstrip())
    for match in END.finditer(text, start, stop):
        if match["signs"] is None or _ends_sentence(text, start, match, language):
            yield start, match.start() + len(match[0].rstrip())
            start = match.end()
    if start < stop:
        yield start, stop


def _ends_sentence(text: str, start: int, match: re.Match[str], language: str) -> bool:
    """Whether the sentence that began at `start` ends at `match`."""
    if match["next"].islower():
        return False
    if match["signs"] != "." or match["closed"] not in ("", ")"):
        return True
    before = text[max(start, match.start() - 40) : match.start()]
    word = (before.split() or [""])[-1].lstrip(OPENING)
    behind = text[match.end() : match.end() + 40].lstrip(OPENING)
    if _goes_on(word, before, match["next"], language) or (word.isdecimal() and word == text[start : match.start()]):
        return False
    starter = re.split(r"\W", behind, maxsplit=1)[0] in STARTERS.get(language, NONE)
    return starter or not _may_go_on(word, language)


def _goes_on(word: str, before: str, following: str, language: str) -> bool:
    """Whether "word." is an abbreviation inside a sentence."""
    key = word.lower().rpartition("-")[2]
    if following.isdecimal() and key in BEFORE_NUMBER.get(language, NONE):
        return True
    return key in GOES_ON.get(language, NONE) or SPACED.search(before) is not None


def _may_go_on(word: str, language: str) -> bool:
    """Whether "word." may be an initial, letters with full stops (U.S.) or a German ordinal."""
    ordinal = language == "de" and word.isdecimal() and len(word) <= 2
    return ordinal or (len(word) == 1 and word.isalpha()) or DOTTED.fullmatch(word) is not None

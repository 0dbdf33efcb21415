"""Rule-based sentence splitting, with abbreviations for English and German.

    split_sentences("Dr. Smith met Mr. Jones at 3 p.m. in London. It rained.", "en")       # two sentences
    [text[start:end] for start, end in sentence_spans(text, "de")]                       # the same, as positions

Other languages are split at punctuation that is followed by anything but a lower-case letter.
"""

import re
from collections.abc import Iterator

# A possible end of a sentence: punctuation, closing quotes and brackets, white space, and the first character of the
# next word. Possessive quantifiers and the lookbehind keep the search linear in runs of any of these.
OPENING_PUNCTUATION = "-–—\"'„“‚‘«»([{¿¡"
SENTENCE_END = re.compile(
    rf"""
    (?<![.!?…]) (?P<signs> [.!?…]++ ) (?P<closed> ["'”“’»«)\]}}]*+ )
    \s++ (?= [{re.escape(OPENING_PUNCTUATION)}]{{0,4}} (?P<next> \S ) )
    | [。！？]++ [」』”’）]*+ \s*+
    """,
    re.VERBOSE,
)
DOTTED_ABBREVIATION = re.compile(r"(?:[^\W\d]\.)+[^\W\d]")  # U.S, a.m
SPACED_ABBREVIATION = re.compile(r"\b[a-zäöü]\.\s?[^\W\d_]\Z")  # z. B, d. h


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations that never end a sentence: a name, a noun or an explanation follows.
ABBREVIATIONS = {
    "en": _words(
        "mr mrs ms messrs dr prof st rev gen col capt lt sgt sen rep gov hon pres vs cf e.g i.e viz approx ca esp"
    ),
    "de": _words(
        "hr fr dr prof dipl ing st bzw ca vgl evtl ggf inkl exkl bspw sog insb geb gest verh ehem mind"
        " z.b d.h u.a i.d.r s.o s.u zzgl abzgl einschl bzgl betr hrsg mio mrd"
    ),
}

# Words that are abbreviations only before a number.
ABBREVIATIONS_BEFORE_NUMBER = {
    "en": _words("no nos nr fig figs vol vols p pp art ch sec eq op jan feb mar apr jun jul aug sep sept oct nov dec"),
    "de": _words("nr nrn abb art abs bd kap s tab ziff z str tel jan feb apr jun jul aug sep sept okt nov dez"),
}

# Words that start a sentence where an initial, an ordinal or U.S. may have ended the previous one.
SENTENCE_STARTERS = {
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
NO_WORDS: frozenset[str] = frozenset()


def split_sentences(text: str, language: str) -> list[str]:
    """Split running text into sentences."""
    return [text[start:end] for start, end in sentence_spans(text, language)]


def sentence_spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence; there is only white space between them."""
    start = len(text) - len(text.lstrip())
    stop = len(text.rstrip())
    for match in SENTENCE_END.finditer(text, start, stop):
        if match["signs"] is None or _ends_sentence(text, start, match, language):
            yield start, match.start() + len(match[0].rstrip())
            start = match.end()
    if start < stop:
        yield start, stop


def _ends_sentence(text: str, start: int, match: re.Match[str], language: str) -> bool:
    """Return whether the sentence that begins at `start` ends at `match`."""
    if match["next"].islower():
        return False
    if match["signs"] != "." or match["closed"] not in ("", ")"):
        return True
    before = text[max(start, match.start() - 40) : match.start()]
    word = (before.split() or [""])[-1].lstrip(OPENING_PUNCTUATION)
    after = text[match.end() : match.end() + 40].lstrip(OPENING_PUNCTUATION)
    is_list_number = word.isdecimal() and len(word) == match.start() - start
    if is_list_number or _is_abbreviation(word, before, match["next"], language):
        return False
    starter = re.split(r"\W", after, maxsplit=1)[0] in SENTENCE_STARTERS.get(language, NO_WORDS)
    return starter or not _may_be_abbreviation(word, language)


def _is_abbreviation(word: str, before: str, following: str, language: str) -> bool:
    """Return whether "word." is an abbreviation inside a sentence."""
    key = word.lower().rpartition("-")[2]
    if following.isdecimal() and key in ABBREVIATIONS_BEFORE_NUMBER.get(language, NO_WORDS):
        return True
    return key in ABBREVIATIONS.get(language, NO_WORDS) or SPACED_ABBREVIATION.search(before) is not None


def _may_be_abbreviation(word: str, language: str) -> bool:
    """Return whether "word." may be an initial, letters with full stops (U.S.) or a German ordinal."""
    ordinal = language == "de" and word.isdecimal() and len(word) <= 2
    return ordinal or (len(word) == 1 and word.isalpha()) or DOTTED_ABBREVIATION.fullmatch(word) is not None

"""Text on its way to the subwords and back: Moses' normalisation, tokenisation and truecasing (sacremoses).

    moses = Moses("de")
    tokens = moses.tokenize(moses.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    moses.detokenize(tokens)

How plain text falls into sentences stands in the second half: `split_sentences` and `split_document`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

# Stands for a protected word while sacremoses cuts the text: it must be a letter for Moses, and of no case.
PLACEHOLDER = "ꙮ"

# A word with all that is written together with it, except double quotes and brackets; a bracket belongs to it
# when it closes again inside the word (argv[0], ${HOME}), a round one never: the normaliser sets it apart.
WORD = re.compile(
    r"""
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} )
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} | \[ [^\s"()\[\]{}]*+ \] )*+
    """,
    re.VERBOSE,
)
PRICE_OR_SHARE = re.compile(r"[$€£¥]?\d[\d.,]*%?")
BEHIND_A_WORD = ".,:;!?'"

# What sacremoses' detokeniser gets wrong and a look at the neighbours settles: the end of a quotation that
# began sentences ago, das "Haupt"-Menü, 300 $ zahlen.
LAST_QUOTE = re.compile(r""" (["'])(?=[,.;:!?)\]]*(?:\s|$))""")
QUOTED_COMPOUND = re.compile(r'(?<=[^\s"]") -(?=\w)')
PRICE_BEFORE_WORD = re.compile(r"(?<=\d )([$€£¥])(?=[^\W\d])")

# One rule of the normaliser is quadratic in runs of dots: longer texts go through it in pieces.
LONG = 1_000
PIECE = re.compile(rf".{{1,{LONG}}}(?:\s|$)|.{{1,{LONG}}}", re.DOTALL)
BLANKS = re.compile(r" +")


class _Tokenizer(MosesTokenizer):  # type: ignore[misc]
    """sacremoses' tokeniser, without making the sets of all letters anew at each full stop."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._lower, self._alpha = frozenset(self.IsLower), frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES: frozenset[str] = frozenset(self.NONBREAKING_PREFIXES)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class Moses:
    """The Moses scripts for one language, with words protected that they would tear apart for good.

    Protected is a word with a sign inside that Moses sets apart and its detokeniser does not put back: URLs,
    mail addresses, paths, options (--width=3), keys (Ctrl+C), placeholders (%s, {name}, $VAR), and/or, R&D.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._tokenizer = _Tokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        # These have rules of their own for the apostrophe inside a word, in other languages it is torn out.
        inside = r"\w.'-" if language in ("en", "fr", "it") else r"\w.-"
        self._torn = re.compile(rf"[^{inside}]|_|\.\.|{PLACEHOLDER}|DOTMULTI")
        self._rules = [
            (re.compile(pattern), replacement, {sign for sign in pattern if not sign.isascii()})
            for pattern, replacement in MosesPunctNormalizer(language).substitutions
        ]

    def normalize(self, text: str) -> str:
        """Write quotes, dashes and blanks as Moses' normalize-punctuation does."""
        if len(text) <= LONG:
            return self._normalize(text).strip()
        return BLANKS.sub(" ", "".join(self._normalize(piece) for piece in PIECE.findall(text))).strip()

    def _normalize(self, text: str) -> str:
        signs = set(text)
        for pattern, replacement, needed in self._rules:
            if needed <= signs:  # no rule brings in a sign that is not ASCII: many can be passed over
                text = pattern.sub(replacement, text)
        return text

    def tokenize(self, text: str) -> list[str]:
        """Cut normalised text into words and signs."""
        held: list[str] = []
        text = self._protect(text, held)
        joined: str = self._tokenizer.tokenize(text, return_str=True, escape=False)
        words = iter(held)
        # Moses keeps the order of words: the n-th placeholder stands for the n-th protected word.
        return re.sub(PLACEHOLDER, lambda _: next(words), joined).split() if held else joined.split()

    def detokenize(self, tokens: list[str]) -> str:
        """Write words and signs as running text."""
        text: str = self._detokenizer.detokenize(tokens, unescape=False)
        text = LAST_QUOTE.sub(r"\1", text)
        text = QUOTED_COMPOUND.sub("-", text)
        return PRICE_BEFORE_WORD.sub(r"\1 ", text)

    def _protect(self, text: str, held: list[str]) -> str:
        def replace(match: re.Match[str]) -> str:
            whole = match[0]
            word = whole.rstrip(BEHIND_A_WORD).lstrip("'")
            if not self._torn.search(word) or PRICE_OR_SHARE.fullmatch(word):
                return whole
            if len(word) == 1 and word != PLACEHOLDER:
                return whole
            held.append(word)
            before, _, after = whole.partition(word)
            return before + PLACEHOLDER + after

        return WORD.sub(replace, text)


@lru_cache(maxsize=32)
def moses(language: str) -> Moses:
    """Give the one `Moses` of a language in this process: making it takes longer than many sentences."""
    return Moses(language)


# Truecasing ----------------------------------------------------------------------------------------

TAG = re.compile(r"<\S[^>]*>")
LETTER = re.compile(r"[^\W\d_]")
TECHNICAL = re.compile(r"[\d_/\\@]")
SENTENCE_ENDS = frozenset(".?!")
BEFORE_A_START = frozenset("([\"'")  # Moses looks for the first word behind these


def count_cases(sentences: Iterable[list[str]]) -> Counter[str]:
    """Count the words of tokenised sentences as they are written where no sentence starts.

    Counts of parts of a corpus are added with `update`; in the order of the parts the sum is the count of the
    whole, ties included.
    """
    counts: Counter[str] = Counter()
    for tokens in sentences:
        counts.update(_inner_words(tokens))
    return counts


def _inner_words(tokens: list[str]) -> Iterator[str]:
    """The words that Moses' train-truecaser counts; one behind a colon may be written as at a start."""
    first = True
    for token in tokens:
        if token in BEFORE_A_START or TAG.search(token):
            continue
        if not first and (token in SENTENCE_ENDS or token == ":"):
            first = True
            continue
        if not first and LETTER.search(token):
            yield token
        first = False


class Truecaser:
    """Writes the first word of a sentence as it is mostly written elsewhere: "The house" becomes "the house".

    The best forms are those of sacremoses' `MosesTruecaser`, whose trainer gives no counts to be added and
    whose `truecase` also rewrites words inside the sentence. Here a first word changes only if `detruecase`
    brings it back: "THE" and "iPhone" stay; so does a word behind a colon, for nothing tells its case later.
    """

    def __init__(self, words: Iterable[str]) -> None:
        """Take the best forms of those words that are not mostly written as at the start of a sentence."""
        self.words = sorted(words)
        self._best = {capitalized(word): word for word in self.words}

    @classmethod
    def learn(cls, counts: Counter[str]) -> "Truecaser":
        """Choose the most frequent form of each word, of equally frequent ones that which came first."""
        best: dict[str, str] = {}
        for form, count in counts.items():
            rival = best.setdefault(form.lower(), form)
            if count > counts[rival]:
                best[form.lower()] = form
        return cls(form for form in best.values() if form != capitalized(form))

    def truecase(self, tokens: list[str]) -> list[str]:
        """Write the first words of sentences as they are mostly written."""
        tokens = list(tokens)
        for start in _starts(tokens):
            tokens[start] = self._best.get(tokens[start], tokens[start])
        return tokens


def detruecase(tokens: list[str]) -> list[str]:
    """Write the first words of sentences with a capital letter."""
    tokens = list(tokens)
    for start in _starts(tokens):
        tokens[start] = capitalized(tokens[start])
    return tokens


def capitalized(word: str) -> str:
    """The word with a capital first letter; names of files and commands (exit_group, x86) stay."""
    return word if TECHNICAL.search(word) else word[:1].upper() + word[1:]


def _starts(tokens: list[str]) -> Iterator[int]:
    first = True
    for position, token in enumerate(tokens):
        if token in SENTENCE_ENDS:
            first = True
        elif first and token not in BEFORE_A_START and not TAG.fullmatch(token):
            first = False
            yield position


# Sentences -----------------------------------------------------------------------------------------

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


# Documents -----------------------------------------------------------------------------------------

# What stands before the text of a list item or a heading. A bullet makes a line an item wherever it stands;
# "3. " may be a date after a line break.
MARKER = re.compile(r"\s*(?:(?:[-–*+•‣▪]|#{1,6}|>+|\(?\d{1,3}[.)]|\(?[a-z]\))\s+)?")
BULLET = re.compile(r"\s*(?:[-*+•‣▪]|#{1,6}|>+)\s")
WRAP = re.compile(r"\s*\n\s*")


@dataclass(frozen=True)
class PlainText:
    """A plain text as its sentences and all that stands before, between and after them."""

    sentences: list[str]
    gaps: list[str]  # one more than sentences: blanks, line ends, marks of list items, lines without a word

    def join(self, translations: Sequence[str]) -> str:
        """Put translations in the places of the sentences."""
        if len(translations) != len(self.sentences):
            raise ValueError(f"{len(translations)} translations for {len(self.sentences)} sentences")
        parts = [self.gaps[0]]
        for translation, gap in zip(translations, self.gaps[1:], strict=True):
            parts += [translation, gap]
        return "".join(parts)


def split_document(text: str, language: str) -> PlainText:
    """Split plain text into sentences so that translations can take their places.

    A blank line, a list item, a deeper indentation and a line that ends early end a paragraph. Lines that
    break only because they are full are read as one, and a sentence that runs over such a break comes back in
    one line; every other line break, blank line and indentation stays where it was. What holds no letter and
    no digit is not a sentence but part of the layout.
    """
    sentences: list[str] = []
    gaps: list[str] = []
    kept = 0  # text up to here is in sentences and gaps
    for start, end in _blocks(text):
        for first, last in _spans(text[start:end], language):
            sentence = text[start + first : start + last]
            if not any(map(str.isalnum, sentence)):
                continue
            gaps.append(text[kept : start + first])
            sentences.append(WRAP.sub(" ", sentence))
            kept = start + last
    return PlainText(sentences, [*gaps, text[kept:]])


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that are read as one, without the mark of a list item."""
    position = 0
    for group in _groups(text):
        width = max(len(line.rstrip()) for line in group)
        start, marker = position, _marker(group[0])
        for line, following in zip(group, [*group[1:], ""], strict=True):
            position += len(line)
            if not following or not _continues(line, following, marker, width):
                yield start + len(marker), position
                start, marker = position, _marker(following)


def _groups(text: str) -> Iterator[list[str]]:
    """The lines of `text` with their ends; a blank line ends a group and belongs to it."""
    group: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):  # splitlines would also cut at U+2028 and form feeds
        group.append(line)
        if not line.strip():
            yield group
            group = []
    if group:
        yield group


def _marker(line: str) -> str:
    match = MARKER.match(line)
    return match[0] if match else ""


def _continues(line: str, following: str, marker: str, width: int) -> bool:
    """Whether a line breaks because the next word did not fit; `marker` stands before its paragraph."""
    text = following.strip()
    indentation = len(following) - len(following.lstrip())
    if not text or BULLET.match(following) or indentation > len(marker):
        return False
    lower = text[0].islower()
    if lower and marker.strip() and indentation == len(marker):  # right below the text of a list item
        return True
    full = len(line.rstrip()) + 1 + len(text.split(maxsplit=1)[0]) > width
    return full and (30 if lower else 60) <= width <= 120

"""Spans that a translation must copy unchanged: URLs, code, placeholders, emoji, foreign scripts.

    (protected,) = protect("Open https://example.org with %s.")
    written = protected.as_names()                   # "Open X1 with X2."; as_sentinels(): copy sentinels instead
    restored = written.restore("Öffne X1 mit X2.")
    restored.text, restored.complete                 # "Öffne https://example.org mit %s.", True

Do-not-translate lists and glossaries work in the same way: the content that is put back is the term, or its fixed
translation. `translate_protected` wraps all this around a function that translates strings.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, pairwise

from tram.errors import InputError
from tram.text.special_ids import SENTINELS

# Private-use characters: those that models reserve, and those that file types use as placeholders of inline code etc.
RESERVED = f"{chr(0x10F000)}-{chr(0x10FFFF)}"

EXTENSIONS = (
    "bash bat bin bmp c cc cfg conf cpp cs css csv db deb dll doc docx epub exe gif go gz h hpp htm html ini iso java"
    " jpeg jpg js json jsx lock log lua md mo mp3 mp4 odt ogg pdf php png po ppt pptx py rb rs rst rtf sh so sql srt"
    " svg tar tex tif tiff tmx toml ts tsv tsx ttf txt vtt wav webp whl xlf xliff xls xlsx xml xz yaml yml zip"
)
UNITS = (
    "%|‰|°[CF]?|km/h|m/s|[kcmµn]?m[²³]?|[km]?g|ml|dl|cl|l|[mµn]?s|min|h|[kMGT]?Hz|[kKMGTP]i?B|[kMGT]?bit(?:/s)?|[kMGT]?bps|"
    "[kM]?Wh?|[km]?V|mAh?|px|pt|em|rem|dpi|fps|rpm|mph|lbs?|oz|ft|[€$£¥]"
)
# `re` requires lookbehinds of a fixed length, so there is one per extension.
AFTER_EXTENSION = "|".join(rf"(?<=\.{extension})" for extension in EXTENSIONS.split())
# Possessive quantifiers and lookbehinds keep the search linear: no pattern starts inside its own repetition.
PATTERNS = {
    "placeholder": rf"[{RESERVED}]",
    "url": r"""(?<!\w)(?:(?:https?|ftp|file|git|ssh|wss?)://|mailto:|www\.)
               (?:\([^\s()<>]*+\)|[^\s()<>"“”„«»])*(?:\([^\s()<>]*+\)|[^\s()<>"“”„«».,;:!?'’\]}])""",
    "email": r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++",
    "code": r"""`[^`\n]++` | </?[A-Za-z][^<>\n]*+> | &\#?\w{2,31};
              | (?<![\w.:>-])(?>(?:\w++(?:\.|::|->))*+)\w++\(\) | (?<![\w:])\w++(?:::\w++)++
              | \b(?=\w*[A-Za-z])(?=\w*_\w)\w++ | \b0x[0-9A-Fa-f]++\b
              | (?<!\S)(?:&&|\|\||[=!<>]=|===|!==|[-=]>|<-|\+\+|:=)(?!\S)""",
    "format": r"""\{\{[^{}\n]*+\}\} | \{%[^%\n]*+%\} | [$\#]\{[^{}\s]++\} | \$\([^()\s]*+\)
                | \{(?:\w[^{}\s]*+)?\} | \$[A-Z_][A-Z0-9_]++\b | %\(\w++\)[-+\#0-9.]*+[a-zA-Z]
                | (?<!\d)%(?:\d+\$)?[-+\#0]*+\d*+(?:\.\d++)?(?:hh?|ll?|z|j|t|L)?[sdifuxXoeEgGcpn@](?!\w)
                | (?<!\d)%L?\d{1,2}(?!\w) | (?<!\d\s)%%""",
    "path": rf"""(?<![\w/.~])(?:~|\.{{1,2}})?/(?:[\w@+-]|[./](?=[\w@+-]))++/?
               | (?<!\w)[A-Za-z]:\\[^\s<>"|]*[^\s<>"|.,;:!?)]
               | (?<![\w./-])(?=[\w-])(?:[\w-]|[./](?=[\w-]))++(?:{AFTER_EXTENSION})(?![./]?\w)""",
    "domain": r"""(?<![\w.-])(?:[a-z0-9-]|\.(?=[a-z0-9-]))++(?<=\.(?:com|org|net|edu|gov|dev))\b
                  (?:/[\w./?=&%\#-]*[\w/])?""",
    "emoji": r"(?<![\w:]):(?:[a-z][a-z0-9_+-]{1,30}|[+-]1):(?![\w:]) | (?<!\S)[:;]-?[()DPp|](?=[\s.,!?)]|\Z)",
    "option": r"""(?<![\w-])(?:--[A-Za-z][\w-]*+(?:=[^\s,;)\]]*[^\s,;.)\]])?
                 | -(?![AI]\s+[a-z])[A-Za-z](?![\w-]) | -[0-9](?![\w.,-]))""",
    "number": rf"""(?<![\w.,])\d++(?:[.,\u00a0\u202f]\d++)*+[\s\u00a0\u202f]?(?:{UNITS})(?!\w)
                 | [€$£¥]\s?\d++(?:[.,]\d++)*+ | (?<![\w.])v?\d++(?:\.\d++){{2,}}+\b""",
}
JOINERS = "\u200d\ufe0e\ufe0f\u20e3"  # inside emoji sequences
DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # right to left, …
# First words of the Unicode names of letters that occur in Latin text.
LATIN_NAMES = ("LATIN", "FEMININE", "MASCULINE", "MICRO", "MODIFIER", "KELVIN", "ANGSTROM", "OHM")

# From the first to the last letter or digit of a piece of a sentence, without the punctuation around it
CORE = re.compile(r"[^\W_].*[^\W_]|[^\W_]", re.DOTALL)
END_SIGNS = ".!?…:;,"
TERM_START = re.compile(r"\w+|[^\w\s]")
NAME_LETTERS = "XYZQ"  # X1, X2, … stand for spans; the next letter is used if the sentence contains such a name
BLANK = re.compile(r"\s")
NONBLANK = re.compile(r"\S")
PRIVATE = re.compile(f"[{RESERVED}]")

TranslateStrings = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class VerbatimRules:
    """Rules for the spans that are copied.

    keep: terms that are not translated
    glossary: terms with a fixed translation, which is not inflected. Terms match whole words, longer terms first. A
        term in lower case also matches capitalised or in capitals, and its translation is then cased in the same way
    known: whether the model can translate a character; None: all but symbols and letters of other scripts
    scripts: first words of the Unicode names of the letters of both languages
    patterns: whether to copy URLs, code and so on, or only terms and the private-use characters of file types
    """

    keep: tuple[str, ...] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[str], bool] | None = None
    scripts: tuple[str, ...] = LATIN_NAMES
    patterns: bool = True

    def __post_init__(self) -> None:
        if (
            isinstance(self.keep, str)
            or not isinstance(self.keep, Collection)
            or not isinstance(self.glossary, Mapping)
        ):
            raise InputError("keep is a tuple of terms, glossary a mapping from terms to translations; give these")
        for term in (*self.keep, *self.glossary, *self.glossary.values()):
            if not isinstance(term, str) or not term.strip():
                raise InputError(f"{term!r}: is no term or translation of a glossary; give text")

    @cached_property
    def terms(self) -> dict[str, list[tuple[str, str | None]]]:
        """Terms with their fixed translations by their first word in lower case, longer ones first."""
        contents: dict[str, str | None] = {**dict.fromkeys(self.keep), **self.glossary}
        for term, fixed in list(contents.items()):  # a text may encode accents in another way
            for form in ("NFC", "NFD"):
                contents.setdefault(unicodedata.normalize(form, term), fixed)
        result: dict[str, list[tuple[str, str | None]]] = {}
        for term in sorted(contents, key=lambda term: (-len(term), term.islower())):  # `File` has an entry of its own
            start = TERM_START.match(term)
            if start:
                result.setdefault(start[0].lower(), []).append((term, contents[term]))
        return result


@dataclass(frozen=True, slots=True)
class Span:
    """A span of a source text, and the content that replaces it in the translation."""

    start: int
    end: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class Restored:
    """A translation with its spans restored; lost and doubled: spans whose sentinel did not appear exactly once."""

    text: str
    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every span is present exactly once."""
        return not self.lost and not self.doubled


@dataclass(frozen=True, slots=True)
class Written:
    """A protected sentence as the model reads it, with a stand-in for every span.

    pattern: matches the stand-ins, all sentinels, and anything else that could be mistaken for a stand-in.
    """

    text: str
    stand_ins: tuple[str, ...]
    contents: tuple[str, ...]
    pattern: re.Pattern[str]

    @property
    def is_clear(self) -> bool:
        """Whether the text contains every stand-in exactly where a span was, and nowhere else."""
        return Counter(self.pattern.findall(self.text)) == Counter(self.stand_ins)

    def restore(self, translation: str) -> Restored:
        """Replace stand-ins and sentinels by the contents of their spans; drop those that appear too often."""
        pending = dict(enumerate(self.contents))
        doubled = []
        parts, end = [], 0
        for match in self.pattern.finditer(translation):
            span = next((number for number in pending if match[0] in (self.stand_ins[number], SENTINELS[number])), None)
            if span is None:
                doubled.append(match[0])
            parts += [translation[end : match.start()], "" if span is None else pending.pop(span)]
            end = match.end()
        return Restored("".join([*parts, translation[end:]]), tuple(pending.values()), tuple(doubled))

    def with_sentinels(self, translation: str) -> str:
        """Replace the stand-ins in a translation by the sentinels of their spans."""
        pending = list(range(len(self.stand_ins)))

        def sentinel(match: re.Match[str]) -> str:
            span = next((number for number in pending if self.stand_ins[number] == match[0]), None)
            if span is None:
                return match[0]
            pending.remove(span)
            return SENTINELS[span]

        return self.pattern.sub(sentinel, translation)

    def keeps_spans(self, source: str, translation: str) -> bool:
        """Return whether the translation of a part of the sentence has the same stand-ins as that part."""
        return Counter(self.pattern.findall(translation)) == Counter(self.pattern.findall(source))


@dataclass(frozen=True, slots=True)
class Protected:
    """A text in which sentinels replace the spans; the index of a sentinel is that of its span.

    contents: what replaces the sentinels in the translation
    sources: the original spans, which differ from `contents` for glossary terms
    """

    text: str
    contents: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def needs_translation(self) -> bool:
        """Whether there is a letter outside the spans."""
        return any(c.isalpha() and c not in SENTINELS for c in self.text)

    def as_sentinels(self) -> Written:
        """Return the text for a model that was trained to copy sentinels."""
        return self._written(SENTINELS[: len(self.contents)])

    def as_names(self) -> Written | None:
        """Return the text with a short name for every span, X1, X2, …, which most models copy without training.

        None if a name would become part of a word.
        """
        letter = next((c for c in NAME_LETTERS if not re.search(rf"{c}\d", self.text)), NAME_LETTERS[-1])
        names = [f"{letter}{number}" for number in range(1, len(self.contents) + 1)]
        written = self._written(names, rf"(?<!\w){letter}\d+(?!\w)")
        return written if written.is_clear else None

    def as_plain(self) -> Written | None:
        """Return the text with the contents themselves as stand-ins; None if they are not distinct from other text."""
        spellings = sorted({re.escape(content) for content in self.contents}, key=len, reverse=True)
        written = self._written(self.contents, rf"(?<!\w)(?:{'|'.join(spellings)})(?!\w)")
        return written if written.is_clear and not PRIVATE.search(written.text) else None

    def _written(self, stand_ins: Sequence[str], pattern: str = "(?!)") -> Written:
        spelled = dict(zip(SENTINELS, stand_ins, strict=False))
        text = "".join(spelled.get(character, character) for character in self.text)
        return Written(text, tuple(stand_ins), self.contents, re.compile(f"{pattern}|[{SENTINELS}]"))

    def restore(self, translation: str) -> Restored:
        """Replace the sentinels in a translation by the contents of their spans."""
        return self.as_sentinels().restore(translation)

    def in_pieces(self, translate: TranslateStrings) -> str:
        """Translate the text between the spans piece by piece: worse, but keeps every sentinel by construction."""
        pieces = re.split(f"([{SENTINELS}])", self.text)
        cores = {i: core for i, piece in enumerate(pieces) if (core := CORE.search(piece)) and not core[0].isdecimal()}
        results = translate([core[0] for core in cores.values()]) if cores else []
        for (i, core), result in zip(cores.items(), results, strict=True):
            bare = "".join(c for c in result if c not in SENTINELS).rstrip(
                END_SIGNS
            )  # the source's punctuation follows
            pieces[i] = core.string[: core.start()] + bare + core.string[core.end() :]
        return "".join(pieces)

    def by_parts(self, translate: TranslateStrings) -> str:
        """Translate the text between the spans piece by piece and restore the spans."""
        return self.restore(self.in_pieces(translate)).text


def find_spans(text: str, rules: VerbatimRules = VerbatimRules()) -> list[Span]:  # noqa: B008 (frozen)
    """Return the spans of a text in order; they do not overlap."""
    pattern = _pattern() if rules.patterns else PRIVATE
    spans = [Span(*m.span(), m.lastgroup or "placeholder", m[0]) for m in pattern.finditer(text) if m[0]]
    if rules.keep or rules.glossary:
        terms = list(_terms(text, rules))
        taken = _covered(text, terms)
        spans = [span for span in spans if taken.find(1, span.start, span.end) < 0] + terms
    spans += _foreign(text, _covered(text, spans), rules) if rules.patterns else ()
    return sorted(spans, key=lambda span: span.start)


def _covered(text: str, spans: Sequence[Span]) -> bytearray:
    """Return 1 for each character of a text that is inside a span."""
    covered = bytearray(len(text))
    for span in spans:
        covered[span.start : span.end] = b"\1" * (span.end - span.start)
    return covered


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()), re.VERBOSE)


def _terms(text: str, rules: VerbatimRules) -> Iterator[Span]:
    """Find the terms of the do-not-translate list and the glossary, longer ones first."""
    end = 0
    for word in TERM_START.finditer(text):
        if word.start() < end:
            continue
        for term, fixed in rules.terms.get(word[0].lower(), ()):
            occurrence = text[word.start() : word.start() + len(term)]
            if _same_term(term, occurrence) and not text[word.start() + len(term) :][:1].isalnum():
                end = word.start() + len(term)
                yield Span(word.start(), end, "term", occurrence if fixed is None else _cased(fixed, term, occurrence))
                break


def _same_term(term: str, occurrence: str) -> bool:
    return occurrence == term or (term.islower() and occurrence in (term[:1].upper() + term[1:], term.upper()))


def _cased(fixed: str, term: str, occurrence: str) -> str:
    """Return the translation of a term, cased like the term in the text."""
    if occurrence == term:
        return fixed
    return fixed.upper() if occurrence == term.upper() and len(term) > 1 else fixed[:1].upper() + fixed[1:]


def _foreign(text: str, covered: bytearray, rules: VerbatimRules) -> Iterator[Span]:
    """Find runs of symbols and of letters of other scripts, with the spaces and punctuation inside a run.

    covered: 1 for each character that is already inside a span
    """
    start = end = -1
    for i, character in enumerate(text):
        if covered[i]:
            continue_run = False
        elif _is_foreign(character, rules) or (start >= 0 and end == i and character in JOINERS):
            if start < 0:
                start = i
            end = i + 1
            continue
        else:  # the run may continue after a space or punctuation
            continue_run = start >= 0 and not character.isalnum() and character not in "\n\r"
        if start >= 0 and not continue_run:
            yield Span(start, end, "foreign", text[start:end])
            start = -1
    if start >= 0:
        yield Span(start, end, "foreign", text[start:end])


def _is_foreign(character: str, rules: VerbatimRules) -> bool:
    if character.isascii():
        return False
    if rules.known is not None and not character.isspace() and not rules.known(character):
        return True
    return _is_symbol_or_script(character, rules.scripts)


@lru_cache(maxsize=4096)
def _is_symbol_or_script(character: str, scripts: tuple[str, ...]) -> bool:
    category = unicodedata.category(character)
    if category in ("So", "Sm", "Sk", "Sc", "Co", "Cn") or character in DIRECTION_MARKS:
        return True
    if category[0] == "L" or category == "Nd":
        return not unicodedata.name(character, "LATIN").startswith(scripts)
    return category[0] == "M" and category != "Mn"  # spacing marks belong to letters of other scripts


def protect(text: str, rules: VerbatimRules = VerbatimRules()) -> list[Protected]:  # noqa: B008 (frozen)
    """Replace the spans of a sentence by sentinels.

    The result is almost always one `Protected`. Symbols at the edges are separate parts, and a sentence with more spans
    than there are sentinels is split at spaces. The translations of the parts are joined with spaces.
    """
    spans = find_spans(text, rules)
    if len(spans) > len(SENTINELS):
        spans = _merged(text, spans)
    parts, last, start, stop = [], [], 0, len(text)
    if spans and _is_edge(spans[0], text[spans[0].end :][:2]) and spans[0].start == 0:
        parts.append(_protected(text, 0, spans[0].end, spans[:1]))
        start, spans = spans[0].end + 1, spans[1:]
    if spans and _is_edge(spans[-1], text[start : spans[-1].start][:-3:-1]) and spans[-1].end == stop:
        last.append(_protected(text, spans[-1].start, stop, spans[-1:]))
        stop, spans = spans[-1].start - 1, spans[:-1]
    first = 0  # of the spans that are in no part yet; nothing here looks at all of them, or at all of the text, again
    while len(spans) - first > len(SENTINELS):
        here = spans[first : first + len(SENTINELS) + 1]
        cut = _cut(text, here)
        inside = [span for span in here if span.end <= cut]
        parts.append(_protected(text, start, cut, inside))
        first += len(inside)
        start = behind.start() if (behind := NONBLANK.search(text, cut)) else len(text)
    return [*parts, _protected(text, start, stop, spans[first:]), *last]


def _is_edge(span: Span, neighbours: str) -> bool:
    """Return whether a span consists of symbols, such as a tick or an emoji, and one space separates it from words."""
    separate = len(neighbours) == 2 and neighbours[0] == " " and not neighbours[1].isspace()
    return separate and span.kind == "foreign" and not any(map(str.isalpha, span.content))


def _protected(text: str, start: int, end: int, spans: Sequence[Span]) -> Protected:
    pieces = []
    for sentinel, span in zip(SENTINELS, spans, strict=False):
        pieces += [text[start : span.start], sentinel]
        start = span.end
    contents, sources = tuple(span.content for span in spans), tuple(text[span.start : span.end] for span in spans)
    return Protected("".join([*pieces, text[start:end]]), contents, sources)


def _merged(text: str, spans: list[Span]) -> list[Span]:
    """Merge spans that have no letter between them."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and not any(map(str.isalpha, text[groups[-1][-1].end : span.start])):
            groups[-1].append(span)
        else:
            groups.append([span])
    return [_joined(text, group) for group in groups]


def _joined(text: str, spans: list[Span]) -> Span:
    between = (text[one.end : two.start] for one, two in pairwise(spans))
    contents = chain.from_iterable(zip((span.content for span in spans), chain(between, [""]), strict=True))
    return Span(spans[0].start, spans[-1].end, spans[0].kind, "".join(contents))


def _cut(text: str, spans: list[Span]) -> int:
    """Return where to split a text, so that the first part has at most as many spans as there are sentinels.

    spans: one more than that.
    """
    low, high = spans[len(SENTINELS) // 2].end, spans[-1].start
    ends = [match.start() for match in BLANK.finditer(text, low, high)]
    ends = [end for end in ends if not any(s.start < end < s.end for s in spans)]
    after_sign = [end for end in ends if text[end - 1] in ",;:)–—"]
    return (after_sign or ends or [high])[-1]


def translate_protected(
    sentences: Sequence[str],
    translate: TranslateStrings,
    rules: VerbatimRules = VerbatimRules(),  # noqa: B008 (frozen)
) -> list[Restored]:
    """Translate sentences with their spans protected; translate a sentence that loses a span again, piece by piece.

    A sentence without a letter outside its spans is returned unchanged. `lost` and `doubled` of a result refer to the
    first attempt, so that a caller can count and mark them; its text has every span exactly once.
    """
    parts = [protect(sentence, rules) for sentence in sentences]
    flat = [part for row in parts for part in row]
    to_translate = [part for part in flat if part.needs_translation]
    translations = iter(translate([part.text for part in to_translate]) if to_translate else [])
    restored = iter([p.restore(next(translations) if p.needs_translation else p.text) for p in flat])
    results = []
    for row in parts:
        attempts = [next(restored) for _ in row]
        texts = [
            attempt.text if attempt.complete else part.by_parts(translate)
            for part, attempt in zip(row, attempts, strict=True)
        ]
        lost = tuple(content for attempt in attempts for content in attempt.lost)
        doubled = tuple(content for attempt in attempts for content in attempt.doubled)
        results.append(Restored(" ".join(texts), lost, doubled))
    return results

"""Subtitles: cues joined to sentences, translations split back; the number and the timing of cues never change.

A sentence that runs over several cues is translated as one. Its translation is cut at word boundaries in the proportion
of the source, so that each cue says its share; within a cue, lines are broken in the same way.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tram.filetypes.base import FileDocument, Segment, Tag, TagKind, Translation, Translations
from tram.filetypes.blocks import BREAK, Item, find_partners
from tram.filetypes.encoding import Decoded
from tram.filetypes.inline import Alignment, place
from tram.filetypes.inline_tree import word_spans
from tram.text.sentences import sentence_spans

PAUSE = 3.0  # seconds without a subtitle that end a sentence
# How a line begins that begins something new; who speaks is not translated.
WHO = re.compile(r"\s*(?:(?:[-–—‐]|>{2,3})\s?(?=\S)|[A-ZÄÖÜ][A-ZÄÖÜ .'0-9]+:(?=\s))")
SPEAKER = re.compile(rf"{WHO.pattern}|\s*[\[(♪♫#*]")
INTERRUPTED = re.compile(r"(?:--|[–—])\s*+\Z")
DASH = re.compile(r"[-–—‐]\s?(?=\w)")  # before what another speaker says in the same line
CLOSED = re.compile(r"[\])♪♫#*:]\s*+\Z")
ENDED = re.compile(r"[.!?…。！？]")
MAX_JOINED = 8  # cues without a full stop are not one sentence, but automatic captions
FILLER = "…"  # for a cue that would be left without a word


@dataclass
class Cue:
    """The text of a cue between the tags around all of it.

    start, end: where that text is in the file. tags: positions are those in the plain text.
    """

    start: int
    end: int
    text: str
    begin_time: float
    end_time: float
    tags: list[tuple[Tag, str]] = field(default_factory=list)
    voice: str | None = None  # the tag that says who speaks


@dataclass
class _Sentence:
    segment: Segment
    pieces: list[tuple[int, int, int]]  # cue, start and end in its text


def make_cue(items: Sequence[Item], begin: float, end: float) -> Cue | None:
    """Return a cue of its items, whose `data` is what the file has; None if there is no text in it."""
    words = [i for i, item in enumerate(items) if item.text.strip()]
    if not words:
        return None
    partners = find_partners(items)
    first, last = 0, len(items)
    while items[first].kind != "text" and not words[0] <= partners.get(first, -1) <= words[-1]:
        first += 1
    while items[last - 1].kind != "text" and not words[0] <= partners.get(last - 1, -1) <= words[-1]:
        last -= 1
    cue = Cue(items[first].start, items[last - 1].end, "", begin, end)
    cue.voice = next((item.data for item in items[:first] if item.name == "v" and item.kind == "open"), None)
    for i in range(first, last):
        item = items[i]
        if item.kind in ("text", "opaque"):
            cue.text += item.text
        else:
            kind = item.kind if item.kind in ("open", "close") else "empty"
            cue.tags.append((Tag(kind, min(i, partners.get(i, i)), len(cue.text)), item.data))
    return cue


class SubtitleDocument(FileDocument):
    """A file of cues as one document."""

    def __init__(self, decoded: Decoded, cues: list[Cue], language: str, escape: Callable[[str], str]) -> None:
        self.decoded = decoded
        self.cues = cues
        self.escape = escape
        self.sentences = list(_sentences(cues, language))
        self.documents = [[sentence.segment for sentence in self.sentences]]

    def write(self, translations: Translations) -> bytes:
        """Return the file with new texts in the cues."""
        self.check(translations)
        changed: dict[int, list[tuple[int, int, str]]] = {}
        for sentence, translation in zip(self.sentences, translations[0], strict=True):
            if translation is not None and translation.text != sentence.segment.text:
                for (number, start, end), new in zip(sentence.pieces, self._split(sentence, translation), strict=True):
                    changed.setdefault(number, []).append((start, end, new))
        source, position, parts = self.decoded.text, 0, []
        for number, pieces in sorted(changed.items()):
            cue = self.cues[number]
            parts += [source[position : cue.start], self._cue(cue, sorted(pieces))]
            position = cue.end
        return self.decoded.encode("".join([*parts, source[position:]]))

    def _split(self, sentence: _Sentence, translation: Translation) -> list[str]:
        """Return what each cue of a sentence says, with its tags."""
        text = translation.text
        parts = split_by_share(text, [end - start for _, start, end in sentence.pieces])
        offset = 0
        result = []
        for (number, start, end), (first, last) in zip(sentence.pieces, parts, strict=True):
            cue = self.cues[number]
            old, new = cue.text[start:end], text[first:last]
            links = _local(
                translation.alignment, sentence.segment.text, (offset, offset + len(old)), text, (first, last)
            )
            result.append(self._piece(cue, start, end, new or FILLER, links))
            offset += len(old) + 1
        return result

    def _piece(self, cue: Cue, start: int, end: int, new: str, links: Alignment | None) -> str:
        """Return the new text of a part of a cue with the tags of that part, in as many lines as it had."""
        old = cue.text[start:end]
        tags = _tags_of(cue, start, end)
        local = [Tag(tag.kind, tag.key, tag.position - start) for tag, _ in tags]
        raw = {(tag.kind, tag.key): data for tag, data in tags}
        lines = [line for line in old.split("\n") if line.strip()]
        if len(lines) > 1:
            cuts = split_by_share(new, [len(line) for line in lines])
            new = "\n".join(new[first:last] for first, last in cuts if first < last)
        pieces, position = [], 0
        for tag in place(old.replace("\n", " "), local, new.replace("\n", " "), links).tags:
            pieces += [self.escape(new[position : tag.position]), raw[tag.kind, tag.key]]
            position = tag.position
        text = "".join([*pieces, self.escape(new[position:])])
        return text.replace("\n", "\r\n") if "\r\n" in self.decoded.text[:1000] else text

    def _cue(self, cue: Cue, pieces: list[tuple[int, int, str]]) -> str:
        """Return the text of a cue of which some parts are new."""
        taken = {(tag.kind, tag.key) for start, end, _ in pieces for tag, _ in _tags_of(cue, start, end)}
        parts, position = [], 0
        for start, end, new in pieces:
            parts += [self._old(cue, position, start, taken), new]
            position = end
        return self.repaired("".join([*parts, self._old(cue, position, len(cue.text), taken)]))

    def repaired(self, text: str) -> str:
        """Return the text of a cue without what its format would not read as text."""
        return text

    def _old(self, cue: Cue, start: int, end: int, taken: set[tuple[TagKind, int]]) -> str:
        """Return text and tags between the new parts of a cue, which have taken tags with them."""
        parts, position = [], start
        for tag, raw in _tags_within(cue, start, end):
            if (tag.kind, tag.key) not in taken:
                parts += [self.escape(cue.text[position : tag.position]), raw]
                position = tag.position
        text = "".join([*parts, self.escape(cue.text[position:end])])
        return text.replace("\n", "\r\n") if "\r\n" in self.decoded.text[:1000] else text


def _tags_within(cue: Cue, start: int, end: int) -> list[tuple[Tag, str]]:
    """Return the tags from one position to another."""
    first, last = (find(cue.tags, at, key=_position) for find, at in ((bisect_left, start), (bisect_right, end)))
    return cue.tags[first:last]


def _position(tag: tuple[Tag, str]) -> int:
    return tag[0].position


def _tags_of(cue: Cue, start: int, end: int) -> list[tuple[Tag, str]]:
    """Return the tags of a part of a cue: those inside, and those at its ends that open or close in it."""
    return [
        (tag, raw)
        for tag, raw in _tags_within(cue, start, end)
        if start < tag.position < end
        or (tag.position == start and tag.kind == "open")
        or (tag.position == end and tag.kind == "close" and start < end)
    ]


def _sentences(cues: list[Cue], language: str) -> list[_Sentence]:
    """Join the texts of cues and split them into sentences."""
    parts: list[str] = []
    starts: list[int] = []
    length, previous = 0, ""  # of the joined text; its last line
    unended = 0  # cues since the last end of a sentence
    for number, cue in enumerate(cues):
        before = cues[number - 1] if number else None
        speaks_on = before is not None and cue.voice in (None, before.voice)
        is_new = before is None or not speaks_on or cue.begin_time - before.end_time > PAUSE or unended >= MAX_JOINED
        unended = 0 if is_new or ENDED.search(cue.text) else unended + 1
        for i, line in enumerate(cue.text.split("\n")):
            if parts:
                is_broken_off = INTERRUPTED.search(previous) and not line.strip()[:1].islower()
                is_break = (is_new and i == 0) or SPEAKER.match(line) or CLOSED.search(previous) or is_broken_off
                parts.append(BREAK if is_break else " ")
                length += 1
            if i == 0:
                starts.append(length)
            parts.append(line)
            length += len(line)
            previous = line
    joined = "".join(parts)
    result = []
    offset = 0
    for part in joined.split(BREAK):
        lead = WHO.match(part)
        skipped = lead.end() if lead else 0
        for start, end in sentence_spans(part[skipped:], language):
            first, last = offset + skipped + start, offset + skipped + end
            first += dash.end() if (dash := DASH.match(joined[first:last])) else 0
            if any(map(str.isalnum, joined[first:last])):
                result.append(_sentence(cues, starts, joined, first, last))
        offset += len(part) + 1
    return result


def _sentence(cues: list[Cue], starts: list[int], joined: str, first: int, last: int) -> _Sentence:
    """Return a sentence with the parts of cues that it consists of."""
    pieces = []
    for number in range(bisect_right(starts, first) - 1, bisect_left(starts, last)):
        start = starts[number]
        a, b = max(first, start), min(last, start + len(cues[number].text))
        text = joined[a:b]
        if a < b and text.strip():
            left, right = len(text) - len(text.lstrip()), len(text) - len(text.rstrip())
            pieces.append((number, a + left - start, b - right - start))
    text = ""
    tags: list[Tag] = []  # for the alignment; each cue places its own
    for number, a, b in pieces:
        text += " " if text else ""
        found = [tag for tag, _ in _tags_of(cues[number], a, b)]
        tags += [Tag(tag.kind, number * 1000 + tag.key, len(text) + tag.position - a) for tag in found]
        text += cues[number].text[a:b].replace("\n", " ")
    return _Sentence(Segment(text, tuple(tags)), pieces)


def split_by_share(text: str, shares: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a text between words into parts of about these relative lengths; return start and end of each.

    Parts are empty only if there are more parts than words; a sign near the ideal place attracts a cut.
    """
    words = word_spans(text)
    # A cut goes where blanks are, or between the characters of scripts without blanks.
    gaps = [
        (left, right)
        for (_, left), (right, _) in pairwise(words)
        if left < right or (not text[left - 1].isascii() and text[left - 1].isalnum() and text[right].isalnum())
    ]
    lefts = [left for left, _ in gaps]
    is_sign = [text[left - 1] in ",;:.!?" for left in lefts]
    signs, others = ([i for i, sign in enumerate(is_sign) if sign == kind] for kind in (True, False))
    result = []
    start, done = 0, 0
    total = sum(shares) or 1
    for number, share in enumerate(shares[:-1]):
        done += share
        ideal = len(text) * done / total
        wanted = len(shares) - 1 - number  # cuts still to make, this one included
        first = bisect_right(lefts, start)
        if first == len(gaps):
            result.append((start, len(text)) if start < len(text) else (start, start))
            start = len(text)
            continue
        last = max(len(gaps) - wanted + 1, first + 1)
        middle = bisect_left(lefts, ideal)
        near = [i for kind in (signs, others) for i in _around(kind, first, middle, last)]
        left, right = gaps[min(near, key=lambda i: (abs(lefts[i] - ideal) - 0.08 * len(text) * is_sign[i], i))]
        result.append((start, left))
        start = right
    return [*result, (start, len(text))]


def _around(numbers: list[int], first: int, middle: int, last: int) -> list[int]:
    """Return those of some ascending numbers from first to last - 1 that are next to a middle, at most two."""
    low, high = bisect_left(numbers, first), bisect_left(numbers, last)
    at = min(max(bisect_left(numbers, middle), low), high)
    return numbers[max(at - 1, low) : min(at + 1, high)]


def _local(
    alignment: Alignment | None, source: str, old: tuple[int, int], target: str, new: tuple[int, int]
) -> Alignment | None:
    """Return the part of an alignment that is within a part of the source and a part of the target."""
    if alignment is None:
        return None
    sources, targets = (
        {i: n for n, i in enumerate(i for i, (a, b) in enumerate(word_spans(text)) if part[0] <= a and b <= part[1])}
        for text, part in ((source, old), (target, new))
    )
    return [(sources[s], targets[t]) for s, t in alignment if s in sources and t in targets]

"""Blocks: a paragraph, cell, heading or attribute as sentences with inline markup, and back.

A format reads a block as a list of `Item`s: text, tags, pieces that are not translated, line breaks. `Block` joins
them, splits the text into sentences and decides which tags belong to a sentence and which stay between sentences.
`Block.events` puts translations in: a list of items (kept) and strings (new text) that the format writes.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Literal

from tram.filetypes.base import PLACEHOLDERS, Segment, Tag, TagKind, Translation, is_placeholder, placeholder
from tram.filetypes.inline_laws import violations
from tram.filetypes.inline_tree import WORD_END
from tram.filetypes.layout import WRAP, line_regions, sentence_regions
from tram.text.verbatim import DIRECTION_MARKS, PRIVATE, RESERVED

ItemKind = Literal["text", "open", "close", "empty", "opaque", "line", "break"]
TAG_KINDS: dict[ItemKind, TagKind] = {"open": "open", "close": "close"}
BREAK = "\x1e"  # ends a sentence; never part of one
SIGNS = {"opaque": placeholder(0), "line": "\n", "break": BREAK}
NOTE = re.compile(r"[\s\d*†‡§¶\[\](),–-]{1,12}")  # what refers to a footnote, if it is above the line
# Characters that are no part of a word: private ones of tram, which are copied; marks of the direction of writing,
# which are like empty elements; places where a line may break (soft hyphens and the like), which no translation has.
BREAKABLE = "\u00ad\u200b\u2060\ufeff"
APART = re.compile(f"[{RESERVED}{DIRECTION_MARKS}{BREAKABLE}]")


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of a block.

    kind: `text`; the tags `open`, `close`, `empty`; `opaque`: text that is copied, such as inline code; `line`: a line
    break, which may or may not end a sentence; `break`: something that ends a sentence, such as a tab.
    start, end: where it is in the file.
    name: what an opening and its closing tag have in common.
    """

    kind: ItemKind
    start: int
    end: int
    text: str = ""
    name: str = ""
    data: Any = None

    @property
    def plain(self) -> str:
        """What it contributes to the text that is split into sentences; opaque items are one character."""
        return self.text if self.kind == "text" else SIGNS.get(self.kind, "")


Event = Item | str


def is_inside_word(before: str, after: str) -> bool:
    """Return whether what is between two texts is inside a word, as the raised number of x²y is; it is then no note."""
    return before[-1:].isalnum() and after[:1].isalpha()


def is_direction_mark(event: Event) -> bool:
    """Return whether an item is a character of the text that only says where to write from."""
    return isinstance(event, Item) and event.kind == "empty" and event.text != "" and event.text in DIRECTION_MARKS


NO_TAGS: dict[tuple[str, int], Item] = {}
NO_OPAQUE: dict[str, Item] = {}
NO_KEYS: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Sentence:
    segment: Segment
    items: list[Item]
    tags: dict[tuple[str, int], Item]
    opaque: dict[str, Item]
    apart: frozenset[int]  # empty elements with blanks on both sides, of which the text has one
    behind_blank: frozenset[int]  # empty elements with a blank before them only, and no word behind them


class Block:
    """The sentences of a block.

    start, end: the part of the file that the block is written to.
    target: the existing translation; the block is then context and not translated.
    lines: it is plain text, whose first line may begin with a mark of a list item.
    bilingual: the translation is written beside the source, so that even one equal to the source changes the file.
    """

    __slots__ = ("_pieces", "bilingual", "data", "end", "inner", "mirrors", "segments", "start")

    def __init__(
        self,
        items: Sequence[Item],
        language: str,
        start: int,
        end: int,
        *,
        target: Sequence[Item] | None = None,
        target_language: str | None = None,
        translate: bool = True,
        bilingual: bool = False,
        lines: bool = False,
        data: Any = None,
    ) -> None:
        self.start = start
        self.end = end
        self.bilingual = bilingual
        self.data = data
        self.inner: list[Block] | tuple[()] = ()  # blocks inside its items, such as footnotes
        self.mirrors: Block | None = None  # the block that it is a copy of, whose translations it takes
        items = [piece for item in items for piece in _with_characters_apart(item)]
        text = "".join(item.plain for item in items)
        regions = [] if sum(i.kind == "opaque" for i in items) > PLACEHOLDERS else list(_regions(text, language, lines))
        targets: list[str] = []
        if target is not None and regions:
            plain = "".join(item.text if item.kind in ("text", "opaque") else item.plain for item in target)
            targets = [plain[a:b] for a, b in sentence_regions(plain, target_language or language)]
            if len(targets) != len(regions):
                regions, targets = [(regions[0][0], regions[-1][1])], [plain.strip()]
            targets = [WRAP.sub(" ", text) for text in targets]
        self._pieces: list[Item | _Sentence] = list(_pieces(items, regions))
        self.segments: list[Segment] = []
        for piece in self._pieces:
            if isinstance(piece, _Sentence):
                existing = targets[len(self.segments)] if targets else None
                translated = translate and existing is None
                piece.segment = replace(piece.segment, target=existing, translate=translated)
                self.segments.append(piece.segment)

    def changes(self, translations: Sequence[Translation | None]) -> bool:
        """Return whether these translations make the block differ from the file."""
        pairs = list(zip(self.segments, translations, strict=True))
        if self.bilingual:
            return any(new is not None for _, new in pairs)
        return any(new is not None and not _is_same(old, new) for old, new in pairs)

    def events(self, translations: Sequence[Translation | None]) -> list[Event]:
        """Return the block with its translations: items that are kept, and new text."""
        result: list[Event] = []
        given = iter(translations)
        for piece in self._pieces:
            if isinstance(piece, Item):
                result.append(piece)
                continue
            translation = next(given)
            if translation is None or _is_same(piece.segment, translation):
                result += piece.items
            else:
                result += _events(piece, translation)
        return result


def _is_same(segment: Segment, translation: Translation) -> bool:
    return segment.text == translation.text and segment.tags == translation.tags


def _with_characters_apart(item: Item) -> Iterator[Item]:
    """Make items of their own of characters that are no part of a word."""
    if item.kind != "text" or not APART.search(item.text):
        yield item
        return
    if item.end - item.start != len(item.text):
        yield _apart(item) if len(item.text) == 1 else replace(item, kind="opaque")
        return
    start = 0
    for match in APART.finditer(item.text):
        if start < match.start():
            yield cut_item(item, start, match.start())
        yield _apart(cut_item(item, *match.span()))
        start = match.end()
    if start < len(item.text):
        yield cut_item(item, start, len(item.text))


def _apart(item: Item) -> Item:
    """Return the item of one character that is no part of a word."""
    if item.text in BREAKABLE:
        return replace(item, text="")
    return replace(item, kind="opaque" if PRIVATE.match(item.text) else "empty")


def cut_item(item: Item, start: int, end: int) -> Item:
    """Return a part of a text item; all of one whose text is not written in the file as it is, such as `&lt;`."""
    if item.end - item.start != len(item.text):
        return item
    return replace(item, start=item.start + start, end=item.start + end, text=item.text[start:end])


def _regions(text: str, language: str, lines: bool) -> Iterator[tuple[int, int]]:
    """Return start and end of each sentence in the text of a block."""
    offset = 0
    for part in text.split(BREAK):
        for start, end in line_regions(part, language) if lines else sentence_regions(part, language):
            yield offset + start, offset + end
        offset += len(part) + 1


def _pieces(items: Sequence[Item], regions: list[tuple[int, int]]) -> Iterator[Item | _Sentence]:
    """Group items into sentences and what is between them."""
    items, bodies = _cut(items, regions)
    partners = find_partners(items)
    done = 0
    for number, (first, last) in enumerate(bodies):
        next_first = bodies[number + 1][0] if number + 1 < len(bodies) else len(items)
        head = _head(items, partners, done, first, last)
        tail = _tail(items, partners, first, last, next_first)
        taken = {*head, *tail}
        yield from (item for i, item in enumerate(items[done:first], done) if i not in taken)
        yield _sentence(items, partners, head, range(first, last), tail)
        done = max([last, *(i + 1 for i in tail)])
        yield from (item for i, item in enumerate(items[last:done], last) if i not in taken)
    yield from items[done:]


def _cut(items: Sequence[Item], regions: list[tuple[int, int]]) -> tuple[list[Item], list[tuple[int, int]]]:
    """Cut text items at the borders of sentences; return the items and each sentence's range of items."""
    borders = sorted({border for region in regions for border in region})
    result: list[Item] = []
    starts: dict[int, int] = {}  # border → index of the item that starts there
    ends: dict[int, int] = {}  # border → index behind the item that ends there
    position = 0
    for item in items:
        length = len(item.plain)
        inside = borders[bisect_right(borders, position) : bisect_left(borders, position + length)]
        is_cut = inside and item.kind == "text" and item.end - item.start == len(item.text)
        for start, end in pairwise([position, *(inside if is_cut else []), position + length]):
            starts.setdefault(start, len(result)) if length else None
            result.append(cut_item(item, start - position, end - position) if is_cut else item)
            ends[end] = len(result) if length else ends.get(end, len(result))
        for border in () if is_cut else inside:  # what cannot be cut belongs whole to the sentences on both sides
            starts[border], ends[border] = len(result), len(result)
        position += length
    ranges = [(starts[start], ends[end]) for start, end in regions]
    return result, [(first, last) for first, last in ranges if first < last]


def find_partners(items: Sequence[Item]) -> dict[int, int]:
    """Return the indices of opening and closing tags that belong together."""
    result: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        if item.kind == "open":
            opened.setdefault(item.name, []).append(i)
        elif item.kind == "close" and opened.get(item.name):
            partner = opened[item.name].pop()
            result[i], result[partner] = partner, i
    return result


def _head(items: Sequence[Item], partners: dict[int, int], done: int, first: int, last: int) -> list[int]:
    """Return the tags before a sentence that belong to it: from the first that closes inside of it on."""
    start = first
    while start > done and _is_passable(items[start - 1]):
        start -= 1
    inside = [i for i in range(start, first) if items[i].kind == "open" and first < partners.get(i, -1) < last]
    return [i for i in range(inside[0], first) if items[i].kind != "text"] if inside else []


def _tail(items: Sequence[Item], partners: dict[int, int], first: int, last: int, stop: int) -> list[int]:
    """Return the tags behind a sentence that belong to it: up to the last that was opened inside of it."""
    end = last
    while end < stop and _is_passable(items[end]):
        end += 1
    inside = [i for i in range(last, end) if items[i].kind == "close" and first < partners.get(i, -1) < last]
    return [i for i in range(last, inside[-1] + 1) if items[i].kind != "text"] if inside else []


def _is_passable(item: Item) -> bool:
    return item.kind in ("open", "close", "empty") or (item.kind == "text" and not item.text.strip())


class _Text:
    """A text that grows and shrinks at its end, in time that does not depend on how long it is."""

    def __init__(self) -> None:
        self.parts: list[str] = []  # none is empty
        self.length = 0

    @property
    def last(self) -> str:
        """Its last character; empty if there is none."""
        return self.parts[-1][-1] if self.parts else ""

    def add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.length += len(text)

    def strip(self) -> None:
        """Drop the blanks at its end."""
        while self.last.isspace():
            end = self.parts.pop()
            self.length -= len(end)
            self.add(end.rstrip())


def _sentence(
    items: Sequence[Item], partners: dict[int, int], head: list[int], body: range, tail: list[int]
) -> _Sentence:
    """Return the plain text of a sentence with its tags."""
    text = _Text()
    tags: list[Tag] = []
    found: dict[tuple[str, int], Item] = {}
    opaque: dict[str, Item] = {}
    apart: set[int] = set()
    behind_blank: set[int] = set()
    after_line = False
    for i in (*head, *body, *tail):
        item = items[i]
        if item.kind == "text":
            piece = WRAP.sub(" ", item.text) if "\n" in item.text else item.text
            # Blanks on both sides of a tag are one blank to a reader.
            text.add(piece.lstrip() if after_line else piece.lstrip(" ") if text.last == " " else piece)
            after_line = after_line and not piece.strip()
        elif item.kind == "opaque":
            character = placeholder(len(opaque))
            opaque[character] = item
            text.add(character)
            after_line = False
        else:
            kind = TAG_KINDS.get(item.kind, "empty")
            key = min(i, partners.get(i, i))
            is_apart = (
                kind == "empty" and text.last.isspace() and i + 1 < len(items) and items[i + 1].plain[:1].isspace()
            )
            if item.kind == "line" or is_apart:
                text.strip()
                moved = len(tags)
                while moved and tags[moved - 1].position > text.length:
                    moved -= 1
                    tags[moved] = replace(tags[moved], position=text.length)
            tags.append(Tag(kind, key, text.length))
            found[kind, key] = item
            if item.kind == "line":
                text.add(" ")
                after_line = True
            elif is_apart:
                apart.add(key)
            elif (
                kind == "empty"
                and text.last.isspace()
                and not (i + 1 < len(items) and items[i + 1].plain[:1].isalnum())
            ):
                behind_blank.add(key)
    segment = Segment("".join(text.parts), tuple(tags), tuple(item.text for item in opaque.values()))
    # Most sentences have neither tags nor opaque pieces: they share what is empty (frozenset(set()) is a new object).
    own = [items[i] for i in (*head, *body, *tail)]
    keys = (frozenset(each) if each else NO_KEYS for each in (apart, behind_blank))
    return _Sentence(segment, own, found or NO_TAGS, opaque or NO_OPAQUE, *keys)


def _events(sentence: _Sentence, translation: Translation) -> Iterator[Event]:
    """Return new text with the sentence's own tags and opaque pieces."""
    segment = sentence.segment
    problems = violations(segment.text, segment.tags, translation.text, translation.tags)
    if sorted(filter(is_placeholder, translation.text)) != sorted(sentence.opaque):
        problems.append("a placeholder is lost or doubled")
    if problems:
        raise ValueError(f"{translation.text!r} for {segment.text!r}: {'; '.join(problems)}")
    borders = [0, *(tag.position for tag in translation.tags), len(translation.text)]
    stuck = set(_stuck(sentence, translation))
    for number, (start, end) in enumerate(pairwise(borders)):
        yield from _with_opaque(translation.text[start:end], sentence.opaque)
        if number < len(translation.tags):
            tag = translation.tags[number]
            at = tag.position
            before, after = translation.text[max(at - 1, 0) : at], translation.text[at : at + 1]
            # It had blanks on both sides; the side of a word gets one again.
            apart = tag.kind == "empty" and tag.key in sentence.apart
            needs_before = (apart and before != "") or number in stuck
            yield from [" "] * (needs_before and not before.isspace())
            yield sentence.tags[tag.kind, tag.key]
            yield from [" "] * (apart and (after.isalnum() or before.isspace()) and after != "" and not after.isspace())


def _stuck(sentence: _Sentence, translation: Translation) -> Iterator[int]:
    """Yield the tags at the end of a word that need a blank before them: an empty element had one, or what opens it."""
    for position, group in groupby(enumerate(translation.tags), key=lambda each: each[1].position):
        here = [(number, tag) for number, tag in group if tag.kind != "close"]
        ends = position and WORD_END.match(translation.text, position)
        if ends and any(tag.kind == "empty" and tag.key in sentence.behind_blank for _, tag in here):
            yield here[0][0]


def _with_opaque(text: str, opaque: dict[str, Item]) -> Iterator[Event]:
    start = 0
    for i, character in enumerate(text):
        if character in opaque:
            if start < i:
                yield text[start:i]
            yield opaque[character]
            start = i + 1
    if start < len(text):
        yield text[start:]

"""Parts: texts (a file, or a file inside a package) in which blocks are translated and all else stays as it is."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from tram.filetypes.base import FileDocument, Segment, Translation, Translations
from tram.filetypes.blocks import Block, Event, Item
from tram.filetypes.xml_source import CDATA, escape_xml


class Part:
    """A text and its blocks in reading order.

    span: the stretch of the source that is written, for files of which each stretch is a document.
    Formats override `write_block` if new text is more than escaped text in its place.
    """

    def __init__(self, source: str, blocks: Iterable[Block], span: tuple[int, int] | None = None) -> None:
        self.source = source
        self.span = span or (0, len(source))
        self.blocks = list(blocks)
        self.edits: list[tuple[int, int, str]] = []  # start, end, new text: for example the language of a page
        self._outer = _nest(self.blocks)
        self._edits: list[tuple[int, int, str]] = []  # sorted, while the part is written
        self._translations: dict[int, Sequence[Translation | None]] = {}

    @property
    def segments(self) -> list[Segment]:
        """The segments of all blocks."""
        return [segment for block in self.blocks if block.mirrors is None for segment in block.segments]

    def write(self, translations: Sequence[Translation | None]) -> str:
        """Return the text with translations, one per segment; None keeps the source."""
        given = iter(translations)
        self._edits = sorted(self.edits)
        own = [block for block in self.blocks if block.mirrors is None]
        self._translations = {id(block): [next(given) for _ in block.segments] for block in own}
        return self._splice(*self.span, self._outer)

    def escape(self, text: str) -> str:
        """Return new text as the format writes it."""
        return text

    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return a block whose text has changed."""
        parts: list[str] = []
        after_line = False
        for event in events:
            if isinstance(event, str):
                parts.append(self.escape(event.removeprefix(" ") if after_line else event))
            else:
                parts.append(self.raw(event, block))
            after_line = isinstance(event, Item) and event.kind == "line"
        return "".join(parts)

    def raw(self, item: Item, block: Block) -> str:
        """Return an item as the file has it, but for the blocks inside of it."""
        return self._splice(item.start, item.end, block.inner)

    def _splice(self, start: int, end: int, blocks: Sequence[Block]) -> str:
        first, last = (find(blocks, at, key=_start) for find, at in ((bisect_left, start), (bisect_right, end)))
        places: list[tuple[int, int, Block | str]] = [(block.start, block.end, block) for block in blocks[first:last]]
        edits = self._edits[bisect_left(self._edits, (start, 0, "")) : bisect_left(self._edits, (end, 0, ""))]
        if edits:
            places = sorted([*places, *edits], key=lambda place: place[:2])
        parts = []
        for first, last, new in places:
            if start <= first and last <= end:  # an edit inside of a block is made when the block is written
                parts += [self.source[start:first], new if isinstance(new, str) else self._written(new)]
                start = last
        return "".join([*parts, self.source[start:end]])

    def _written(self, block: Block) -> str:
        translations = self._translations[id(block.mirrors or block)]
        if block.changes(translations):
            return self.write_block(block, block.events(translations), translations)
        return self._splice(block.start, block.end, block.inner)


class XmlPart(Part):
    """A part that is XML. Items of a CDATA section have CDATA as their `data`; what replaces it is ordinary text."""

    def escape(self, text: str) -> str:
        """Return text as XML."""
        return escape_xml(text)

    def raw(self, item: Item, block: Block) -> str:
        """Return an item as the file has it, or as ordinary text if it is in a CDATA section."""
        raw = super().raw(item, block)
        return escape_xml(raw) if item.data == CDATA else raw


def _start(block: Block) -> int:
    return block.start


def _nest(blocks: list[Block]) -> list[Block]:
    """Give each block the blocks inside of it; return the outermost ones, all in the order of the file."""
    outer: list[Block] = []
    stack: list[Block] = []
    for block in sorted(blocks, key=lambda block: (block.start, -block.end)):
        while stack and stack[-1].end <= block.start:
            stack.pop()
        if not stack:
            outer.append(block)
        elif isinstance(inner := stack[-1].inner, list):
            inner.append(block)
        else:  # its first; most blocks have none
            stack[-1].inner = [block]
        if block.start < block.end:
            stack.append(block)
    return outer


class PartsDocument(FileDocument):
    """A file that consists of parts; `finish` makes bytes of their texts, in the order of `documents`."""

    def __init__(self, documents: Sequence[Sequence[Part]], finish: Callable[[list[str]], bytes]) -> None:
        self._parts = documents
        self._finish = finish
        self.documents = [[segment for part in parts for segment in part.segments] for parts in documents]

    def write(self, translations: Translations) -> bytes:
        """Return the file with these translations."""
        self.check(translations)
        texts = []
        for parts, document in zip(self._parts, translations, strict=True):
            start = 0
            for part in parts:
                count = len(part.segments)
                texts.append(part.write(document[start : start + count]))
                start += count
        return self._finish(texts)

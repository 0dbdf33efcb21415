"""Document formats made of tags: IWSLT's, WMT's SGML and WMT's later XML.

    for document in Segments("sgml").read(Lines(Path("newstest-src.en.sgm")), "source"): ...

The first two are not well-formed XML in practice (raw `&`, no root), so they are parsed line by line with regular
expressions; the third is well-formed and parsed with expat. All formats are streamed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from xml.parsers import expat

from tram.data.formats import Format, OutputDocument, ParsedDocument, Sides
from tram.data.text_files import Lines
from tram.errors import InputError

# Tags of lines that are not sentences. Those of the first group come before the talk, so they also start a new one.
TALK_HEAD = ("url", "keywords", "speaker", "talkid", "title", "description", "transcript")
TALK_REST = ("reviewer", "translator", "content")

PIECE = 1 << 14  # characters passed to the XML parser at a time
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_SPACE = " \t\r\n"
# No pattern looks past the next "<" or restarts inside a run of blanks, which would take quadratic time.
_BREAK = re.compile(r"(?<![ \t])[ \t]*+\n\s*+")
_SEGMENT_TAG = re.compile(r"<(?P<close>/?)(?P<name>doc|seg)\b(?P<rest>[^<>]*)>", re.I)
_TAG = re.compile(rf"\s*<(?P<close>/?)(?P<name>xml|doc|{'|'.join(TALK_HEAD + TALK_REST)})\b(?P<rest>[^>]*)", re.I)
_DECLARATION = re.compile(r"\s*<[?!]|\s*</?(mteval|srcset|refset|tstset)\b", re.I)
_DOCID = re.compile(r"""\bdocid\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.I)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def unescape(text: str) -> str:
    """Resolve the five entities of XML and numeric character references; any other `&` stays."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    name = match[1]
    if not name.startswith("#"):
        return _NAMED[name]
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else match[0]


def escape(text: str) -> str:
    """Escape text so that `unescape` restores it, including leading and trailing white space."""
    text = text.translate(_ESCAPES)
    inner = text.strip(_SPACE)
    start = len(text) - len(text.lstrip(_SPACE))
    edges = (text[:start], text[start + len(inner) :])
    before, after = ("".join(f"&#{ord(character)};" for character in edge) for edge in edges)
    return before + inner + after


def _docid(attributes: str) -> str | None:
    match = _DOCID.search(attributes)
    return None if match is None else unescape(match[1] or match[2] or match[3] or "")


@dataclass(frozen=True, slots=True)
class Segments(Format):
    """`<doc docid="..">` with a `<seg>` per sentence; `iwslt` also has talks with untagged sentences."""

    style: Literal["iwslt", "sgml"]

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield the documents; titles, descriptions and other tags are not sentences."""
        if self.style == "iwslt" and _has_bare_sentences(lines):
            return _read_talks(lines)
        return _read_segments(lines)

    def head(self, sides: Sides) -> str:
        """Return the start tag of the set: `srcset` or `refset`."""
        opening = '<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n' if self.style == "iwslt" else ""
        name, language = ("refset", "trglang") if sides == "target" else ("srcset", "srclang")
        return f'{opening}<{name} setid="tram" {language}="any">\n'

    def render(self, document: OutputDocument) -> str:
        """Return the document with one segment per line."""
        document.check_lines()
        document.check_name("\n\r\t")
        (sentences,) = document.columns
        space = " " if self.style == "iwslt" else ""
        segments = (f'<seg id="{i}">{space}{escape(s)}{space}</seg>\n' for i, s in enumerate(sentences, 1))
        return f'<doc docid="{escape(document.name)}">\n{"".join(segments)}</doc>\n'

    def tail(self, sides: Sides) -> str:
        """Return the end tag of the set."""
        closing = "</mteval>\n" if self.style == "iwslt" else ""
        return f"</{'refset' if sides == 'target' else 'srcset'}>\n{closing}"


def _has_bare_sentences(lines: Lines) -> bool:
    """Return whether the first line that is not metadata is untagged text instead of a segment."""
    for _, line in lines:
        if re.search(r"<seg\b", line, re.I):
            return False
        if line.strip() and not _TAG.match(line) and not _DECLARATION.match(line):
            return True
    return False


def _read_segments(lines: Lines) -> Iterator[ParsedDocument]:
    document: ParsedDocument | None = None
    for number, text in _whole_segments(lines):
        start: int | None = None  # of the segment's text
        for tag in _SEGMENT_TAG.finditer(text):
            if tag["name"].lower() == "seg":
                if start is None and not tag["close"]:
                    start = tag.end()
                elif start is not None and tag["close"]:
                    if document is None:
                        lines.refuse(number, "has a <seg> outside <doc>; move it into a document")
                    document.add(number, unescape(_BREAK.sub(" ", text[start : tag.start()].strip(_SPACE))))
                    start = None
            elif start is None:
                if document is not None:
                    document.end = number
                    yield document
                document = None if tag["close"] else ParsedDocument.one_sided(number, _docid(tag["rest"]))
    if document is not None:
        lines.refuse(document.end, "is the last sentence of a document without </doc>; download the whole file")


def _whole_segments(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, with the lines of one segment joined."""
    first = 0
    pending: list[str] = []
    for number, line in lines:
        if pending and re.search(r"<seg\b|</doc\b", line, re.I):
            break
        first = first if pending else number
        lowered = line.lower()
        unfinished = "</seg" not in lowered if pending else lowered.rfind("<seg") > lowered.rfind("</seg")
        pending.append(line)
        if not unfinished:
            yield first, "\n".join(pending)
            pending = []
    if pending:
        lines.refuse(first, "has a <seg> without </seg>; close it")


def _read_talks(lines: Lines) -> Iterator[ParsedDocument]:
    document: ParsedDocument | None = None
    for number, line in lines:
        tag = _TAG.match(line)
        if tag is None:
            if document is not None and not _DECLARATION.match(line):
                document.add(number, unescape(line.strip()))
            elif line.strip() and not _DECLARATION.match(line):
                lines.refuse(number, "comes before the first <doc>, <url> or <title>; give each talk its tags")
            continue
        name = tag["name"].lower()
        ends = name == "doc" or (name in TALK_HEAD and document is not None and bool(document.source))
        if ends and document is not None:
            document.end = number
            yield document
            document = None
        if document is None and not tag["close"] and name in ("doc", *TALK_HEAD):
            document = ParsedDocument.one_sided(number, _docid(tag["rest"]))
        if name == "talkid" and document is not None and document.id is None:
            document.id = re.sub(r"<[^<>]*>", "", line).strip() or None
    if document is not None:
        yield document


class WmtXml(Format):
    """WMT's XML since 2021: `<src>` and `<ref>` of each `<doc>` in one file; the first reference is used."""

    two_sided: ClassVar[bool] = True
    ELEMENTS: ClassVar[dict[str, str]] = {"source": "src", "target": "ref"}

    def read(self, lines: Lines, sides: Sides) -> Iterator[ParsedDocument]:
        """Yield the documents; those of a test suite have no reference and are skipped if one is needed."""
        for document in _parse(lines):
            needed = ("source", "target") if sides == "both" else (sides,)
            missing = [self.ELEMENTS[side] for side in needed if self.ELEMENTS[side] not in document.texts]
            if missing and document.suite:
                continue
            if missing:
                lines.refuse(document.line, f"starts a document without <{missing[0]}>; add it or remove the document")
            source, target = (document.texts.get(element, []) for element in self.ELEMENTS.values())
            yield ParsedDocument(document.id, document.end, source, target)

    def head(self, sides: Sides) -> str:
        """Return the start tag of the data set."""
        return '<?xml version="1.0" encoding="utf-8"?>\n<dataset id="tram">\n'

    def render(self, document: OutputDocument) -> str:
        """Return the document as XML; refuse control characters, which XML does not allow."""
        document.check_lines()
        if _NOT_XML.search(document.name):
            raise InputError(
                f"{document.path}: cannot store the id {document.name!r} of document {document.number}; change it"
            )
        sides = ("source", "target") if document.sides == "both" else (document.sides,)
        parts = [self._side(document, side, column) for side, column in zip(sides, document.columns, strict=True)]
        # "und" is the code of an undetermined language; other tools require the attribute.
        return f'<doc id="{_escape_all(document.name)}" origlang="und">\n{"".join(parts)}</doc>\n'

    def _side(self, document: OutputDocument, side: str, sentences: list[str]) -> str:
        for i, sentence in enumerate(sentences):
            if bad := _NOT_XML.search(sentence):
                document.refuse(i, f"XML does not allow {bad[0]!r}; remove it or write the jsonl format")
        element = self.ELEMENTS[side]
        segments = (f'<seg id="{i}">{_escape_all(s)}</seg>\n' for i, s in enumerate(sentences, 1))
        return f'<{element} lang="und">\n<p>\n{"".join(segments)}</p>\n</{element}>\n'

    def tail(self, sides: Sides) -> str:
        """Return the end tag of the data set."""
        return "</dataset>\n"


def _escape_all(text: str) -> str:
    """Escape text like `escape`, and tabs and line breaks as character references: XML parsers change raw ones."""
    return re.sub(r"[\t\r\n]", lambda match: f"&#{ord(match[0])};", text.translate(_ESCAPES))


@dataclass(slots=True)
class _XmlDocument:
    id: str | None
    line: int
    end: int = 0
    suite: bool = False
    texts: dict[str, list[str]] = field(default_factory=dict)


class _XmlHandler:
    """A collector of expat's events; `ready` contains the complete documents."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self.parser = parser
        self.ready: list[_XmlDocument] = []
        self.document: _XmlDocument | None = None
        self.side: list[str] | None = None
        self.segment: list[str] | None = None
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "doc":
            line = self.parser.CurrentLineNumber
            self.document = _XmlDocument(attributes.get("id"), line, suite="testsuite" in attributes)
        elif name in ("src", "ref") and self.document is not None:
            self.side = [] if name in self.document.texts else self.document.texts.setdefault(name, [])
        elif name == "seg":
            self.segment = []

    def text(self, data: str) -> None:
        if self.segment is not None:
            self.segment.append(data)

    def end(self, name: str) -> None:
        if name == "seg" and self.segment is not None:
            if self.side is not None:
                self.side.append(_BREAK.sub(" ", "".join(self.segment).strip("\n")))
            self.segment = None
        elif name in ("src", "ref"):
            self.side = None
        elif name == "doc" and self.document is not None:
            self.document.end = self.parser.CurrentLineNumber
            self.ready.append(self.document)
            self.document = None


def _parse(lines: Lines) -> Iterator[_XmlDocument]:
    # The lines are already decoded, whatever encoding the file declares.
    parser = expat.ParserCreate("utf-8")
    handler = _XmlHandler(parser)
    try:
        for piece in _pieces(parser, lines):
            parser.Parse(piece, False)
            yield from handler.ready
            handler.ready.clear()
        parser.Parse("", True)
    except expat.ExpatError as error:
        lines.refuse(
            error.lineno,
            f"is not well-formed XML ({expat.ErrorString(error.code)}); repair it or download it again",
        )
    yield from handler.ready


def _pieces(parser: expat.XMLParserType, lines: Lines) -> Iterator[str]:
    """Yield the text in pieces whose size doubles while the parser waits for the end of a tag or a comment.

    The parser restarts such a token with every piece, so pieces of equal size would take quadratic time.
    """
    pending: list[str] = []
    size, wanted, before = 0, PIECE, -1
    for _, line in lines:
        pending.append(f"{line}\n")
        size += len(line) + 1
        if size >= wanted:
            yield "".join(pending)
            pending, size = [], 0
            at = parser.CurrentByteIndex
            wanted, before = (wanted * 2 if at == before else PIECE), at
    yield "".join(pending)

"""XML with places: a tree in which every element and text knows where it is in the file.

lxml would rewrite the file; here only pieces are replaced, so the rest stays byte for byte. expat reads the file, with
entities and external files refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from tram.errors import InputError
from tram.filetypes.encoding import Decoded, beginning, decode

MAX_DEPTH = 400
CDATA = "cdata"
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?\bencoding\s*=\s*["']([\w:.-]+)""")
ROOT = re.compile(rb"(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\]\s*)?>)*+<(?:\w+:)?([\w.-]+)", re.S)
TAG = re.compile(r"""<[^>"']*+(?:"[^"]*+"[^>"']*+|'[^']*+'[^>"']*+)*+>""")
ATTRIBUTE = re.compile(r"""\s+([^\s=/>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
FILE_NAME = re.compile(r"\S+\.[A-Za-z]{3,4}|\w+://\S+|[A-Za-z]:\\.+")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True, eq=False)
class Text:
    """Text between tags; `kind` is text, CDATA, or other for comments and instructions."""

    kind: str
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Element:
    """An element; its start tag is start:inner, its end tag inner_end:end, which is empty for `<a/>`.

    attributes: by local name, those of XML itself as `xml:lang`.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    start: int
    inner: int
    parent: "Element | None"
    inner_end: int = 0
    end: int = 0
    nodes: list["Element | Text"] = field(default_factory=list)

    @property
    def children(self) -> Iterator["Element"]:
        """The elements directly inside."""
        return (node for node in self.nodes if isinstance(node, Element))

    def find(self, *names: str) -> "Element | None":
        """Return the first child with one of these names."""
        return next((child for child in self.children if child.name in names), None)

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all inside of it, in the order of the file."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack += reversed(list(element.children))

    def inherited(self, attribute: str) -> str | None:
        """Return an attribute of this element or of the nearest one around it."""
        element: Element | None = self
        while element is not None:
            if attribute in element.attributes:
                return element.attributes[attribute]
            element = element.parent
        return None


def decode_xml(name: str, content: bytes) -> Decoded:
    """Return the text of an XML file in the encoding that it declares."""
    declared = DECLARED.match(content[:1024])
    encoding = declared[1].decode("ascii").lower() if declared else None
    if encoding is not None and encoding.startswith("utf-16"):
        encoding = None  # has a byte order mark, or the declaration could not have been read
    return decode(name, content, encoding)


def root_name(content: bytes) -> bytes | None:
    """Return the name of the first element of what may be an XML file."""
    match = ROOT.match(beginning(content))
    return match[1] if match else None


def parse_xml(name: str, text: str) -> Element:
    """Return the root element of an XML text."""
    try:
        return _Builder(name, text).parse()
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"{name}:{error.lineno}: is not well-formed XML ({reason}); repair it") from None


class _Builder:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.bytes = text.encode("utf-8")
        self.ascii = len(self.bytes) == len(text)
        self.byte, self.character = 0, 0  # the same place in both
        self.position = 0  # everything before it is in the tree
        self.stack: list[Element] = []
        self.root: Element | None = None
        self.cdata = -1
        # The given encoding wins over the declared one: the text was decoded already.
        self.parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CommentHandler = lambda data: self._other("-->")
        self.parser.ProcessingInstructionHandler = lambda target, data: self._other("?>")
        self.parser.StartCdataSectionHandler = self._start_cdata
        self.parser.EndCdataSectionHandler = self._end_cdata
        self.parser.EntityDeclHandler = self._refuse_entity
        self.parser.UseForeignDTD(False)

    def parse(self) -> Element:
        self.parser.Parse(self.bytes, True)
        if self.root is None:
            raise InputError(f"{self.name}: has no XML element in it; check that it is whole")
        return self.root

    def _here(self) -> int:
        """Return the place of the current event, in characters."""
        byte = self.parser.CurrentByteIndex
        if self.ascii:
            return byte
        self.character += len(self.bytes[self.byte : byte].decode("utf-8"))
        self.byte = byte
        return self.character

    def _add_text(self, end: int, kind: str = "text") -> None:
        if self.stack and self.position < end:
            self.stack[-1].nodes.append(Text(kind, self.position, end))
        self.position = end

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        here = self._here()
        self._add_text(here)
        match = TAG.match(self.text, here)
        inner = match.end() if match else here
        namespace, _, local = name.rpartition(" ")
        if len(self.stack) >= MAX_DEPTH:
            raise InputError(f"{self.name}: has more than {MAX_DEPTH} nested elements; simplify it")
        values = {_attribute(key): value for key, value in attributes.items()}
        element = Element(local, namespace, values, here, inner, self.stack[-1] if self.stack else None)
        if self.stack:
            self.stack[-1].nodes.append(element)
        else:
            self.root = element
        self.stack.append(element)
        self.position = inner

    def _end(self, name: str) -> None:
        element = self.stack[-1]
        if self.text.endswith("/>", element.start, element.inner) and self.position == element.inner:
            element.inner_end = element.end = element.inner
        else:
            here = self._here()
            self._add_text(here)
            element.inner_end, element.end = here, self.text.index(">", here) + 1
        self.position = element.end
        self.stack.pop()

    def _other(self, ending: str) -> None:
        here = self._here()
        self._add_text(here)
        self._add_text(self.text.index(ending, here) + len(ending), "other")

    def _start_cdata(self) -> None:
        self._add_text(self._here())

    def _end_cdata(self) -> None:
        self._add_text(self.text.index("]]>", self.position) + 3, CDATA)

    def _refuse_entity(self, *_: object) -> None:
        raise InputError(f"{self.name}: declares entities, which can hide a bomb; remove its DOCTYPE")


def _attribute(key: str) -> str:
    namespace, _, local = key.rpartition(" ")
    return f"xml:{local}" if namespace == XML_NAMESPACE else local


def escape_xml(text: str) -> str:
    """Return text as XML; characters that XML does not have are dropped."""
    return NOT_XML.sub("", text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def is_file_name(text: str) -> bool:
    """Return whether a description of a picture is only the name of its file, which programs put there."""
    return FILE_NAME.fullmatch(text.strip()) is not None


def tag_name(tag: str) -> str:
    """Return the name in a tag, with its prefix."""
    return re.split(r"[\s/>]", tag.lstrip("</"), maxsplit=1)[0]


def attribute_span(text: str, element: Element, name: str) -> tuple[int, int, str]:
    """Return start and end of the value of an attribute in the file, and its quote; `name` may have any prefix."""
    for match in ATTRIBUTE.finditer(text, element.start, element.inner):
        if match[1].rpartition(":")[2] == name:
            group = 2 if match[2] is not None else 3
            return *match.span(group), '"' if group == 2 else "'"
    raise KeyError(name)


def with_attribute(tag: str, name: str, value: str) -> str:
    """Return a start tag with an attribute set to a value."""
    value = escape_xml(value).replace('"', "&quot;")
    for match in ATTRIBUTE.finditer(tag):
        if match[1] == name:
            group = 2 if match[2] is not None else 3
            return tag[: match.start(group)] + value + tag[match.end(group) :]
    end = len(tag) - (2 if tag.endswith("/>") else 1)
    return f'{tag[:end].rstrip()} {name}="{value}"{tag[end:]}'

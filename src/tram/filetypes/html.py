"""HTML and XHTML pages: text, the title and attributes such as `alt` change; all else stays byte for byte."""

import re

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions
from tram.filetypes.encoding import Decoded, beginning, decode
from tram.filetypes.html_blocks import HtmlPart
from tram.filetypes.parts import PartsDocument

META_CHARSET = re.compile(rb"""<meta[^>]+?charset\s*=\s*["']?\s*([\w:.-]+)""", re.I)
XML_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""")
XML = re.compile(r"\s*<\?xml\b|\s*<!DOCTYPE[^>]+XHTML", re.I)
PAGE = re.compile(rb"\s*(?:<\?xml[^>]*\?>\s*)?(?><!--.*?-->\s*)*+<(?:!doctype\s+html\b|html[\s>])", re.I | re.S)
# Browsers read these as Windows-1252.
WESTERN = frozenset({"iso-8859-1", "iso8859-1", "latin1", "latin-1", "ascii", "us-ascii"})


def decode_page(name: str, content: bytes) -> Decoded:
    """Return the text of a page in the encoding that it declares."""
    declared = XML_ENCODING.match(content[:4096]) or META_CHARSET.search(content[:4096])
    encoding = declared[1].decode("ascii", "replace").lower() if declared else None
    if encoding in WESTERN:
        try:
            return decode(name, content, "windows-1252")
        except InputError:
            return decode(name, content, "iso-8859-1")
    if encoding is not None and encoding.startswith("utf-16"):
        encoding = None  # without a byte order mark, the declaration could not have been read
    if declared is None and content.isascii() and not content.lstrip().startswith(b"<?xml"):
        return decode(name, content, "ascii")  # a browser guesses; references are right whatever it guesses
    return decode(name, content, encoding)


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a page as one document."""
    decoded = decode_page(name, content)
    part = HtmlPart(decoded.text, options, xml=XML.match(decoded.text) is not None)
    return PartsDocument([[part]], lambda texts: decoded.encode(texts[0], references=True))


FILETYPE = FileType(
    "html",
    (".html", ".htm", ".xhtml", ".xht"),
    matches=lambda content: PAGE.match(beginning(content)) is not None,
    read=read,
    aliases=("xhtml",),
)

"""What the tags of HTML mean to a translator: which are inline, which are copied, which are left alone."""

import re
from typing import Literal


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements inside a sentence; every other element ends a block.
INLINE = _words(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label map mark math meter nobr object"
    " output picture progress q rb rp rt rtc ruby s samp small source span strike strong sub sup svg time tt u var wbr"
    " audio video canvas embed input button select textarea epub:switch"
)
# Inline elements whose content is copied as it is.
OPAQUE = _words("code kbd samp var tt")
# Elements with their content left alone; inline ones are like an empty element to the sentence around them.
SKIPPED = _words(
    "script style pre textarea template noscript math svg select datalist object audio video canvas iframe noembed"
    " noframes xmp plaintext listing"
)
VOID = _words("area base br col embed hr img input link meta param source track wbr")
# Elements whose content the parser does not look into.
RAW_TEXT = _words("script style textarea title xmp iframe noembed noframes plaintext")

TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)[^>]*?(/?)>", re.DOTALL)


def html_tag(raw: str) -> tuple[Literal["open", "close", "empty", "line"], str]:
    """Return kind and name of one tag, as an item of a block; comments and the like are empty elements."""
    match = TAG.fullmatch(raw)
    if match is None:
        return "empty", ""
    name = match[2].lower()
    if name == "br":
        return "line", name
    if match[1]:
        return "close", name
    return ("empty" if match[3] or name in VOID else "open"), name

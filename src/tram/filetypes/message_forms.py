"""Messages that are several texts: plural forms and choices of ICU, and forms between bars.

    {count, plural, =0 {No files} other {# files in {folder}}}      # texts: No files | # files in {folder}
    There is one apple|There are %count% apples

What is between the texts is copied. A message in which braces do not match is read as one text.
"""

import re
from collections.abc import Iterator

from tram.filetypes.blocks import Item

HEAD = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset:\s*\d+\s*)?")
CASE = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
ARGUMENT = re.compile(r"\{(?:[^{}]|\{[^{}]*+\})*+\}")
END = re.compile(r"\s*\}")
BAR = re.compile(r"(?<=[^\s|])\|(?=[^\s|])")
MAX_DEPTH = 20


def message_items(text: str) -> Iterator[Item]:
    """Yield the texts of a message, and what is between them as breaks."""
    if not ("|" in text or HEAD.search(text)):
        yield Item("text", 0, len(text), text)
        return
    position = 0
    for start, end in _between(text):
        if position < start:
            yield Item("text", position, start, text[position:start])
        yield Item("break" if text[start:end] != "#" else "opaque", start, end, text[start:end])
        position = end
    if position < len(text):
        yield Item("text", position, len(text), text[position:])


def _are_sentences(parts: list[str]) -> bool:
    """Return whether the parts between bars are several words each, and no bar is inside brackets, as in [-a|-b]."""
    has_words = all(len(part.split()) > 1 for part in parts)
    return has_words and all(part.count(left) == part.count(right) for part in parts for left, right in ("[]", "()"))


def _between(text: str) -> list[tuple[int, int]]:
    """Return start and end of what is no text: heads, cases and ends of choices, signs for numbers, bars."""
    if HEAD.search(text) is None:
        bars = [match.span() for match in BAR.finditer(text)]
        return bars if _are_sentences(text.split("|")) else []
    result: list[tuple[int, int]] = []
    depth = position = 0  # depth: choices that are open
    while position < len(text):
        head = HEAD.match(text, position)
        case = CASE.match(text, head.end()) if head else None
        if case and depth < MAX_DEPTH:
            result.append((position, case.end()))
            depth, position = depth + 1, case.end()
        elif text[position] == "{":  # an argument
            argument = ARGUMENT.match(text, position)
            if argument is None:
                return []
            position = argument.end()
        elif text[position] == "}":
            following = CASE.match(text, position + 1) or END.match(text, position + 1)
            if not depth or following is None:
                return []
            result.append((position, following.end()))
            depth, position = depth - following[0].endswith("}"), following.end()
        else:
            result += [(position, position + 1)] if text[position] == "#" and depth else []
            position += 1
    return [] if depth else result

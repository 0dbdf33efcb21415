"""WebVTT subtitles (.vtt), checked with webvtt-py; styles, notes, ids, settings and voices stay as they are."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain

from tram.errors import InputError
from tram.filetypes.base import FileDocument, FileType, ReadOptions
from tram.filetypes.blocks import Item
from tram.filetypes.encoding import beginning, decode
from tram.filetypes.extras import load
from tram.filetypes.subtitles import SubtitleDocument, make_cue

LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
TIMING = re.compile(r"\s*(?:(\d+):)?(\d{1,2}):(\d{1,2})\.(\d{1,3})\s*-->\s*(?:(\d+):)?(\d{1,2}):(\d{1,2})\.(\d{1,3})")
COMMENT = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|\Z)")
PIECE = re.compile(
    r"<(?P<close>/?)(?P<name>[a-z]+)?(?P<rest>[^>]*)>|(?P<reference>&[\w#]+;)|\r\n|[^<&\r]+|.", re.DOTALL
)
REST = re.compile(r"(?P<reference>&[\w#]+;)|\r\n|[^&\r]+|.", re.DOTALL)


def read(name: str, content: bytes, options: ReadOptions) -> FileDocument:
    """Read subtitles as one document."""
    webvtt = load("webvtt", name)
    decoded = decode(name, content)
    text = decoded.text
    try:
        expected = webvtt.WebVTT.from_string(text).captions
    except (webvtt.errors.MalformedFileError, webvtt.errors.MalformedCaptionError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split()) or "malformed"
        raise InputError(f"{name}: is not valid WebVTT ({reason}); correct it") from None
    found = list(_payloads(text))
    wrong = _unreadable(text)
    if wrong is not None:
        raise InputError(f"{name}:{wrong}: is not valid WebVTT (the timing of a cue); correct it")
    if len(found) != len(expected):
        raise InputError(f"{name}: is not valid WebVTT (a cue cannot be read); correct it")
    cues = [make_cue(list(_items(text, start, end)), begin, stop) for start, end, begin, stop in found if start < end]
    known = [cue for cue in cues if cue is not None]
    return SubtitleDocument(decoded, known, options.source_language, _escape)


def _payloads(text: str) -> Iterator[tuple[int, int, float, float]]:
    """Yield start and end of the text of each cue, and its times."""
    block: list[tuple[int, int]] = []
    lines = [match.span(1) for match in LINE.finditer(text)]
    for start, end in [*lines, (0, 0)]:
        line = text[start:end]
        # A cue ends with a blank line, or where the next one begins without one.
        if not line.strip() or ("-->" in line and any("-->" in text[a:b] for a, b in block)):
            yield from _payload(text, block)
            block = []
        if line.strip():
            block.append((start, end))


def _unreadable(text: str) -> int | None:
    """Return the line of an arrow that is in no timing and in no comment, which players would skip with its cue."""
    in_comment, before = False, ""
    for number, match in enumerate(LINE.finditer(text), 1):
        line = match[1]
        in_comment = (in_comment and line.strip() != "") or (not before.strip() and COMMENT.match(line) is not None)
        if "-->" in line and number > 1 and not in_comment and TIMING.match(line) is None:
            return number
        before = line
    return None


def _payload(text: str, block: list[tuple[int, int]]) -> Iterator[tuple[int, int, float, float]]:
    timed = [i for i, (start, end) in enumerate(block[:2]) if "-->" in text[start:end]]
    timing = TIMING.match(text[slice(*block[timed[0]])]) if timed else None
    if timing:
        payload = block[timed[0] + 1 :]
        times = [float(value or 0) for value in timing.groups()]
        begin, stop = (h * 3600 + m * 60 + s + ms / 1000 for h, m, s, ms in (times[:4], times[4:]))
        yield (payload[0][0], payload[-1][1], begin, stop) if payload else (0, 0, begin, stop)


def _items(text: str, start: int, end: int) -> Iterator[Item]:
    last = text.rfind(">", start, end) + 1  # no tag ends behind it
    for match in chain(PIECE.finditer(text, start, max(last, start)), REST.finditer(text, max(last, start), end)):
        first, last = match.span()
        if match["reference"]:
            yield Item("text", first, last, unescape(match[0]))
        elif match.re is REST or not match[0].startswith("<") or len(match[0]) == 1:
            yield Item("text", first, last, match[0].replace("\r\n", "\n").replace("\r", "\n"))
        elif match["name"]:
            kind = "close" if match["close"] else "open"
            yield Item(kind, first, last, name=match["name"], data=match[0])  # type: ignore[arg-type]
        else:
            yield Item("empty", first, last, data=match[0])


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FILETYPE = FileType(
    "vtt",
    (".vtt",),
    matches=lambda content: re.match(rb"WEBVTT(?:\s|\Z)", beginning(content)) is not None,
    read=read,
    aliases=("webvtt",),
)

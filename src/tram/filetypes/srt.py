"""SubRip subtitles (.srt), read with the library srt; tags and positions stay with their cues."""

import re
from collections.abc import Iterator

from tram.errors import InputError
from tram.filetypes.base import FileDocument, FileType, ReadOptions, Translations
from tram.filetypes.blocks import Item
from tram.filetypes.encoding import decode
from tram.filetypes.extras import load
from tram.filetypes.subtitles import SubtitleDocument, make_cue

TAG = re.compile(r"</?(?P<name>[A-Za-z]+)(?:\s[^<>]*)?>|\{\\[^{}]*\}")
TIMING = re.compile(rb"\d+:\d{2}:\d{2}[,.]\d{1,3} *--> *\d+:\d{2}:\d{2}[,.]\d{1,3}")


class _SrtDocument(SubtitleDocument):
    def write(self, translations: Translations) -> bytes:
        """Return the file, after a check that it still has the same cues."""
        written = super().write(translations)
        again = decode(self.decoded.name, written, self.decoded.encoding).text
        if _timings(again) != _timings(self.decoded.text):
            raise InputError(f"{self.decoded.name}: a translation looks like the timing of a cue; translate it by hand")
        return written


def _timings(text: str) -> list[tuple[str, str]]:
    srt = load("srt", "")
    return [(match[2], match[3]) for match in srt.SRT_REGEX.finditer(text)]


def read(name: str, content: bytes, options: ReadOptions) -> FileDocument:
    """Read subtitles as one document."""
    srt = load("srt", name)
    decoded = decode(name, content)
    text = decoded.text
    try:
        subtitles = list(srt.parse(text))
    except (srt.SRTParseError, srt.TimestampParseError, ValueError, OverflowError) as error:
        start = getattr(error, "expected_start", 0)
        raise InputError(
            f"{name}:{text.count(chr(10), 0, start) + 1}: is not valid SRT; correct the cue there"
        ) from None
    if not subtitles:
        raise InputError(f"{name}: has no cue; is it a subtitle file?")
    cues = []
    for match, subtitle in zip(srt.SRT_REGEX.finditer(text), subtitles, strict=True):
        items = list(_items(text, *match.span(5)))
        cues.append(make_cue(items, subtitle.start.total_seconds(), subtitle.end.total_seconds()))
    known = [cue for cue in cues if cue is not None]
    return _SrtDocument(decoded, known, options.source_language, lambda new: new)


def _items(text: str, start: int, end: int) -> Iterator[Item]:
    for match in re.compile(rf"{TAG.pattern}|\r?\n|[^<{{\r\n]+|.", re.DOTALL).finditer(text, start, end):
        first, last = match.span()
        if TAG.fullmatch(match[0]) is None:
            yield Item("text", first, last, match[0].replace("\r\n", "\n"))
        elif match["name"]:
            kind = "close" if match[0].startswith("</") else "open"
            yield Item(kind, first, last, name=match["name"].lower(), data=match[0])  # type: ignore[arg-type]
        else:
            yield Item("empty", first, last, data=match[0])


FILETYPE = FileType(
    "srt",
    (".srt",),
    matches=lambda content: (
        TIMING.search(content[:2048]) is not None and not content[:16].lstrip(b"\xef\xbb\xbf").startswith(b"WEBVTT")
    ),
    read=read,
    aliases=("subrip",),
)

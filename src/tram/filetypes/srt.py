"""SubRip subtitles (.srt), read with the library srt; tags and positions stay with their cues."""

import re
from collections.abc import Iterator

from tram.errors import InputError
from tram.filetypes.base import FileDocument, FileType, ReadOptions, Translations
from tram.filetypes.blocks import Item
from tram.filetypes.encoding import beginning, decode
from tram.filetypes.extras import load
from tram.filetypes.subtitles import SubtitleDocument, make_cue

TAG = re.compile(r"</?(?P<name>[A-Za-z]+)(?:\s[^<>]*)?>|\{\\[^{}]*\}")
START = re.compile(rb"(?:\d+\s*\n\s*)?\d+:\d{2}:\d{2}[,.]\d{1,3} *--> *\d+:\d{2}:\d{2}[,.]\d{1,3}")


# A number on one line and a time on the next would be read as the start of a cue.
FALSE_START = re.compile(r"^(-?[0-9]+\.?[0-9]*[^\S\n]*)\r?\n(?=[0-9]+[,.:，．。：][0-9]+[,.:，．。：][0-9]+)", re.M)

# The library's time grows with the cube of such a run, which no subtitle has.
ENDLESS_NUMBER = re.compile(r"[0-9]{200}")


class _SrtDocument(SubtitleDocument):
    def repaired(self, text: str) -> str:
        """Return text in which no line looks like the start of a cue."""
        return FALSE_START.sub(r"\1 ", text)

    def write(self, translations: Translations) -> bytes:
        """Return the file, after a check that it still has the same cues."""
        srt = load("srt", self.decoded.name)
        written = super().write(translations)
        try:
            cues = list(srt.parse(decode(self.decoded.name, written, self.decoded.encoding).text))
        except srt.SRTParseError:
            cues = []
        before = list(srt.parse(self.decoded.text))
        if [(c.index, c.start, c.end) for c in cues] != [(c.index, c.start, c.end) for c in before]:
            raise InputError(f"{self.decoded.name}: a translation looks like the timing of a cue; translate it by hand")
        return written


def read(name: str, content: bytes, options: ReadOptions) -> FileDocument:
    """Read subtitles as one document."""
    srt = load("srt", name)
    decoded = decode(name, content)
    text = decoded.text
    if endless := ENDLESS_NUMBER.search(text):
        line = text.count("\n", 0, endless.start()) + 1
        raise InputError(f"{name}:{line}: has a number of 200 digits or more; correct the cue there")
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
    matches=lambda content: START.match(beginning(content)) is not None,
    read=read,
    aliases=("subrip",),
)

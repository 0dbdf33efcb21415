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
        name = self.decoded.name
        written = super().write(translations)
        try:
            after = _matches(name, decode(name, written, self.decoded.encoding).text)
        except InputError:
            after = []
        numbers, numbers_before = (
            [cue.group(1, 2, 3) for cue in cues] for cues in (after, _matches(name, self.decoded.text))
        )
        if numbers != numbers_before:
            raise InputError(f"{name}: a translation looks like the timing of a cue; translate it by hand")
        return written


def read(name: str, content: bytes, options: ReadOptions) -> FileDocument:
    """Read subtitles as one document."""
    srt = load("srt", name)
    decoded = decode(name, content)
    text = decoded.text
    if endless := ENDLESS_NUMBER.search(text):
        line = text.count("\n", 0, endless.start()) + 1
        raise InputError(f"{name}:{line}: has a number of 200 digits or more; correct the cue there")
    matches = _matches(name, text)
    if not matches:
        raise InputError(f"{name}: has no cue; is it a subtitle file?")
    cues = []
    for match in matches:
        try:
            begin, stop = (srt.srt_timestamp_to_timedelta(match[group]).total_seconds() for group in (2, 3))
        except OverflowError:
            raise _invalid(name, text, match.start()) from None
        cues.append(make_cue(list(_items(text, *match.span(5))), begin, stop))
    known = [cue for cue in cues if cue is not None]
    return _SrtDocument(decoded, known, options.source_language, lambda new: new)


def _matches(name: str, text: str) -> list[re.Match[str]]:
    """Return the cues of a text.

    The library's `parse` looks for cues behind a broken one, in quadratic time if there are many blanks.
    """
    pattern: re.Pattern[str] = load("srt", name).SRT_REGEX
    matches: list[re.Match[str]] = []
    end = 0
    while match := pattern.match(text, end):
        matches.append(match)
        end = match.end()
    if end < len(text):
        raise _invalid(name, text, end)
    return matches


def _invalid(name: str, text: str, start: int) -> InputError:
    line = text.count("\n", 0, start) + 1
    return InputError(f"{name}:{line}: is not valid SRT; correct the cue there")


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

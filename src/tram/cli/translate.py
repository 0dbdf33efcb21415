"""`tram translate`: files and lines, streamed."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.cli.options import (
    Adapter,
    DefaultBeam,
    LengthPenalty,
    ModelFolder,
    SourceLanguage,
    TargetLanguage,
)
from tram.errors import InputError
from tram.progress import Progress, plain_warnings

if TYPE_CHECKING:
    from tram.filetypes.base import FileDocument
    from tram.translation.translator import Translator

STDIN = "-"
BINARY = (".docx", ".odt", ".epub")


def translate(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...|-]", help="Files; - or nothing: standard input."),
    ] = None,
    model: ModelFolder = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; with several files, the folder for their translations."),
    ] = None,
    beam: DefaultBeam = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="One sentence per line; a blank line starts a new document.")
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help="File type, such as text or markdown; by default detected.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Treat the files as plain text, whatever they are.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace translations that exist already (several files).")
    ] = False,
    length_penalty: LengthPenalty = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    adapter: Adapter = None,
    n_best: Annotated[
        int, typer.Option(min=1, max=1000, help="Print so many translations of each line, with scores (needs --lines).")
    ] = 1,
) -> None:
    """Translate files and keep their layout; or, with --lines, one sentence per line."""
    from tram.translation.translator import Translator

    given = sources or [STDIN]
    if n_best > 1 and not lines:
        raise InputError("--n-best: translations are listed by line; add --lines")
    if lines and len(given) > 1:
        raise InputError("--lines: translates one file at a time; give one file, or - for standard input")
    if given.count(STDIN) and len(given) > 1:
        raise InputError("-: standard input cannot be translated together with files; give one or the other")
    if plain and format not in {None, "text"}:
        raise InputError(f"--plain and --format {format} contradict each other; give one of them")
    if lines and output is not None:
        from tram.files import check_writable

        check_writable(output)
    translator = Translator.load(
        model,
        beam=beam,
        length_penalty=length_penalty,
        source=source_language,
        target=target_language,
        adapter=adapter,
    )
    if lines:
        with _writer(output) as write, _progress() as advance, plain_warnings():
            source = _lines(given[0])
            several = n_best > 1
            for piece in (
                n_best_lines(translator, source, n_best) if several else translated_lines(translator, source, advance)
            ):
                write(piece.encode())
        return
    _translate_files(translator, given, output, "text" if plain else format, overwrite)


# Files.


def _translate_files(
    translator: "Translator", sources: list[str], output: Path | None, format: str | None, overwrite: bool
) -> None:
    from tram.filetypes.base import ReadOptions
    from tram.filetypes.batch import translate_opened
    from tram.filetypes.registry import open_file, read_bytes
    from tram.filetypes.translate import finish

    for source in sources:  # before the first of them is translated
        if source != STDIN and not Path(source).exists():
            raise InputError(f"{source}: there is no such file; check the name")
    options = ReadOptions(translator.text.source_language, translator.text.target_language)
    outputs = _outputs(sources, output, translator.text.target_language, overwrite)

    def opened() -> Iterator["FileDocument"]:
        for source in sources:
            if source == STDIN:
                yield read_bytes("standard input", sys.stdin.buffer.read(), format, options)
            else:
                yield open_file(Path(source), format, options)

    doubtful = 0
    with plain_warnings(), _progress() as advance:
        found = translate_opened(translator, opened(), advance=advance)
        for (document, rows), place in zip(found, outputs, strict=True):
            content, report = finish(document, rows)
            doubtful += report.doubtful
            with _writer(place) as write:
                write(content)
            if len(sources) > 1:
                print(place)
    if doubtful:
        print(f"warning: {doubtful} sentences should be checked: markup was placed by position", file=sys.stderr)


def _outputs(sources: list[str], output: Path | None, language: str, overwrite: bool) -> list[Path | None]:
    """Return where the translations go; None: to standard output. Refuse at once what could not be written later."""
    from tram.files import check_writable

    if len(sources) == 1 and (output is not None or Path(sources[0]).suffix.lower() not in BINARY):
        places = [output]
    else:
        if output is not None and output.exists() and not output.is_dir():
            raise InputError(f"{output}: is a file, but there are {len(sources)} translations; give a folder")
        places = [_translated_name(Path(source), output, language) for source in sources]
    if len(set(places)) < len(places):
        raise InputError("two files would get the same name; translate them into different folders")
    for source, place in zip(sources, places, strict=True):
        if place is None:
            continue
        if place.exists() and place.resolve() == Path(source).resolve():
            raise InputError(f"{place}: is the original; choose another name for the translation")
        if place.exists() and output is None and not overwrite:
            raise InputError(f"{place}: exists already; remove it, or replace it with --overwrite")
        check_writable(place)
    return places


def _translated_name(source: Path, folder: Path | None, language: str) -> Path:
    """letter.txt → letter.de.txt."""
    return (folder or source.parent) / f"{source.stem}.{language}{source.suffix}"


# Lines.


def translated_lines(
    translator: "Translator", lines: Iterable[str], advance: Callable[[int], None] | None = None
) -> Iterator[str]:
    r"""Yield the translation of lines piece by piece: one line for every line.

    lines: with their ends, "\n" or "\r\n"; that of the first line is used for all.
    """
    newline, ended = "\n", False

    def documents() -> Iterator[list[str]]:
        nonlocal newline, ended
        document: list[str] = []
        for number, line in enumerate(lines):
            ended = line.endswith("\n")
            if number == 0 and line.endswith("\r\n"):
                newline = "\r\n"
            if line.strip():
                document.append(line.removesuffix("\n").removesuffix("\r"))
            else:
                yield document
                document = []
        yield document

    written = 0
    for number, result in enumerate(translator.translate_documents(documents(), advance)):
        # A model that spells in bytes may produce a line end, which would shift all lines after it
        for line in [""] * (number > 0) + [one_line(line) for line in result]:
            yield line if not written else newline + line
            written += 1
    if ended:
        yield newline


def n_best_lines(translator: "Translator", lines: Iterable[str], n: int) -> Iterator[str]:
    """Yield the n best translations of every line as NUMBER ||| TEXT ||| SCORE."""
    for number, best in enumerate(translator.n_best([line.rstrip("\r\n") for line in lines], n)):
        for option in best:
            yield f"{number} ||| {one_line(option.text)} ||| {option.score:.4f}\n"


def one_line(text: str) -> str:
    r"""Return a translation without "\r" and other line ends, which a model that spells in bytes may produce."""
    return " ".join(text.splitlines())


def _lines(source: str) -> Iterator[str]:
    """Yield the lines of a file, compressed or not, or of standard input, with their ends."""
    from tram.data.text_files import Lines

    if source != STDIN:
        yield from Lines(Path(source)).with_ends()
        return
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"standard input:{number}: is not valid UTF-8; convert it to UTF-8") from None


# Output.


@contextmanager
def _writer(output: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which appears only when it is complete, or to standard output."""
    from tram.files import replacing

    if output is None:
        yield _write_out
        sys.stdout.flush()
        return
    with replacing(output) as temporary, temporary.open("wb") as file:
        yield file.write


def _write_out(content: bytes) -> None:
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:  # standard output that was replaced by a text stream
        sys.stdout.write(content.decode())


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    with Progress("translating", unit="sentences") as progress:
        yield progress.advance

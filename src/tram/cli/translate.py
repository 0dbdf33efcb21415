"""`tram translate`: its options. `translate_files` keeps the layout of files, `translate_lines` has the other way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.cli.console import naming
from tram.cli.options import Batch, ModelOptions, with_model_options
from tram.cli.translate_files import named, progress, translate_files, writer
from tram.cli.translate_lines import STDIN, n_best_lines, read_lines, translated_lines
from tram.cli.translation_report import ReportFiles, Reports, counted_remarks
from tram.errors import InputError
from tram.progress import plain_warnings

if TYPE_CHECKING:
    from tram.filetypes.translate import SentenceReport
    from tram.text.verbatim import VerbatimRules
    from tram.translation.translator import Translator

BINARY = (".docx", ".odt", ".epub")


@with_model_options
def translate(
    options: ModelOptions,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...|-]", help="Files; - or nothing: standard input."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; with several files, the folder for their translations, named as in letter.de.txt. "
            "Without it one text file is printed; several, and packages such as .docx, go beside the originals.",
        ),
    ] = None,
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
    n_best: Annotated[
        int, typer.Option(min=1, max=1000, help="Print so many translations of each line, with scores (needs --lines).")
    ] = 1,
    glossary: Annotated[
        Path | None,
        typer.Option(
            help="Terms: lines of term TAB translation, or of a term alone that is not translated; # begins a comment. "
            "Whole words are matched, longer terms first; a translation is put in as it is, without inflection."
        ),
    ] = None,
    verbatim: Annotated[
        bool,
        typer.Option(help="Keep URLs, e-mail addresses, code, placeholders, numbers with units and emoji as they are."),
    ] = True,
    alignment: Annotated[
        Path | None,
        typer.Option(
            help="Also write word alignments here, one line for each sentence that is translated, such as 0-0 1-2 "
            "(source word-target word, counted from 0; words are what white space separates); - for standard output."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Also write counts for each file here, and for each sentence its translation, score, alignment and "
            "warnings (repeated, in parts, doubtful); - for standard output.",
        ),
    ] = None,
    batch: Batch = 32,
) -> None:
    """Translate files and keep their layout; or, with --lines, one sentence per line.

    A translation that loops, is far longer than its source, empty, or has lost a URL, a placeholder or the like is made
    again without context, then in parts; how often, and what is still doubtful, is printed at the end.

    Plain text of any length is translated in bounded memory; any other file may have 32 MB of text.
    """
    from tram.cli.console import load_translator

    given = sources or [STDIN]
    places = ReportFiles(alignment, json)
    _check_options(given, lines, n_best, plain, format, verbatim, glossary, places)
    rules = _rules(glossary, verbatim)
    places.check(output, several=len(given) > 1)
    if lines and output is not None:
        from tram.files import check_writable

        check_writable(output)
    translator = load_translator(options)
    translator.batch = batch
    if n_best > 1:
        with writer(output) as write, plain_warnings():
            for piece in n_best_lines(translator, read_lines(given[0]), n_best):
                write(piece.encode())
    elif lines:
        _translate_lines(translator, given[0], output, rules, Reports(places))
    else:
        outputs = _outputs(given, output, translator.text.target_language, overwrite)
        translate_files(translator, given, outputs, "text" if plain else format, rules, Reports(places))


def _check_options(
    given: list[str],
    lines: bool,
    n_best: int,
    plain: bool,
    format: str | None,
    verbatim: bool,
    glossary: Path | None,
    places: ReportFiles,
) -> None:
    if n_best > 1 and not lines:
        raise InputError("--n-best: translations are listed by line; add --lines")
    if n_best > 1 and (glossary or places.alignment or places.json):
        raise InputError("--n-best: lists what the search found; leave out --glossary, --alignment and --json")
    if lines and len(given) > 1:
        raise InputError("--lines: translates one file at a time; give one file, or - for standard input")
    if given.count(STDIN) and len(given) > 1:
        raise InputError("-: standard input cannot be translated together with files; give one or the other")
    if plain and format not in {None, "text"}:
        raise InputError(f"--plain and --format {format} contradict each other; give one of them")
    if glossary is not None and not verbatim:
        raise InputError("--glossary and --no-verbatim contradict each other; give one of them")
    from tram.files import exists

    for source in given:  # before the first of them is translated
        if source != STDIN and not exists(Path(source)):
            raise InputError(f"{source}: there is no such file; check the name")


def _rules(glossary: Path | None, verbatim: bool) -> "VerbatimRules":
    from tram.text.glossary import read_glossary
    from tram.text.verbatim import VerbatimRules

    if glossary is not None:
        return read_glossary(glossary)
    return VerbatimRules(patterns=verbatim)


def _translate_lines(
    translator: "Translator", source: str, output: Path | None, rules: "VerbatimRules", reports: Reports
) -> None:
    found: list[SentenceReport] = []
    record = found.append if reports.wanted else None
    with naming(named([source])), writer(output) as write, counted_remarks() as remarks, progress() as advance:
        for piece in translated_lines(translator, read_lines(source), advance, rules, remarks, record):
            write(piece.encode())
    reports.add(source, output, found, {"segments": len(found)})
    reports.write(remarks)


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
        if place.exists() and place != output and not overwrite:
            raise InputError(f"{place}: exists already; remove it, or replace it with --overwrite")
        check_writable(place)
    return places


def _translated_name(source: Path, folder: Path | None, language: str) -> Path:
    """letter.txt → letter.de.txt."""
    return (folder or source.parent) / f"{source.stem}.{language}{source.suffix}"

"""`tram translate`: its options. `translate_files` keeps the layout of files, `translate_lines` has the other way."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tram.cli.console import naming
from tram.cli.options import Batch, ModelOptions, check_outputs, with_model_options
from tram.cli.translate_files import Reading, named, progress, translate_files
from tram.cli.translate_lines import STDIN, n_best_lines, read_lines, translated_lines
from tram.cli.translate_outputs import STDOUT, find_outputs, named_output, writer
from tram.cli.translation_report import ReportFiles, Reports, counted_remarks
from tram.errors import InputError
from tram.progress import plain_warnings

if TYPE_CHECKING:
    from tram.filetypes.translate import SentenceReport
    from tram.text.verbatim import VerbatimRules
    from tram.translation.translator import Translator


@with_model_options
def translate(
    options: ModelOptions,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...|-]", help="Files to translate; - or nothing: standard input."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|FOLDER|-",
            help="File to write, replaced if it exists; or folder for the translations, named as in letter.de.txt; "
            "or - for standard output. By default the translation of one text file is printed; those of several files, "
            "and of .docx, .odt and .epub files, go beside the originals.",
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="One sentence per line; a blank line starts a new document.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="File type, by default detected: text, markdown, html, docx, odt, epub, xliff, po, tmx, srt or vtt.",
        ),
    ] = None,
    chapters: Annotated[
        bool, typer.Option("--chapters", help="EPUB: start each chapter with an empty memory, as a new document.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Treat the files as plain text, whatever they are.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files such as letter.de.txt if they exist already.")
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
    speculate: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Translate so many sentences of a document at once, with the same result (needs --beam 1 and the "
            "native engine). Large models are faster with 3 or 4, small ones are not.",
        ),
    ] = 1,
) -> None:
    """Translate files and keep their layout; or, with --lines, one sentence per line.

    \b
    tram translate letter.txt                     print the translation
    tram translate manual.docx                    write manual.de.docx
    tram translate *.md --output translated/      write translated/README.de.md and so on
    tram translate < letter.txt > brief.txt       standard input and output

    Types of files: plain text, Markdown, HTML, DOCX, ODT, EPUB, XLIFF, PO, TMX, SRT and VTT. Translations that an XLIFF
    or PO file has already are kept, and the others follow their choices. Originals are never changed.

    A translation that loops, is far longer than its source, is empty, or has lost a URL, a placeholder or the like is
    made again without context, then in parts; how often, and what is still doubtful, is printed at the end.

    Plain text may have any length; any other file may have 32 MB of text.
    """  # noqa: D301 (\b is for click: it keeps the lines of the paragraph)
    from tram.cli.console import load_translator

    given = sources or [STDIN]
    places = ReportFiles(alignment, json)
    _check_options(given, lines, n_best, plain, format, chapters, verbatim, glossary, places)
    rules = _rules(glossary, verbatim)
    places.check(prints=output == STDOUT or (output is None and len(given) == 1))
    file = named_output(given[0], output) if lines else None
    read = [glossary, *(Path(source) for source in given if source != STDIN)]
    check_outputs([file, alignment, json], read)
    translator = load_translator(options, speculate)
    translator.batch = batch
    if given == [STDIN] and sys.stdin.isatty():
        print("reading standard input; end it with Ctrl-D", file=sys.stderr)
    if n_best > 1:
        with writer(file) as write, plain_warnings():
            for piece in n_best_lines(translator, read_lines(given[0]), n_best):
                write(piece.encode())
    elif lines:
        _translate_lines(translator, given[0], file, rules, Reports(places))
    else:
        outputs = find_outputs(given, output, translator.text.target_language, overwrite)
        check_outputs([*outputs, alignment, json], read)
        reading = Reading("text" if plain else format, chapters)
        translate_files(translator, given, outputs, reading, rules, Reports(places))


def _check_options(
    given: list[str],
    lines: bool,
    n_best: int,
    plain: bool,
    format: str | None,
    chapters: bool,
    verbatim: bool,
    glossary: Path | None,
    places: ReportFiles,
) -> None:
    if n_best > 1 and not lines:
        raise InputError("--n-best: translations are listed by line; add --lines")
    if n_best > 1 and (glossary or places.alignment or places.json):
        raise InputError("--n-best: lists what the search found; leave out --glossary, --alignment and --json")
    if chapters and lines:
        raise InputError("--chapters: is for EPUB files, and --lines for plain lines; give one of them")
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

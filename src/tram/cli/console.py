"""What the commands share: text in and out, translations with progress, results for people and for programs."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.translation.lockstep import History
    from tram.translation.translator import Translator


def translated_document(translator: "Translator", text: str) -> str:
    """A plain document with its layout kept."""
    from tram.filetypes.plain_text import split_document

    layout = split_document(text, translator.text.source_language)
    return layout.join(translated(translator, [layout.sentences])[0])


def translated_lines(translator: "Translator", text: str, n: int) -> str:
    """One line out for every line in; with n > 1, every translation as NUMBER ||| TEXT ||| SCORE."""
    ended = text.endswith("\n")
    given = (text[:-1] if ended else text).split("\n") if text else []
    if n > 1:
        with plain_warnings():
            found = translator.n_best(given, n)
        options = [(number, option) for number, best in enumerate(found) for option in best]
        return "".join(f"{number} ||| {option.text} ||| {option.score:.4f}\n" for number, option in options)
    documents: list[list[str]] = [[]]
    for line in given:
        if line.strip():
            documents[-1].append(line)
        else:
            documents.append([])
    results = translated(translator, documents)
    out = results[0]
    for result in results[1:]:
        out += ["", *result]  # the blank line that parted the two documents
    # A model that spells in bytes may write a line end, which would shift all lines after it.
    return "\n".join(" ".join(line.split("\n")) for line in out) + ("\n" if ended else "")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as plain sentences, afterwards: no file names, no source lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if warning.category is UserWarning:
            print(f"warning: {warning.message}", file=sys.stderr)


def translated(
    translator: "Translator",
    documents: list[list[str]],
    history: "History" = "generated",
    gold: list[list[str]] | None = None,
) -> list[list[str]]:
    """Translations of documents, with progress and with warnings as plain sentences."""
    from tram.progress import Progress

    with plain_warnings(), Progress("translating", sum(map(len, documents)), "sentences") as progress:
        return list(translator.translate_documents(documents, progress.advance, history=history, gold=gold))


def cut_like(documents: list[list[str]], reference: list[list[str]]) -> list[list[str]]:
    """Cut a file of plain lines, which reads as one document, into the reference's documents."""
    if len(documents) != 1 or len(reference) == 1 or len(documents[0]) != sum(map(len, reference)):
        return documents
    lines = iter(documents[0])
    return [[next(lines) for _ in document] for document in reference]


def read_text(source: str) -> str:
    """A file, or standard input, as text."""
    import lzma
    import zlib

    from tram.data.corpus import open_text

    name = "standard input" if source == "-" else source
    try:
        if source == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        with open_text(Path(source), "r") as file:
            return file.read()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{name}:{line}: is not valid UTF-8; convert it to UTF-8") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"{name}: cannot be read ({error}); check that it is whole") from None


def write_output(text: str, output: Path | None) -> None:
    """Write to a file, whole or not at all, or to standard output."""
    from tram.files import write_text

    if output is not None:
        write_text(output, text)
    else:
        sys.stdout.write(text)


def report(table: str, value: Any, json_path: Path | None) -> None:
    """Print a result for people and, if asked, write it for programs."""
    from tram.files import write_json

    if json_path is not None and str(json_path) == "-":
        print(json.dumps(value, indent=2, ensure_ascii=False))
        return
    print(table)
    if json_path is not None:
        write_json(json_path, value)


TOGETHER = "\0"  # stands between the values of one option, which typer knows only one of
MANY_VALUED = {"score": ("-i", "--input"), "prepare": ("--train", "--dev"), "splice": ("--train",)}


def gathered(arguments: list[str]) -> list[str]:
    """`-i A B` → `-i A\0B`: options that take several values, as sacrebleu's -i does, in a form typer takes."""
    options = MANY_VALUED.get(arguments[0], ()) if arguments else ()
    result: list[str] = []
    inside = False
    for argument in arguments:
        is_option = argument.startswith("-") and argument != "-"
        if inside and not is_option and result[-1] not in options:
            result[-1] += TOGETHER + argument
        else:
            result.append(argument)
            inside = argument in options if is_option else inside
    return result


def pairs(option: str, values: list[str]) -> list[tuple[Path, Path]]:
    """Pairs of files; one file alone holds both sides."""
    result = []
    for value in values:
        paths = [Path(part) for part in value.split(TOGETHER)]
        if len(paths) > 2:
            raise InputError(
                f"{option} takes a source and a target, not {len(paths)} files; repeat {option} for each pair"
            )
        result.append((paths[0], paths[-1]))
    return result

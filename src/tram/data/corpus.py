"""Readers and writers of corpora in every document format, one document at a time.

    for document in read_parallel("train.en.xz", "train.de.xz"):
        document.source, document.target        # two lists of the same number of sentences

The format is one of `FORMATS`, or detected from the content of the file; `.gz` and `.xz` files are decompressed.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, TextIO

from tram.data.formats import (
    BlankLines,
    Columns,
    DocumentMarks,
    Format,
    JsonLines,
    OutputDocument,
    ParsedDocument,
    Sides,
    StartLines,
    StartLinesIndex,
    document_label,
)
from tram.data.text_files import Lines, open_atomically, open_text, without_compression_suffix
from tram.data.xml_formats import TALK_HEAD, Segments, WmtXml
from tram.errors import InputError

__all__ = [
    "FORMATS",
    "Document",
    "ParallelDocument",
    "detect_format",
    "format_that_holds",
    "has_both_sides",
    "open_text",
    "read_documents",
    "read_parallel",
    "write_documents",
    "write_parallel",
]

_FORMATS: dict[str, Format] = {
    "blank": BlankLines(),
    "d": DocumentMarks(),
    "starts": StartLines(),
    "tsv": Columns("\t"),
    "bars": Columns(" ||| "),
    "iwslt": Segments("iwslt"),
    "sgml": Segments("sgml"),
    "wmtxml": WmtXml(),
    "jsonl": JsonLines(),
}
FORMATS = tuple(_FORMATS)

_SUFFIXES = {".tsv": "tsv", ".jsonl": "jsonl", ".sgm": "sgml", ".sgml": "sgml", ".xml": "wmtxml"}
_TALK_TAG = re.compile(rf"<(mteval|doc\s[^<>]*docid|{'|'.join(TALK_HEAD)})\b", re.I)


@dataclass(frozen=True, slots=True)
class Document:
    """The sentences of a document in one language."""

    sentences: list[str]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ParallelDocument:
    """A document in two languages: the i-th target sentence is the translation of the i-th source sentence."""

    source: list[str]
    target: list[str]
    id: str | None = None


# Reading.


def read_documents(
    path: Path | str, format: str | None = None, side: Literal["source", "target"] = "source"
) -> Iterator[Document]:
    """Yield the documents of a file; `side` selects one side of a file with both."""
    path = Path(path)
    return _iterate_documents(path, _format_of(path, format), side)


def _iterate_documents(path: Path, format: Format, side: Literal["source", "target"]) -> Iterator[Document]:
    has_sentences = False
    for parsed in format.read(Lines(path), side):
        if sentences := getattr(parsed, side):
            has_sentences = True
            yield Document(sentences, parsed.id)
    if not has_sentences:
        raise _no_sentences(path)


def read_parallel(
    source: Path | str, target: Path | str | None = None, format: str | None = None
) -> Iterator[ParallelDocument]:
    """Yield the documents of two aligned files, or of one file with both sides."""
    source, target = Path(source), Path(source if target is None else target)
    name = detect_format(source) if format is None else format
    kind = _format(name)
    if source == target:
        if not kind.two_sided:
            raise InputError(f"{source}: format {name} contains one side only; give the file of the other side, too")
        return _read_both(source, kind)
    if format is None and (other := detect_format(target)) != name:
        raise InputError(
            f"{source} looks like format {name} and {target} like {other}; "
            f"convert both to one format or give it with --format"
        )
    return _read_lockstep(source, target, kind)


def _read_both(path: Path, format: Format) -> Iterator[ParallelDocument]:
    number = 0
    for parsed in format.read(Lines(path), "both"):
        if len(parsed.source) != len(parsed.target):
            problem = _unequal_sides(number + 1, parsed.id, parsed.source, parsed.target)
            raise InputError(f"{path}:{parsed.end} {problem}")
        if parsed.source:
            number += 1
            yield ParallelDocument(parsed.source, parsed.target, parsed.id)
    if not number:
        raise _no_sentences(path)


def _read_lockstep(source: Path, target: Path, format: Format) -> Iterator[ParallelDocument]:
    number = 0
    # Documents that are empty on both sides are dropped here and not in the readers: a document that is empty on one
    # side only must not misalign the documents after it.
    pairs = zip_longest(
        _without_empty_tail(format.read(Lines(source), "source"), "source"),
        _without_empty_tail(format.read(Lines(target), "target"), "target"),
    )
    for left, right in pairs:
        if left is None:
            raise _different_counts(source, target, right, number)
        if right is None:
            raise _different_counts(target, source, left, number)
        _check_aligned(source, left, target, right, number + 1)
        if left.source:
            number += 1
            yield ParallelDocument(left.source, right.target, right.id if left.id is None else left.id)
    if not number:
        raise _no_sentences(source)


def _different_counts(ended: Path, other: Path, rest: ParsedDocument, number: int) -> InputError:
    if not number:
        return _no_sentences(ended)
    return InputError(
        f"{ended} and {other} differ in their number of documents: {ended} ends after {number}, "
        f"{other}:{rest.line_of(0)} continues; align both sides line by line"
    )


def _without_empty_tail(
    documents: Iterator[ParsedDocument], side: Literal["source", "target"]
) -> Iterator[ParsedDocument]:
    """Drop empty documents at the end: the number of trailing blank lines is meaningless."""
    empty: list[ParsedDocument] = []
    for document in documents:
        empty.append(document)
        if getattr(document, side):
            yield from empty
            empty.clear()


def _check_aligned(source: Path, left: ParsedDocument, target: Path, right: ParsedDocument, number: int) -> None:
    if left.id is not None and right.id is not None and left.id != right.id:
        raise InputError(
            f"{source}:{left.line_of(0)} and {target}:{right.line_of(0)} differ in document {number}: "
            f"their ids are {left.id!r} and {right.id!r}; put the documents of both sides in the same order"
        )
    if len(left.source) == len(right.target):
        return
    short, long = (source, left), (target, right)
    count = len(left.source)
    if count > len(right.target):
        short, long, count = long, short, len(right.target)
    raise InputError(
        f"{source} and {target} differ in {document_label(number, left.id)}: "
        f"{short[0]}:{short[1].end} ends the document after {count} sentence{'s' * (count != 1)}, "
        f"{long[0]}:{long[1].line_of(count)} continues; align both sides line by line"
    )


def _unequal_sides(number: int, id: str | None, source: list[str], target: list[str]) -> str:
    counts = f"{len(source)} source and {len(target)} target sentences"
    return f"{document_label(number, id)} has {counts}; give each sentence its translation"


def _no_sentences(path: Path) -> InputError:
    return InputError(f"{path}: contains no sentences; give a file with text")


def has_both_sides(path: Path | str, format: str | None = None) -> bool:
    """Return whether one file contains source and target."""
    path = Path(path)
    kind = _format_of(path, format)
    if not kind.two_sided:
        return False
    first = next((parsed for parsed in kind.read(Lines(path), "source") if parsed.source), None)
    return first is not None and first.target is not first.source and bool(first.target)


# Formats.


def _format(name: str) -> Format:
    if name not in _FORMATS:
        near = difflib.get_close_matches(name.lower(), FORMATS, 1, 0.3)
        hint = f"did you mean {near[0]}?" if near else "choose one of them"
        raise InputError(f"there is no document format {name!r}, only {', '.join(FORMATS)}: {hint}")
    return _FORMATS[name]


def _format_of(path: Path, name: str | None) -> Format:
    return _format(detect_format(path) if name is None else name)


def detect_format(path: Path | str) -> str:
    """Detect the format of a file from its first lines, its suffix and the files beside it."""
    path = Path(path)
    head = [line for _, line in islice(Lines(path), 100)]
    nonblank = [line for line in head if line.strip()]
    detectors: dict[str, Callable[[], bool]] = {
        "d": lambda: any(line.strip() == DocumentMarks.MARK for line in nonblank),
        "jsonl": lambda: bool(nonblank) and _is_json_document(nonblank[0]),
        "wmtxml": lambda: _matches(nonblank, r"<dataset\b"),
        "iwslt": lambda: bool(nonblank) and nonblank[0].lstrip().startswith("<") and _is_talk(nonblank),
        "sgml": lambda: _matches(nonblank, r"^\s*<(srcset|refset|tstset|doc)\b"),
        "bars": lambda: _in_columns(head, " ||| "),
        "tsv": lambda: _in_columns(head, "\t"),
        "starts": lambda: _has_starts(path),
    }
    detected = next((name for name, matches in detectors.items() if matches()), "blank")
    by_suffix = _SUFFIXES.get(without_compression_suffix(path).suffix.lower())
    # A known suffix wins over content without a format, so that a malformed line is reported as such.
    return by_suffix if detected == "blank" and by_suffix is not None else detected


def _is_json_document(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not value.keys().isdisjoint({"source", "target", "sentences"})


def _matches(lines: list[str], pattern: str) -> bool:
    return any(re.search(pattern, line, re.I) for line in lines[:10])


def _is_talk(lines: list[str]) -> bool:
    text = "\n".join(lines)
    tags = {match[1].lower() for match in _TALK_TAG.finditer(text)}
    return bool(tags & {"mteval", "url", "talkid", "keywords"}) or (bool(tags) and "<seg" not in text)


def _in_columns(lines: list[str], separator: str) -> bool:
    counts = {line.count(separator) for line in lines}
    return len(counts) == 1 and counts != {0}


def _has_starts(path: Path) -> bool:
    index = StartLines.find_index(path)
    if index is None or index == path:
        return False
    try:
        return all(line.strip().isdigit() for _, line in islice(Lines(index), 1))
    except InputError:  # for example a word processor's .doc file
        return False


# Writing.


@dataclass(frozen=True, slots=True)
class _Output:
    path: Path
    format: Format
    sides: Sides


def write_documents(path: Path | str, documents: Iterable[Document], format: str | None = None) -> int:
    """Write documents of one side and return their number; empty documents are skipped."""
    path = Path(path)
    kind = _format_to_write(path, format)
    outputs = _with_index_files([_Output(path, kind, "source")])
    return _write(outputs, (ParallelDocument(document.sentences, [], document.id) for document in documents))


def format_that_holds(path: Path, documents: Sequence[Document]) -> str | None:
    """Return the format to write documents in: that of the suffix (None), or one that can store empty sentences."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    if not isinstance(_format_to_write(path, None), BlankLines) or all(map(str.strip, sentences)):
        return None
    return "jsonl" if any(sentence.strip() == DocumentMarks.MARK for sentence in sentences) else "d"


def write_parallel(
    source: Path | str,
    target: Path | str | None,
    documents: Iterable[ParallelDocument],
    format: str | None = None,
) -> int:
    """Write both sides to two files, or to one if `target` is None; return the number of documents."""
    source = Path(source)
    kind = _format_to_write(source, format)
    if target is not None and Path(target) != source:
        outputs = [_Output(source, kind, "source"), _Output(Path(target), kind, "target")]
    elif kind.two_sided:
        outputs = [_Output(source, kind, "both")]
    else:
        raise InputError(f"{source}: this format contains one side only; give a second file or write tsv or jsonl")
    return _write(_with_index_files(outputs), _checked_pairs(documents))


def _format_to_write(path: Path, name: str | None) -> Format:
    return _format(name or _SUFFIXES.get(without_compression_suffix(path).suffix.lower(), "blank"))


def _with_index_files(outputs: list[_Output]) -> list[_Output]:
    if not isinstance(outputs[0].format, StartLines):
        return outputs
    indexes = {StartLines.index_path(output.path): output for output in outputs}
    for output in outputs:
        if output.path in indexes:
            raise InputError(
                f"{output.path}: is the name of the file with the start lines; choose a suffix other than .doc"
            )
    return outputs + [_Output(path, StartLinesIndex(), "source") for path in indexes]


def _checked_pairs(documents: Iterable[ParallelDocument]) -> Iterator[ParallelDocument]:
    for number, document in enumerate(documents, 1):
        if len(document.source) != len(document.target):
            raise InputError(_unequal_sides(number, document.id, document.source, document.target))
        yield document


def _write(outputs: list[_Output], documents: Iterable[ParallelDocument]) -> int:
    number = offset = 0
    previous: str | None = None
    with ExitStack() as stack:
        handles = [stack.enter_context(open_atomically(output.path)) for output in outputs]
        for handle, output in zip(handles, outputs, strict=True):
            handle.write(output.format.head(output.sides))
        for document in documents:
            if not document.source:
                continue
            number += 1
            columns = {"source": (document.source,), "target": (document.target,)}
            for handle, output in zip(handles, outputs, strict=True):
                chosen = columns.get(output.sides, (document.source, document.target))
                output_document = OutputDocument(
                    output.path, number, offset, document.id, previous, output.sides, chosen
                )
                _write_document(handle, output.format.render(output_document), output_document)
            offset += len(document.source)
            previous = output_document.name
        for handle, output in zip(handles, outputs, strict=True):
            handle.write(output.format.tail(output.sides))
    return number


def _write_document(handle: TextIO, text: str, document: OutputDocument) -> None:
    try:
        handle.write(text)
    except UnicodeEncodeError as error:
        where = document_label(document.number, document.id)
        raise InputError(f"{document.path}: cannot store {where}: it contains a lone surrogate; remove it") from error

"""Documents in files: readers and writers of every format, one document at a time, both sides in lockstep.

    for document in read_parallel("train.en.xz", "train.de.xz"):
        document.source, document.target        # lists of sentences, of the same length

The format is found by looking into the file, or named: one of `FORMATS`. `.gz` and `.xz` are unpacked.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal, TextIO

from tram.data.formats import (
    Blank,
    Columns,
    Entry,
    Format,
    JsonLines,
    Lines,
    Marked,
    Passage,
    Sides,
    Starts,
    StartsIndex,
    describe,
    open_text,
    unpacked,
    writing,
)
from tram.data.xml_formats import TALK_HEAD, Segments, WmtXml
from tram.errors import InputError

__all__ = [
    "FORMATS",
    "Document",
    "ParallelDocument",
    "detect_format",
    "holds_both_sides",
    "open_text",
    "read_documents",
    "read_parallel",
    "write_documents",
    "write_parallel",
]

_FORMATS: dict[str, Format] = {
    "blank": Blank(),
    "d": Marked(),
    "starts": Starts(),
    "tsv": Columns("\t"),
    "bars": Columns(" ||| "),
    "iwslt": Segments("iwslt"),
    "sgml": Segments("sgml"),
    "wmtxml": WmtXml(),
    "jsonl": JsonLines(),
}
FORMATS = tuple(_FORMATS)

_SUFFIXES = {".tsv": "tsv", ".jsonl": "jsonl", ".sgm": "sgml", ".sgml": "sgml", ".xml": "wmtxml"}
_TALK_TAG = re.compile(rf"<(mteval|doc\s[^>]*docid|{'|'.join(TALK_HEAD)})\b", re.I)


@dataclass(frozen=True, slots=True)
class Document:
    """The sentences of a document in one language."""

    sentences: list[str]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ParallelDocument:
    """A document in two languages: the target's i-th sentence translates the source's."""

    source: list[str]
    target: list[str]
    id: str | None = None


# Reading.


def read_documents(
    path: Path | str, format: str | None = None, side: Literal["source", "target"] = "source"
) -> Iterator[Document]:
    """Give the documents of a file one by one; `side` chooses where the file holds both."""
    path = Path(path)
    return _read_documents(path, _format_of(path, format), side)


def _read_documents(path: Path, format: Format, side: Literal["source", "target"]) -> Iterator[Document]:
    found = False
    for passage in format.read(Lines(path), side):
        if sentences := getattr(passage, side):
            found = True
            yield Document(sentences, passage.id)
    if not found:
        raise _no_sentence(path)


def read_parallel(
    source: Path | str, target: Path | str | None = None, format: str | None = None
) -> Iterator[ParallelDocument]:
    """Give the documents of two aligned files, or of one file that holds both sides, one by one."""
    source, target = Path(source), Path(source if target is None else target)
    name = detect_format(source) if format is None else format
    kind = _format(name)
    if source == target:
        if not kind.both:
            raise InputError(f"{source}: format {name} holds one side only; name the file of the other side too")
        return _read_both(source, kind)
    if format is None and (other := detect_format(target)) != name:
        raise InputError(
            f"{source} looks like format {name} and {target} like {other}; "
            f"bring both into one format or name it (--format)"
        )
    return _read_lockstep(source, target, kind)


def _read_both(path: Path, format: Format) -> Iterator[ParallelDocument]:
    number = 0
    for passage in format.read(Lines(path), "both"):
        if len(passage.source) != len(passage.target):
            raise InputError(f"{path}:{passage.end} {_unequal(number + 1, passage.id, passage.source, passage.target)}")
        if passage.source:
            number += 1
            yield ParallelDocument(passage.source, passage.target, passage.id)
    if not number:
        raise _no_sentence(path)


def _read_lockstep(source: Path, target: Path, format: Format) -> Iterator[ParallelDocument]:
    number = 0
    # Passages that are empty on both sides are left out here and not in the readers: one that is empty
    # on one side only must not shift the documents after it against each other.
    passages = zip_longest(
        _without_empty_tail(format.read(Lines(source), "source"), "source"),
        _without_empty_tail(format.read(Lines(target), "target"), "target"),
    )
    for left, right in passages:
        if left is None:
            raise _one_goes_on(source, target, right, number)
        if right is None:
            raise _one_goes_on(target, source, left, number)
        _check_aligned(source, left, target, right, number + 1)
        if left.source:
            number += 1
            yield ParallelDocument(left.source, right.target, right.id if left.id is None else left.id)
    if not number:
        raise _no_sentence(source)


def _one_goes_on(ended: Path, other: Path, rest: Passage, number: int) -> InputError:
    if not number:
        return _no_sentence(ended)
    return InputError(
        f"{ended} and {other} differ in their number of documents: {ended} ends after {number}, "
        f"{other}:{rest.line_of(0)} goes on; make both sides line-aligned"
    )


def _without_empty_tail(passages: Iterator[Passage], side: Literal["source", "target"]) -> Iterator[Passage]:
    """Drop empty passages at the end: how many blank lines close a file says nothing."""
    empty: list[Passage] = []
    for passage in passages:
        empty.append(passage)
        if getattr(passage, side):
            yield from empty
            empty.clear()


def _check_aligned(source: Path, left: Passage, target: Path, right: Passage, number: int) -> None:
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
        f"{source} and {target} differ in {describe(number, left.id)}: "
        f"{short[0]}:{short[1].end} ends the document after {count} sentence{'s' * (count != 1)}, "
        f"{long[0]}:{long[1].line_of(count)} goes on; make both sides line-aligned"
    )


def _unequal(number: int, id: str | None, source: list[str], target: list[str]) -> str:
    counts = f"{len(source)} source and {len(target)} target sentences"
    return f"{describe(number, id)} has {counts}; give each sentence its translation"


def _no_sentence(path: Path) -> InputError:
    return InputError(f"{path}: holds no sentence; give a file with text")


def holds_both_sides(path: Path | str, format: str | None = None) -> bool:
    """Whether one file holds source and target."""
    path = Path(path)
    kind = _format_of(path, format)
    if not kind.both:
        return False
    first = next((passage for passage in kind.read(Lines(path), "source") if passage.source), None)
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
    """Find a file's format by looking at its first lines, its suffix and the files beside it."""
    path = Path(path)
    head = [line for _, line in islice(Lines(path), 100)]
    filled = [line for line in head if line.strip()]
    looks: dict[str, Callable[[], bool]] = {
        "d": lambda: any(line.strip() == Marked.MARK for line in filled),
        "jsonl": lambda: bool(filled) and _is_json_document(filled[0]),
        "wmtxml": lambda: _matches(filled, r"<dataset\b"),
        "iwslt": lambda: bool(filled) and filled[0].lstrip().startswith("<") and _is_talk(filled),
        "sgml": lambda: _matches(filled, r"^\s*<(srcset|refset|tstset|doc)\b"),
        "bars": lambda: _in_columns(head, " ||| "),
        "tsv": lambda: _in_columns(head, "\t"),
        "starts": lambda: _has_starts(path),
    }
    seen = next((name for name, found in looks.items() if found()), "blank")
    by_suffix = _SUFFIXES.get(unpacked(path).suffix.lower())
    # Where the content says nothing, a telling suffix does: a broken line is then named as such.
    return by_suffix if seen == "blank" and by_suffix is not None else seen


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
    index = Starts.find_index(path)
    if index is None or index == path:
        return False
    try:
        return all(line.strip().isdigit() for _, line in islice(Lines(index), 1))
    except InputError:  # some word processor's file that happens to have this name
        return False


# Writing.


@dataclass(frozen=True, slots=True)
class _Output:
    path: Path
    format: Format
    sides: Sides


def write_documents(path: Path | str, documents: Iterable[Document], format: str | None = None) -> int:
    """Write documents of one side; give their number. Empty documents are left out."""
    path = Path(path)
    kind = _format_to_write(path, format)
    outputs = _with_starts([_Output(path, kind, "source")])
    return _write(outputs, (ParallelDocument(document.sentences, [], document.id) for document in documents))


def write_parallel(
    source: Path | str,
    target: Path | str | None,
    documents: Iterable[ParallelDocument],
    format: str | None = None,
) -> int:
    """Write both sides into two files, or into one if `target` is None; give the number of documents."""
    source = Path(source)
    kind = _format_to_write(source, format)
    if target is not None and Path(target) != source:
        outputs = [_Output(source, kind, "source"), _Output(Path(target), kind, "target")]
    elif kind.both:
        outputs = [_Output(source, kind, "both")]
    else:
        raise InputError(f"{source}: this format holds one side only; name a second file or write tsv or jsonl")
    return _write(_with_starts(outputs), _checked_pairs(documents))


def _format_to_write(path: Path, name: str | None) -> Format:
    return _format(name or _SUFFIXES.get(unpacked(path).suffix.lower(), "blank"))


def _with_starts(outputs: list[_Output]) -> list[_Output]:
    if not isinstance(outputs[0].format, Starts):
        return outputs
    indexes = {Starts.index_path(output.path): output for output in outputs}
    for output in outputs:
        if output.path in indexes:
            raise InputError(f"{output.path}: is the name of the file of starts; choose a suffix other than .doc")
    return outputs + [_Output(path, StartsIndex(), "source") for path in indexes]


def _checked_pairs(documents: Iterable[ParallelDocument]) -> Iterator[ParallelDocument]:
    for number, document in enumerate(documents, 1):
        if len(document.source) != len(document.target):
            raise InputError(_unequal(number, document.id, document.source, document.target))
        yield document


def _write(outputs: list[_Output], documents: Iterable[ParallelDocument]) -> int:
    number = offset = 0
    previous: str | None = None
    with ExitStack() as stack:
        handles = [stack.enter_context(writing(output.path)) for output in outputs]
        for handle, output in zip(handles, outputs, strict=True):
            handle.write(output.format.head(output.sides))
        for document in documents:
            if not document.source:
                continue
            number += 1
            columns = {"source": (document.source,), "target": (document.target,)}
            for handle, output in zip(handles, outputs, strict=True):
                chosen = columns.get(output.sides, (document.source, document.target))
                entry = Entry(output.path, number, offset, document.id, previous, output.sides, chosen)
                _write_entry(handle, output.format.render(entry), entry)
            offset += len(document.source)
            previous = entry.name
        for handle, output in zip(handles, outputs, strict=True):
            handle.write(output.format.tail(output.sides))
    return number


def _write_entry(handle: TextIO, text: str, entry: Entry) -> None:
    try:
        handle.write(text)
    except UnicodeEncodeError as error:
        where = describe(entry.number, entry.id)
        raise InputError(f"{entry.path}: cannot hold {where}: half a surrogate pair is no UTF-8; remove it") from error

"""Prepared data on disk: ids of both sides as memory-mapped arrays, with the offsets of sentences and documents.

    data = PreparedData.open("prepared")
    train = data.split("train")
    train.source[7]                 # ids of the eighth sentence, without its template
    train.documents                 # (documents + 1) offsets in sentences

`tram prepare` writes such a folder: for each split and side `NAME.ids.npy` and `NAME.offsets.npy`, for each split
`NAME.documents.npy`, a `prepared.json` that describes them, and the text pipeline, `text.json`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tram.data.corpus import ParallelDocument, read_parallel
from tram.errors import InputError, UnreadableError
from tram.files import exists, read_json, reading, regular_file
from tram.fingerprints import fingerprint, has_checksum
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SpecialIds
from tram.yaml_files import short_repr

VERSION = 1
PARTS = ("source.ids", "source.offsets", "target.ids", "target.offsets", "documents")  # of a split: NAME.PART.npy
RAW_TEXTS = ("held.jsonl", "dev.jsonl")
PIECE = 1 << 22  # elements of an array that are checked at a time


class GrowingArray:
    """A one-dimensional .npy file that is written piece by piece, in constant memory."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.length = 0
        path.unlink(missing_ok=True)  # whatever it is: a pipe would block, a link would lead elsewhere
        self._file: BinaryIO = path.open("xb")
        self._write_header()

    def append(self, values: npt.ArrayLike) -> None:
        """Append values."""
        piece = np.asarray(values, dtype=self.dtype)
        self._file.write(piece.tobytes())
        self.length += len(piece)

    def _write_header(self) -> None:
        # numpy leaves room in the header for the first axis to grow, so the header can be rewritten at the end.
        header = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def close(self) -> None:
        """Write the final length."""
        self._write_header()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SplitWriter:
    """A writer of one split (train, held, dev) of a prepared folder, document by document."""

    def __init__(self, folder: Path, name: str, vocabulary: int) -> None:
        dtype = np.uint16 if vocabulary <= 2**16 else np.uint32
        self._ids = [GrowingArray(folder / f"{name}.{side}.ids.npy", dtype) for side in ("source", "target")]
        self._offsets = [GrowingArray(folder / f"{name}.{side}.offsets.npy", np.int64) for side in ("source", "target")]
        self._documents = GrowingArray(folder / f"{name}.documents.npy", np.int64)
        for array in (*self._offsets, self._documents):
            array.append([0])
        self.sentences = 0

    def add(self, source: list[list[int]], target: list[list[int]]) -> None:
        """Add a document: ids of its sentences on both sides."""
        for ids, offsets, sentences in zip(self._ids, self._offsets, (source, target), strict=True):
            lengths = np.fromiter((len(sentence) for sentence in sentences), np.int64, len(sentences))
            offsets.append(ids.length + np.cumsum(lengths))
            ids.append(np.concatenate([np.asarray(sentence, ids.dtype) for sentence in sentences]))
        self.sentences += len(source)
        self._documents.append([self.sentences])

    def close(self) -> dict[str, int]:
        """Finish all files and return their sizes."""
        for array in (*self._ids, *self._offsets, self._documents):
            array.close()
        return {
            "documents": self._documents.length - 1,
            "sentences": self.sentences,
            "source_tokens": self._ids[0].length,
            "target_tokens": self._ids[1].length,
        }


class SentenceIds(Sequence[npt.NDArray[Any]]):
    """The sentences of one side as ids."""

    @property
    @abstractmethod
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of ids of every sentence."""


class Sentences(SentenceIds):
    """The sentences of one side: memory-mapped ids and the offsets of the sentences in them."""

    def __init__(self, ids: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> None:
        self.ids = ids
        self.offsets = offsets

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of ids of every sentence."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


class UnmarkedSentences(SentenceIds):
    """The sentences of one side without the mark (`SpecialIds.history`) that some of them begin with."""

    def __init__(self, sentences: Sentences, marked: npt.NDArray[np.bool_]) -> None:
        self.sentences = sentences
        self.marked = marked

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of ids of every sentence."""
        lengths: npt.NDArray[np.int64] = self.sentences.lengths - self.marked
        return lengths

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: Any) -> Any:
        return self.sentences[index][int(self.marked[index]) :]


def _load_array(path: Path, types: tuple[type, ...]) -> npt.NDArray[Any]:
    """Return a one-dimensional array whose dtype is one of `types`, memory-mapped unless it is empty."""
    regular_file(path)
    try:
        with reading(path):
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: is missing; run `tram prepare` again") from None
    except UnreadableError:
        raise
    except Exception:  # numpy raises many kinds of errors for damaged headers, including SyntaxError and TokenError
        array = _unmapped(path)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in types:
        raise _damaged(path)
    return array


def _unmapped(path: Path) -> npt.NDArray[Any]:
    """Load an empty array, which numpy does not map; refuse a damaged one."""
    try:
        if path.stat().st_size > 1000:  # the header of an empty array is shorter
            raise ValueError
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except Exception:
        raise _damaged(path) from None
    return array


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: is damaged; remove the folder and run `tram prepare` again")


def _largest(ids: npt.NDArray[Any]) -> int:
    """Return the largest id, or -1 if there is none; reads the file in pieces."""
    return max((int(ids[start : start + PIECE].max()) for start in range(0, len(ids), PIECE)), default=-1)


def _are_offsets(offsets: npt.NDArray[Any], end: int) -> bool:
    """Return whether the numbers ascend from 0 to `end`."""
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != end:
        return False
    pieces = (offsets[start : start + PIECE + 1] for start in range(0, len(offsets), PIECE))
    return all(bool((piece[1:] >= piece[:-1]).all()) for piece in pieces)


@dataclass(frozen=True)
class Split:
    """Both sides of a set of documents. documents: (documents + 1) offsets in sentences."""

    source: SentenceIds
    target: SentenceIds
    documents: npt.NDArray[np.int64]
    special: SpecialIds = field(default_factory=SpecialIds)
    given: npt.NDArray[np.int64] | None = None  # labels at the start of every target that are not trained on
    context: npt.NDArray[np.int64] | None = None  # tokens at the start of every source that are context

    @cached_property
    def usable(self) -> npt.NDArray[np.bool_]:
        """For every sentence pair, whether both sides have words."""
        usable: npt.NDArray[np.bool_] = (self.source.lengths > 0) & (self.target.lengths > 0)
        return usable

    @property
    def has_labels(self) -> bool:
        """Whether any usable pair has labels that are trained on."""
        labels = self.target.lengths + self.special.target_extra - 1 - (0 if self.given is None else self.given)
        return bool((self.usable & (labels > 0)).any())

    def template_lengths(self, max_length: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the lengths of all sentences on both sides with their templates, truncated to max_length."""
        source = self.source.lengths + self.special.source_extra
        target = self.target.lengths + self.special.target_extra
        return np.minimum(source, max_length), np.minimum(target, max_length)

    def longer_than(self, max_length: int) -> int:
        """Count the usable pairs with a side that is longer than max_length, its template included."""
        source = self.source.lengths + self.special.source_extra > max_length
        target = self.target.lengths + self.special.target_extra > max_length
        return int((self.usable & (source | target)).sum())


def _without_marks(split: Split, target: Sentences) -> Split:
    """Return a split whose history sentences have no mark and no labels that are trained on."""
    history = split.special.history
    marked = np.zeros(len(target), np.bool_)
    if history is not None and len(target.ids):
        first = np.minimum(target.offsets[:-1], len(target.ids) - 1)
        marked = (target.lengths > 0) & (target.ids[first] == history)
    if not marked.any():
        return split
    unmarked = UnmarkedSentences(target, marked)
    labels = unmarked.lengths + split.special.target_extra - 1
    return replace(split, target=unmarked, given=np.where(marked, labels, 0))


class _PreparedFile(BaseModel):
    """The keys of prepared.json that are read."""

    model_config = ConfigDict(strict=True)

    vocabulary: Annotated[int, Field(ge=1, le=2**31)]
    text: str
    splits: dict[Annotated[str, Field(pattern=r"^[\w-]{1,100}$")], dict[str, int]]
    key: str | None = None
    source_vocabulary: Annotated[int, Field(ge=1, le=2**31)] | None = None  # None: that of the target
    files: dict[str, str] = {}  # empty: written by an earlier version


@dataclass(frozen=True)
class PreparedData:
    """A folder written by `tram prepare`."""

    folder: Path
    vocabulary: int
    fingerprint: str  # of the text pipeline
    splits: dict[str, dict[str, int]]
    key: str  # identifies the data: its files, their bytes and the settings
    source_vocabulary: int | None = None  # None: that of the target
    files: dict[str, str] = field(default_factory=dict)  # the checksums of the files by their names

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open a prepared folder; raise InputError if it is damaged."""
        folder = Path(folder)
        path = folder / "prepared.json"
        if not exists(path):
            raise InputError(f"{folder}: contains no prepared data (no prepared.json); write it with `tram prepare`")
        damaged = InputError(f"{path}: is damaged; remove the folder and run `tram prepare` again")
        try:
            about = read_json(path)
            version = about["version"]
        except (ValueError, KeyError, TypeError, OSError):
            raise damaged from None
        if version != VERSION:
            raise InputError(
                f"{path}: has version {short_repr(version)}, this tram reads {VERSION}; run `tram prepare` again"
            )
        if "checksum" in about and about.pop("checksum") != fingerprint(about):
            raise damaged
        try:
            file = _PreparedFile.model_validate(about)
        except ValidationError:
            raise damaged from None
        key = file.key or fingerprint(about)
        return cls(folder, file.vocabulary, file.text, file.splits, key, file.source_vocabulary, file.files)

    def check(self, name: str) -> None:
        """Refuse a file with another content than `tram prepare` wrote, if its checksum is known."""
        path = self.folder / name
        if not exists(path):
            raise InputError(f"{path}: is missing; run `tram prepare` again")
        if name in self.files and not has_checksum(path, self.files[name]):
            raise _damaged(path)

    def held_text(self) -> list[ParallelDocument]:
        """Return the text of the held-out documents; refuse a damaged file."""
        self.check("held.jsonl")
        return list(read_parallel(regular_file(self.folder / "held.jsonl")))

    def split(self, name: str) -> Split:
        """Return the documents of one split, memory-mapped; refuse arrays that do not fit together."""
        if name not in self.splits:
            raise InputError(f"{self.folder}: has no split `{name}`, only {', '.join(self.splits)}")

        def load(part: str, *types: type) -> npt.NDArray[Any]:
            return _load_array(self.folder / f"{name}.{part}.npy", types)

        def require(part: str, valid: bool) -> None:
            if not valid:
                raise _damaged(self.folder / f"{name}.{part}.npy")

        sides = ("source", "target")
        source, target = (
            Sentences(load(f"{side}.ids", np.uint16, np.uint32), load(f"{side}.offsets", np.int64)) for side in sides
        )
        documents = load("documents", np.int64)
        sizes = {
            "documents": len(documents) - 1,
            "sentences": len(source.offsets) - 1,  # not len(source), which is negative for an empty array
            "source_tokens": len(source.ids),
            "target_tokens": len(target.ids),
        }
        if sizes != self.splits[name]:  # checked before the values: a damaged header may declare any number of them
            raise InputError(
                f"{self.folder / 'prepared.json'}: does not describe the split `{name}` beside it; "
                "run `tram prepare` again"
            )
        vocabularies = {"source": self.source_vocabulary or self.vocabulary, "target": self.vocabulary}
        for which, side in zip(sides, (source, target), strict=True):
            require(f"{which}.offsets", _are_offsets(side.offsets, len(side.ids)))
            require(f"{which}.ids", _largest(side.ids) < vocabularies[which])
        require("target.offsets", len(source) == len(target))
        require("documents", _are_offsets(documents, len(source)))
        for part in PARTS:
            self.check(f"{name}.{part}.npy")
        return _without_marks(Split(source, target, documents, self.special), target)

    @cached_property
    def special(self) -> SpecialIds:
        """The special ids of the text pipeline."""
        special = self.text().special if exists(self.folder / "text.json") else SpecialIds()
        if not special.fit(self.vocabulary, self.source_vocabulary):
            raise InputError(
                f"{self.folder / 'text.json'}: has special ids that no vocabulary of {self.vocabulary:,} has; "
                "run `tram prepare` again"
            )
        return special

    def text(self) -> TextPipeline:
        """Return the text pipeline that produced these ids."""
        text = TextPipeline.load(self.folder)
        if text.fingerprint != self.fingerprint:
            raise InputError(
                f"{self.folder / 'text.json'}: is not the pipeline that produced these ids; run `tram prepare` again"
            )
        if not text.fits(self.vocabulary, self.source_vocabulary):
            raise InputError(
                f"{self.folder / 'prepared.json'}: has another number of ids than text.json; run `tram prepare` again"
            )
        return text

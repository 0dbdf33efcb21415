"""The interface of all subword models: `BPE`, `WordEndBPE`, `SentencePieces` and `TokenizerFile`.

The last two are `ForeignSubwords`: they read files of other libraries and shift their ids.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tram.errors import InputError
from tram.text.bpe import check_unicode

SHIFT = 1  # tram's ids are those of a foreign vocabulary plus 1, because 0 is padding
UNKNOWN = "<unk>"


@contextmanager
def raising_panics() -> Iterator[None]:
    """Turn a panic of the library tokenizers, which is no `Exception`, into a RuntimeError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # it cannot be imported
            raise
        raise RuntimeError(str(error)) from None


class Subwords(Protocol):
    """The conversion between preprocessed text and ids, without special ids."""

    @property
    def size(self) -> int:
        """The number of ids."""
        ...

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """The ids of reserved characters."""
        ...

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids are skipped."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" where a word starts."""
        ...


class ForeignSubwords(ABC):
    """Subwords of a foreign vocabulary; rows: of the model's token table, which may have more ids than tokens."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        return self.rows + SHIFT

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """The ids of reserved characters: such a vocabulary has none."""
        return ()

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, without special ids."""
        check_unicode(texts)
        try:
            with raising_panics():
                return [[number + SHIFT for number in ids] for ids in self._encode(texts)]
        except Exception as error:  # a bare one if the model has no token for what is unknown, for example
            problem = " ".join(str(error).split())[:200]
            raise InputError(
                f"the model's tokeniser cannot split a text into subwords ({problem}); import the model again"
            ) from None

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" where a word starts."""
        return [(self._piece(number - SHIFT) if number >= SHIFT else None) or UNKNOWN for number in ids]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids are skipped."""

    @abstractmethod
    def _encode(self, texts: list[str]) -> Iterable[list[int]]:
        """Return the foreign ids of many texts."""

    @abstractmethod
    def _piece(self, number: int) -> str | None:
        """Return the piece of a foreign id; None if there is none."""

"""What every kind of subwords can do; `BPE`, `WordEndBPE`, `SentencePieces` and `TokenizerFile` are such kinds."""

from collections.abc import Iterable
from typing import Protocol


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

"""Special ids, which do not stand for text, and the templates that put them around a sentence.

    special = SpecialIds()                     # tram's own: 1 starts a sentence, 2 ends it
    special.source([7, 8])                     # → [1, 7, 8, 2]
    special.target([9])                        # → [1, 9, 2]

They belong to a text pipeline and are stored in its `text.json`; padding is 0 everywhere.
"""

from dataclasses import asdict, dataclass
from typing import Any, Self

PAD = 0

# Private-use characters with ids of their own (`SpecialIds.reserved`) in pipelines that have them.
RESERVED_CHARACTERS = "".join(chr(0x10FF00 + number) for number in range(32))
SENTINELS = RESERVED_CHARACTERS[:16]  # each stands for a span that is copied from source to target
SEPARATOR = RESERVED_CHARACTERS[16]  # between sentences that are translated as one
MASK = RESERVED_CHARACTERS[17]  # replaces a masked source word
HISTORY = RESERVED_CHARACTERS[18]  # before a target sentence that the context reads and the loss leaves out


@dataclass(frozen=True)
class SpecialIds:
    """The special ids of a model: those around a sentence, and those that a search must not produce."""

    start: int = 1  # first input of the decoder
    end: int = 2  # last label
    source_prefix: tuple[int, ...] = (1,)
    source_suffix: tuple[int, ...] = (2,)
    target_prefix: tuple[int, ...] = ()  # forced after `start`, for example the target language
    banned: tuple[int, ...] = (PAD, 1)  # never produced by a search
    reserved: tuple[int, ...] = ()  # copy sentinels, separator, mask and spare ids

    @property
    def separator(self) -> int | None:
        """The id between sentences that are translated as one; None in a pipeline without reserved ids."""
        return self._reserved(SEPARATOR)

    @property
    def mask(self) -> int | None:
        """The id of a masked word; None in a pipeline without reserved ids."""
        return self._reserved(MASK)

    @property
    def history(self) -> int | None:
        """The id before a target that is only history; None in a pipeline without reserved ids."""
        return self._reserved(HISTORY)

    def _reserved(self, character: str) -> int | None:
        place = RESERVED_CHARACTERS.index(character)
        return self.reserved[place] if len(self.reserved) > place else None

    @property
    def control(self) -> frozenset[int]:
        """All ids that do not stand for text; reserved ids do."""
        templates = (*self.source_prefix, *self.source_suffix, *self.target_prefix, *self.banned)
        return frozenset((PAD, self.start, self.end, *templates))

    @property
    def source_extra(self) -> int:
        """The number of ids that the template adds to a source sentence."""
        return len(self.source_prefix) + len(self.source_suffix)

    @property
    def target_extra(self) -> int:
        """The number of ids that the template adds to a target sentence: start, forced prefix and end."""
        return len(self.target_prefix) + 2

    @property
    def target_start(self) -> tuple[int, ...]:
        """The decoder's input before it chooses the first token."""
        return (self.start, *self.target_prefix)

    def fit(self, vocabulary: int, source_vocabulary: int | None = None) -> bool:
        """Return whether vocabularies of these sizes have all of these ids; source None: that of the target.

        An id in a sequence is not padding, also if a search chose it, and a search must be able to end.
        """
        if PAD in (*self.target_start, self.end, *self.source_prefix, *self.source_suffix, *self.reserved):
            return False
        if self.end in self.banned or PAD not in self.banned:
            return False
        source = range(vocabulary if source_vocabulary is None else source_vocabulary)
        return all(0 <= each < vocabulary for each in (*self.control, *self.reserved)) and all(
            each in source for each in (*self.source_prefix, *self.source_suffix, *self.reserved)
        )

    def longest(self, max_length: int) -> int:
        """Return the number of text ids that fit into a sentence of `max_length` ids, on both sides."""
        return max_length - max(self.source_extra, self.target_extra)

    def source(self, ids: list[int]) -> list[int]:
        """Return a source sentence as the encoder reads it; an empty sentence stays empty."""
        return [*self.source_prefix, *ids, *self.source_suffix] if ids else []

    def target(self, ids: list[int]) -> list[int]:
        """Return a target sentence with start, forced prefix and end; an empty sentence stays empty."""
        return [*self.target_start, *ids, self.end] if ids else []

    def decoder_input(self, ids: list[int]) -> list[int]:
        """Return the decoder's input for a target sentence: everything but the end. Empty ids: only the template."""
        return [*self.target_start, *ids]

    def as_dict(self) -> dict[str, Any]:
        """Return the ids as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the ids that `as_dict` wrote."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)

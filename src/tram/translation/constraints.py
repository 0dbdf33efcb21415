"""What the hypotheses of a search may contain.

    search(…, constraints=[SentenceCount.of([5, 9], room=60, separator=84, end=2), …])      # one for each row

A `Constraint` belongs to one hypothesis and never changes: the longer hypothesis has another one (`after`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self


@dataclass(frozen=True)
class Choice:
    """What a hypothesis may be continued with: `only` these ids, or, if there are none, all but the forbidden ones."""

    only: tuple[int, ...] = ()
    forbidden: tuple[int, ...] = ()


class Constraint(ABC):
    """What one hypothesis may be continued with.

    Scores stay those of the model: what is not allowed becomes impossible, the rest is not made more probable. Ids that
    a search never produces (`SpecialIds.banned`) stay impossible, and at its length limit a hypothesis must end.
    """

    @abstractmethod
    def choice(self) -> Choice:
        """Return what may follow."""

    @abstractmethod
    def after(self, token: int) -> "Constraint":
        """Return the constraint of the hypothesis that this token continues."""


def sentence_limit(source: int) -> int:
    """Return the most tokens, end included, for the translation of so many source ids; what is longer is a loop."""
    return 2 * source + 20


@dataclass(frozen=True)
class SentenceCount(Constraint):
    """As many sentences as the source has: one token at least in each, separators between them, the end after the last.

    The separator, or the end, is forced where a sentence reaches its limit, as G-Transformer forces </s>. Besides, no
    sentence takes the room of those after it: each has at least its share of the position table.
    """

    limits: tuple[int, ...]  # tokens of each sentence, with its separator or end
    deadlines: tuple[int, ...]  # tokens of the whole sequence after which each sentence must have ended
    separator: int
    end: int
    complete: int = 0  # sentences
    length: int = 0  # tokens so far
    start: int = 0  # `length` at the start of the sentence

    @classmethod
    def of(cls, sources: Sequence[int], room: int, separator: int, end: int) -> Self:
        """Return the constraint before the first token. sources: ids of each sentence; room: tokens of all together."""
        if room < 2 * len(sources):
            raise ValueError(f"{len(sources)} sentences do not fit into {room} tokens")
        limits = [sentence_limit(source) for source in sources]
        spare = room - 2 * len(sources)  # beyond one token and the separator or end of each sentence
        shares = [2 + spare * source // sum(sources) for source in sources]
        kept = [min(pair) for pair in zip(limits, shares, strict=True)]  # for each sentence, whatever comes before it
        deadlines = [room - sum(kept) + total for total in accumulate(kept)]
        return cls(tuple(limits), tuple(deadlines), separator, end)

    @property
    def limit(self) -> int:
        """The most tokens of the whole sequence, end included."""
        return min(self.deadlines[-1], sum(self.limits))

    def choice(self) -> Choice:
        """Return the separator or the end where the sentence must end; else all but what would change the count."""
        last = self.complete == len(self.limits) - 1
        mark, other = (self.end, self.separator) if last else (self.separator, self.end)
        if self.length == self.start:
            return Choice(forbidden=(mark, other))
        if self.length + 1 >= min(self.start + self.limits[self.complete], self.deadlines[self.complete]):
            return Choice(only=(mark,))
        return Choice(forbidden=(other,))

    def after(self, token: int) -> "SentenceCount":
        """Return the constraint of the next token."""
        length = self.length + 1
        if token == self.separator:
            return replace(self, complete=self.complete + 1, length=length, start=length)
        return replace(self, length=length)

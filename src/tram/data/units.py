"""Units: sequences of several sentences that are translated as one, joined with the separator id.

    units = units_of(model.config, special)            # None: the unit is a sentence
    units.training_units(split)                        # a `Split` whose sentences are units

    unit = units.next_unit(history, sentences)         # decoding: the sentences to translate now, and their context
    units.source(unit), units.given_target(unit)       # ids: the source sequence, and the prefix of the target
    units.split(ids)                                   # the translation of a unit, sentence by sentence
    history = units.following(unit)                    # what the next unit may see
    history = units.remember(history, pair)            # … after a pair that was translated elsewhere

A *window* slides by one sentence: those before the current one are its context. A *block* (or a *document*, which is a
long block) is translated at once; if a document is continued in the middle of a block, the sentences that are already
translated are its context. Training and decoding join sentences by the same rules. Pairs with an empty side are left
out.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tram.config import ModelConfig
from tram.config.units import BlockUnit, WindowUnit
from tram.data.arrays import SentenceIds, Split
from tram.data.budget import costs_of_sums, slices_within
from tram.errors import InputError
from tram.text.special_ids import SpecialIds

FRAME = 2  # tokens per sentence of a block besides its words, as in G-Transformer
Numbers = npt.NDArray[np.int64]


@dataclass
class Pair:
    """A sentence and its translation, which is empty until it is known."""

    source: list[int]
    target: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of tokens that the pair adds to a block."""
        return max(len(self.source), len(self.target)) + FRAME


@dataclass(frozen=True)
class Unit:
    """Sentences to translate as one sequence, and the pairs before them that are their context."""

    context: tuple[Pair, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Runs:
    """Sentences that form units: source sentences [starts, stops), target sentences [target_starts, stops)."""

    starts: Numbers
    target_starts: Numbers
    stops: Numbers


@dataclass(frozen=True)
class Units(ABC):
    """The rule that joins sentences into units. longest: maximum ids per sentence; longer ones are cut in training."""

    special: SpecialIds
    separator: int
    longest: int

    def join(self, sentences: Iterable[Sequence[int]]) -> list[int]:
        """Return sentences as one sequence."""
        return list(chain.from_iterable((self.separator, *sentence) for sentence in sentences))[1:]

    def split(self, ids: Sequence[int]) -> list[list[int]]:
        """Return the sentences of a sequence; the inverse of `join` for at least one sentence."""
        sentences: list[list[int]] = [[]]
        for number in ids:
            if number == self.separator:
                sentences.append([])
            else:
                sentences[-1].append(number)
        return sentences

    def source(self, unit: Unit) -> list[int]:
        """Return the source sequence of a unit, without its template."""
        return self.join(pair.source for pair in (*unit.context, *unit.pairs))

    def given_target(self, unit: Unit) -> list[int]:
        """Return the given prefix of the target sequence: the translations of the context, each with a separator."""
        return [number for pair in self._given_pairs(unit) for number in (*pair.target, self.separator)]

    def context_tokens(self, unit: Unit) -> int:
        """Return the number of source tokens, template included, before the sentences to translate."""
        context = self.join(pair.source for pair in unit.context)
        return len(self.special.source_prefix) + len(context) + 1 if context else 0

    def settled(self, history: Sequence[Pair]) -> list[Pair]:
        """Return the part of a history that the next unit may see, once all translations are known."""
        kept: list[Pair] = []
        for pair in history:
            if pair.target:
                kept = self.remember(kept, pair)
        return kept

    def accepts(self, history: list[Pair], vocabulary: int) -> bool:
        """Return whether the pairs are a valid history; those of a damaged file may not be."""
        sides = [side for pair in history for side in (pair.source, pair.target)]
        known = all(0 < number < vocabulary for side in sides for number in side)
        return known and all(0 < len(side) <= self.longest for side in sides) and self.settled(history) == history

    def training_units(self, split: Split) -> Split:
        """Return the units of prepared documents, as a split in which every unit is a sentence."""
        rows = np.flatnonzero(split.usable)
        documents = np.searchsorted(rows, split.documents)  # offsets of the documents among the usable rows
        source, target = (_CutSentences(side, rows, self.longest) for side in (split.source, split.target))
        runs = self._runs(np.maximum(source.lengths, target.lengths) + FRAME, documents)
        sources = JoinedSentences(source, runs.starts, runs.stops, self.separator)
        targets = JoinedSentences(target, runs.target_starts, runs.stops, self.separator)
        return replace(
            split,
            source=sources,
            target=targets,
            documents=np.searchsorted(runs.stops, documents, side="right"),
            given=self._given_labels(targets.lengths - target.lengths[runs.stops - 1]),
            context=self._context_tokens(sources.lengths - source.lengths[runs.stops - 1]),
        )

    @property
    @abstractmethod
    def needs_translations(self) -> bool:
        """Whether a unit can only be translated after the one before it."""

    @property
    @abstractmethod
    def most_sentences(self) -> int:
        """The maximum number of sentences that one unit translates."""

    @abstractmethod
    def next_unit(self, history: Sequence[Pair], sentences: Sequence[list[int]]) -> Unit:
        """Return the next unit: one or more of the untranslated sentences, and their context."""

    @abstractmethod
    def following(self, unit: Unit) -> list[Pair]:
        """Return the history after a unit, whether or not it is translated yet."""

    @abstractmethod
    def remember(self, history: Sequence[Pair], pair: Pair) -> list[Pair]:
        """Return the history after one more pair, whose translation is known."""

    @abstractmethod
    def _given_pairs(self, unit: Unit) -> tuple[Pair, ...]:
        """Return the part of the context whose translations are a prefix of the target."""

    @abstractmethod
    def _runs(self, sizes: Numbers, documents: Numbers) -> Runs:
        """Return the units of documents. sizes: of all pairs; documents: offsets in pairs."""

    def _given_labels(self, context: Numbers) -> Numbers | None:
        """Return the number of labels without loss for every unit; None: all have one.

        context: target ids before the last sentence.
        """
        return None

    def _context_tokens(self, context: Numbers) -> Numbers | None:
        """Return `context_tokens` of every unit; None if the model does not need it.

        context: source ids before the last sentence.
        """
        return None


@dataclass(frozen=True)
class Windows(Units):
    """Windows that slide by one sentence."""

    config: WindowUnit

    @property
    def needs_translations(self) -> bool:
        """Whether earlier translations are part of the target sequence."""
        return self.config.target > 1

    @property
    def most_sentences(self) -> int:
        """One: a window translates only the current sentence."""
        return 1

    def next_unit(self, history: Sequence[Pair], sentences: Sequence[list[int]]) -> Unit:
        """Return the next sentence after the pairs before it."""
        return Unit(tuple(history), (Pair(sentences[0]),))

    def following(self, unit: Unit) -> list[Pair]:
        """Return the last pairs, as `remember` does."""
        return self.remember(unit.context, unit.pairs[0])

    def remember(self, history: Sequence[Pair], pair: Pair) -> list[Pair]:
        """Return the last pairs that fit into a window together with the next sentence."""
        pairs = [*history, pair]
        return pairs[max(len(pairs) - self.config.source + 1, 0) :]

    def _given_pairs(self, unit: Unit) -> tuple[Pair, ...]:
        return unit.context[max(len(unit.context) - self.config.target + 1, 0) :]

    def _runs(self, sizes: Numbers, documents: Numbers) -> Runs:
        stops = np.arange(1, len(sizes) + 1)
        first = np.repeat(documents[:-1], np.diff(documents))
        starts, target_starts = (np.maximum(stops - size, first) for size in (self.config.source, self.config.target))
        return Runs(starts, target_starts, stops)

    def _given_labels(self, context: Numbers) -> Numbers | None:
        return None if self.config.loss == "all" else _with_template(context, self.special.target_prefix)

    def _context_tokens(self, context: Numbers) -> Numbers | None:
        return _with_template(context, self.special.source_prefix) if self.config.flat_layers else None


@dataclass(frozen=True)
class Blocks(Units):
    """Non-overlapping runs of sentences, formed greedily by G-Transformer's rule.

    A sentence is added while the block has fewer than the maximum number of sentences and the sum of
    max(n_src, n_tgt) + 2 stays below the budget; n_tgt of a sentence that is not translated yet counts as 0.
    """

    config: BlockUnit

    @property
    def needs_translations(self) -> bool:
        """Blocks do not see each other."""
        return False

    @property
    def most_sentences(self) -> int:
        """The maximum of the config, or fewer if the token budget is smaller."""
        return min(self.config.sentences, self.config.tokens // (FRAME + 1) + 1)

    def next_unit(self, history: Sequence[Pair], sentences: Sequence[list[int]]) -> Unit:
        """Return the next block, or the rest of the block that `history` started if there is room for a sentence."""
        # A history with untranslated pairs is a full block.
        known = tuple(history) if all(pair.target for pair in history) else ()
        pairs = [Pair(sentence) for sentence in sentences[: self.most_sentences]]
        first = next(self._cut([pair.size for pair in (*known, *pairs)]))
        if first.stop <= len(known):
            return self.next_unit((), sentences)
        return Unit(known, tuple(pairs[: first.stop - len(known)]))

    def following(self, unit: Unit) -> list[Pair]:
        """Return the block, which may have room for more sentences."""
        return [*unit.context, *unit.pairs]

    def remember(self, history: Sequence[Pair], pair: Pair) -> list[Pair]:
        """Return the current block up to and including `pair`."""
        pairs = [*history, pair]
        *_, last = self._cut([each.size for each in pairs])
        return pairs[last]

    def _given_pairs(self, unit: Unit) -> tuple[Pair, ...]:
        return unit.context

    def _cut(self, sizes: Sequence[int]) -> Iterator[slice]:
        most, limit = self.config.sentences, self.config.tokens
        tokens = costs_of_sums(sizes)
        return slices_within(
            lambda start, stop: limit if stop - start > most else tokens(start, stop), len(sizes), limit - 1
        )

    def _runs(self, sizes: Numbers, documents: Numbers) -> Runs:
        edges: list[tuple[int, int]] = []
        for start, stop in zip(documents[:-1].tolist(), documents[1:].tolist(), strict=True):
            edges += [(start + part.start, start + part.stop) for part in self._cut(sizes[start:stop].tolist())]
        starts, stops = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        return Runs(starts, starts, stops)


def units_of(model: ModelConfig, special: SpecialIds, where: str = "this model") -> Units | None:
    """Return the unit rule of a model, None for a sentence model; `where` names it in error messages."""
    if model.unit.kind == "sentence":
        return None
    if special.separator is None:
        raise InputError(
            f"{where}: unit.kind `{model.unit.kind}` needs a separator, which the text pipeline does not have; "
            "prepare the data with `tram prepare --reserved`"
        )
    longest = special.longest(model.max_length)
    if isinstance(model.unit, WindowUnit):
        return Windows(special, special.separator, longest, model.unit)
    return Blocks(special, special.separator, longest, model.unit)


def _with_template(context: Numbers, prefix: tuple[int, ...]) -> Numbers:
    """Return the number of context ids with the template before them; 0 where there is no context."""
    return np.where(context > 0, context + len(prefix), 0)


class _CutSentences(SentenceIds):
    """Some sentences of one side, cut to `longest` ids."""

    def __init__(self, sentences: SentenceIds, rows: Numbers, longest: int) -> None:
        self.sentences = sentences
        self.rows = rows
        self.longest = longest
        self._lengths: Numbers = np.minimum(sentences.lengths[rows], longest)

    @property
    def lengths(self) -> Numbers:
        """The number of ids of every sentence."""
        return self._lengths

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.sentences[self.rows[index]][: self.longest]


class JoinedSentences(SentenceIds):
    """Runs of sentences of one side, each as one sequence of ids. starts, stops: of every run, in sentences."""

    def __init__(self, sentences: SentenceIds, starts: Numbers, stops: Numbers, separator: int) -> None:
        self.sentences = sentences
        self.separator = separator
        self.starts = starts
        self.stops = stops
        ends = np.concatenate([[0], np.cumsum(sentences.lengths + 1)])
        self._lengths: Numbers = ends[stops] - ends[starts] - 1

    @property
    def lengths(self) -> Numbers:
        """The number of ids of every run, separators included."""
        return self._lengths

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: Any) -> Any:
        run = range(self.starts[index], self.stops[index])
        parts = [part for row in run for part in ([self.separator], self.sentences[row])]
        return np.concatenate(parts[1:])

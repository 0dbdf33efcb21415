"""Translation of many documents sentence by sentence, in lockstep, each with its own state.

    lockstep = Lockstep(engine, special, beam=5)
    for cursor, hypotheses in lockstep.run(cursors): ...      # cursors: documents of sentences as ids

The source is encoded ahead in parallel passes over blocks of sentences within a token budget, with the state carried
along; in models that read the whole source, a pass covers a segment of each document (`model.segments`). The target is
decoded sentence by sentence; a finished document makes room for the next one. After a sentence, the state is updated
from the decoder states of the best hypothesis, or from the translation that `choose` prefers, so that the memory never
reads a rejected one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from tram.config.contexts import SegmentRule
from tram.data.batches import document_ids
from tram.data.budget import costs_of_sums, slices_within
from tram.model.packing import Layout
from tram.model.segments import segment_numbers
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.alignment import cross_attention
from tram.translation.engines.base import Engine
from tram.translation.first_pass import first_translations
from tram.translation.search import Hypothesis, length_limit, search

History = Literal["generated", "gold", "none"]
Ids = list[int]


@dataclass
class Cursor:
    """A document in progress: its sentences (ids of text, none empty), and its position."""

    number: int
    sentences: Sequence[Ids]
    state: State
    gold: Sequence[Ids] | None = None
    done: int = 0  # sentences translated
    encoded: deque[Tensor] = field(default_factory=deque)  # source states of the sentences that follow
    exact: deque[Hypothesis] = field(default_factory=deque)  # translations of the sentences that follow (`speculation`)
    drafts: list[Ids] = field(default_factory=list)  # those of the sentences after them, which may not be exact

    @property
    def ended(self) -> bool:
        """Whether all sentences are translated."""
        return self.done == len(self.sentences)


Choose = Callable[[Cursor, list[Hypothesis]], Hypothesis]


@dataclass(frozen=True)
class Lockstep:
    """Lockstep translation of documents."""

    engine: Engine
    special: SpecialIds
    beam: int = 5
    length_penalty: float = 1.0
    documents: int = 32  # translated at once
    block: int = 512  # source tokens of all documents per encoder pass
    history: History = "generated"
    choose: Choose | None = None  # returns a hypothesis, or another translation without update inputs; None: the first
    alignment: bool = False  # whether to return the attention of the best hypotheses

    @property
    def model(self) -> Transformer:
        """The model of the engine."""
        return self.engine.model

    @torch.inference_mode()
    def run(self, cursors: Iterable[Cursor | None]) -> Iterator[tuple[Cursor, list[Hypothesis]]]:
        """Yield the hypotheses of one sentence after the other, with the document they belong to.

        A document is read when there is room for it, so `cursors` may be endless. None means that no document is
        available at present; `cursors` is read again after the next sentences.
        """
        waiting = iter(cursors)
        active: list[Cursor] = []
        while True:
            active += self._admit(waiting, self.documents - len(active))
            if not active:
                return
            yield from zip(active, self.step(active), strict=True)
            active = [cursor for cursor in active if not cursor.ended]

    @staticmethod
    def _admit(waiting: Iterator[Cursor | None], room: int) -> list[Cursor]:
        admitted: list[Cursor] = []
        while len(admitted) < room and (cursor := next(waiting, None)) is not None:
            if not cursor.ended:
                admitted.append(cursor)
        return admitted

    @torch.inference_mode()
    def step(self, cursors: list[Cursor]) -> list[list[Hypothesis]]:
        """Translate the next sentence of every document; for callers that choose the documents of each step."""
        self.encode([cursor for cursor in cursors if not cursor.encoded])
        hypotheses = self.translate(cursors)
        for cursor in cursors:
            cursor.done += 1
        return hypotheses

    def encode(self, cursors: list[Cursor]) -> None:
        """Encode the next sentences of some documents, as many as fit into a block."""
        if not cursors:
            return
        if self.model.segment_rule is not None and self.history != "none":
            self._encode_segments(cursors, self.model.segment_rule)
            return
        budget = max(self.block // len(cursors), 1)
        blocks = [self._next_block(cursor, budget) for cursor in cursors]
        if self.history == "none":
            for cursor, block in zip(cursors, blocks, strict=True):
                self._hand_out([cursor] * len(block), self.engine.encode(self._ids([[ids] for ids in block])))
            return
        self._encode_in_context(cursors, blocks)

    def _encode_in_context(self, cursors: list[Cursor], blocks: list[list[Ids]]) -> None:
        """Encode the next sentences of some documents, with first-pass translations if the model reads them."""
        source, state = self._ids(blocks), State.join([cursor.state for cursor in cursors])
        encoded = self.engine.encode(source, state)
        self._hand_out([cursor for cursor, block in zip(cursors, blocks, strict=True) for _ in block], encoded)
        after = encoded.state
        if self.model.makes_first_translations:
            inputs = first_translations(self.model, self.special, source)
            after = self.model.with_first_translations(encoded, inputs, state)
        self._put_back(cursors, after)

    def _encode_segments(self, cursors: list[Cursor], rule: SegmentRule) -> None:
        """Encode the next segment of some documents, or the rest of the open one; as many as fit at once."""
        segments = [self._next_segment(cursor, rule) for cursor in cursors]
        sizes = [sum(map(len, segment)) for segment in segments]
        for part in slices_within(costs_of_sums(sizes), len(cursors), self.block):
            own, parts = cursors[part], segments[part]
            self._encode_in_context(own, parts)

    def _next_segment(self, cursor: Cursor, rule: SegmentRule) -> list[Ids]:
        """Return the next sentences of a document that form one segment, with their templates."""
        sentences = [self.special.source(ids) for ids in cursor.sentences[cursor.done :]]
        numbers = segment_numbers(rule, list(map(len, sentences)), self.model.segment_lengths(cursor.state))
        return sentences[: numbers.count(numbers[0])]

    def _next_block(self, cursor: Cursor, budget: int) -> list[Ids]:
        """Return the next sentences of a document, with their templates, that fit the budget; at least one."""
        extra = self.special.source_extra
        window = cursor.sentences[cursor.done : cursor.done + budget // (extra + 1) + 1]
        part = next(slices_within(costs_of_sums([len(ids) + extra for ids in window]), len(window), budget))
        return [self.special.source(ids) for ids in window[part]]

    def translate(self, cursors: list[Cursor]) -> list[list[Hypothesis]]:
        """Translate the next sentence of every document, and update the states with it."""
        sources = [cursor.encoded.popleft() for cursor in cursors]
        ids = [cursor.sentences[cursor.done] for cursor in cursors]
        state = None if self.history == "none" else State.join([cursor.state for cursor in cursors])
        source_ids = self._ids([[self.special.source(sentence)] for sentence in ids])
        encoded = self.model.encoded_before(torch.cat(sources), source_ids, state)
        results = self._next_hypotheses(cursors, encoded, state)
        if self.choose is not None:
            chosen = map(self.choose, cursors, results)
            results = [[best, *hypotheses[1:]] for best, hypotheses in zip(chosen, results, strict=True)]
        if self.alignment:
            best = [hypotheses[0].ids for hypotheses in results]
            weights = cross_attention(self.model, self.special, encoded, ids, best, state)
            results = [[replace(h[0], attention=w), *h[1:]] for h, w in zip(results, weights, strict=True)]
        self._update(cursors, encoded, results, state)
        return results

    def _next_hypotheses(self, cursors: list[Cursor], encoded: Encoded, state: State | None) -> list[list[Hypothesis]]:
        """Return the hypotheses of the next sentence of every document, which is encoded."""
        lengths = [len(cursor.sentences[cursor.done]) for cursor in cursors]
        limits = [length_limit(self.model, self.special, length) for length in lengths]
        return search(self.engine, encoded, limits, self.special, self.beam, self.length_penalty, state)

    def _update(
        self, cursors: list[Cursor], encoded: Encoded, results: list[list[Hypothesis]], state: State | None
    ) -> None:
        """Update the states of the documents with the translated sentences."""
        if self.history == "gold":
            gold = [cursor.gold[cursor.done] for cursor in cursors if cursor.gold is not None]
            self._read(cursors, encoded, gold, state)
        elif state is not None and self.model.decoder.contexts():
            best = [hypotheses[0] for hypotheses in results]
            if not all(each.update_inputs for each in best):
                self._read(cursors, encoded, [each.ids for each in best], state)
                return
            inputs = {name: torch.cat([each.update_inputs[name] for each in best]) for name in best[0].update_inputs}
            layout = Layout(self._ids([[self.special.decoder_input(each.ids)] for each in best]))
            self._put_back(cursors, self.engine.advance(inputs, layout, state))

    def _read(self, cursors: list[Cursor], encoded: Encoded, targets: list[Ids], state: State | None) -> None:
        """Update the states with given translations; an empty one does not change its document's state."""
        counted = self.model.makes_first_translations  # these models represent an empty translation by the start id
        inputs = self._ids([[self.special.decoder_input(ids) if ids or counted else []] for ids in targets])
        self._put_back(cursors, self.model.forced_decode(encoded, inputs, state).state)

    def _ids(self, documents: Sequence[Sequence[Ids]]) -> Tensor:
        return document_ids(documents).to(self.model.device)

    def _hand_out(self, owners: list[Cursor], encoded: Encoded) -> None:
        """Distribute the encoded sentences to their documents."""
        lengths = [n for n in encoded.layout.counts.tolist() if n]
        for cursor, states in zip(owners, encoded.states.split(lengths), strict=True):
            cursor.encoded.append(states)

    def _put_back(self, cursors: list[Cursor], state: State) -> None:
        for cursor, own in zip(cursors, state.unbind() or [state] * len(cursors), strict=True):
            cursor.state |= own

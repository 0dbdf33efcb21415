"""Many documents translated sentence by sentence, in lockstep, each with its own memory.

    lockstep = Lockstep(model, beam=5)
    for number, hypothesis in lockstep.run(documents): ...      # documents: lists of sentences as ids

The source side runs ahead in parallel passes over blocks of sentences bounded in tokens, memory carried. The target
goes sentence by sentence; a document that ends leaves its place to the next one. A sentence is taken in when it is
complete, from the best hypothesis's own states.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from tram.data.batches import decoder_input, padded_ids
from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import Carried, join_documents, select_documents
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.translation.search import Hypothesis, search

History = Literal["generated", "gold", "none"]
Ids = list[int]


@dataclass
class Cursor:
    """A document under way: its sentences (ids, none empty), and how far it is."""

    number: int
    sentences: Sequence[Ids]
    carried: Carried
    gold: Sequence[Ids] | None = None
    at: int = 0  # sentences translated
    encoded: deque[Tensor] = field(default_factory=deque)  # source states of the sentences that follow

    @property
    def ended(self) -> bool:
        """Whether all sentences are translated."""
        return self.at == len(self.sentences)


@dataclass(frozen=True)
class Lockstep:
    """How documents are translated together."""

    model: Transformer
    beam: int = 5
    length_penalty: float = 1.0
    documents: int = 32  # at once
    block: int = 512  # source tokens of all of them that one pass of the encoder covers
    history: History = "generated"

    @torch.inference_mode()
    def run(self, cursors: Sequence[Cursor]) -> Iterator[tuple[Cursor, list[Hypothesis]]]:
        """Hypotheses of one sentence after the other, with the document they belong to."""
        waiting = deque(cursor for cursor in cursors if not cursor.ended)
        active: list[Cursor] = []
        while waiting or active:
            while waiting and len(active) < self.documents:
                active.append(waiting.popleft())
            self.encode([cursor for cursor in active if not cursor.encoded])
            for cursor, hypotheses in zip(active, self.translate(active), strict=True):
                cursor.at += 1
                yield cursor, hypotheses
            active = [cursor for cursor in active if not cursor.ended]

    def encode(self, cursors: list[Cursor]) -> None:
        """Encode the next sentences of some documents, as many as fit into a block."""
        if not cursors:
            return
        budget = max(self.block // len(cursors), 1)
        blocks = [_within(cursor.sentences[cursor.at :], budget) for cursor in cursors]
        if self.history == "none":
            for cursor, block in zip(cursors, blocks, strict=True):
                self._hand_out([cursor] * len(block), self.model.encode(self._ids([[ids] for ids in block])))
            return
        carried = join_documents([cursor.carried for cursor in cursors])
        encoded = self.model.encode(self._ids(blocks), carried)
        owners = [cursor for cursor, block in zip(cursors, blocks, strict=True) for _ in block]
        self._hand_out(owners, encoded)
        self._put_back(cursors, encoded.carried)

    def translate(self, cursors: list[Cursor]) -> list[list[Hypothesis]]:
        """The next sentence of every document, and take it in."""
        sources = [cursor.encoded.popleft() for cursor in cursors]
        ids = [cursor.sentences[cursor.at] for cursor in cursors]
        encoded = Encoded(torch.cat(sources), Layout(self._ids([[sentence] for sentence in ids])), {})
        carried = None if self.history == "none" else join_documents([cursor.carried for cursor in cursors])
        limits = [length_limit(len(sentence), self.model.config.max_positions) for sentence in ids]
        found = search(self.model, encoded, limits, self.beam, self.length_penalty, carried)
        if self.history == "gold":
            gold = [[cursor.gold[cursor.at]] for cursor in cursors if cursor.gold is not None]
            right = decoder_input(self._ids(gold))
            right[[not sentence for (sentence,) in gold]] = PAD  # an empty sentence leaves the state as it is
            self._put_back(cursors, self.model.decode(right, encoded, carried).carried)
        elif carried is not None and found[0][0].kept:
            best = [hypotheses[0] for hypotheses in found]
            kept = {name: torch.cat([each.kept[name] for each in best]) for name in best[0].kept}
            layout = Layout(decoder_input(self._ids([[each.ids] for each in best])))
            self._put_back(cursors, self.model.advance(kept, layout, carried))
        return found

    def _ids(self, documents: Sequence[Sequence[Ids]]) -> Tensor:
        """(documents, sentences, tokens): bos … eos, then 0."""
        return document_ids(documents).to(self.model.tokens.weight.device)

    def _hand_out(self, owners: list[Cursor], encoded: Encoded) -> None:
        lengths = [n for n in encoded.layout.counts.tolist() if n]
        for cursor, states in zip(owners, encoded.states.split(lengths), strict=True):
            cursor.encoded.append(states)

    def _put_back(self, cursors: list[Cursor], carried: Carried) -> None:
        for row, cursor in enumerate(cursors):
            own = select_documents(carried, torch.tensor([row], device=self.model.tokens.weight.device))
            cursor.carried = cursor.carried | own


def document_ids(documents: Sequence[Sequence[Ids]]) -> Tensor:
    """(documents, sentences, tokens): bos … eos, then 0; documents with fewer sentences get empty ones."""
    flat = padded_ids([sentence for document in documents for sentence in document])
    ids = flat.new_zeros(len(documents), max(map(len, documents)), flat.shape[1])
    rows = iter(flat)
    for document, place in zip(documents, ids, strict=True):
        for number in range(len(document)):
            place[number] = next(rows)
    return ids


def length_limit(source: int, most: int) -> int:
    """Most tokens of a translation: twice the source and some; what is longer than that is a loop."""
    return min(2 * source + 20, most)


def _within(sentences: Sequence[Ids], budget: int) -> list[Ids]:
    """The first sentences with at most `budget` tokens together, but at least one."""
    block: list[Ids] = []
    for sentence in sentences:
        budget -= len(sentence) + 2
        if block and budget < 0:
            break
        block.append(sentence)
    return block

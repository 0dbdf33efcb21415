"""Greedy translation of several sentences of a document at once, with the result of one after the other.

    lockstep = SpeculativeLockstep(engine, special, beam=1, sentences=4)

A sentence needs the memory after the one before it, so one token at a time is decoded, and every step reads all weights
for it. Here the next sentences are drafted together, all with the present state. Then one pass reads the drafts, each
with the state after the one before it (`Engine.force`): a draft in which every token is the most likely one is what
greedy search finds. The first one that differs is drafted again, with those after it.

It pays where a step is bound by reading the weights; small models and beam search gain nothing (docs/SPEED.md).
"""

from dataclasses import dataclass

import torch

from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.translation.engines.base import Forced
from tram.translation.lockstep import Cursor, Ids, Lockstep
from tram.translation.search import Hypothesis, length_limit, search


@dataclass(frozen=True, kw_only=True)
class SpeculativeLockstep(Lockstep):
    """Lockstep translation of documents by greedy search, some sentences ahead.

    sentences: drafted at once, of all documents together.
    """

    sentences: int

    def translate(self, cursors: list[Cursor]) -> list[list[Hypothesis]]:
        """Translate the next sentence of every document, and update the states with it."""
        for cursor in cursors:
            if cursor.drafts and not cursor.exact:
                self._verify(cursor)
        if missing := [cursor for cursor in cursors if not cursor.exact]:
            self._draft(missing)
        results = super().translate(cursors)
        for cursor, hypotheses in zip(cursors, results, strict=True):
            if hypotheses[0].update_inputs is not cursor.exact.popleft().update_inputs:
                # Another translation was chosen, so those of the next sentences are of a state that was not reached
                cursor.drafts = [each.ids for each in cursor.exact] + cursor.drafts
                cursor.exact.clear()
        return results

    def _next_hypotheses(self, cursors: list[Cursor], encoded: Encoded, state: State | None) -> list[list[Hypothesis]]:
        return [[cursor.exact[0]] for cursor in cursors]

    def _draft(self, cursors: list[Cursor]) -> None:
        """Translate the next sentences of some documents, all with the present states; the first one is exact."""
        most = max(self.sentences // len(cursors), 1)
        places = [(cursor, place) for cursor in cursors for place in range(min(most, len(cursor.encoded)))]
        ids = [cursor.sentences[cursor.done + place] for cursor, place in places]
        state = State.join([cursor.state for cursor, _ in places])
        source = self._ids([[self.special.source(sentence)] for sentence in ids])
        encoded = Encoded(torch.cat([cursor.encoded[place] for cursor, place in places]), Layout(source), State.empty())
        limits = [length_limit(self.model, self.special, len(sentence)) for sentence in ids]
        results = search(self.engine, encoded, limits, self.special, 1, self.length_penalty, state)
        for (cursor, place), (hypothesis, *_) in zip(places, results, strict=True):
            if place:
                cursor.drafts.append(hypothesis.ids)
            else:
                cursor.exact.append(hypothesis)

    def _verify(self, cursor: Cursor) -> None:
        """Find the drafts that greedy search would find now, up to the first that differs; forget the others."""
        drafts, cursor.drafts = cursor.drafts, []
        ids = cursor.sentences[cursor.done : cursor.done + len(drafts)]
        source = self._ids([[self.special.source(sentence) for sentence in ids]])
        states = torch.cat([cursor.encoded[place] for place in range(len(drafts))])
        encoded = Encoded(states, Layout(source), State.empty())
        for draft, forced in zip(drafts, self.engine.force(encoded, drafts, cursor.state, self.special), strict=True):
            if not self._is_exact(draft, forced):
                return
            score = sum(forced.scores) / len(forced.ids) ** self.length_penalty
            cursor.exact.append(Hypothesis(draft, score, forced.update_inputs))

    def _is_exact(self, draft: Ids, forced: Forced) -> bool:
        """Return whether a draft is what greedy search would find; one that was cut at its limit never counts."""
        return forced.ids == [*draft, self.special.end]

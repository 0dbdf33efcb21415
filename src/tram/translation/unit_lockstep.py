"""Translation of documents unit by unit: windows, blocks or segments of several sentences as one sequence.

    lockstep = UnitLockstep(engine, special, units=units_of(model.config, special), beam=5)
    for cursor, hypotheses in lockstep.run(cursors): ...      # sentence by sentence, like `Lockstep`

If a unit needs the translation of the previous one, documents are translated in lockstep; otherwise as many units as
fit are translated at once. A translation has as many sentences as its source (`SentenceCount`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from tram.data.budget import costs_of_sums, slices_within
from tram.data.units import Pair, Unit, Units
from tram.model.transformer import Transformer
from tram.translation.constraints import SentenceCount
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.search import Hypothesis, search

BATCH_TOKENS = 2048  # source and given target tokens per search, unless one unit has more


@dataclass
class UnitCursor(Cursor):
    """A document in progress. history: the pairs that the next unit may see; planned: sentences assigned to units."""

    history: list[Pair] = field(default_factory=list)
    planned: int = 0


@dataclass(frozen=True, kw_only=True)
class UnitLockstep(Lockstep):
    """Lockstep translation of documents, unit by unit."""

    units: Units

    @torch.inference_mode()
    def run(self, cursors: Iterable[Cursor | None]) -> Iterator[tuple[Cursor, list[Hypothesis]]]:
        """Yield the best hypothesis of one sentence after the other, with the document they belong to."""
        waiting = iter(cursors)
        active: list[UnitCursor] = []
        while True:
            admitted = self._admit(waiting, self.documents - len(active))
            active += [cursor for cursor in admitted if isinstance(cursor, UnitCursor)]
            if not active:
                return
            planned = self._plan(active)
            translations = self.translate_units([unit for _, unit in planned])
            for (cursor, unit), hypotheses in zip(planned, translations, strict=True):
                for pair, hypothesis in zip(unit.pairs, hypotheses, strict=True):
                    if self.choose is not None:
                        hypothesis = self.choose(cursor, [hypothesis])
                    self._complete(cursor, pair, hypothesis.ids)
                    yield cursor, [hypothesis]
            active = [cursor for cursor in active if not cursor.ended]

    def _plan(self, cursors: list[UnitCursor]) -> list[tuple[UnitCursor, Unit]]:
        """Return the units to translate now: one of each document, or more if they are independent."""
        planned: list[tuple[UnitCursor, Unit]] = []
        for cursor in cursors:
            while cursor.planned < len(cursor.sentences) and len(planned) < self.documents:
                planned.append((cursor, self._next_unit(cursor)))
                if self._waits_for_translations:
                    break
        return planned

    @property
    def _waits_for_translations(self) -> bool:
        return self.units.needs_translations and self.history != "none"

    def _next_unit(self, cursor: UnitCursor) -> Unit:
        """Return the next unit of a document; without history, every sentence is a unit."""
        if self.history == "none":
            cursor.planned += 1
            return Unit((), (Pair(cursor.sentences[cursor.planned - 1]),))
        window = cursor.sentences[cursor.planned : cursor.planned + self.units.most_sentences]
        unit = self.units.next_unit(cursor.history, window)
        cursor.planned += len(unit.pairs)
        if not self._waits_for_translations:
            cursor.history = self.units.following(unit)  # translations are filled in later
        return unit

    def _complete(self, cursor: UnitCursor, pair: Pair, translation: Sequence[int]) -> None:
        """Fill in a translation, or its reference; a pair without one is not remembered."""
        gold = cursor.gold if self.history == "gold" else None
        target = translation if gold is None else gold[cursor.done]
        pair.target = list(target[: self.units.longest])
        cursor.done += 1
        if self._waits_for_translations and pair.target:
            cursor.history = self.units.remember(cursor.history, pair)
        if cursor.ended:
            cursor.history = self.units.settled(cursor.history)

    def translate_units(self, units: Sequence[Unit]) -> list[list[Hypothesis]]:
        """Return the best translation of every unit, sentence by sentence."""
        order = sorted(range(len(units)), key=lambda i: len(self.units.source(units[i])))
        sizes = [len(self.units.source(units[i])) + len(self.units.given_target(units[i])) for i in order]
        translations: list[list[Hypothesis]] = [[] for _ in units]
        for part in slices_within(costs_of_sums(sizes), len(order), BATCH_TOKENS):
            for i, hypotheses in zip(order[part], self._search_units([units[i] for i in order[part]]), strict=True):
                best = hypotheses[0]
                translations[i] = [Hypothesis(ids, best.score) for ids in self.units.split(best.ids)]
        return translations

    def _search_units(self, units: Sequence[Unit]) -> list[list[Hypothesis]]:
        source = self._ids([[self.special.source(self.units.source(unit))] for unit in units])
        given = [self.units.given_target(unit) for unit in units]
        counts = [
            sentence_count(self.model, self.units, [len(pair.source) for pair in unit.pairs], len(prefix))
            for unit, prefix in zip(units, given, strict=True)
        ]
        limits = [count.limit for count in counts]
        context = torch.tensor([[self.units.context_tokens(unit)] for unit in units], device=self.model.device)
        encoded = self.engine.encode(source, context=context)
        return search(
            self.engine, encoded, limits, self.special, self.beam, self.length_penalty, constraints=counts, given=given
        )


def sentence_count(model: Transformer, units: Units, sources: Sequence[int], given: int = 0) -> SentenceCount:
    """Return the constraint for translating sentences; sources: source ids of each; given: target ids before them."""
    room = model.config.max_positions - len(units.special.target_prefix) - given
    return SentenceCount.of(sources, room, units.separator, units.special.end)

"""Greedy and beam search with a key-value cache.

    hypotheses = search(model, model.encode(source), limits, special, beam=5)     # per sentence, the best first

A sentence is done when `beam` hypotheses of it have ended and no unfinished one scores better than the worst of them,
or at its own length limit; then it leaves the batch. The result for a sentence does not depend on its neighbours in
the batch. With beam 1 this is greedy search. A `Constraint` restricts what hypotheses may contain; `given` is a prefix
that they all begin with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tram.errors import InputError
from tram.model.cache import DecodingCache
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.constraints import Constraint, sentence_limit


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation. ids: text only, without the template; score: log-probability / length^penalty.

    update_inputs: what the context modules read of its decoder input start … y_n, (tokens, width) each.
    text: if it is not simply that of the ids; attention: (ids, source ids); warnings: see `guards`.
    """

    ids: list[int]
    score: float
    update_inputs: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    text: str | None = None
    attention: Tensor | None = field(default=None, compare=False, repr=False)
    warnings: tuple[str, ...] = ()


def length_limit(model: Transformer, special: SpecialIds, source: int) -> int:
    """Return the most tokens, end included, for the translation of so many source ids by this model."""
    return min(sentence_limit(source), model.config.max_positions - len(special.target_prefix))


@torch.inference_mode()
def search(
    model: Transformer,
    encoded: Encoded,
    limits: list[int],
    special: SpecialIds,
    beam: int = 5,
    length_penalty: float = 1.0,
    state: State | None = None,
    constraints: Sequence[Constraint] | None = None,
    given: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Translate every sentence of an encoded batch of shape (1, sentences, tokens) or (documents, 1, tokens).

    limits: most tokens (end included, template not) for each sentence. The length that a score is divided by counts
    the end. constraints: of the first token of each sentence. given: ids after the template with which the target of
    each sentence begins; they are no part of the hypotheses and count in neither limit, length nor score.
    """
    beam = min(beam, model.vocabulary)
    found: list[list[Hypothesis]] = [[] for _ in limits]
    beams = _Beams(model, model.start_decoding(encoded, state), limits, special, beam, length_penalty)
    if constraints is not None:
        beams.constraints = [[constraint] for constraint in constraints]
    if given is not None and any(given):
        beams.given = _Given(given, model.device)
        beams.limits += beams.given.lengths
    while len(beams.sentences):
        beams.extend()
        for row, hypothesis in beams.take_finished():
            i = int(beams.sentences[row])
            found[i] = sorted([*found[i], hypothesis], key=lambda h: -h.score)[:beam]
        best = beams.best_unfinished()
        done = [
            len(found[i]) == beam and found[i][-1].score >= best[row] for row, i in enumerate(beams.sentences.tolist())
        ]
        beams.drop(done)
    if not all(found):
        raise InputError(
            "the model's probabilities are not numbers: its weights are too large for its data type or damaged; "
            "use another model, or float32"
        )
    return found


class _Given:
    """The ids with which the target of each sentence begins. ids: (sentences, tokens), padded; lengths: (sentences)."""

    def __init__(self, sequences: Sequence[Sequence[int]], device: torch.device) -> None:
        longest = max(map(len, sequences))
        rows = [[*sequence, *[PAD] * (longest - len(sequence))] for sequence in sequences]
        self.ids = torch.tensor(rows, device=device)
        self.lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)

    def select(self, sentences: Tensor) -> None:
        """Keep only these sentences, in this order."""
        self.ids, self.lengths = self.ids.index_select(0, sentences), self.lengths.index_select(0, sentences)

    def rows(self, step: int) -> Tensor:
        """Return the sentences whose token number `step`, counted from 0, is given."""
        return (self.lengths > step).nonzero().squeeze(1)


class _Beams:
    """The unfinished hypotheses: `beam` for each sentence that is not done yet."""

    def __init__(
        self,
        model: Transformer,
        cache: DecodingCache,
        limits: list[int],
        special: SpecialIds,
        beam: int,
        penalty: float,
    ) -> None:
        device = model.device
        n = len(limits)
        self.model = model
        self.cache = cache
        self.beam = beam
        self.penalty = penalty
        self.end = special.end
        self.banned = torch.tensor(special.banned, device=device)
        self.sentences = torch.arange(n)  # the sentence of each row; on the CPU, for book-keeping
        self.limits = torch.tensor(limits, device=device)
        self.tokens = torch.empty((n, 1, 0), dtype=torch.long, device=device)
        accurate = torch.promote_types(model.tokens.weight.dtype, torch.float32)
        self.scores = torch.zeros((n, 1), dtype=accurate, device=device)
        self.ended: list[tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]] = []
        self.constraints: list[list[Constraint]] | None = None  # of every hypothesis
        self.given: _Given | None = None
        # The slot, within its step, of each hypothesis's ancestor at that step: (sentences, beam, steps). The template
        # has one slot per step; the last id of it is the first one that a token is chosen after.
        self.ancestors = torch.empty((n, 1, 0), dtype=torch.long, device=device)
        *template, last = special.target_start
        self.template = len(template) + 1
        self.last = torch.full((n, 1), last, device=device)
        for token in template:
            self._record_ancestors()
            model.step(torch.full((n, 1), token, device=device), cache)

    @property
    def length(self) -> int:
        """Tokens chosen so far, with that of the last step; the end counts, the template does not."""
        return self.cache.steps - self.template + 1

    def extend(self) -> None:
        """Extend every hypothesis by one token and keep the best `beam` unfinished ones."""
        self._record_ancestors()
        logits = self.model.step(self.last, self.cache, self._mask())
        totals, place = self._candidates(logits)
        self._set_aside_finished(totals, place, logits.shape[-1])
        self._continue(totals, place, logits.shape[-1])

    def _record_ancestors(self) -> None:
        """Note that in the step to come every hypothesis occupies its own slot."""
        n, width = self.ancestors.shape[:2]
        own = torch.arange(width, device=self.ancestors.device).expand(n, width)[..., None]
        self.ancestors = torch.cat([self.ancestors, own], dim=-1)

    def _mask(self) -> Tensor | None:
        """Return where a slot is an ancestor: (sentences, 1, beam, slots). Steps of the template have only one slot."""
        if self.beam == 1:
            return None
        slots = torch.arange(self.beam, device=self.ancestors.device)
        first = torch.ones_like(self.ancestors[:, :, : self.template], dtype=torch.bool)
        rest = (self.ancestors[:, :, self.template :, None] == slots).flatten(-2)
        return torch.cat([first, rest], dim=-1)[:, None]

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best 2 · beam continuations of every sentence; at most `beam` of them can be the end.

        → their total scores, and their places as hypothesis · vocabulary + token.
        """
        logits = logits.to(self.scores.dtype)
        logits.index_fill_(-1, self.banned, -torch.inf)
        normaliser = logits.logsumexp(-1)
        base = self.scores - normaliser  # the same for all tokens of a hypothesis: their order is the logits'
        if self.constraints is not None:
            self._apply_constraints(logits, self.constraints)
        if self.given is not None and len(given := self.given.rows(self.length - 1)):
            logits[given] = -torch.inf
            # As large as the normaliser: its log-probability is 0
            logits[given, :, self.given.ids[given, self.length - 1]] = normaliser[given]
        at_limit = self.limits <= self.length  # the token being chosen is the last one allowed
        if bool(at_limit.any()):
            end = logits[..., self.end].clone()
            logits[at_limit] = -torch.inf
            logits[..., self.end] = end
        width, vocabulary = logits.shape[1:]
        wanted = min(2 * self.beam, width * vocabulary)
        rows = logits.topk(min(wanted, vocabulary), dim=-1)  # per hypothesis first: shorter lists to merge
        best = (rows.values + base[..., None]).flatten(1).topk(wanted, dim=-1)
        place = rows.indices + torch.arange(width, device=logits.device)[:, None] * vocabulary
        return best.values, place.flatten(1).gather(1, best.indices)

    def _apply_constraints(self, logits: Tensor, constraints: list[list[Constraint]]) -> None:
        """Make the tokens impossible that a hypothesis may not be continued with."""
        forbidden: list[tuple[int, int, int]] = []
        for row, hypotheses in enumerate(constraints):
            for i, constraint in enumerate(hypotheses):
                choice = constraint.choice()
                if choice.only:
                    allowed = logits[row, i, list(choice.only)]
                    logits[row, i] = -torch.inf
                    logits[row, i, list(choice.only)] = allowed
                else:
                    forbidden += [(row, i, token) for token in choice.forbidden]
        if forbidden:
            logits[torch.tensor(forbidden, device=logits.device).unbind(1)] = -torch.inf

    def _advance_constraints(self, constraints: list[list[Constraint]], parents: Tensor) -> list[list[Constraint]]:
        """Return the constraints after the last token; impossible hypotheses and given tokens change nothing."""
        possible = self.scores.isfinite()
        if self.given is not None:
            possible[self.given.rows(self.length - 1)] = False
        columns = zip(parents.tolist(), self.last.tolist(), possible.tolist(), strict=True)
        return [
            [own[i].after(token) if move else own[i] for i, token, move in zip(*column, strict=True)]
            for own, column in zip(constraints, columns, strict=True)
        ]

    def _set_aside_finished(self, totals: Tensor, place: Tensor, vocabulary: int) -> None:
        """Put aside the hypotheses that end now: the end id among the best `beam`."""
        ends = (place[:, : self.beam] % vocabulary == self.end) & totals[:, : self.beam].isfinite()
        rows, ranks = ends.nonzero(as_tuple=True)
        if len(rows):
            parents = place[rows, ranks] // vocabulary
            inputs = self._update_inputs(rows, parents)
            self.ended.append((rows, self.tokens[rows, parents], totals[rows, ranks], inputs))

    def _update_inputs(self, rows: Tensor, hypotheses: Tensor) -> dict[str, Tensor]:
        """Return the update inputs of all tokens of some hypotheses: (hypotheses, tokens, width) each."""
        if not self.cache.update_inputs:
            return {}
        steps = torch.arange(self.cache.steps, device=rows.device)
        starts = steps + (steps - self.template).clamp(min=0) * (self.beam - 1)
        slots = self.ancestors[rows, hypotheses] + starts
        return {name: inputs[rows[:, None], slots] for name, inputs in self.cache.update_inputs.items()}

    def _continue(self, totals: Tensor, place: Tensor, vocabulary: int) -> None:
        """Make the best `beam` candidates that do not end the hypotheses of the next step."""
        ids = place % vocabulary
        unfinished = torch.where(ids == self.end, -torch.inf, totals)
        # Stable: equal scores keep their order in any batch
        order = unfinished.sort(dim=-1, descending=True, stable=True).indices[:, : self.beam]
        parents = (place // vocabulary).gather(1, order)
        self.scores = unfinished.gather(1, order)
        self.last = ids.gather(1, order)
        if self.constraints is not None:
            self.constraints = self._advance_constraints(self.constraints, parents)
        history = parents[..., None].expand(-1, -1, self.tokens.shape[-1])
        self.tokens = torch.cat([self.tokens.gather(1, history), self.last[..., None]], dim=-1)
        line = parents[..., None].expand(-1, -1, self.ancestors.shape[-1])
        self.ancestors = self.ancestors.gather(1, line)

    def take_finished(self) -> list[tuple[int, Hypothesis]]:
        """Return the hypotheses that have just ended, with the row of their sentence."""
        finished = []
        for rows, tokens, totals, inputs in self.ended:
            skipped = [0] * len(rows) if self.given is None else self.given.lengths[rows].tolist()
            scores = (totals / self._divisor(rows)).tolist()
            for i, (row, ids, score) in enumerate(zip(rows.tolist(), tokens.tolist(), scores, strict=True)):
                own = {name: states[i] for name, states in inputs.items()}
                finished.append((row, Hypothesis(ids[skipped[i] :], score, own)))
        self.ended = []
        return finished

    def best_unfinished(self) -> list[float]:
        """Return for every sentence the best score, at its present length, of an unfinished hypothesis."""
        best: list[float] = (self.scores.amax(-1) / self._divisor()).tolist()
        return best

    def _divisor(self, rows: Tensor | None = None) -> float | Tensor:
        """Return what scores at the present length are divided by, for each sentence or for those in `rows`."""
        if self.given is None:
            return float(self.length**self.penalty)
        given = self.given.lengths if rows is None else self.given.lengths[rows]
        return (self.length - given).clamp(min=1).to(self.scores.dtype) ** self.penalty

    def drop(self, done: list[bool]) -> None:
        """Remove the sentences from the batch that are done or have reached their limit."""
        over = torch.tensor(done, device=self.limits.device) | (self.limits <= self.length)
        if not bool(over.any()):
            return
        stay = (~over).nonzero().squeeze(1)
        self.sentences = self.sentences[stay.cpu()]
        self.cache = self.cache.select(stay)
        for name in ("limits", "last", "tokens", "ancestors", "scores"):
            setattr(self, name, getattr(self, name).index_select(0, stay))
        if self.constraints is not None:
            self.constraints = [self.constraints[row] for row in stay.tolist()]
        if self.given is not None:
            self.given.select(stay)

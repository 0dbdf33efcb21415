"""Greedy and beam search, independent of the engine.

    hypotheses = search(engine, engine.encode(source), limits, special, beam=5)     # per sentence, the best first

A sentence is finished when `beam` hypotheses have ended and no unfinished one scores better than the worst of them, or
at its length limit; then it leaves the batch. The result for a sentence does not depend on the rest of the batch. With
beam 1 this is greedy search. A `Constraint` restricts the hypotheses; `given` is a prefix that all of them start with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tram.errors import InputError
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.constraints import Constraint, sentence_limit
from tram.translation.engines.base import Candidates, Decoding, Engine, Step, merge


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation. ids: text only, without the template; score: log-probability / length^penalty.

    update_inputs: inputs of the context modules' updates for start … y_n, (tokens, width) each.
    text: if it differs from the decoded ids; attention: (ids, source ids); warnings: see `guards`.
    """

    ids: list[int]
    score: float
    update_inputs: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    text: str | None = None
    attention: Tensor | None = field(default=None, compare=False, repr=False)
    warnings: tuple[str, ...] = ()


def length_limit(model: Transformer, special: SpecialIds, source: int) -> int:
    """Return the maximum length, end included, of the translation of `source` ids by this model."""
    return min(sentence_limit(source), model.config.max_positions - len(special.target_prefix))


@torch.inference_mode()
def search(
    engine: Engine,
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

    limits: maximum tokens of each sentence, with the end, without the template. The length in the length penalty
    includes the end. constraints: those of the first token of each sentence. given: prefix of each target after the
    template; it is not part of the hypotheses and does not count towards limit, length or score.
    """
    vocabulary = engine.model.vocabulary
    beam = min(beam, vocabulary)
    decoding = engine.start(encoded, state, special, beam)
    if constraints is None and (given is None or not any(given)):
        finished = decoding.run(limits, beam, length_penalty)
        if finished is not None:
            return _checked([[Hypothesis(h.ids, h.score, h.update_inputs) for h in each] for each in finished])
    sentences = [_Sentence(limit, special, beam, length_penalty) for limit in limits]
    for sentence, constraint in zip(sentences, constraints or [], strict=constraints is not None):
        sentence.constraints = [constraint]
    for sentence, ids in zip(sentences, given or [], strict=given is not None):
        sentence.given = ids
        sentence.limit += len(ids)
    _run(decoding, sentences, special, beam, vocabulary)
    return _checked([sentence.found for sentence in sentences])


def _checked(hypotheses: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """Raise an error for sentences without a hypothesis; there is always one unless probabilities are NaN."""
    if not all(hypotheses):
        raise InputError(
            "the model's probabilities are not numbers: its weights are too large for its data type or damaged; "
            "use another model, or float32"
        )
    return hypotheses


def _run(decoding: Decoding, sentences: "list[_Sentence]", special: SpecialIds, beam: int, vocabulary: int) -> None:
    """Extend the hypotheses of all sentences token by token; finished sentences leave the batch."""
    for token in special.target_start[:-1]:
        decoding.step([[token]] * len(sentences))
    free = all(sentence.is_free for sentence in sentences)
    active = sentences
    parents: list[list[int]] | None = None
    length = 0  # tokens chosen; the end counts, the template does not
    while active:
        length += 1
        step = decoding.step([sentence.last for sentence in active], parents)
        width = len(active[0].last)
        # One candidate is enough in greedy search: if it is the end, no other can be better
        count = 1 if beam == 1 else min(2 * beam, width * vocabulary)
        best = (_best if free else _best_allowed)(step, active, length, count, special)
        for row, sentence in enumerate(active):
            sentence.extend(best.totals[row], best.parents[row], best.ids[row], length)
            for hypothesis in sentence.ended:
                sentence.add(hypothesis, decoding.update_inputs(row, hypothesis.parent))
        stay = [row for row, sentence in enumerate(active) if not sentence.is_done(length)]
        if len(stay) < len(active):
            active = [active[row] for row in stay]
            if active:
                decoding.select(stay)
        parents = [sentence.parents for sentence in active]


def _best(step: Step, active: "list[_Sentence]", length: int, count: int, special: SpecialIds) -> Candidates:
    """Return the best continuations of sentences without constraints and given prefixes."""
    must_end = [sentence.limit <= length for sentence in active]  # the token being chosen is the last one allowed
    return step.best([sentence.scores for sentence in active], count, must_end if True in must_end else None)


def _best_allowed(step: Step, active: "list[_Sentence]", length: int, count: int, special: SpecialIds) -> Candidates:
    """Return the best continuations that constraints and given prefixes allow."""
    logits = step.logits()
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits[..., list(special.banned)] = -torch.inf
    normaliser = logits.logsumexp(-1)
    scores = torch.tensor([sentence.scores for sentence in active], dtype=logits.dtype, device=logits.device)
    _apply_constraints(logits, active)
    for row, sentence in enumerate(active):
        if length <= len(sentence.given):
            logits[row] = -torch.inf
            # As large as the normaliser: its log-probability is 0
            logits[row, :, sentence.given[length - 1]] = normaliser[row]
        elif sentence.limit <= length:
            end = logits[row, :, special.end].clone()
            logits[row] = -torch.inf
            logits[row, :, special.end] = end
    top = logits.topk(min(count, logits.shape[-1]), dim=-1)
    return merge(top.values, top.indices, scores - normaliser, count)


def _apply_constraints(logits: Tensor, active: "list[_Sentence]") -> None:
    """Mask the tokens that the constraints of each hypothesis forbid."""
    forbidden: list[tuple[int, int, int]] = []
    for row, sentence in enumerate(active):
        for i, constraint in enumerate(sentence.constraints or []):
            choice = constraint.choice()
            if choice.only:
                allowed = logits[row, i, list(choice.only)]
                logits[row, i] = -torch.inf
                logits[row, i, list(choice.only)] = allowed
            else:
                forbidden += [(row, i, token) for token in choice.forbidden]
    if forbidden:
        logits[torch.tensor(forbidden, device=logits.device).unbind(1)] = -torch.inf


@dataclass(frozen=True, slots=True)
class _Ended:
    """A hypothesis that ends at the current step: the one that the end id continues, and its score."""

    parent: int
    score: float
    ids: list[int]


class _Sentence:
    """A sentence in progress: `beam` unfinished hypotheses of it, and the best finished ones.

    tokens, scores, last, parents, constraints: for every unfinished hypothesis, its ids, its log-probability, its last
    input, the hypothesis of the previous step that it continues, and the constraint on its next token.
    """

    def __init__(self, limit: int, special: SpecialIds, beam: int, penalty: float) -> None:
        self.limit = limit
        self.end = special.end
        self.beam = beam
        self.penalty = penalty
        self.found: list[Hypothesis] = []
        self.ended: list[_Ended] = []
        self.given: Sequence[int] = ()
        self.tokens: list[list[int]] = [[]]
        self.scores = [0.0]
        self.last = [special.target_start[-1]]
        self.parents: list[int] = []
        self.constraints: list[Constraint] | None = None

    @property
    def is_free(self) -> bool:
        """Whether neither constraints nor a given prefix restrict the search."""
        return self.constraints is None and not self.given

    def extend(self, totals: list[float], parents: list[int], ids: list[int], length: int) -> None:
        """Collect the hypotheses that end; keep the best `beam` candidates that do not end for the next step."""
        end, beam = self.end, self.beam
        self.ended = []
        if end in ids:
            divisor = self._divisor(length)
            skipped = len(self.given)
            for total, parent, token in zip(totals[:beam], parents, ids, strict=False):
                if token == end and math.isfinite(total):
                    self.ended.append(_Ended(parent, total / divisor, self.tokens[parent][skipped:]))
            continuing = [i for i, token in enumerate(ids) if token != end]
            ends = [i for i, token in enumerate(ids) if token == end]
            chosen = [*continuing, *ends][:beam]  # the end only where there is nothing else: an impossible hypothesis
            self.scores = [totals[i] if ids[i] != end else -math.inf for i in chosen]
            self.parents = [parents[i] for i in chosen]
            self.last = [ids[i] for i in chosen]
        else:
            self.scores, self.parents, self.last = totals[:beam], parents[:beam], ids[:beam]
        if self.constraints is not None:
            self._advance_constraints(self.constraints, length)
        self.tokens = [[*self.tokens[parent], token] for parent, token in zip(self.parents, self.last, strict=True)]

    def _advance_constraints(self, constraints: list[Constraint], length: int) -> None:
        """Advance the constraints by the last token; impossible hypotheses and given tokens are ignored."""
        chosen = length > len(self.given)
        self.constraints = [
            constraints[parent].after(token) if chosen and math.isfinite(score) else constraints[parent]
            for parent, token, score in zip(self.parents, self.last, self.scores, strict=True)
        ]

    def add(self, ended: _Ended, update_inputs: dict[str, Tensor]) -> None:
        """Add a finished hypothesis; only the best `beam` are kept."""
        hypothesis = Hypothesis(ended.ids, ended.score, update_inputs)
        self.found = sorted([*self.found, hypothesis], key=lambda h: -h.score)[: self.beam]

    def is_done(self, length: int) -> bool:
        """Return whether no better hypothesis is possible or the limit is reached."""
        if self.limit <= length:
            return True
        return len(self.found) == self.beam and self.found[-1].score >= max(self.scores) / self._divisor(length)

    def _divisor(self, length: int) -> float:
        """Return length^penalty, the divisor of scores at this length."""
        return float(max(length - len(self.given), 1) ** self.penalty)

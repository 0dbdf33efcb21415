"""Greedy and beam search with a key-value cache.

    hypotheses = search(model, model.encode(source), limits, beam=5)     # per sentence, the best first

A sentence is done when `beam` hypotheses of it have ended and none under way scores better than the worst of them, or
at its own length limit; then it leaves the batch. What is found for a sentence does not depend on its neighbours in
the batch. With beam 1 this is greedy search.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tram.model.stacks import Decoding, Encoded
from tram.model.state import Carried
from tram.model.transformer import Transformer
from tram.text.special_ids import BOS, EOS, PAD


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation. ids: without bos and eos; score: log-probability / length^penalty.

    kept: what the context modules keep of its tokens bos … y_n, (tokens, width) each.
    """

    ids: list[int]
    score: float
    kept: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)


@torch.inference_mode()
def search(
    model: Transformer,
    encoded: Encoded,
    limits: list[int],
    beam: int = 5,
    length_penalty: float = 1.0,
    carried: Carried | None = None,
) -> list[list[Hypothesis]]:
    """Translate every sentence of an encoded batch of shape (1, sentences, tokens) or (documents, 1, tokens).

    limits: most tokens (eos included) for each sentence. The length that a score is divided by counts eos.
    """
    beam = min(beam, model.vocabulary)
    found: list[list[Hypothesis]] = [[] for _ in limits]
    beams = _Beams(model.start(encoded, carried), limits, beam, length_penalty, encoded.states)
    while len(beams.sentences):
        beams.extend(model)
        for row, hypothesis in beams.take_finished():
            i = int(beams.sentences[row])
            found[i] = sorted([*found[i], hypothesis], key=lambda h: -h.score)[:beam]
        best = beams.best_under_way()
        done = [
            len(found[i]) == beam and found[i][-1].score >= best[row] for row, i in enumerate(beams.sentences.tolist())
        ]
        beams.drop(done)
    return found


class _Beams:
    """The hypotheses under way: `beam` for each sentence that is not done yet."""

    def __init__(self, decoding: Decoding, limits: list[int], beam: int, penalty: float, like: Tensor) -> None:
        device = like.device
        n = len(limits)
        self.decoding = decoding
        self.beam = beam
        self.penalty = penalty
        self.sentences = torch.arange(n)  # which sentence a row is; on the CPU, for book-keeping
        self.limits = torch.tensor(limits, device=device)
        self.last = torch.full((n, 1), BOS, device=device)
        self.tokens = torch.empty((n, 1, 0), dtype=torch.long, device=device)
        # The slot, within its step, of each hypothesis's ancestor at that step: (sentences, beam, steps)
        self.ancestors = torch.empty((n, 1, 0), dtype=torch.long, device=device)
        self.scores = torch.zeros((n, 1), dtype=torch.promote_types(like.dtype, torch.float32), device=device)
        self.ended: list[tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]] = []

    def extend(self, model: Transformer) -> None:
        """Take every hypothesis one token further and keep the best `beam` that go on."""
        n, width = self.last.shape
        own = torch.arange(width, device=self.last.device).expand(n, width)[..., None]
        self.ancestors = torch.cat([self.ancestors, own], dim=-1)
        logits = model.step(self.last, self.decoding, self._mask())
        best = self._candidates(logits)
        totals, place = best.values, best.indices
        self._end(totals, place, logits.shape[-1])
        self._go_on(totals, place, logits.shape[-1])

    def _mask(self) -> Tensor | None:
        """True where a slot is an ancestor: (sentences, 1, beam, slots). The first step had one slot, others `beam`."""
        if self.beam == 1:
            return None
        slots = torch.arange(self.beam, device=self.ancestors.device)
        first = torch.ones_like(self.ancestors[:, :, :1], dtype=torch.bool)
        rest = (self.ancestors[:, :, 1:, None] == slots).flatten(-2)
        return torch.cat([first, rest], dim=-1)[:, None]

    def _candidates(self, logits: Tensor) -> torch.return_types.topk:
        """The best 2 · beam ways to go on, in every sentence; more than `beam` of them cannot be eos."""
        logits = logits.to(self.scores.dtype)
        logits[..., PAD] = -torch.inf
        logits[..., BOS] = -torch.inf
        base = self.scores - logits.logsumexp(-1)  # the same for all tokens of a hypothesis: their order is the logits'
        at_limit = self.limits <= self.decoding.steps  # the token being chosen is the last one allowed
        if bool(at_limit.any()):
            eos = logits[..., EOS].clone()
            logits[at_limit] = -torch.inf
            logits[..., EOS] = eos
        width, vocabulary = logits.shape[1:]
        wanted = min(2 * self.beam, width * vocabulary)
        rows = logits.topk(min(wanted, vocabulary), dim=-1)  # per hypothesis first: shorter lists to merge
        best = (rows.values + base[..., None]).flatten(1).topk(wanted, dim=-1)
        place = rows.indices + torch.arange(width, device=logits.device)[:, None] * vocabulary
        return torch.return_types.topk((best.values, place.flatten(1).gather(1, best.indices)))

    def _end(self, totals: Tensor, place: Tensor, vocabulary: int) -> None:
        """Put aside the hypotheses that end now: eos among the best `beam`."""
        ends = (place[:, : self.beam] % vocabulary == EOS) & totals[:, : self.beam].isfinite()
        rows, ranks = ends.nonzero(as_tuple=True)
        if len(rows):
            parents = place[rows, ranks] // vocabulary
            kept = self._kept(rows, parents)
            self.ended.append((rows, self.tokens[rows, parents], totals[rows, ranks], kept))

    def _kept(self, rows: Tensor, hypotheses: Tensor) -> dict[str, Tensor]:
        """What was kept of all tokens of some hypotheses: (hypotheses, tokens, width) each."""
        if not self.decoding.kept:
            return {}
        starts = (torch.arange(self.decoding.steps, device=rows.device) - 1) * self.beam + 1
        slots = self.ancestors[rows, hypotheses] + starts.clamp(min=0)
        return {name: kept[rows[:, None], slots] for name, kept in self.decoding.kept.items()}

    def _go_on(self, totals: Tensor, place: Tensor, vocabulary: int) -> None:
        """The best `beam` candidates that are not eos become the hypotheses of the next step."""
        ids = place % vocabulary
        goes = torch.where(ids == EOS, -torch.inf, totals)
        # Stable: equal scores keep their order, whatever the batch
        order = goes.sort(dim=-1, descending=True, stable=True).indices[:, : self.beam]
        parents = (place // vocabulary).gather(1, order)
        self.scores = goes.gather(1, order)
        self.last = ids.gather(1, order)
        history = parents[..., None].expand(-1, -1, self.tokens.shape[-1])
        self.tokens = torch.cat([self.tokens.gather(1, history), self.last[..., None]], dim=-1)
        line = parents[..., None].expand(-1, -1, self.ancestors.shape[-1])
        self.ancestors = self.ancestors.gather(1, line)

    def take_finished(self) -> list[tuple[int, Hypothesis]]:
        """The hypotheses that have just ended, with the row of their sentence."""
        finished = []
        length = self.decoding.steps  # of the tokens with eos
        for rows, tokens, totals, kept in self.ended:
            scores = (totals / length**self.penalty).tolist()
            for i, (row, ids, score) in enumerate(zip(rows.tolist(), tokens.tolist(), scores, strict=True)):
                own = {name: states[i] for name, states in kept.items()}
                finished.append((row, Hypothesis(ids, score, own)))
        self.ended = []
        return finished

    def best_under_way(self) -> list[float]:
        """For every sentence the best score, at its present length, of a hypothesis that goes on."""
        best: list[float] = (self.scores.amax(-1) / self.decoding.steps**self.penalty).tolist()
        return best

    def drop(self, done: list[bool]) -> None:
        """Let the sentences leave the batch that are done or have reached their limit."""
        over = torch.tensor(done, device=self.limits.device) | (self.limits <= self.decoding.steps)
        if not bool(over.any()):
            return
        stay = (~over).nonzero().squeeze(1)
        self.sentences = self.sentences[stay.cpu()]
        self.decoding = self.decoding.select(stay)
        for name in ("limits", "last", "tokens", "ancestors", "scores"):
            setattr(self, name, getattr(self, name).index_select(0, stay))

"""The reference engine, on every device and with every kind of context.

Plain models on a CPU are decoded with packed weights (`engines.packed`), all others with their modules.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Candidates, Decoding, Engine, Step, merge, weight_versions
from tram.translation.engines.packed import PackedDecoder, PackedDecoding


class TorchEngine(Engine):
    """Computes with torch."""

    name = "torch"

    def __init__(self, model: Transformer) -> None:
        super().__init__(model)
        self._packed: tuple[list[int], PackedDecoder | None] | None = None  # and the weights' versions then

    def encode(self, ids: Tensor, state: State | None = None, context: Tensor | None = None) -> Encoded:
        """Encode some sentences of each document."""
        return self.model.encode(ids, state, context=context)

    def start(self, encoded: Encoded, state: State | None, special: SpecialIds, beam: int) -> Decoding:
        """Begin a search in every sentence of a batch."""
        if (packed := self._current()) is not None:
            return PackedDecoding(packed, encoded, state, special, beam)
        return ModuleDecoding(self.model, encoded, state, special, beam)

    def _current(self) -> PackedDecoder | None:
        """Return the packed decoder, packed again if the weights have changed; None: the modules are needed."""
        versions = weight_versions(self.model)
        if self._packed is None or self._packed[0] != versions:
            self._packed = versions, PackedDecoder.of(self.model)
        return self._packed[1]

    def advance(self, update_inputs: dict[str, Tensor], layout: Layout, state: State) -> State:
        """Return the state after one more decoded sentence of each document."""
        return self.model.advance(update_inputs, layout, state)


class LogitsStep(Step):
    """A step whose logits are known."""

    def __init__(self, logits: Tensor, special: SpecialIds) -> None:
        self._logits = logits
        self._special = special

    def logits(self) -> Tensor:
        """Return the logits of all tokens."""
        return self._logits

    def best(
        self, scores: Sequence[Sequence[float]], wanted: int, must_end: Sequence[bool] | None = None
    ) -> Candidates:
        """Return the best continuations of every sentence."""
        logits = self._logits.to(torch.promote_types(self._logits.dtype, torch.float32))
        logits[..., list(self._special.banned)] = -torch.inf
        base = torch.tensor(scores, dtype=logits.dtype, device=logits.device) - logits.logsumexp(-1)
        if must_end is not None and any(must_end):
            end = logits[..., self._special.end].clone()
            logits[torch.tensor(must_end, device=logits.device)] = -torch.inf
            logits[..., self._special.end] = end
        top = logits.topk(min(wanted, logits.shape[-1]), dim=-1)  # per hypothesis first: shorter lists to merge
        return merge(top.values, top.indices, base, wanted)


class ModuleDecoding(Decoding):
    """A search with the modules of the model, one after the other."""

    def __init__(
        self, model: Transformer, encoded: Encoded, state: State | None, special: SpecialIds, beam: int
    ) -> None:
        self._model = model
        self._special = special
        self._cache = model.start_decoding(encoded, state)
        # Where a slot of the cache holds an ancestor: (sentences, 1, width, slots); None: everywhere, in greedy search
        self._mask: Tensor | None = None
        if beam > 1:
            self._mask = torch.ones((encoded.layout.lengths.numel(), 1, 1, 0), dtype=torch.bool, device=model.device)

    def step(self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]] | None = None) -> Step:
        """Process one more token of every hypothesis."""
        ids = torch.tensor(tokens, device=self._model.device)
        if self._mask is not None:
            n, width = ids.shape
            mask = self._mask
            if parents is not None:
                rows = torch.tensor(parents, device=ids.device)[:, None, :, None]
                mask = mask.gather(2, rows.expand(-1, -1, -1, mask.shape[-1]))
            own = torch.eye(width, dtype=torch.bool, device=ids.device).expand(n, 1, width, width)
            self._mask = torch.cat([mask, own], dim=-1)
        return LogitsStep(self._model.step(ids, self._cache, self._mask), self._special)

    def update_inputs(self, row: int, hypothesis: int) -> dict[str, Tensor]:
        """Return what the context modules read of a hypothesis."""
        seen = slice(None, self._cache.slots)
        if self._mask is None:
            return {name: inputs[row, seen].clone() for name, inputs in self._cache.update_inputs.items()}
        line = self._mask[row, 0, hypothesis]
        return {name: inputs[row, seen][line] for name, inputs in self._cache.update_inputs.items()}

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these sentences."""
        kept = torch.tensor(rows, device=self._model.device)
        self._cache = self._cache.select(kept)
        if self._mask is not None:
            self._mask = self._mask.index_select(0, kept)

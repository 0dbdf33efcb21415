"""The cache of incremental decoding: keys and values of source and target, and inputs of the context modules."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.model.attention import KeyValues
from tram.model.state import State


@dataclass
class DecodingCache:
    """For each decoder layer, the keys and values of the source and of the tokens so far.

    Every step of a search with `beam` hypotheses adds `beam` slots to the keys of a sentence. Hypotheses share the
    slots, and a mask marks the ancestors of each hypothesis, so that nothing is copied when the beam is reordered.
    """

    past: list[KeyValues]
    source: list[KeyValues]
    precomputed: State  # inputs of the context modules during the sentence
    update_inputs: dict[str, Tensor]  # inputs of their update after the sentence: (sentences, slots or more, width)
    steps: int = 0
    slots: int = 0
    widths: list[int] = field(default_factory=list)  # slots of each step

    def select(self, sentences: Tensor) -> "DecodingCache":
        """Return the cache of only these sentences, in this order."""
        return DecodingCache(
            [keys.select(sentences) for keys in self.past],
            [keys.select(sentences) for keys in self.source],
            self.precomputed.select(sentences),
            {name: inputs.index_select(0, sentences) for name, inputs in self.update_inputs.items()},
            self.steps,
            self.slots,
            list(self.widths),
        )

    def ages(self, width: int) -> Tensor:
        """Return the age of each slot in tokens; that of the `width` slots of the current step is 0."""
        steps = [self.steps - step for step, slots in enumerate((*self.widths, width)) for _ in range(slots)]
        return torch.tensor(steps, device=self.source[0].keys.device)

    def count_step(self, width: int) -> None:
        """Record that a step with `width` slots is complete."""
        self.steps += 1
        self.slots += width
        self.widths.append(width)

    def record(self, name: str, inputs: Tensor) -> None:
        """Append the update input of new tokens, (sentences, beam, width); the capacity doubles when it is full."""
        end = self.slots + inputs.shape[1]
        if name not in self.update_inputs:
            self.update_inputs[name] = inputs.new_empty(inputs.shape[0], 0, inputs.shape[2])
        if end > self.update_inputs[name].shape[1]:
            self.update_inputs[name] = F.pad(self.update_inputs[name], (0, 0, 0, end))
        self.update_inputs[name][:, self.slots : end] = inputs

    def recorded(self, name: str, width: int) -> Tensor:
        """Return the update inputs so far, including `width` slots of the current step: (sentences, slots, …)."""
        return self.update_inputs[name][:, : self.slots + width]

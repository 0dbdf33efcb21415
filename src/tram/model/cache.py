"""What decoding one token at a time keeps: keys and values of source and target, and input for the context modules."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.model.attention import KeyValues
from tram.model.state import State


@dataclass
class DecodingCache:
    """The position of a search: per decoder layer the keys and values of the source and of the tokens so far.

    Every step of a search with `beam` hypotheses adds `beam` slots to the keys of a sentence. Hypotheses share the
    slots and a mask says which of them are their own ancestors, so that nothing is copied when hypotheses change
    places.
    """

    past: list[KeyValues]
    source: list[KeyValues]
    precomputed: State  # what the context modules read during the sentence
    update_inputs: dict[str, Tensor]  # what they read when it is complete: (sentences, slots or more, width)
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
        """Return how many tokens ago each slot was decoded, with `width` slots of the present step: 0."""
        steps = [self.steps - step for step, slots in enumerate((*self.widths, width)) for _ in range(slots)]
        return torch.tensor(steps, device=self.source[0].keys.device)

    def count_step(self, width: int) -> None:
        """Note that a step with so many slots is complete."""
        self.steps += 1
        self.slots += width
        self.widths.append(width)

    def record(self, name: str, inputs: Tensor) -> None:
        """Add the update input of new tokens, (sentences, beam, width); the room doubles when it is full."""
        end = self.slots + inputs.shape[1]
        if name not in self.update_inputs:
            self.update_inputs[name] = inputs.new_empty(inputs.shape[0], 0, inputs.shape[2])
        if end > self.update_inputs[name].shape[1]:
            self.update_inputs[name] = F.pad(self.update_inputs[name], (0, 0, 0, end))
        self.update_inputs[name][:, self.slots : end] = inputs

    def recorded(self, name: str, width: int) -> Tensor:
        """Return the update inputs so far, with `width` slots of the present step: (sentences, slots, any width)."""
        return self.update_inputs[name][:, : self.slots + width]

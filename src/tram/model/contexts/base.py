"""The seam where context enters: what every context module must be able to do."""

from torch import Tensor, nn

from tram.model.packing import Layout
from tram.model.state import ContextState


class Context(nn.Module):
    """A module that tells an attention sublayer about the other sentences of its document.

    It wraps a sublayer: given the sublayer's `inputs`, its `local` result and the state carried so far, it returns
    the result to continue with. It has two faces that must agree:

    - whole documents at once: `forward`;
    - the next sentence with a carried state: `step` for each token, with what `precompute` made of the state once per
      sentence, and `advance` when the sentence is complete, with the `update_input` of each of its tokens.
    """

    def initial_state(self, documents: int) -> ContextState:
        """Return the state before the first sentence of each document."""
        raise NotImplementedError

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState
    ) -> tuple[Tensor, ContextState]:
        """Process all sentences of all documents. inputs, local: (real tokens, d_model)."""
        raise NotImplementedError

    def precompute(self, state: ContextState) -> ContextState:
        """Return what `step` needs of a state."""
        raise NotImplementedError

    def step(self, inputs: Tensor, local: Tensor, precomputed: ContextState) -> Tensor:
        """Process tokens of the current sentence. inputs, local: (documents, tokens, d_model)."""
        raise NotImplementedError

    def update_input(self, inputs: Tensor, local: Tensor) -> Tensor:
        """Return what `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the state after a complete sentence. update_inputs: (real tokens, any width), one sentence each."""
        raise NotImplementedError

"""The parts of a Transformer layer: attention, feed-forward, embeddings, and the seam where context enters.

States are (real tokens, d_model) without padding (see `layout`), or (…, d_model) where one token at a time is
decoded. Attention runs on `torch.nn.functional.scaled_dot_product_attention`.
"""

from typing import Literal

from torch import Tensor, nn

from tram.model.packing import Layout

ContextState = dict[str, Tensor]  # what a context module carries from sentence to sentence: (documents, …) each


class Context(nn.Module):
    """What an attention sublayer learns of the other sentences of its document: the one seam where context enters.

    A context module wraps a sublayer. It gets the sublayer's `inputs`, its `local` result and what it carried so
    far, and gives the result to go on with. It has two faces that must agree: whole documents at once (`forward`),
    and the next sentence with a carried state: `read` for each of its tokens, with what `ready` made of the state once
    for all of them, and `advance` when it is complete, with what `keep` kept of each token.
    """

    scope: Literal["past", "source"] = "past"  # looks at earlier sentences only, or at the whole source

    def start(self, documents: int) -> ContextState:
        """State before the first sentence."""
        raise NotImplementedError

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState
    ) -> tuple[Tensor, ContextState]:
        """All sentences of all documents. inputs, local: (real tokens, d_model)."""
        raise NotImplementedError

    def ready(self, state: ContextState) -> ContextState:
        """What `read` needs of a state."""
        raise NotImplementedError

    def read(self, inputs: Tensor, local: Tensor, ready: ContextState) -> Tensor:
        """Tokens of the sentence at hand. inputs, local: (documents, tokens, d_model)."""
        raise NotImplementedError

    def keep(self, inputs: Tensor, local: Tensor) -> Tensor:
        """What `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def advance(self, kept: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """State after a complete sentence. kept: (real tokens, any width) of one sentence a document."""
        raise NotImplementedError

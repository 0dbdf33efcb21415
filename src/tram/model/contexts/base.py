"""The seam where context enters: everything that lets one sentence of a document know about another.

A *context module* sits in a *seat* of the network. There is one class for each seat:

- `SublayerContext`, behind an attention sublayer: the paper's memory;
- `AttentionContext`, in place of an attention, inside its residual connection: Transformer-XL, Compressive;
- `InnerContext`, between an attention and its residual connection: G-Transformer's gate;
- `StackContext`, on top of the encoder's or the decoder's layers: hierarchical and selective attention, Zheng.

What a module carries from sentence to sentence is its *state*: named values with one row per document, or `Ragged`
where documents differ in length. The module decides what is in it and where gradients are cut; batches, lockstep
decoding, training and document states only select, join, move and store it.

Every module has two faces that must agree:

- whole documents at once: `forward` gets the packed tokens of all sentences of all documents and the state before the
  first of them, and returns a `Result`;
- the next sentence, one token at a time: `precompute` turns the state into what every token of the sentence needs,
  `step` processes the next token of every hypothesis, and `advance` returns the state after the sentence. What
  `advance` needs of a token is its `update_input`, recorded when the token is decoded: of the hypothesis that was
  chosen, those of all its tokens come back.

Some modules read the whole source of a *segment*, which is encoded before its first word is decoded (`SegmentRule`,
`model.segments`). `Layout.segments` says in which segment each sentence of a pass is; what is carried into the pass
belongs to segment 0.

In `step`, states are (sentences, beam, d_model): one sentence of each document, `beam` hypotheses of it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from tram.model.attention import Attention
from tram.model.document_rows import SourceRows
from tram.model.packing import Layout
from tram.model.state import ContextState, State


class Result(NamedTuple):
    """What a context module makes of whole documents.

    states: (real tokens, d_model); state: after the last sentence (`Layout.reread`: before the last ones);
    loss: (real tokens), added to the loss of training with the weight of each token.
    """

    states: Tensor
    state: ContextState
    loss: Tensor | None = None


class Context(nn.Module):
    """What all context modules have in common.

    reach: how many sentences back the module itself reads; None: as far as what it carries goes; with a `SegmentRule`,
    no further than the segment, and in it also the source of sentences that follow. depth: how many
    sentences back a gradient goes through the state; 0: the state is always detached. At the edges of its pieces,
    training reads as many sentences again.
    """

    reach: int | None = None
    depth: int | Literal["full"] = 0

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.0)  # set by `Transformer.set_dropout`

    def initial_state(self, documents: int) -> ContextState:
        """Return the state before the first sentence of each document."""
        raise NotImplementedError

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the state after a complete sentence. update_inputs: (real tokens, any width), one sentence each."""
        raise NotImplementedError


class SublayerContext(Context):
    """A module behind an attention sublayer: it is given the sublayer's `inputs` and its `local` result."""

    def forward(self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState) -> Result:
        """Process all sentences of all documents. inputs, local: (real tokens, d_model)."""
        raise NotImplementedError

    def precompute(self, state: ContextState) -> ContextState:
        """Return what `step` needs of a state, once per sentence; every value has one row per document."""
        raise NotImplementedError

    def update_input(self, inputs: Tensor, local: Tensor) -> Tensor:
        """Return what `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def step(self, inputs: Tensor, local: Tensor, precomputed: ContextState) -> Tensor:
        """Process tokens of the current sentence. inputs, local: (sentences, tokens, d_model)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Host:
    """The self-attention sublayer that an `AttentionContext` sits in.

    norm: the layer norm before the attention; the identity in a post-norm model.
    """

    attention: Attention
    norm: nn.Module
    causal: bool


@dataclass(frozen=True)
class OwnTokens:
    """The tokens of the current sentence so far, this one included, as `AttentionContext.step` sees them.

    keys, values: of the host's attention, (sentences, heads, slots, head width). mask: (sentences, 1, beam, slots),
    True where a slot holds an ancestor of the hypothesis; None: all do. ages: (slots), how many tokens ago each slot
    was decoded; 0 is this token.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    ages: Tensor


class AttentionContext(Context):
    """A module in place of a self-attention: its result goes into the residual connection of the sublayer.

    It uses the projections of its host, so that those of a sentence model are kept, and gets the inputs before the
    host's layer norm.
    """

    def forward(self, inputs: Tensor, host: Host, layout: Layout, state: ContextState) -> Result:
        """Process all sentences of all documents. inputs: (real tokens, d_model)."""
        raise NotImplementedError

    def precompute(self, state: ContextState, host: Host) -> ContextState:
        """Return what `step` needs of a state, once per sentence; every value has one row per document."""
        raise NotImplementedError

    def update_input(self, inputs: Tensor, host: Host) -> Tensor:
        """Return what `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def step(self, inputs: Tensor, host: Host, own: OwnTokens, precomputed: ContextState) -> Tensor:
        """Process the next token of every hypothesis. inputs: (sentences, beam, d_model)."""
        raise NotImplementedError


@dataclass(frozen=True)
class OwnInputs:
    """The update inputs of the current sentence so far, this token's included, as `InnerContext.step` sees them.

    values: (sentences, slots, width); mask: (sentences, 1, beam, slots), True where a slot holds an ancestor of the
    hypothesis; None: all do.
    """

    values: Tensor
    mask: Tensor | None


class InnerContext(Context):
    """A module between an attention and its residual connection.

    It is given the `inputs` of the attention, behind the layer norm in a pre-norm model, and its `local` result.
    """

    def forward(
        self, inputs: Tensor, local: Tensor, layout: Layout, state: ContextState, source: SourceRows | None
    ) -> Result:
        """Process all sentences of all documents. inputs, local: (real tokens, d_model).

        source: what the decoder may read of the source; None in the encoder.
        """
        raise NotImplementedError

    def precompute(self, state: ContextState, source: SourceRows) -> ContextState:
        """Return what `step` needs of a state and the source, once per sentence; one row per document."""
        raise NotImplementedError

    def update_input(self, inputs: Tensor) -> Tensor | None:
        """Return what `advance` needs of a token, (…, any width); None: nothing is carried."""
        raise NotImplementedError

    def step(self, inputs: Tensor, local: Tensor, own: OwnInputs | None, precomputed: ContextState) -> Tensor:
        """Process the next token of every hypothesis. inputs, local: (sentences, beam, d_model)."""
        raise NotImplementedError


class StackContext(Context):
    """A module on top of the layers of one side, behind the final layer norm or, in the encoder, before it.

    reads_middle: a decoder gives it the states of its last layer behind the attention to the source, too, through the
    same layer norm: `middle`, of the same shape as `states`.
    """

    before_norm = False
    reads_middle = False

    def embedding(self, layout: Layout) -> Tensor | None:
        """Return what is added to the token embeddings, (real tokens, d_model); None: nothing."""
        return None

    def forward(self, states: Tensor, layout: Layout, state: ContextState, middle: Tensor | None = None) -> Result:
        """Process all sentences of all documents. states: (real tokens, d_model)."""
        raise NotImplementedError

    def precompute(self, state: ContextState) -> ContextState:
        """Return what `step` needs of a state, once per sentence; every value has one row per document."""
        raise NotImplementedError

    def update_input(self, states: Tensor, middle: Tensor | None = None) -> Tensor:
        """Return what `advance` needs of a token: (…, any width)."""
        raise NotImplementedError

    def step(self, states: Tensor, precomputed: ContextState, middle: Tensor | None = None) -> Tensor:
        """Process the next token of every hypothesis. states: (sentences, beam, d_model)."""
        raise NotImplementedError


class FirstPassContext(StackContext):
    """A module on top of the decoder that reads first translations, which the model makes of each sentence alone."""

    reads_middle = True

    def prepare(self, states: Tensor, middle: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the state with first translations of the sentences that follow. states: (real tokens, d_model)."""
        raise NotImplementedError


class Passage:
    """One pass of whole documents through one side: the states of its context modules, and their extra loss."""

    def __init__(self, state: State, documents: int, source: SourceRows | None = None) -> None:
        self._units = dict(state.units)
        self._documents = documents
        self.source = source  # what the decoder may read of it, in models that read the whole source
        self.loss: Tensor | None = None

    def before(self, name: str, context: Context) -> ContextState:
        """Return the state of the module in this seat before the pass."""
        return self._units.get(name) or context.initial_state(self._documents)

    def after(self, name: str, result: Result) -> Tensor:
        """Keep the state after the pass, if there is one, and the loss; return the states to continue with."""
        if result.state:
            self._units[name] = result.state
        if result.loss is not None:
            self.loss = result.loss if self.loss is None else self.loss + result.loss
        return result.states

    def state(self) -> State:
        """Return the states of all modules after the pass."""
        return State(self._units)

"""The encoder-decoder Transformer.

    model = Transformer(ModelConfig(), vocabulary=30_000)
    logits = model(source, decoder_input)    # ids (documents, sentences, tokens), 0 = padding, start first, no end
    # → (documents, sentences, target tokens, vocabulary)

    done = model.forced_decode(source, decoder_input, state)      # some sentences of each document, then the next ones
    done.states, done.layout, done.state

Without context modules every sentence is translated on its own. `contexts.base` describes what a context module is and
where it sits; what it carries from sentence to sentence is in `State`.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.errors import InputError
from tram.model.attention import Attention, KeyValues
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context
from tram.model.contexts.memory import Maps, Memory
from tram.model.contexts.placing import place_contexts
from tram.model.layers import Embeddings, FeedForward, Residual
from tram.model.packing import Layout
from tram.model.stacks import Decoded, Decoder, Encoded, Encoder
from tram.model.state import State


@dataclass(frozen=True)
class ForcedDecoding:
    """Everything that a pass over given source and target sentences computes.

    states: of the decoder, before the output projection, (real target tokens, d_model); layout: of the decoder input;
    state: of all context modules after these sentences; loss: extra loss of the decoder's, (real target tokens).
    """

    source: Encoded
    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None


class Transformer(nn.Module):
    """Encoder, decoder and the token table, which both share with the output unless the config says otherwise."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.tokens = self.new_table(vocabulary)
        self.source_tokens = None if config.source_vocabulary is None else self.new_table(config.source_vocabulary)
        self.output = None if config.tied_output else nn.Linear(config.d_model, vocabulary, bias=False)
        self.encoder = Encoder(config, self.tokens if self.source_tokens is None else self.source_tokens)
        self.decoder = Decoder(config, self.tokens)
        self.bias = None
        if config.output_bias:
            self.bias = nn.Parameter(torch.zeros(vocabulary), requires_grad=config.output_bias != "fixed")
        place_contexts(self.encoder, self.decoder, config)

    def new_table(self, rows: int) -> nn.Embedding:
        """Return a token table with random values."""
        table = nn.Embedding(rows, self.config.d_model)
        nn.init.normal_(table.weight, std=self.config.d_model**-0.5 if self.config.embedding_scale else 0.02)
        return table

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the states; int8 matrices are multiplied in it, too."""
        return next(self.parameters()).dtype

    @property
    def output_weight(self) -> Tensor:
        """The weight of the output layer, (vocabulary, d_model): usually the token table of the target."""
        return self.tokens.weight if self.output is None else self.output.weight

    @property
    def has_context(self) -> bool:
        """Whether sentences of a document know of each other."""
        return bool(self.contexts())

    def contexts(self) -> dict[str, Context]:
        """Return the context modules of both sides by the names of their seats."""
        return self.encoder.contexts() | self.decoder.contexts()

    def without_context(self) -> "Transformer":
        """Return the sentence model inside: the same layers without context modules."""
        alone = Transformer(self.config.without_context(), self.vocabulary)
        alone.to(self.device, self.dtype).train(self.training)
        missing = alone.load_state_dict(self.state_dict(), strict=False).missing_keys  # ignores the contexts' tensors
        if missing:
            raise InputError(f"there is no sentence model inside this model: it lacks `{missing[0]}`; give another one")
        return alone

    # Whole sentences.

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Return teacher-forced logits of whole documents.

        source, decoder_input: ids (documents, sentences, tokens), 0 = padding; decoder_input begins with the start id
        and has no end id. → (documents, sentences, target tokens, vocabulary), zeros at the padding.
        """
        done = self.forced_decode(source, decoder_input)
        return done.layout.grid(self.logits(done.states))

    def forced_decode(
        self, source: Tensor | Encoded, decoder_input: Tensor, state: State | None = None, reread: int = 0
    ) -> ForcedDecoding:
        """Read source and target of some sentences of each document, continuing from `state`.

        source: ids (documents, sentences, tokens), or the same sentences encoded already; decoder_input: ids.
        reread: the state returned is that before the last so many sentences, which the next call will read again;
        0: after all of them.
        """
        state = state or State.empty()
        encoded = source if isinstance(source, Encoded) else self.encode(source, state, reread)
        decoded = self.decode(decoder_input, encoded, state, reread)
        after = state | encoded.state | decoded.state
        return ForcedDecoding(encoded, decoded.states, decoded.layout, after, decoded.loss)

    def encode(
        self, source: Tensor, state: State | None = None, reread: int = 0, context: Tensor | None = None
    ) -> Encoded:
        """Encode some sentences of each document; `state` and `reread` as in `forced_decode`.

        context: (documents, sentences), how many tokens at the start of each are context; for Flat-Transformer.
        """
        return self.encoder(self.layout(source, reread), state or State.empty(), context)

    def decode(self, decoder_input: Tensor, source: Encoded, state: State, reread: int) -> Decoded:
        """Decode given sentences whose source is encoded; `forced_decode` also merges the states of both sides."""
        return self.decoder(self.layout(decoder_input, reread), source, state)

    def layout(self, ids: Tensor, reread: int = 0) -> Layout:
        """Return where the tokens of a batch lie; refuse a sentence that the position table is too short for."""
        layout = Layout(ids, reread)
        longest = int(layout.counts.max(initial=0))
        if longest > self.config.max_positions:
            raise ValueError(f"a sentence of {longest} tokens; the model knows {self.config.max_positions} positions")
        return layout

    def logits(self, states: Tensor) -> Tensor:
        """(…, d_model) → (…, vocabulary)."""
        return F.linear(states, self.output_weight, self.bias)

    def token_log_probs(self, states: Tensor, labels: Tensor, chunk: int = 512) -> Tensor:
        """Return the log-probability of every label; at most `chunk` rows of logits are in memory at once.

        states: (tokens, d_model); labels: (tokens) → (tokens), at least float32.
        """
        accurate = torch.promote_types(states.dtype, torch.float32)
        parts = zip(states.split(chunk), labels.split(chunk), strict=True)
        return torch.cat(
            [-F.cross_entropy(self.logits(part).to(accurate), gold, reduction="none") for part, gold in parts]
        )

    # One token at a time.

    def initial_state(self, documents: int) -> State:
        """Return the state before the first sentence of each document."""
        return State({name: context.initial_state(documents) for name, context in self.contexts().items()})

    def start_decoding(self, encoded: Encoded, state: State | None = None) -> DecodingCache:
        """Begin a search in every sentence of a batch of shape (1, sentences, tokens) or (documents, 1, tokens)."""
        documents, sentences, tokens = encoded.layout.shape
        state = self.initial_state(documents * sentences) | (state or State.empty())
        cache = DecodingCache(past=[], source=[], precomputed=self.decoder.precompute(state), update_inputs={})
        lengths = encoded.layout.lengths.flatten()
        mask = None
        if bool((lengths < tokens).any()):
            mask = (torch.arange(tokens, device=lengths.device) < lengths[:, None])[:, None, None]
        for layer in self.decoder.layers:
            attention = layer.cross_attention.attention
            grid = encoded.layout.grid(attention.key_value(encoded.states)).flatten(0, 1)
            keys, values = (attention.split(part).contiguous() for part in grid.chunk(2, -1))
            cache.source.append(KeyValues(keys, values, mask))
            empty = keys.new_empty(documents * sentences, attention.heads, 0, keys.shape[-1])
            cache.past.append(KeyValues(empty, empty))
        return cache

    def step(self, ids: Tensor, cache: DecodingCache, mask: Tensor | None = None) -> Tensor:
        """Return the logits of the next token of every hypothesis, (sentences, beam, vocabulary).

        ids: (sentences, beam), the last tokens. mask: (sentences, 1, beam, slots), True where a slot (this step's
        included) holds an ancestor of the hypothesis; None where there is only one hypothesis per sentence.
        """
        return self.logits(self.decoder.step(ids, cache, mask))

    def advance(self, update_inputs: dict[str, Tensor], layout: Layout, state: State) -> State:
        """Return the state after one more decoded sentence of each document. update_inputs: (real tokens, width)."""
        contexts = self.decoder.contexts()
        after = {name: context.advance(update_inputs[name], layout, state[name]) for name, context in contexts.items()}
        return state | State(after)

    # For analyses and training.

    @torch.no_grad()
    def memory_maps(self, source: Tensor, decoder_input: Tensor) -> dict[str, list[list[Maps]]]:
        """Return update and output attention of every memory, for every sentence of every document.

        source, decoder_input: as in `forward`. → by the name of the sublayer, a list of documents of sentences.
        """
        found: dict[str, list[list[Maps]]] = {}
        handles = []
        for name, context in self.contexts().items():
            if isinstance(context, Memory):

                def look(memory: nn.Module, given: tuple[Any, ...], name: str = name) -> None:
                    assert isinstance(memory, Memory)
                    _, local, layout, state = given
                    found[name] = memory.maps(local, layout, state)

                handles.append(context.register_forward_pre_hook(look))
        try:
            self.forced_decode(source, decoder_input)
        finally:
            for handle in handles:
                handle.remove()
        return found

    def set_dropout(self, residual: float, attention: float = 0.0, activation: float = 0.0) -> None:
        """Set the dropout rates everywhere; context modules have that of residual connections."""
        for module in self.modules():
            if isinstance(module, Attention):
                module.dropout.p = attention
            elif isinstance(module, FeedForward):
                module.dropout.p = activation
            elif isinstance(module, Residual | Embeddings | Context):
                module.dropout.p = residual

"""The encoder-decoder Transformer, and the one place where context enters it.

    model = Transformer(ModelConfig(), vocabulary=30_000)
    logits = model(source, decoder_input)    # ids (documents, sentences, tokens), 0 = padding, bos first, no eos
    # → (documents, sentences, target tokens, vocabulary)

Without context modules every sentence is translated on its own. A module behind the seam (`layers.Context`) sits in
an `AttentionSublayer`; what it carries from sentence to sentence travels in `Carried`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.model.attention import Attention, KeyValues
from tram.model.contexts.memory import Maps, Memory
from tram.model.layers import Embeddings, FeedForward
from tram.model.packing import Layout
from tram.model.stacks import Decoded, Decoder, Decoding, Encoded, Encoder, Residual
from tram.model.state import Carried


class Transformer(nn.Module):
    """Encoder, decoder and the embedding they share with the output."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5 if config.embedding_scale else 0.02)
        self.encoder = Encoder(config, self.tokens)
        self.decoder = Decoder(config, self.tokens)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if config.output_bias else None
        self.place_memory(config)

    def place_memory(self, config: ModelConfig) -> None:
        """Put memory units where the config wants them."""
        memory = config.memory
        if memory is None:
            return
        if memory.side != "target":
            for layer in memory.layer_numbers(config.encoder_layers):
                self.encoder.layers[layer].self_attention.context = Memory(config, memory)
        if memory.side != "source":
            for layer in memory.layer_numbers(config.decoder_layers):
                self.decoder.layers[layer].self_attention.context = Memory(config, memory)

    def without_memory(self) -> "Transformer":
        """The sentence model inside: the same layers, and nothing between sentences."""
        alone = Transformer(self.config.model_copy(update={"memory": None}), self.vocabulary)
        alone.to(self.tokens.weight).train(self.training)
        alone.load_state_dict(self.state_dict(), strict=False)  # passes over the memory's tensors
        return alone

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Teacher-forced logits.

        source, decoder_input: ids (documents, sentences, tokens), 0 = padding; decoder_input has bos first, no eos.
        → (documents, sentences, target tokens, vocabulary), zeros at the padding.
        """
        decoded = self.decode(decoder_input, self.encode(source))
        return decoded.layout.grid(self.logits(decoded.states))

    def encode(self, source: Tensor, carried: Carried | None = None, edge: int = 0) -> Encoded:
        """Encode all sentences, each document going on from what it carried so far.

        What is carried on is the state before the last `edge` sentences; 0: after all of them.
        """
        return self.encoder(self.layout(source, edge), carried or {})

    def decode(self, decoder_input: Tensor, source: Encoded, carried: Carried | None = None, edge: int = 0) -> Decoded:
        """Decoder states with teacher forcing; `edge` as in `encode`."""
        return self.decoder(self.layout(decoder_input, edge), source, carried or {})

    def layout(self, ids: Tensor, edge: int = 0) -> Layout:
        """Where the tokens of a batch lie; a sentence the position table is too short for is refused."""
        layout = Layout(ids, edge)
        longest = int(layout.counts.max(initial=0))
        if longest > self.config.max_positions:
            raise ValueError(f"a sentence of {longest} tokens; the model knows {self.config.max_positions} positions")
        return layout

    def logits(self, states: Tensor) -> Tensor:
        """(…, d_model) → (…, vocabulary)."""
        return F.linear(states, self.tokens.weight, self.bias)

    def start(self, encoded: Encoded, carried: Carried | None = None) -> Decoding:
        """Begin a search in every sentence of a batch of shape (1, sentences, tokens) or (documents, 1, tokens)."""
        documents, sentences, tokens = encoded.layout.shape
        contexts = self.decoder.contexts()
        carried = self.complete(carried, documents * sentences)
        ready = {name: context.ready(carried[name]) for name, context in contexts.items()}
        decoding = Decoding(past=[], source=[], ready=ready, kept={})
        lengths = encoded.layout.lengths.flatten()
        mask = None
        if bool((lengths < tokens).any()):
            mask = (torch.arange(tokens, device=lengths.device) < lengths[:, None])[:, None, None]
        for layer in self.decoder.layers:
            attention = layer.cross_attention.attention
            grid = encoded.layout.grid(attention.key_value(encoded.states)).flatten(0, 1)
            keys, values = (attention.split(part).contiguous() for part in grid.chunk(2, -1))
            decoding.source.append(KeyValues(keys, values, mask))
            empty = keys.new_empty(documents * sentences, attention.heads, 0, keys.shape[-1])
            decoding.past.append(KeyValues(empty, empty))
        return decoding

    def step(self, ids: Tensor, decoding: Decoding, mask: Tensor | None = None) -> Tensor:
        """Logits of the next token of every hypothesis, (sentences, beam, vocabulary).

        ids: (sentences, beam), the last tokens. mask: (sentences, 1, beam, slots), True where a slot (this step's
        included) holds an ancestor of the hypothesis; None where there is only one hypothesis a sentence.
        """
        return self.logits(self.decoder.step(ids, decoding, mask))

    @property
    def has_context(self) -> bool:
        """Whether sentences of a document know of each other."""
        return bool(self.encoder.contexts() or self.decoder.contexts())

    def complete(self, carried: Carried | None, documents: int) -> Carried:
        """What was carried, and first states where nothing was."""
        contexts = self.encoder.contexts() | self.decoder.contexts()
        return {name: context.start(documents) for name, context in contexts.items()} | (carried or {})

    def advance(self, kept: dict[str, Tensor], layout: Layout, carried: Carried) -> Carried:
        """What the decoder carries after one more sentence of each document. kept: (real tokens, width) each."""
        contexts = self.decoder.contexts()
        return carried | {
            name: context.advance(kept[name], layout, carried[name]) for name, context in contexts.items()
        }

    @torch.no_grad()
    def memory_maps(self, source: Tensor, decoder_input: Tensor) -> dict[str, list[list[Maps]]]:
        """Update and output attention of every memory, for every sentence of every document.

        source, decoder_input: as in `forward`. Gives, by the name of the sublayer, a list of documents of sentences.
        """
        found: dict[str, list[list[Maps]]] = {}
        handles = []
        for name, context in (self.encoder.contexts() | self.decoder.contexts()).items():
            if isinstance(context, Memory):

                def look(memory: nn.Module, given: tuple[Any, ...], name: str = name) -> None:
                    assert isinstance(memory, Memory)
                    _, local, layout, state = given
                    found[name] = memory.maps(local, layout, state)

                handles.append(context.register_forward_pre_hook(look))
        try:
            self.decode(decoder_input, self.encode(source))
        finally:
            for handle in handles:
                handle.remove()
        return found

    def set_dropout(
        self, residual: float, attention: float = 0.0, activation: float = 0.0, memory: float | None = None
    ) -> None:
        """Set the dropout rates everywhere; `memory`: inside context modules, the same as `residual` if not given."""
        for module in self.modules():
            if isinstance(module, Attention):
                module.dropout.p = attention
            elif isinstance(module, FeedForward):
                module.dropout.p = activation
            elif isinstance(module, Residual | Embeddings):
                module.dropout.p = residual
            elif isinstance(module, Memory):
                module.dropout.p = residual if memory is None else memory

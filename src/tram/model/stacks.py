"""Encoder and decoder: embeddings and layers, with the context modules that sit in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tram.config import ModelConfig, WindowUnit
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context
from tram.model.layers import AttentionSublayer, DecoderLayer, Embeddings, EncoderLayer
from tram.model.packing import Layout
from tram.model.state import ContextState, State


@dataclass(frozen=True)
class Encoded:
    """Encoded sentences. states: (real tokens, d_model); state: of the encoder's context modules, after them."""

    states: Tensor
    layout: Layout
    state: State


@dataclass(frozen=True)
class Decoded:
    """Decoder states with teacher forcing, before the output projection; state: of the decoder's context modules."""

    states: Tensor
    layout: Layout
    state: State


def contexts_of(sublayers: Iterable[AttentionSublayer]) -> dict[str, Context]:
    """Return the context modules that sit in some sublayers."""
    return {sublayer.name: sublayer.context for sublayer in sublayers if sublayer.context is not None}


class Encoder(nn.Module):
    """Embeddings and the encoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens)
        layers = [EncoderLayer(config, f"encoder.{i}") for i in range(config.encoder_layers)]
        self.layers: Sequence[EncoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        flat = config.unit.flat_layers if isinstance(config.unit, WindowUnit) else 0
        self.bottom = config.encoder_layers - flat  # layers that see the context of Flat-Transformer
        # Embeddings of context and current sentence; zero, so that finetuning starts at the sentence model's
        self.segments = nn.Parameter(torch.zeros(2, config.d_model)) if flat else None

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their sublayers."""
        return contexts_of(layer.self_attention for layer in self.layers)

    def forward(self, layout: Layout, state: State, context: Tensor | None = None) -> Encoded:
        """Encode all sentences of all documents.

        context: (documents, sentences), how many tokens at the start of each sequence are no part of the sentence to
        translate. In Flat-Transformer the top layers do not see them, nor does the decoder; others ignore it.
        """
        units: dict[str, ContextState] = dict(state.units)
        current = segments = None
        if self.segments is not None:
            context = torch.zeros_like(layout.lengths) if context is None else context
            current = layout.positions >= context.flatten().repeat_interleave(layout.lengths.flatten())
            segments = self.segments[current.long()]
        states = self.embeddings(layout.ids, layout.positions, segments)
        for number, layer in enumerate(self.layers):
            if current is not None and number == self.bottom:
                states, layout = states[current], layout.only(current)
            states = layer(states, layout.own_blocks, layout, units)
        return Encoded(self.norm(states), layout, State(units).only(self.contexts()))


class Decoder(nn.Module):
    """Embeddings and the decoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens)
        layers = [DecoderLayer(config, f"decoder.{i}") for i in range(config.decoder_layers)]
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their sublayers."""
        return contexts_of(sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention))

    def forward(self, layout: Layout, source: Encoded, state: State) -> Decoded:
        """Decode all sentences of all documents with teacher forcing."""
        units: dict[str, ContextState] = dict(state.units)
        blocks, cross = layout.own_blocks, layout.blocks(source.layout)
        states = self.embeddings(layout.ids, layout.positions)
        for layer in self.layers:
            states = layer(states, source.states, blocks, cross, layout, units)
        return Decoded(self.norm(states), layout, State(units).only(self.contexts()))

    def step(self, ids: Tensor, cache: DecodingCache, mask: Tensor | None) -> Tensor:
        """Process one token of every hypothesis. ids: (sentences, beam) → states (sentences, beam, d_model)."""
        states = self.embeddings(ids, cache.steps)
        for layer, past, source in zip(self.layers, cache.past, cache.source, strict=True):
            states = layer.step(states, past, source, cache, mask)
        cache.steps += 1
        cache.slots += ids.shape[1]
        return self.norm(states)

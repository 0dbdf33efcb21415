"""Encoder and decoder: embeddings and layers, with the context modules that sit in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.units import WindowUnit
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context, Passage, StackContext
from tram.model.layers import AttentionSublayer, DecoderLayer, Embeddings, EncoderLayer
from tram.model.packing import Layout
from tram.model.state import State

ENCODER_TOP, DECODER_TOP = "encoder.top", "decoder.top"  # seats on top of the layers


@dataclass(frozen=True)
class Encoded:
    """Encoded sentences. states: (real tokens, d_model); state: of the encoder's context modules, after them.

    loss: extra loss of its context modules, (real tokens).
    """

    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None


@dataclass(frozen=True)
class Decoded:
    """Decoder states with teacher forcing, before the output projection; state and loss as in `Encoded`."""

    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None


def contexts_of(sublayers: Iterable[AttentionSublayer]) -> dict[str, Context]:
    """Return the context modules that sit in some sublayers, by their names."""
    return {sublayer.name: sublayer.context for sublayer in sublayers if sublayer.context is not None}


def on_top(seat: str, context: StackContext | None) -> dict[str, Context]:
    """Return the context module on top of a stack, if there is one, by the name of its seat."""
    return {} if context is None else {seat: context}


class Encoder(nn.Module):
    """Embeddings and the encoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens, "source")
        layers = [EncoderLayer(config, f"encoder.{i}") for i in range(config.encoder_layers)]
        self.layers: Sequence[EncoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        flat = config.unit.flat_layers if isinstance(config.unit, WindowUnit) else 0
        self.bottom = config.encoder_layers - flat  # layers that see the context of Flat-Transformer
        # Embeddings of context and current sentence; zero, so that finetuning starts at the sentence model's
        self.segments = nn.Parameter(torch.zeros(2, config.d_model)) if flat else None
        self.context: StackContext | None = None

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their seats."""
        return contexts_of(layer.self_attention for layer in self.layers) | on_top(ENCODER_TOP, self.context)

    def forward(self, layout: Layout, state: State, context: Tensor | None = None) -> Encoded:
        """Encode all sentences of all documents.

        context: (documents, sentences), how many tokens at the start of each sequence are no part of the sentence to
        translate. In Flat-Transformer the top layers do not see them, nor does the decoder; others ignore it.
        """
        passage = Passage(state, layout.shape[0])
        current = segments = None
        if self.segments is not None:
            context = torch.zeros_like(layout.lengths) if context is None else context
            current = layout.positions >= context.flatten().repeat_interleave(layout.lengths.flatten())
            segments = self.segments[current.long()]
        states = self.embeddings(layout.ids, layout.positions, segments)
        for number, layer in enumerate(self.layers):
            if current is not None and number == self.bottom:
                states, layout = states[current], layout.only(current)
            states = layer(states, layout.own_blocks, layout, passage)
        states = self.norm(states)
        if self.context is not None:
            found = self.context(states, layout, passage.before(ENCODER_TOP, self.context))
            states = passage.after(ENCODER_TOP, found)
        return Encoded(states, layout, passage.state().only(self.contexts()), passage.loss)


class Decoder(nn.Module):
    """Embeddings and the decoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens, "target")
        layers = [DecoderLayer(config, f"decoder.{i}") for i in range(config.decoder_layers)]
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.context: StackContext | None = None

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their seats."""
        sublayers = (sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention))
        return contexts_of(sublayers) | on_top(DECODER_TOP, self.context)

    def forward(self, layout: Layout, source: Encoded, state: State) -> Decoded:
        """Decode all sentences of all documents with teacher forcing."""
        passage = Passage(state, layout.shape[0])
        blocks, cross = layout.own_blocks, layout.blocks(source.layout)
        states = self.embeddings(layout.ids, layout.positions)
        for layer in self.layers:
            states = layer(states, source.states, blocks, cross, layout, passage)
        states = self.norm(states)
        if self.context is not None:
            found = self.context(states, layout, passage.before(DECODER_TOP, self.context))
            states = passage.after(DECODER_TOP, found)
        return Decoded(states, layout, passage.state().only(self.contexts()), passage.loss)

    def precompute(self, state: State) -> State:
        """Return what the context modules need of a state while a sentence is decoded."""
        sublayers = [sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention)]
        units = {sub.name: sub.precompute(state[sub.name]) for sub in sublayers if sub.context is not None}
        if self.context is not None:
            units[DECODER_TOP] = self.context.precompute(state[DECODER_TOP])
        return State(units)

    def step(self, ids: Tensor, cache: DecodingCache, mask: Tensor | None) -> Tensor:
        """Process one token of every hypothesis. ids: (sentences, beam) → states (sentences, beam, d_model)."""
        states = self.embeddings(ids, cache.steps)
        for layer, past, source in zip(self.layers, cache.past, cache.source, strict=True):
            states = layer.step(states, past, source, cache, mask)
        states = self.norm(states)
        if self.context is not None:
            cache.record(DECODER_TOP, self.context.update_input(states))
            states = self.context.step(states, cache.precomputed[DECODER_TOP])
        cache.count_step(ids.shape[1])
        return states

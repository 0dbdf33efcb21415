"""Encoder and decoder: embeddings and layers, with their context modules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.units import WindowUnit
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context, Passage, Result, StackContext
from tram.model.document_rows import SourceRows
from tram.model.layers import AttentionSublayer, DecoderLayer, Embeddings, EncoderLayer
from tram.model.packing import Layout
from tram.model.segments import OpenSegment, SourceSegment
from tram.model.state import State, tensor

ENCODER_TOP, DECODER_TOP = "encoder.top", "decoder.top"  # seats on top of the layers
ENCODER_SEGMENT, DECODER_SEGMENT = (
    "encoder.open_segment",
    "decoder.open_segment",
)  # in models that read the whole source


@dataclass(frozen=True)
class Encoded:
    """Encoded sentences. states: (real tokens, d_model); state: of the encoder's context modules, after them.

    loss: extra loss of its context modules, (real tokens). rows: the source of the sentences' segments, for decoders
    that read it; None: the decoder reads only the sentence itself.
    """

    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None
    rows: SourceRows | None = None

    def source_rows(self) -> SourceRows:
        """Return the source rows that the decoder may read."""
        return SourceRows.of_sentences(self.states, self.layout) if self.rows is None else self.rows


@dataclass(frozen=True)
class Decoded:
    """Decoder states with teacher forcing, before the output projection; state and loss as in `Encoded`."""

    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None


def contexts_of(sublayers: Iterable[AttentionSublayer]) -> dict[str, Context]:
    """Return the context modules of some sublayers, by the names of their seats."""
    return {sublayer.name: sublayer.context for sublayer in sublayers if sublayer.context is not None}


def in_seat(seat: str, context: Context | None) -> dict[str, Context]:
    """Return the context module in a seat, if there is one, by the seat's name."""
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
        # Embeddings of context and current sentence; zero, so that finetuning starts from the sentence model
        self.segments = nn.Parameter(torch.zeros(2, config.d_model)) if flat else None
        self.context: StackContext | None = None
        self.open_segment: SourceSegment | None = None

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their seats."""
        on_top = in_seat(ENCODER_TOP, self.context) | in_seat(ENCODER_SEGMENT, self.open_segment)
        return contexts_of(layer.self_attention for layer in self.layers) | on_top

    def forward(self, layout: Layout, state: State, context: Tensor | None = None) -> Encoded:
        """Encode all sentences of all documents.

        context: (documents, sentences), the number of tokens at the start of each sequence that do not belong to the
        sentence to translate. In Flat-Transformer, the top layers and the decoder do not see them; other models ignore
        this argument.
        """
        passage = Passage(state, layout.shape[0])
        before = after = None
        if self.open_segment is not None:
            before = passage.before(ENCODER_SEGMENT, self.open_segment)
            layout.segments, after = self.open_segment.follow(layout, before, self.open_segment.cut(layout, before))
        current = segments = None
        if self.segments is not None:
            context = torch.zeros_like(layout.lengths) if context is None else context
            current = layout.positions >= context.flatten().repeat_interleave(layout.lengths.flatten())
            segments = self.segments[current.long()]
        elif self.context is not None:
            segments = self.context.embedding(layout)
        states = self.embeddings(layout.ids, self.embeddings.places(layout), segments)
        for number, layer in enumerate(self.layers):
            if current is not None and number == self.bottom:
                states, layout = states[current], layout.only(current)
            states = layer(states, layout.own_blocks, layout, passage)
        early = self.context is not None and self.context.before_norm
        states = states if early else self.norm(states)
        if self.context is not None:
            result = self.context(states, layout, passage.before(ENCODER_TOP, self.context))
            states = passage.after(ENCODER_TOP, result)
        states = self.norm(states) if early else states
        rows = None
        if self.open_segment is not None and before is not None and after is not None:
            rows, kept = self.open_segment.rows_after(states, layout, before)
            passage.after(ENCODER_SEGMENT, Result(states, after | kept))
        return Encoded(states, layout, passage.state().only(self.contexts()), passage.loss, rows)


class Decoder(nn.Module):
    """Embeddings and the decoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens, "target")
        layers = [DecoderLayer(config, f"decoder.{i}") for i in range(config.decoder_layers)]
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.context: StackContext | None = None
        self.open_segment: OpenSegment | None = None

    def contexts(self) -> dict[str, Context]:
        """Return the context modules by the names of their seats."""
        sublayers = (sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention))
        on_top = in_seat(DECODER_TOP, self.context) | in_seat(DECODER_SEGMENT, self.open_segment)
        return contexts_of(sublayers) | on_top

    def forward(self, layout: Layout, source: Encoded, state: State) -> Decoded:
        """Decode all sentences of all documents with teacher forcing."""
        passage = Passage(state, layout.shape[0])
        if self.open_segment is not None:
            passage.source = source.source_rows()
            segments = source.layout.segments  # none: the sentences continue the open segment
            numbers = np.zeros_like(layout.counts) if segments is None else segments.numbers
            before = passage.before(DECODER_SEGMENT, self.open_segment)
            layout.segments, after = self.open_segment.follow(layout, before, numbers)
            passage.after(DECODER_SEGMENT, Result(source.states, after))
        states, middle = self.run_layers(layout, source, passage)
        if self.context is not None:
            before = passage.before(DECODER_TOP, self.context)
            read = () if middle is None else (middle,)
            states = passage.after(DECODER_TOP, self.context(states, layout, before, *read))
        return Decoded(states, layout, passage.state().only(self.contexts()), passage.loss)

    def run_layers(self, layout: Layout, source: Encoded, passage: Passage) -> tuple[Tensor, Tensor | None]:
        """Return the output of the last layer and, if the context module reads them, the states inside that layer."""
        blocks, cross = layout.own_blocks, layout.blocks(source.layout)
        states = self.embeddings(layout.ids, self.embeddings.places(layout))
        *layers, last = self.layers
        for layer in layers:
            states = layer(states, source.states, blocks, cross, layout, passage)
        if self.context is None or not self.context.reads_middle:
            return self.norm(last(states, source.states, blocks, cross, layout, passage)), None
        middle = last.attended(states, source.states, blocks, cross, layout, passage)
        return self.norm(last.residual(middle, last.feed_forward)), self.norm(middle)

    def precompute(self, state: State, source: Encoded) -> State:
        """Return what the context modules read of a state and the source while a sentence is decoded."""
        sublayers = [sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention)]
        seated = [sub for sub in sublayers if sub.context is not None]
        rows = source.source_rows()
        units = {sub.name: sub.precompute(state.units.get(sub.name, {}), rows) for sub in seated}
        if self.open_segment is not None:
            offsets = [[sum(lengths)] for lengths in self.open_segment.carried(state[DECODER_SEGMENT])]
            units[DECODER_SEGMENT] = {"offset": torch.tensor(offsets, device=source.states.device)}
        if self.context is not None:
            units[DECODER_TOP] = self.context.precompute(state[DECODER_TOP])
        return State(units)

    def step(self, ids: Tensor, cache: DecodingCache, mask: Tensor | None) -> Tensor:
        """Process one token of every hypothesis. ids: (sentences, beam) → states (sentences, beam, d_model)."""
        position: Tensor | int = cache.steps
        if self.embeddings.by_segment:
            position = tensor(cache.precomputed[DECODER_SEGMENT]["offset"]) + cache.steps
        states = self.embeddings(ids, position)
        *earlier, (last, past, source) = zip(self.layers, cache.past, cache.source, strict=True)
        for layer, keys, source_keys in earlier:
            states = layer.step(states, keys, source_keys, cache, mask)
        attended = last.attended_step(states, past, source, cache, mask)
        states = self.norm(last.residual(attended, last.feed_forward))
        if self.context is not None:
            middle = self.norm(attended) if self.context.reads_middle else None
            cache.record(DECODER_TOP, self.context.update_input(states, middle))
            states = self.context.step(states, cache.precomputed[DECODER_TOP], middle)
        cache.count_step(ids.shape[1])
        return states

"""Which context module goes into which seat: the settings `context: {kind: …}` turned into modules."""

from collections.abc import Sequence
from typing import TypeVar

from tram.config import ContextSection, MemoryConfig, ModelConfig
from tram.config.contexts import (
    CompressiveConfig,
    GTransformerConfig,
    HANConfig,
    SelectiveConfig,
    TransformerXLConfig,
    ZhengConfig,
)
from tram.model.contexts.compressive import Compressive, DistanceTable
from tram.model.contexts.g_transformer import SegmentCrossAttention, SegmentSelfAttention
from tram.model.contexts.han import HAN
from tram.model.contexts.memory import Memory
from tram.model.contexts.relative import QueryBiases
from tram.model.contexts.selective import Selective
from tram.model.contexts.transformer_xl import TransformerXL
from tram.model.contexts.zheng import GlobalLayer, SentenceBefore
from tram.model.segments import OpenSegment, SourceSegment
from tram.model.stacks import Decoder, Encoder

T = TypeVar("T")


def place_contexts(encoder: Encoder, decoder: Decoder, config: ModelConfig) -> None:
    """Put the context modules that the config names into the seats of both sides."""
    context = config.context
    if context is None:
        return
    if context.segment is not None:
        reads_source = isinstance(context, GTransformerConfig) and context.on("target")
        encoder.segment = SourceSegment(context.segment, config.d_model, keeps_rows=reads_source)
    if isinstance(context, GTransformerConfig):
        place_g_transformer(encoder, decoder, config, context)
    elif isinstance(context, ZhengConfig):
        place_zheng(encoder, decoder, config, context)
    else:
        if context.on("source"):
            place_on_side(encoder, config, context)
        if context.on("target"):
            place_on_side(decoder, config, context)


def place_on_side(stack: Encoder | Decoder, config: ModelConfig, context: ContextSection) -> None:
    """Put the modules of a system that is the same on both sides into one of them."""
    if isinstance(context, MemoryConfig):
        for number in context.layer_numbers(len(stack.layers)):
            stack.layers[number].self_attention.context = Memory(config, context)
    elif isinstance(context, TransformerXLConfig):
        biases = QueryBiases(config.d_model, config.heads)
        for layer in stack.layers:
            layer.self_attention.context = TransformerXL(config, context.memory_length, biases)
    elif isinstance(context, CompressiveConfig):
        table = DistanceTable(config, context)
        for layer in stack.layers:
            layer.self_attention.context = Compressive(config, context, table, len(stack.layers))
    elif isinstance(context, HANConfig):
        stack.context = HAN(config, context)
    elif isinstance(context, SelectiveConfig):
        stack.context = Selective(config, context)


def place_g_transformer(encoder: Encoder, decoder: Decoder, config: ModelConfig, context: GTransformerConfig) -> None:
    """Put gated attention into the top layers, and what both sides remember of a segment beside them."""
    if context.on("source"):
        for layer in _top(encoder.layers, context.encoder):
            layer.self_attention.context = SegmentSelfAttention(config, causal=False)
    if context.on("target"):
        decoder.segment = OpenSegment()
        for target_layer in _top(decoder.layers, context.decoder):
            target_layer.self_attention.context = SegmentSelfAttention(config, causal=True)
        for target_layer in _top(decoder.layers, context.cross):
            target_layer.cross_attention.context = SegmentCrossAttention(config)


def place_zheng(encoder: Encoder, decoder: Decoder, config: ModelConfig, context: ZhengConfig) -> None:
    """Put the global layer on top of the encoder, and the sentence before into every self-attention of the decoder."""
    if context.on("source"):
        encoder.context = GlobalLayer(config, context)
    if context.on("target"):
        decoder.segment = None if context.segment is None else OpenSegment()
        biases = QueryBiases(config.d_model, config.heads)
        for layer in decoder.layers:
            layer.self_attention.context = SentenceBefore(config, biases)


def _top(layers: Sequence[T], count: int) -> Sequence[T]:
    return layers[len(layers) - count :]

"""Which context module goes into which seat: the settings `context: {kind: …}` turned into modules."""

from tram.config import MemoryConfig, ModelConfig
from tram.config.contexts import CompressiveConfig, HANConfig, TransformerXLConfig
from tram.model.contexts.compressive import Compressive, DistanceTable
from tram.model.contexts.han import HAN
from tram.model.contexts.memory import Memory
from tram.model.contexts.relative import QueryBiases
from tram.model.contexts.transformer_xl import TransformerXL
from tram.model.stacks import Decoder, Encoder


def place_contexts(encoder: Encoder, decoder: Decoder, config: ModelConfig) -> None:
    """Put the context modules that the config names into the seats of both sides."""
    context = config.context
    if context is None:
        return
    stacks: list[Encoder | Decoder] = [encoder] if context.on("source") else []
    if context.on("target"):
        stacks.append(decoder)
    for stack in stacks:
        if isinstance(context, MemoryConfig):
            for number in context.layer_numbers(len(stack.layers)):
                stack.layers[number].self_attention.context = Memory(config, context)
        elif isinstance(context, TransformerXLConfig):
            biases = QueryBiases(config.d_model, config.heads)
            for layer in stack.layers:
                layer.self_attention.context = TransformerXL(config, context, biases)
        elif isinstance(context, CompressiveConfig):
            table = DistanceTable(config, context)
            for layer in stack.layers:
                layer.self_attention.context = Compressive(config, context, table, len(stack.layers))
        elif isinstance(context, HANConfig):
            stack.context = HAN(config, context)

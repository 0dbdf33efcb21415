"""A model as the native library holds it: its weights, packed once.

    native = NativeModel(model, precision="int8")
    native.handle          # for the functions of the library

Weights are copied, except for the token tables in float32: a model must not be changed while a `NativeModel` of it is
in use. int8 weights have one scale for each output; activations one for each row, found when they are known. Those of
the output layer have one digit of 8 bits, all others two, which more than halves what int8 changes (docs/LOG.md).
"""

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tram.model.attention import Attention
from tram.model.contexts.memory import Memory
from tram.model.layers import DecoderLayer, Embeddings, EncoderLayer, FeedForward
from tram.model.quantised import Int8Matrix, is_quantised, quantised
from tram.model.transformer import Transformer
from tram.translation.engines.native.library import Array, NativeError, address, check, load_library

ACTIVATIONS = ("relu", "gelu", "swish")
READS = ("norm", "add", "scaled")
MOST_INPUTS = 2**16  # of a linear map: int8 sums of more might not fit into 32 bits


class Sizes(ctypes.Structure):
    """The sizes and settings of a model; the same as `Sizes` in `cpp/model.h`."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            "d_model",
            "heads",
            "feed_forward",
            "encoder_layers",
            "decoder_layers",
            "vocabulary",
            "source_vocabulary",
            "pre_norm",
            "activation",
            "slots",
            "read",
        )
    ]


def why_unsupported(model: Transformer) -> str | None:
    """Return why the library cannot run a model, in a few words; None: it can."""
    config = model.config
    if config.context is not None and config.context.kind != "memory":
        return f"it does not know contexts of the kind {config.context.kind}"
    if model.encoder.segments is not None:
        return "it does not know the segments of Flat-Transformer"
    if max(config.d_model, config.feed_forward) > MOST_INPUTS:
        return f"it does not know layers wider than {MOST_INPUTS:,}"
    if any(each.device.type != "cpu" or each.dtype != torch.float32 for each in model.parameters()):
        return "it runs float32 and int8 models on a CPU"
    for name, module in model.named_modules():
        maps = [child for child in module.children() if isinstance(child, nn.Linear | nn.Embedding)]
        if any(type(child) not in (nn.Linear, nn.Embedding) for child in maps) or hasattr(module, "parametrizations"):
            return f"it does not know a layer of {name or 'the model'}"
    return None


class NativeModel:
    """Owns a model of the library."""

    def __init__(
        self,
        model: Transformer,
        precision: str = "float32",
        threads: int = 1,
        kernels: str = "",
        rescoring: bool = True,
    ) -> None:
        self._library = load_library()
        self.handle: int | None = None
        self._kept: list[Array] = []  # what the library points to
        self._int8 = precision == "int8" or is_quantised(model)
        config = model.config
        memory = next((context for context in model.contexts().values() if isinstance(context, Memory)), None)
        read = 0 if config.context is None or memory is None else READS.index(getattr(config.context, "read", "norm"))
        sizes = Sizes(
            config.d_model,
            config.heads,
            config.feed_forward,
            config.encoder_layers,
            config.decoder_layers,
            model.vocabulary,
            model.encoder.embeddings.tokens.num_embeddings,
            int(config.norm == "pre"),
            ACTIVATIONS.index(config.activation),
            0 if memory is None else len(memory.table),
            read,
        )
        scale = model.decoder.embeddings.scale
        self.handle = self._library.tram_model_new(kernels.encode(), ctypes.byref(sizes), scale, threads)
        if self.handle is None:
            raise NativeError(self._library.tram_error().decode())
        self._fill(model)
        if rescoring and not self._int8:
            self._rough_output(model)
        check(self._library.tram_model_check(self.handle))

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None:
            self._library.tram_model_free(self.handle)
            self.handle = None

    def _fill(self, model: Transformer) -> None:
        sides: list[tuple[str, Any]] = [("encoder", model.encoder), ("decoder", model.decoder)]
        for side, stack in sides:
            self._embeddings(side, stack.embeddings)
            self._norm(f"{side}.norm", stack.norm)
            for number, layer in enumerate(stack.layers):
                self._layer(f"{side}.{number}", layer)
        table = model.tokens if model.output is None else model.output
        self._linear("output", *self._matrix(table), model.bias)

    def _rough_output(self, model: Transformer) -> None:
        """Hand over the output layer in int8 too, for a first pass over all tokens; see `cpp/output.h`."""
        weight, (rounded, scales) = array(model.output_weight), quantised(model.output_weight.detach())
        self._kept.append(weight)
        arrays = (weight, array(rounded), array(scales), _optional(model.bias))
        check(self._library.tram_model_rough_output(self.handle, *map(address, arrays)))

    def _layer(self, name: str, layer: EncoderLayer | DecoderLayer) -> None:
        own = layer.self_attention
        self._projections(f"{name}.qkv", own.attention)
        self._module(f"{name}.self_output", own.attention.output)
        self._norm(f"{name}.self_norm", own.residual.norm)
        self._feed_forward(name, layer.feed_forward)
        self._norm(f"{name}.feed_forward_norm", layer.residual.norm)
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            self._attention(f"{name}.cross", cross.attention)
            self._norm(f"{name}.cross_norm", cross.residual.norm)
        if isinstance(own.context, Memory):
            self._memory(name, own.context)

    def _memory(self, layer: str, memory: Memory) -> None:
        positions = array(memory.positions.positions)
        check(self._library.tram_model_memory(self.handle, layer.encode(), address(positions)))
        name = f"{layer}.memory"
        self._norm(f"{name}.position_norm", memory.positions.norm)
        self._attention(f"{name}.update", memory.update_attention)
        self._attention(f"{name}.output", memory.output_attention)
        self._feed_forward(name, memory.feed_forward)
        for norm in ("input_norm", "output_norm", "update_norm", "feed_forward_norm"):
            self._norm(f"{name}.{norm}", getattr(memory, norm))

    def _attention(self, name: str, attention: Attention) -> None:
        self._module(f"{name}_query", attention.query)
        self._module(f"{name}_key_value", attention.key_value)
        self._module(f"{name}_output", attention.output)

    def _feed_forward(self, name: str, layer: FeedForward) -> None:
        self._module(f"{name}.inner", layer.inner)
        self._module(f"{name}.outer", layer.outer)

    def _projections(self, name: str, attention: Attention) -> None:
        """Hand over W^q, W^k and W^v as one map."""
        parts = (attention.query, attention.key_value)
        found = [self._matrix(part) for part in parts]
        scales = None
        if found[0][1] is not None:
            scales = torch.cat([each for _, each in found if each is not None])
        self._linear(name, torch.cat([each for each, _ in found]), scales, torch.cat([part.bias for part in parts]))

    def _module(self, name: str, linear: nn.Linear) -> None:
        self._linear(name, *self._matrix(linear), linear.bias)

    def _matrix(self, module: nn.Module) -> tuple[Tensor, Tensor | None]:
        """Return the weights of a map or a table: float32 and no scales, or int8 and the scales of the rows."""
        if isinstance(module, Int8Matrix):
            return module.values, module.scales
        assert isinstance(module.weight, Tensor)
        return quantised(module.weight.detach()) if self._int8 else (module.weight, None)

    def _linear(self, name: str, weight: Tensor, scales: Tensor | None, bias: Tensor | None) -> None:
        out, width = weight.shape
        values, units, added = array(weight), _optional(scales), _optional(bias)
        if units is None:
            call = (address(values), address(added), out, width)
            check(self._library.tram_model_linear(self.handle, name.encode(), *call))
        else:
            digits = 1 if name == "output" else 2
            rounded = (address(values), address(units), address(added), out, width, digits)
            check(self._library.tram_model_linear_int8(self.handle, name.encode(), *rounded))

    def _norm(self, name: str, norm: nn.Module) -> None:
        """Hand over a layer norm; an identity is one that the library is not given."""
        if isinstance(norm, nn.LayerNorm):
            values = array(torch.cat([norm.weight, norm.bias]))
            check(self._library.tram_model_norm(self.handle, name.encode(), address(values)))

    def _embeddings(self, side: str, embeddings: Embeddings) -> None:
        if isinstance(embeddings.norm, nn.LayerNorm):
            self._norm(f"{side}.embedding_norm", embeddings.norm)
        positions = None
        if embeddings.positions is not None:
            positions = array(embeddings.positions[embeddings.offset :])
        values, scales = self._matrix(embeddings.tokens)
        small = scales is not None
        table = (None if small else array(values), array(values) if small else None, _optional(scales))
        self._kept += [each for each in (*table, positions) if each is not None]
        places = 0 if positions is None else len(positions)
        call = (*map(address, table), *values.shape, address(positions), places)
        check(self._library.tram_model_embeddings(self.handle, int(side == "decoder"), *call))


def array(values: Tensor) -> Array:
    """Return the values of a tensor as an array, without a copy where that is possible."""
    return np.ascontiguousarray(values.detach().numpy())


def _optional(values: Tensor | None) -> Array | None:
    return None if values is None else array(values)


def memory_names(names: Iterable[str]) -> list[str]:
    """Return the seats of memories in the order of their layers."""
    return sorted(names, key=lambda name: int(name.split(".")[1]))

"""CTranslate2 as a peer: the sentence model inside a tram model, converted to its format.

    peer = CTranslate2(model, special, folder)
    peer.work(calls, beam, "int8")()         # calls: lists of sentences that are translated at once

CTranslate2 has no memory: it may translate the sentences of a document in any order and all at once.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tram.errors import InputError
from tram.model.attention import Attention
from tram.model.layers import DecoderLayer, Embeddings, EncoderLayer, FeedForward
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds

Ids = list[int]


class CTranslate2:
    """The sentence model of a model, as CTranslate2 runs it on one thread."""

    def __init__(self, model: Transformer, special: SpecialIds, folder: Path) -> None:
        self._library = _library()
        self._special = special
        self._folder = folder
        self._limit = model.config.max_positions - 1
        self._names = convert(model, special, folder)
        self._loaded: dict[str, Any] = {}

    def work(
        self, sentences: Sequence[Sequence[Ids]], beam: int, precision: str, length: int | None = None
    ) -> Callable[[], None]:
        """Return the translation of some sentences. sentences: ids of text, those of each call.

        precision: float32 or int8, of weights and activations. length: tokens that every translation is made to have.
        """
        if precision not in self._loaded:
            self._loaded[precision] = self._library.Translator(
                str(self._folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=1
            )
        translator = self._loaded[precision]
        calls = [[[self._names[i] for i in self._special.source(ids)] for ids in call] for call in sentences]

        def translate() -> None:
            for call in calls:
                translator.translate_batch(
                    call,
                    beam_size=beam,
                    length_penalty=1.0,
                    min_decoding_length=length or 1,
                    max_decoding_length=length or self._limit,
                )

        return translate


def _library() -> Any:
    try:
        import ctranslate2
    except ImportError:
        raise InputError("CTranslate2 is not installed; run pip install 'tram-mt[bench]'") from None
    ctranslate2.set_log_level(40)  # errors
    return ctranslate2


def convert(model: Transformer, special: SpecialIds, folder: Path, precision: str = "float32") -> list[str]:
    """Write the sentence model inside a model in CTranslate2's format, and return the name of every id there."""
    _library()
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    if special.target_prefix or model.encoder.embeddings.positions is None:
        raise InputError("this model has a forced prefix or no table of positions; CTranslate2 is not measured with it")
    activations = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(common_spec.Activation, activations[config.activation]),
        layernorm_embedding=config.embedding_norm,
    )
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _put_embeddings(side, stack.embeddings)
        if isinstance(stack.norm, nn.LayerNorm):
            _put_norm(side.layer_norm, stack.norm)
    for own, encoder_layer in zip(spec.encoder.layer, model.encoder.layers, strict=True):
        _put_encoder_layer(own, encoder_layer)
    for own, decoder_layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        _put_decoder_layer(own, decoder_layer)
    _put(spec.decoder.projection, model.output_weight, model.bias)
    names = _names(special, max(model.vocabulary, config.source_vocabulary or 0))
    spec.register_source_vocabulary(names[: config.source_vocabulary or model.vocabulary])
    spec.register_target_vocabulary(names[: model.vocabulary])
    spec.config.decoder_start_token = spec.config.bos_token = names[special.start]
    spec.config.eos_token, spec.config.unk_token = names[special.end], names[-1]
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return names


def _names(special: SpecialIds, vocabulary: int) -> list[str]:
    names = [f"t{number}" for number in range(vocabulary)]
    names[PAD], names[special.start], names[special.end] = "<pad>", "<s>", "</s>"
    return names


def _put(spec: Any, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    spec.weight = weight.detach().float().numpy()
    if bias is not None:
        spec.bias = bias.detach().float().numpy()


def _put_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight.detach().float().numpy(), norm.bias.detach().float().numpy()


def _put_embeddings(spec: Any, embeddings: Embeddings) -> None:
    assert embeddings.positions is not None
    table = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    table.weight = embeddings.tokens.weight.detach().float().numpy()
    spec.scale_embeddings = embeddings.scale != 1.0
    spec.position_encodings.encodings = embeddings.positions.detach().float().numpy()[embeddings.offset :]
    if isinstance(embeddings.norm, nn.LayerNorm):
        _put_norm(spec.layernorm_embedding, embeddings.norm)


def _put_attention(spec: Any, attention: Attention, cross: bool) -> None:
    query, keys_values = attention.query, attention.key_value
    if cross:
        _put(spec.linear[0], query.weight, query.bias)
        _put(spec.linear[1], keys_values.weight, keys_values.bias)
    else:
        _put(
            spec.linear[0],
            torch.cat([query.weight, keys_values.weight]),
            torch.cat([query.bias, keys_values.bias]),
        )
    _put(spec.linear[-1], attention.output.weight, attention.output.bias)


def _put_feed_forward(spec: Any, feed_forward: FeedForward, norm: nn.LayerNorm) -> None:
    _put(spec.linear_0, feed_forward.inner.weight, feed_forward.inner.bias)
    _put(spec.linear_1, feed_forward.outer.weight, feed_forward.outer.bias)
    _put_norm(spec.layer_norm, norm)


def _put_encoder_layer(spec: Any, layer: EncoderLayer) -> None:
    _put_attention(spec.self_attention, layer.self_attention.attention, cross=False)
    _put_norm(spec.self_attention.layer_norm, layer.self_attention.residual.norm)
    _put_feed_forward(spec.ffn, layer.feed_forward, layer.residual.norm)


def _put_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    _put_attention(spec.self_attention, layer.self_attention.attention, cross=False)
    _put_norm(spec.self_attention.layer_norm, layer.self_attention.residual.norm)
    _put_attention(spec.attention, layer.cross_attention.attention, cross=True)
    _put_norm(spec.attention.layer_norm, layer.cross_attention.residual.norm)
    _put_feed_forward(spec.ffn, layer.feed_forward, layer.residual.norm)

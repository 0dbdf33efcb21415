"""The encoder-decoder Transformer, and the one place where context enters it.

    model = Transformer(ModelConfig(), vocabulary=30_000)
    logits = model(source, decoder_input)    # ids (documents, sentences, tokens), 0 = padding, bos first, no eos
    # → (documents, sentences, target tokens, vocabulary)

Without context modules every sentence is translated on its own. A module behind the seam (`layers.Context`) sits in
an `AttentionSublayer`; what it carries from sentence to sentence travels in `Carried`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.model.attention import Attention, KeyValues
from tram.model.contexts.base import Context
from tram.model.layers import Embeddings, FeedForward
from tram.model.packing import Blocks, Layout
from tram.model.state import Carried, select_documents


@dataclass
class Encoded:
    """The source as the decoder sees it. states: (real tokens, d_model); carried: of the encoder's contexts."""

    states: Tensor
    layout: Layout
    carried: Carried


@dataclass
class Decoded:
    """Teacher-forced decoder states, before the output projection; carried: of the decoder's contexts."""

    states: Tensor
    layout: Layout
    carried: Carried


@dataclass
class Decoding:
    """Where a search stands: per decoder layer the keys and values of the source and of the tokens so far.

    Every step of a search with `beam` hypotheses adds `beam` slots to the keys of a sentence. Hypotheses share the
    slots and a mask tells which of them are their own ancestors, so that nothing is copied when hypotheses change
    places.
    """

    past: list[KeyValues]
    source: list[KeyValues]
    ready: Carried  # what the context modules read
    kept: dict[str, Tensor]  # what they want to take in when the sentence is complete: (sentences, slots, width)
    steps: int = 0
    slots: int = 0

    def select(self, sentences: Tensor) -> "Decoding":
        """Keep only these sentences, in this order."""
        return Decoding(
            [keys.select(sentences) for keys in self.past],
            [keys.select(sentences) for keys in self.source],
            select_documents(self.ready, sentences),
            {name: kept.index_select(0, sentences) for name, kept in self.kept.items()},
            self.steps,
            self.slots,
        )


class Residual(nn.Module):
    """A sublayer's way around itself: LN(x + f(x)) (post-norm) or x + f(LN(x)) (pre-norm), dropout on f."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = nn.Dropout(0.0)
        self.pre = config.norm == "pre"

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(…, d_model) → (…, d_model)."""
        if self.pre:
            return states + self.dropout(sublayer(self.norm(states)))
        result: Tensor = self.norm(states + self.dropout(sublayer(states)))
        return result


class AttentionSublayer(nn.Module):
    """Self- or cross-attention with its residual and norm; a context module, if there is one, has the last word."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.name = name
        self.attention = Attention(config.d_model, config.heads)
        self.residual = Residual(config)
        self.context: Context | None = None

    def forward(self, states: Tensor, keys: Encoded | None, blocks: Blocks, layout: Layout, causal: bool,
                carried: Carried) -> Tensor:  # fmt: skip
        """All sentences at once; leaves in `carried` what the context module has learnt of them."""
        key_states = None if keys is None else keys.states
        local = self.residual(states, lambda x: self.attention(x, key_states, blocks, causal))
        if self.context is None:
            return local
        state = carried.get(self.name) or self.context.start(layout.shape[0])
        result, carried[self.name] = self.context(states, local, layout, state)
        return result

    def step(self, states: Tensor, past: KeyValues, mask: Tensor | None, decoding: Decoding) -> Tensor:
        """The next token of every hypothesis, against keys that are there already. states: (sentences, beam, d)."""

        def attend(x: Tensor) -> Tensor:
            query = self.attention.split(self.attention.query(x))
            result: Tensor = self.attention.output(self.attention.attend(query, past.keys, past.values, mask))
            return result

        local: Tensor = self.residual(states, attend)
        if self.context is None:
            return local
        kept = [decoding.kept[self.name]] if self.name in decoding.kept else []
        decoding.kept[self.name] = torch.cat([*kept, self.context.keep(states, local)], dim=1)
        return self.context.read(states, local, decoding.ready[self.name])

    def remember(self, states: Tensor, past: KeyValues, slots: int) -> None:
        """Put keys and values of new tokens (sentences, beam, d_model) behind the first `slots` ones."""
        if self.residual.pre:
            states = self.residual.norm(states)
        keys, values = self.attention.key_value(states).chunk(2, -1)
        end = slots + states.shape[1]
        if end > past.keys.shape[2]:
            room = (0, 0, 0, end)  # twice the slots, so that growing costs little
            past.keys, past.values = F.pad(past.keys, room), F.pad(past.values, room)
        past.keys[:, :, slots:end] = self.attention.split(keys)
        past.values[:, :, slots:end] = self.attention.split(values)


def contexts_of(sublayers: Iterable[AttentionSublayer]) -> dict[str, Context]:
    """The context modules that sit in some sublayers."""
    return {sublayer.name: sublayer.context for sublayer in sublayers if sublayer.context is not None}


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.self_attention = AttentionSublayer(config, f"{name}.self")
        self.feed_forward = FeedForward(config.d_model, config.feed_forward, config.activation)
        self.residual = Residual(config)

    def forward(self, states: Tensor, blocks: Blocks, layout: Layout, carried: Carried) -> Tensor:
        """(real tokens, d_model) → (real tokens, d_model)."""
        states = self.self_attention(states, None, blocks, layout, False, carried)
        return self.residual(states, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention to the left, attention to the source, then feed-forward."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        super().__init__()
        self.self_attention = AttentionSublayer(config, f"{name}.self")
        self.cross_attention = AttentionSublayer(config, f"{name}.cross")
        self.feed_forward = FeedForward(config.d_model, config.feed_forward, config.activation)
        self.residual = Residual(config)

    def forward(self, states: Tensor, source: Encoded, blocks: Blocks, cross: Blocks, layout: Layout,
                carried: Carried) -> Tensor:  # fmt: skip
        """(real tokens, d_model) → (real tokens, d_model)."""
        states = self.self_attention(states, None, blocks, layout, True, carried)
        states = self.cross_attention(states, source, cross, layout, False, carried)
        return self.residual(states, self.feed_forward)

    def step(
        self, states: Tensor, past: KeyValues, source: KeyValues, decoding: Decoding, mask: Tensor | None
    ) -> Tensor:
        """The next token of every hypothesis. states: (sentences, beam, d_model)."""
        self.self_attention.remember(states, past, decoding.slots)
        end = decoding.slots + states.shape[1]
        seen = KeyValues(past.keys[:, :, :end], past.values[:, :, :end])
        states = self.self_attention.step(states, seen, mask, decoding)
        states = self.cross_attention.step(states, source, source.mask, decoding)
        return self.residual(states, self.feed_forward)


class Encoder(nn.Module):
    """Embeddings and the encoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens)
        layers = [EncoderLayer(config, f"encoder.{i}") for i in range(config.encoder_layers)]
        self.layers: Sequence[EncoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()

    def contexts(self) -> dict[str, Context]:
        """The context modules by the names of their sublayers."""
        return contexts_of(layer.self_attention for layer in self.layers)

    def forward(self, layout: Layout, carried: Carried) -> Encoded:
        """All sentences of all documents."""
        carried = dict(carried)
        blocks = layout.own_blocks
        states = self.embeddings(layout.ids, layout.positions)
        for layer in self.layers:
            states = layer(states, blocks, layout, carried)
        return Encoded(self.norm(states), layout, {name: carried[name] for name in self.contexts()})


class Decoder(nn.Module):
    """Embeddings and the decoder's layers."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.embeddings = Embeddings(config, tokens)
        layers = [DecoderLayer(config, f"decoder.{i}") for i in range(config.decoder_layers)]
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()

    def contexts(self) -> dict[str, Context]:
        """The context modules by the names of their sublayers."""
        return contexts_of(sub for layer in self.layers for sub in (layer.self_attention, layer.cross_attention))

    def forward(self, layout: Layout, source: Encoded, carried: Carried) -> Decoded:
        """All sentences of all documents, teacher-forced."""
        carried = dict(carried)
        blocks, cross = layout.own_blocks, layout.blocks(source.layout)
        states = self.embeddings(layout.ids, layout.positions)
        for layer in self.layers:
            states = layer(states, source, blocks, cross, layout, carried)
        return Decoded(self.norm(states), layout, {name: carried[name] for name in self.contexts()})

    def step(self, ids: Tensor, decoding: Decoding, mask: Tensor | None) -> Tensor:
        """One token for every hypothesis. ids: (sentences, beam) → states (sentences, beam, d_model)."""
        states = self.embeddings(ids, decoding.steps)
        for layer, past, source in zip(self.layers, decoding.past, decoding.source, strict=True):
            states = layer.step(states, past, source, decoding, mask)
        decoding.steps += 1
        decoding.slots += ids.shape[1]
        return self.norm(states)

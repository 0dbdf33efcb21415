"""The settings of the context modules: `context: {kind: …}` names one of them, the other keys are its own.

    context: {kind: memory, slots: 16}
    context: {kind: transformer_xl, memory_length: 128, side: target}

`docs/SYSTEMS.md` describes the systems; `tram.model.contexts` computes them.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, field_validator

from tram.config.sections import Count, Fraction, Positions, Positive, Section, Width

Side = Literal["source", "target"]
ContextSide = Literal["source", "target", "both"]  # encoder, decoder or both
# What is added to the embeddings: positions in the sentence, in the segment, or nothing
TokenPositions = Literal["sentence", "segment", "none"]


class HostSettings(Protocol):
    """The settings of a model that a context module has to fit."""

    @property
    def norm(self) -> Literal["post", "pre"]: ...  # noqa: D102
    @property
    def encoder_layers(self) -> int: ...  # noqa: D102
    @property
    def decoder_layers(self) -> int: ...  # noqa: D102
    @property
    def positions(self) -> Literal["learned", "sinusoidal", "sinusoidal-fairseq"]: ...  # noqa: D102
    @property
    def max_positions(self) -> int: ...  # noqa: D102
    @property
    def max_length(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class SegmentRule:
    """Which sentences of a document are one segment, whose source is read as a whole; the next one begins a new one.

    A sentence joins the segment while it has fewer than `sentences` and its tokens, templates included, stay below
    `tokens`; None: no limit. refuses: a document that does not fit into one segment is refused, not cut.
    """

    sentences: int | None = None
    tokens: int | None = None
    refuses: bool = False

    def joins(self, sentences: int, tokens: int, new: int) -> bool:
        """Return whether a sentence of `new` tokens joins a segment that has so many sentences and tokens already."""
        if not sentences:
            return True
        if self.sentences is not None and sentences >= self.sentences:
            return False
        return self.tokens is None or tokens + new < self.tokens

    def beyond(self, sentences: int) -> str:
        """Return what is wrong with a document of so many sentences, which does not fit into one segment."""
        return (
            f"has {sentences:,} sentences, and the context reads whole documents of at most {self.sentences:,}; "
            "cut it into parts"
        )


class ContextSection(Section):
    """What the settings of all context modules have in common."""

    side: ContextSide = Field("both", description="context in the encoder, the decoder, or both")

    def on(self, side: Side) -> bool:
        """Return whether there is a context module on this side."""
        return self.side in (side, "both")

    def token_positions(self, side: Side) -> TokenPositions:
        """Return which positions are added to the embeddings of a side."""
        return "sentence"

    @property
    def segment(self) -> SegmentRule | None:
        """The rule for what is read as a whole; None: a sentence never sees the source of those that follow."""
        return None

    def noise(self, epoch: int) -> float:
        """Return the share of words that are hidden in an epoch of training."""
        return 0.0

    def check(self, model: HostSettings) -> None:
        """Raise ValueError if the settings do not fit the model's."""


class MemoryConfig(ContextSection):
    """The paper's recurrent memory; the defaults are the paper's."""

    kind: Literal["memory"] = Field("memory", description="the paper's recurrent memory")
    slots: Width = Field(16, description="number of memory vectors, d_M in the paper")
    layers: tuple[Annotated[int, Field(ge=-500, lt=500)], ...] = Field(
        (-1,), min_length=1, max_length=500, description="layers with a memory; 0 is the first, -1 the last"
    )
    positions: Literal["sinusoidal", "learned"] = Field("sinusoidal", description="position encoding of the slots")
    read: Literal["norm", "add", "scaled"] = Field(
        "norm",
        description="norm: LN(h + MHA), the authors'; add: h + MHA, which starts exactly at the sentence model; "
        "scaled: h + |h| MHA, the same for pre-norm models, whose states are many times larger than the memory output",
    )
    depth: Positive | Literal["full"] = Field(
        1, description="number of updates that gradients flow back through: 1 (the paper's), k, or full"
    )

    @field_validator("depth", mode="before")
    @classmethod
    def _check_depth(cls, depth: Any) -> Any:
        if depth == 0:
            raise ValueError("with depth 0 no gradient would ever reach the update attention; set 1, more, or full")
        return depth

    def layer_numbers(self, layers: int) -> list[int]:
        """Return the layers of one side that have a memory, counted from 0."""
        for layer in self.layers:
            if not -layers <= layer < layers:
                raise ValueError(f"context.layers: there is no layer {layer}, the model has 0 to {layers - 1}")
        return sorted({layer % layers for layer in self.layers})

    def check(self, model: HostSettings) -> None:
        """Refuse a way to read that the model's layer norm does not allow, and layers that it does not have."""
        if model.norm == "pre" and self.read == "norm":
            raise ValueError("a pre-norm model needs context.read: scaled or add; norm is for post-norm models")
        if self.side != "target":
            self.layer_numbers(model.encoder_layers)
        if self.side != "source":
            self.layer_numbers(model.decoder_layers)


class TransformerXLConfig(ContextSection):
    """Transformer-XL (Dai et al. 2019): every self-attention also reads the layer's inputs of the tokens before."""

    kind: Literal["transformer_xl"] = Field("transformer_xl", description="Transformer-XL")
    memory_length: Positive = Field(128, description="tokens before the sentence that every layer reads")

    def token_positions(self, side: Side) -> TokenPositions:
        """Return `none` where distances take the place of positions."""
        return "none" if self.on(side) else "sentence"


class CompressiveConfig(ContextSection):
    """The Compressive Transformer (Rae et al. 2020): what leaves a memory like Transformer-XL's is compressed."""

    kind: Literal["compressive"] = Field("compressive", description="Compressive Transformer")
    memory_length: Positive = Field(128, description="tokens before the sentence that every layer reads as they are")
    compressed_length: Positive = Field(128, description="compressed vectors of older tokens that every layer reads")
    ratio: Annotated[int, Field(ge=1, le=1000)] = Field(4, description="tokens that are compressed to one vector")
    reconstruction: Annotated[float, Field(ge=0, le=1e6)] = Field(
        1.0, description="weight of the loss that trains the compression"
    )

    def token_positions(self, side: Side) -> TokenPositions:
        """Return `none` where distances take the place of positions."""
        return "none" if self.on(side) else "sentence"


class HANConfig(ContextSection):
    """Hierarchical attention (Miculicich et al. 2018) on top of the encoder, the decoder, or both (HAN_join)."""

    kind: Literal["han"] = Field("han", description="hierarchical attention network")
    sentences: Annotated[int, Field(ge=1, le=100)] = Field(3, description="earlier sentences that are read")
    special: tuple[Annotated[int, Field(ge=0, le=10**9)], ...] = Field(
        (1, 2), max_length=1000, description="ids that are no words, such as start and end; their states are not read"
    )


class GTransformerConfig(ContextSection):
    """G-Transformer (Bao et al. 2021): a gate between attention to the sentence and to all of its segment."""

    kind: Literal["g_transformer"] = Field("g_transformer", description="G-Transformer")
    encoder: Count = Field(2, description="top layers of the encoder whose self-attention sees the segment")
    decoder: Count = Field(2, description="top layers of the decoder whose self-attention sees the segment so far")
    cross: Count = Field(2, description="top layers of the decoder whose attention to the source sees the segment")
    tokens: Positions = Field(
        512, description="a sentence joins the segment while its tokens, templates included, stay below this"
    )
    sentences: Positive = Field(1000, description="maximum number of sentences per segment")
    hidden: Fraction = Field(
        0.1, description="share of words that training replaces by the mask, on both sides; needs `prepare --reserved`"
    )
    hidden_epochs: Count = Field(40, description="epochs after which no words are hidden any more")

    def token_positions(self, side: Side) -> TokenPositions:
        """Return `segment`: positions run over all sentences of a segment."""
        return "segment" if self.on(side) else "sentence"

    @property
    def segment(self) -> SegmentRule:
        """The original's rule; it also counts the longer side of each pair, which decoding cannot know."""
        return SegmentRule(self.sentences, self.tokens)

    def noise(self, epoch: int) -> float:
        """Return the share of hidden words: a step, as in the original, whose option speaks of a ramp."""
        return self.hidden if epoch < self.hidden_epochs else 0.0

    def check(self, model: HostSettings) -> None:
        """Refuse more layers than there are, and segments that sentences or positions do not fit into."""
        for name, layers, most in (
            ("encoder", self.encoder, model.encoder_layers),
            ("decoder", self.decoder, model.decoder_layers),
            ("cross", self.cross, model.decoder_layers),
        ):
            if layers > most:
                raise ValueError(f"context.{name} ({layers}): there are {most} layers")
        if model.max_length >= self.tokens:
            raise ValueError(f"context.tokens ({self.tokens}) must exceed max_length ({model.max_length})")
        if model.positions == "learned" and self.tokens > model.max_positions:
            raise ValueError(
                f"context.tokens ({self.tokens}) must not exceed max_positions ({model.max_positions}), because "
                "positions are learned and run over the segment"
            )


class ZhengConfig(ContextSection):
    """Zheng et al. 2020: a global layer on top of the encoder; the decoder looks back one sentence."""

    kind: Literal["zheng"] = Field("zheng", description="Zheng et al. 2020")
    sentences: Annotated[int, Field(ge=1, le=256)] = Field(
        20, description="sentences whose source is read together; longer documents are cut"
    )

    def token_positions(self, side: Side) -> TokenPositions:
        """Return `none` where distances take the place of positions: in the decoder."""
        return "none" if side == "target" and self.on(side) else "sentence"

    @property
    def segment(self) -> SegmentRule | None:
        """Runs of sentences; without the global layer, none."""
        return SegmentRule(self.sentences) if self.on("source") else None


class SelectiveConfig(ContextSection):
    """Selective attention (Maruf et al. 2019): on top of one side, attention to sentences, then to their words."""

    kind: Literal["selective"] = Field("selective", description="selective attention")
    side: Literal["source", "target"] = Field(
        "source", description="context of the source, or of first translations; the original has no both"
    )
    online: bool = Field(False, description="read only earlier sentences; otherwise all others of the document")
    words: Literal["softmax", "sparsemax"] = Field("softmax", description="weights of the words inside a sentence")
    sentences: Positive = Field(1000, description="longest document, if all of it is read; a longer one is refused")
    special: tuple[Annotated[int, Field(ge=0, le=10**9)], ...] = Field(
        (1, 2), max_length=1000, description="ids of the source that are no words, such as start and end"
    )

    @property
    def segment(self) -> SegmentRule | None:
        """The whole document, unless only earlier sentences are read."""
        return None if self.online else SegmentRule(self.sentences, refuses=True)


ContextConfig = Annotated[
    MemoryConfig
    | TransformerXLConfig
    | CompressiveConfig
    | HANConfig
    | GTransformerConfig
    | ZhengConfig
    | SelectiveConfig,
    Field(discriminator="kind"),
]

"""The settings of the context modules: `context: {kind: …}` names one of them, the other keys are its own.

    context: {kind: memory, slots: 16}
    context: {kind: transformer_xl, memory_length: 128, side: target}

`docs/SYSTEMS.md` describes the systems; `tram.model.contexts` computes them.
"""

from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, field_validator

from tram.config.sections import Positive, Section, Width

Side = Literal["source", "target"]
ContextSide = Literal["source", "target", "both"]  # encoder, decoder or both
TokenPositions = Literal["sentence", "none"]  # what is added to the embeddings: positions in the sentence, or nothing


class HostSettings(Protocol):
    """The settings of a model that a context module has to fit."""

    @property
    def norm(self) -> Literal["post", "pre"]: ...  # noqa: D102
    @property
    def encoder_layers(self) -> int: ...  # noqa: D102
    @property
    def decoder_layers(self) -> int: ...  # noqa: D102


class ContextSection(Section):
    """What the settings of all context modules have in common."""

    side: ContextSide = Field("both", description="context in the encoder, the decoder, or both")

    def on(self, side: Side) -> bool:
        """Return whether there is a context module on this side."""
        return self.side in (side, "both")

    def token_positions(self, side: Side) -> TokenPositions:
        """Return which positions are added to the embeddings of a side."""
        return "sentence"

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
    ratio: Annotated[int, Field(ge=1, le=10**6)] = Field(4, description="tokens that are compressed to one vector")
    reconstruction: Annotated[float, Field(ge=0, le=1e6)] = Field(
        1.0, description="weight of the loss that trains the compression"
    )

    def token_positions(self, side: Side) -> TokenPositions:
        """Return `none` where distances take the place of positions."""
        return "none" if self.on(side) else "sentence"


class HANConfig(ContextSection):
    """Hierarchical attention (Miculicich et al. 2018) on top of the encoder, the decoder, or both (HAN_join)."""

    kind: Literal["han"] = Field("han", description="hierarchical attention network")
    sentences: Annotated[int, Field(ge=1, le=1000)] = Field(3, description="earlier sentences that are read")
    special: tuple[Annotated[int, Field(ge=0, le=10**9)], ...] = Field(
        (1, 2), max_length=1000, description="ids that are no words, such as start and end; their states are not read"
    )


ContextConfig = Annotated[
    MemoryConfig | TransformerXLConfig | CompressiveConfig | HANConfig, Field(discriminator="kind")
]

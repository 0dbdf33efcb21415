"""The settings of what is translated as one sequence: `unit: {kind: …}`.

    unit: {kind: window, source: 2, target: 1}
    unit: {kind: block, sentences: 4}

`tram.data.units` joins sentences by them; `docs/UNITS.md` describes the systems.
"""

from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from tram.config.sections import Count, Positions, Positive, Section

WindowSize = Annotated[int, Field(ge=1, le=1000)]  # in sentences


class HostSettings(Protocol):
    """The settings of a model that a unit has to fit."""

    @property
    def encoder_layers(self) -> int: ...  # noqa: D102
    @property
    def max_positions(self) -> int: ...  # noqa: D102
    @property
    def max_length(self) -> int: ...  # noqa: D102


class UnitSection(Section):
    """What the settings of all units have in common."""

    def check(self, model: HostSettings) -> None:
        """Raise ValueError if the settings do not fit the model's."""


class SentenceUnit(UnitSection):
    """Every sentence is a sequence of its own."""

    kind: Literal["sentence"] = "sentence"


class WindowUnit(UnitSection):
    """A sentence with those before it, sliding by one (Tiedemann and Scherrer 2017): 2+1, 2+2, k+k."""

    kind: Literal["window"] = "window"
    source: WindowSize = Field(2, description="sentences of the source sequence: the current one and those before it")
    target: WindowSize = Field(
        2, description="sentences of the target sequence; those before the current one are a given prefix in decoding"
    )
    loss: Literal["current", "all"] = Field(
        "current", description="target sentences that are trained on: the current one, or all of the window"
    )
    flat_layers: Count = Field(0, description="top encoder layers without the context, as in Flat-Transformer; 0: none")

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if self.target > self.source:
            raise ValueError(f"unit.target ({self.target}) must not exceed unit.source ({self.source})")
        return self

    def check(self, model: HostSettings) -> None:
        """Refuse windows that the position table is too short for, and more flat layers than there are."""
        if (needed := self.source * model.max_length) > model.max_positions:
            raise ValueError(
                f"unit: {self.source} sentences of max_length {model.max_length} may need "
                f"{needed} positions, more than max_positions ({model.max_positions})"
            )
        if self.flat_layers > model.encoder_layers:
            raise ValueError(f"unit.flat_layers ({self.flat_layers}): the encoder has {model.encoder_layers} layers")


class BlockUnit(UnitSection):
    """Runs of k sentences, translated at once (k-to-k)."""

    kind: Literal["block"] = "block"
    sentences: Positive = Field(4, description="maximum number of sentences per sequence")
    tokens: Positions = Field(
        512, description="a sentence joins while the sum of its longer side + 2 over all sentences stays below this"
    )

    def check(self, model: HostSettings) -> None:
        """Refuse blocks that the position table is too short for."""
        if self.tokens > model.max_positions:
            raise ValueError(f"unit.tokens ({self.tokens}) must not exceed max_positions ({model.max_positions})")


class DocumentUnit(BlockUnit):
    """Segments of a document as long as possible; the defaults are G-Transformer's."""

    kind: Literal["document"] = "document"  # type: ignore[assignment]
    sentences: Positive = Field(1000, description="maximum number of sentences per sequence")


UnitConfig = Annotated[SentenceUnit | WindowUnit | BlockUnit | DocumentUnit, Field(discriminator="kind")]

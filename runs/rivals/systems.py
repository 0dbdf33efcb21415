"""The systems that runs/rivals compares, and their settings, which are those of configs/rivals.

python runs/rivals/systems.py        # the names of those that are trained, in the order of the table
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tram.config import Config, FinetuneConfig
from tram.config.units import BlockUnit, WindowUnit

CONFIGS = Path(__file__).parents[2] / "configs"
SENTENCE, CONTROL, MEMORY = "sentence", "control", "memory"
Family = Literal["sentence", "window", "segment", "carried"]


@dataclass(frozen=True)
class System:
    """A system of the table: its name, which is that of its config, and what the reader is told about it."""

    name: str
    title: str
    family: Family

    @property
    def config(self) -> Path | None:
        """The file with the system's context or unit; None for those that have no config of their own."""
        return None if self.name in (SENTENCE, CONTROL, MEMORY) else CONFIGS / "rivals" / f"{self.name}.yaml"

    @property
    def available(self) -> bool:
        """Whether the system can be trained."""
        return self.config is None or self.config.exists()

    def settings(self) -> FinetuneConfig | None:
        """Return the finetuning stage of the system's config: its context and its unit are those of the system."""
        if self.name in (SENTENCE, CONTROL):
            return None
        return Config.load(self.config or CONFIGS / "small.yaml").finetune

    def overrides(self) -> dict[str, Any]:
        """Return the context and the unit of the system, as keys of a finetuning stage."""
        settings = self.settings()
        context = None if settings is None or settings.context is None else settings.context.model_dump(mode="json")
        unit = None if settings is None or settings.unit is None else settings.unit.model_dump(mode="json")
        return {"context": context, "unit": unit}


# The table's order: what a sentence sees grows from the top to the bottom
SYSTEMS = (
    System(SENTENCE, "sentence model", "sentence"),
    System(CONTROL, "control: sentence model, finetuned as long", "sentence"),
    System("concat-2to1", "concatenation 2+1", "window"),
    System("concat-2to2", "concatenation 2+2", "window"),
    System("flat", "Flat-Transformer", "window"),
    System("blocks", "concatenation k-to-k", "window"),
    System("han", "HAN", "window"),
    System("document", "document Transformer", "segment"),
    System("selective", "selective attention", "segment"),
    System("zheng", "Zheng et al. 2020", "segment"),
    System("g_transformer", "G-Transformer", "segment"),
    System("transformer_xl", "Transformer-XL", "carried"),
    System("compressive", "Compressive Transformer", "carried"),
    System(MEMORY, "recurrent memory (TRAM)", "carried"),
)
BY_NAME = {system.name: system for system in SYSTEMS}


def sentences_back(context: dict[str, Any] | None, unit: dict[str, Any] | None) -> int | None:
    """Return the most sentences back that a system can see; None: no limit, or one in tokens or segments."""
    if unit is not None and unit["kind"] in ("window", "block"):
        parsed = WindowUnit(**unit) if unit["kind"] == "window" else BlockUnit(**unit)
        return (parsed.source if isinstance(parsed, WindowUnit) else parsed.sentences) - 1
    return int(context["sentences"]) if context is not None and context["kind"] == "han" else None


def sees_translations(context: dict[str, Any] | None, unit: dict[str, Any] | None) -> bool:
    """Return whether a system sees earlier translations, and not only earlier source sentences."""
    if unit is not None:
        return bool(unit["kind"] != "window" or unit["target"] > 1)
    return context is not None and context["side"] != "source"


if __name__ == "__main__":
    print("\n".join(system.name for system in SYSTEMS if system.available and system.name != SENTENCE))

"""Score a finished system on the generated suite and write its numbers: one JSON file per system.

python runs/rivals/result.py SYSTEM FOLDER docs/rivals
"""

import sys
from pathlib import Path
from typing import Any, get_args

from systems import BY_NAME, SENTENCE

from tram.analysis.window import last_update, read_metrics
from tram.config import ModelConfig
from tram.config.contexts import Side
from tram.evaluation.accuracy import summarise
from tram.evaluation.contrast import score_suite
from tram.evaluation.suite import read_suite
from tram.files import write_json
from tram.model.folder import parameter_shapes
from tram.progress import Progress
from tram.training.log import summary
from tram.translation.translator import Translator

SIDES: tuple[Side, ...] = get_args(Side)


def stage_folder(name: str, folder: Path) -> Path:
    """Return the stage of training that ends with a system's model."""
    return folder / SENTENCE / "train" if name == SENTENCE else folder / name / "finetune"


def parameters(model: ModelConfig, start: ModelConfig, vocabulary: int) -> dict[str, Any]:
    """Return how many parameters a model has, and what is new in it: not loaded from the sentence model."""
    own, loaded = parameter_shapes(model, vocabulary), parameter_shapes(start, vocabulary)
    new = own.keys() - loaded.keys()
    return {
        "all": sum(shape.numel() for shape in own.values()),
        "new": sum(own[name].numel() for name in new),
        "new_in": summary(new),
    }


def positions(model: ModelConfig) -> dict[str, str]:
    """Return for each side what the positions of tokens are counted in: the sentence, segment or unit, or none."""
    if model.context is None:
        return dict.fromkeys(SIDES, model.unit.kind)
    return {side: model.context.token_positions(side) for side in SIDES}


def training(stage: Path) -> dict[str, Any]:
    """Return updates, target tokens and the best held-out loss of a stage."""
    last = last_update(stage)
    losses = [line["held_loss"] for line in read_metrics(stage / "metrics.jsonl") if "held_loss" in line]
    return {"updates": last["update"], "target_tokens": last["tokens"], "held_loss": min(losses)}


def result(name: str, folder: Path) -> dict[str, Any]:
    """Return everything that the table says about a system, except its costs."""
    stage = stage_folder(name, folder)
    translator = Translator.load(stage / "model")
    start = Translator.load(stage_folder(SENTENCE, folder) / "model").model.config
    items = read_suite(folder / "raw" / "suite.jsonl")
    with Progress("scoring", len(items), "items") as progress:
        scored = summarise(score_suite(translator, items, "gold", advance=progress.advance)).as_dict()
    return {
        "system": name,
        **BY_NAME[name].overrides(),
        "positions": positions(translator.model.config),
        "parameters": parameters(translator.model.config, start, translator.model.vocabulary),
        "training": training(stage),
        "suite": scored["by_phenomenon_and_distance"],
    }


if __name__ == "__main__":
    name, folder, output = sys.argv[1:]
    write_json(Path(output) / f"{name}.json", result(name, Path(folder)))

"""Finetune one system from the sentence model of a folder, on the same documents and target tokens as all others.

python runs/rivals/train.py RECIPE SYSTEM FOLDER [key=value ...]     # FOLDER/prepared, FOLDER/sentence → FOLDER/SYSTEM

RECIPE is a config with the settings that all systems share. An update of a context module covers some whole documents;
batches of joined sentences, or of the segments that documents are cut into, are made so large that they have as many
target tokens on average. Run again to resume.
"""

import json
import sys
from pathlib import Path
from typing import Any

from systems import BY_NAME

from tram.config import Config, FinetuneConfig, ModelConfig
from tram.config.contexts import SegmentRule
from tram.data.arrays import PreparedData, Split
from tram.data.batches import DocumentPlan, SentencePlan
from tram.data.units import units_of
from tram.model.folder import find_model, read_model_file
from tram.training.run import train
from tram.training.segment_stage import split_into_segments

LONGER_TRANSLATIONS = 1.6  # times the tokens of their source, at most
STEPS = 4  # towards a batch size with the wanted number of target tokens


def system_config(recipe: Path, name: str, folder: Path, overrides: list[str]) -> Config:
    """Return the config of a system's run."""
    start = find_model(folder / "sentence")
    model = read_model_file(start).model
    own = {key: json.dumps(fitted(value, model)) for key, value in BY_NAME[name].overrides().items()}
    given = [
        f"data={folder / 'prepared'}",
        f"output={folder / name}",
        "train=null",
        f"finetune.start={start}",
        *(f"finetune.{key}={value}" for key, value in own.items()),
        *overrides,
    ]
    config = Config.load(recipe, given)
    assert config.finetune is not None
    if config.finetune.unit is not None:
        unit = model.model_copy(update={"unit": config.finetune.unit})
        return Config.load(recipe, [*given, f"finetune.tokens={unit_tokens(unit, config)}"])
    if config.finetune.context is not None and (rule := config.finetune.context.segment) is not None:
        return Config.load(recipe, [*given, f"finetune.documents={segments_per_update(model, rule, config)}"])
    return config


def fitted(settings: dict[str, Any] | None, model: ModelConfig) -> dict[str, Any] | None:
    """Return a context or a unit with segments that learned positions have room for, and their translations too."""
    if settings is None or "tokens" not in settings or model.positions != "learned":
        return settings
    return settings | {"tokens": min(settings["tokens"], int(model.max_positions / LONGER_TRANSLATIONS))}


def unit_tokens(model: ModelConfig, config: Config) -> int:
    """Return the batch size for units whose updates have as many target tokens on average as those of documents."""
    assert isinstance(config.finetune, FinetuneConfig)
    data = PreparedData.open(config.data)
    split = data.split("train")
    wanted = tokens_per_update(split, config.finetune, model, config.seed)
    units = units_of(model, data.special, str(config.data))
    assert units is not None
    joined = units.training_units(split)
    tokens = round(wanted)
    for _ in range(STEPS):  # the mean is nearly proportional to the batch size
        plan = SentencePlan(joined, tokens, model.max_positions, config.seed)
        batches = plan.epoch(0)
        tokens = round(tokens * wanted * len(batches) / plan.labels[plan.usable].sum())
    return tokens


def segments_per_update(model: ModelConfig, rule: SegmentRule, config: Config) -> int:
    """Return how many segments have as many target tokens on average as an update of documents."""
    assert isinstance(config.finetune, FinetuneConfig)
    split = PreparedData.open(config.data).split("train")
    segments = split_into_segments(split, rule, model.max_length)
    documents, parts = (tokens_per_update(each, config.finetune, model, config.seed) for each in (split, segments))
    return round(config.finetune.documents * documents / parts)


def tokens_per_update(split: Split, stage: FinetuneConfig, model: ModelConfig, seed: int) -> float:
    """Return the mean target tokens of an update of whole documents."""
    plan = DocumentPlan(split, stage.documents, stage.max_length_gap, model.max_length, seed)
    return float(plan.target_lengths.sum() / len(plan.epoch(0)))


if __name__ == "__main__":
    recipe, name, folder, *overrides = sys.argv[1:]
    print(train(system_config(Path(recipe), name, Path(folder), overrides)))

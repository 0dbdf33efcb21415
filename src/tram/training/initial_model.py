"""The model that a stage of training starts from: random weights, or those of a model folder and a new context."""

from pathlib import Path

import torch
from accelerate import Accelerator

from tram.config import Config, FinetuneConfig, ModelConfig, TrainConfig, checked, with_context
from tram.data.arrays import PreparedData
from tram.data.units import units_of
from tram.errors import InputError
from tram.model.folder import WEIGHTS, check_exact, check_memory, load_known_weights, read_model_file, weights
from tram.model.transformer import Transformer
from tram.training.processes import on_main


def initial_model(
    config: Config, stage: TrainConfig, data: PreparedData, first: Path | None, accelerator: Accelerator
) -> tuple[Transformer, set[str]]:
    """Return the model to train, and the names of its new parameters: those not loaded from `first`."""
    torch.manual_seed(config.seed)
    settings = on_main(accelerator, lambda: model_settings(config, stage, data, first))
    model = Transformer(settings, data.vocabulary)
    loaded: set[str] = set()
    if first is not None:
        loaded = on_main(accelerator, lambda: load_known_weights(model, first / WEIGHTS))
    return model, weights(model).keys() - loaded


def model_settings(config: Config, stage: TrainConfig, data: PreparedData, first: Path | None) -> ModelConfig:
    """Return the config of the model to train: that of `first`, if there is one, and the context of the stage."""
    settings = config.model
    if first is not None:
        settings = settings_of(first, data)
        if settings.context is not None and not isinstance(stage, FinetuneConfig):
            raise InputError(
                f"{first}: has a context module, which single sentences cannot train; start from a sentence model"
            )
    unit = settings.unit if config.model.unit.kind == "sentence" else config.model.unit
    if isinstance(stage, FinetuneConfig):
        settings = with_context(settings, stage.context, str(first or "finetune"))
        unit = stage.unit or settings.unit
    settings = checked(ModelConfig, settings.model_dump() | {"unit": unit}, str(first or "model"))
    needed = data.source_vocabulary or data.vocabulary
    if (settings.source_vocabulary or data.vocabulary) < needed:
        raise InputError(
            f"{first or 'model'}: source_vocabulary is {settings.source_vocabulary}, but the source of "
            f"{data.folder} has {needed:,} ids; set it to {needed} or more"
        )
    units_of(settings, data.special, str(data.folder))  # refuses data without a separator
    is_frozen = isinstance(stage, FinetuneConfig) and stage.freeze != "none"
    check_memory(settings, data.vocabulary, copies=1 if is_frozen else 3)  # weights, gradients, momentum
    return settings


def settings_of(first: Path, data: PreparedData) -> ModelConfig:
    """Return the config of a model folder; refuse one in int8, or with other subwords than the data."""
    check_exact(first)
    about = read_model_file(first)
    if about.vocabulary != data.vocabulary or about.text not in (None, data.fingerprint):
        raise InputError(f"{first}: its subwords are not those of {data.folder}; prepare the data with --text")
    return about.model

"""A training run: the stages that a config names, from prepared data to a model folder.

train(Config.load("configs/small.yaml"))      # run again after a kill: continues exactly where it stopped
"""

from pathlib import Path
from typing import Any

from tram.config import Config, TrainConfig, write_yaml
from tram.data.arrays import PreparedData
from tram.errors import InputError
from tram.model.folder import WEIGHTS, find_model
from tram.training.checkpoints import Checkpoints
from tram.training.trainer import Trainer

# Settings that may change when a run is continued: they do not affect the updates done so far.
FREE = {"updates", "patience", "keep_checkpoints", "log_every", "average"}


def train(config: Config) -> Path:
    """Run the stages that the config names and return the folder of the finished model."""
    data = PreparedData.open(config.data)
    remember_config(config)
    folder = config.output
    if config.train is not None:
        folder = config.output / "train"
        if not finished(folder, config.train):
            if (second := config.output / "finetune").exists():
                raise InputError(
                    f"{second}: was finetuned from the first stage as it was before its updates were raised; "
                    "remove it or choose another output folder"
                )
            start = config.train.start
            Trainer(config, config.train, data, folder, None if str(start) == "nothing" else find_model(start)).run()
    if config.finetune is not None:
        start = config.finetune.start
        first = None if str(start) == "nothing" else folder / "model" if str(start) == "train" else find_model(start)
        folder = config.output / "finetune"
        if not finished(folder, config.finetune):
            Trainer(config, config.finetune, data, folder, first).run()
    return folder / "model"


def finished(folder: Path, stage: TrainConfig) -> bool:
    """Return whether a stage has its model and the config asks for no further updates."""
    if not (folder / "model" / WEIGHTS).exists():
        return False
    checkpoints = Checkpoints(folder / "checkpoints").all()
    return not checkpoints or checkpoints[-1].update >= stage.updates or bool(checkpoints[-1].progress()["ended"])


def remember_config(config: Config) -> None:
    """Store the config with the run, and refuse to continue with another one."""
    path = config.output / "config.yaml"
    if path.exists():
        before, now = (_flat(each.model_dump(mode="json")) for each in (Config.load(path), config))
        for key in sorted(before.keys() | now.keys()):
            if key.rpartition(".")[2] not in FREE | {"output", "data"} and before.get(key) != now.get(key):
                raise InputError(
                    f"{path}: this run was started with {key}: {before.get(key)}, not {now.get(key)}; "
                    "set it back or choose another output folder"
                )
    write_yaml(path, config)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat

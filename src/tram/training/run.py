"""A training run: the stages of a config, from prepared data to a model folder.

train(Config.load("configs/small.yaml"))      # continues after an interruption exactly where it stopped
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tram.config import Config, FinetuneConfig, TrainConfig, write_yaml
from tram.data.arrays import PreparedData
from tram.errors import InputError, UnreadableError
from tram.files import Lock, exists, locked, read_json, write_json
from tram.fingerprints import has_checksum
from tram.model.folder import WEIGHTS, check_replaceable, empty_model, find_model, parameter_shapes, weights
from tram.training.checkpoints import Checkpoints
from tram.training.initial_model import model_settings
from tram.training.optimizers import freeze
from tram.training.processes import losing_others, make_accelerator, on_main
from tram.training.stages import Processes
from tram.training.trainer import FINISHED, Trainer, make_stage

DATA = "data.json"  # the key of the prepared data that a run was started on
# Settings that may change when a run is continued: they do not affect the updates done so far.
FREE = {"updates", "patience", "keep_checkpoints", "log_every", "average"}


def train(config: Config) -> Path:
    """Run the stages of a config and return the folder of the finished model.

    With several processes, only the main process reads and writes the output folder.
    """
    accelerator = make_accelerator()
    data = PreparedData.open(config.data)
    data.text()  # the model folder needs it at the end; refuse a damaged one now
    stages = [stage for stage in (config.train, config.finetune) if stage is not None]
    with losing_others(accelerator), ExitStack() as stack:
        lock: Lock | None = None  # of the main process

        def begin() -> None:
            nonlocal lock
            lock = stack.enter_context(locked(config.output))
            require_same_data(config, data)
            for stage in stages:
                if not finished(config, stage):
                    check_stage(config, stage, data)
            remember_config(config)  # after the checks: what they refuse may be corrected
            if not exists(config.output / DATA):
                write_json(config.output / DATA, {"key": data.key})

        on_main(accelerator, begin)
        for stage in stages:
            folder = stage_folder(config, stage)
            if not on_main(accelerator, lambda stage=stage: finished(config, stage)):  # type: ignore[misc]
                first = on_main(accelerator, lambda stage=stage: start_of(config, stage))  # type: ignore[misc]
                Trainer(config, stage, data, folder, first, lock).run()
    return folder / "model"


def stage_folder(config: Config, stage: TrainConfig) -> Path:
    """Return the folder of a stage."""
    return config.output / ("finetune" if isinstance(stage, FinetuneConfig) else "train")


def start_of(config: Config, stage: TrainConfig) -> Path | None:
    """Return the model folder that a stage starts from; None: random weights."""
    first, second = stage_folder(config, stage), config.output / "finetune"
    if not isinstance(stage, FinetuneConfig) and exists(second) and not last_update(first, stage)[1]:
        raise InputError(
            f"{second}: was finetuned from the first stage as it was before its updates or its patience were raised; "
            "remove it or choose another output folder"
        )
    if str(stage.start) == "nothing":
        return None
    if isinstance(stage, FinetuneConfig) and str(stage.start) == "train":
        return config.output / "train" / "model"
    return find_model(stage.start)


def check_stage(config: Config, stage: TrainConfig, data: PreparedData) -> None:
    """Refuse a stage whose start or settings do not fit, before the stage before it is trained."""
    check_replaceable(stage_folder(config, stage) / "model")
    first = start_of(config, stage)
    if first == config.output / "train" / "model" and config.train is not None and not finished(config, config.train):
        first = start_of(config, config.train)
    settings = model_settings(config, stage, data, first)
    model = empty_model(settings, data.vocabulary)
    if isinstance(stage, FinetuneConfig):
        loaded = (
            set() if str(stage.start) == "nothing" else parameter_shapes(settings.without_context(), data.vocabulary)
        )
        freeze(model, stage.freeze, new=weights(model).keys() - loaded)
    make_stage(model, stage, config.seed, Processes(), data.split("train"))


def finished(config: Config, stage: TrainConfig) -> bool:
    """Return whether the model of a stage exists and the config requires no further updates."""
    folder = stage_folder(config, stage)
    model = folder / "model"
    of_model, checksum = written_model(folder)
    if not exists(model / WEIGHTS):
        return False
    if checksum is not None and not has_checksum(model / WEIGHTS, checksum):
        raise InputError(
            f"{model / WEIGHTS}: is not the file that this run wrote; remove {model} to write it again from the "
            "checkpoints, or put the file back"
        )
    update, has_ended = last_update(folder, stage)
    if update is None and of_model is not None and of_model < stage.updates and not stage.patience:
        raise InputError(
            f"{folder / 'checkpoints'}: has no checkpoint to continue from, and the model beside it had {of_model:,} "
            f"of {stage.updates:,} updates; put the checkpoints back or choose another output folder"
        )
    return update is None or (has_ended and (of_model is None or of_model >= update))


def last_update(folder: Path, stage: TrainConfig) -> tuple[int | None, bool]:
    """Return the update of the last undamaged checkpoint of a stage, and whether the stage ends there."""
    checkpoints = Checkpoints(folder / "checkpoints").all()
    for checkpoint in reversed(checkpoints):
        try:
            if checkpoint.update >= stage.updates:
                return checkpoint.update, True
            return checkpoint.update, checkpoint.load().standing.is_out_of(stage.patience)
        except UnreadableError:
            raise
        except InputError:  # damaged: use the one before
            continue
    return (checkpoints[-1].update if checkpoints else None), False


def written_model(folder: Path) -> tuple[int | None, str | None]:
    """Return after which update the model of a stage was written, and the checksum of its weights; None: unknown."""
    try:
        about = dict(read_json(folder / FINISHED))
    except (OSError, ValueError, TypeError):  # of an earlier version, or damaged
        return None, None
    update, checksum = about.get("update"), about.get("checksum")
    return update if isinstance(update, int) else None, checksum if isinstance(checksum, str) else None


def remember_config(config: Config) -> None:
    """Store the config with the run, and refuse to continue with another one."""
    path = config.output / "config.yaml"
    if exists(path):
        earlier = Config.load(path)
        before, now = (_flat(each.model_dump(mode="json")) for each in (earlier, config))
        if before == now:
            return
        for key in sorted(before.keys() | now.keys()):
            if key.rpartition(".")[2] not in FREE | {"output", "data"} and before.get(key) != now.get(key):
                raise InputError(
                    f"{path}: this run was started with {key}: {before.get(key)}, not {now.get(key)}; "
                    "set it back or choose another output folder"
                )
        for old, new in ((earlier.train, config.train), (earlier.finetune, config.finetune)):
            if old is not None and new is not None:
                require_same_cooldown(config, old, new)
    write_yaml(path, config)


def require_same_cooldown(config: Config, old: TrainConfig, new: TrainConfig) -> None:
    """Refuse another number of updates in the middle of a cooldown: the learning rate would jump."""
    folder = stage_folder(config, new)
    updates_done = max((checkpoint.update for checkpoint in Checkpoints(folder / "checkpoints").all()), default=0)
    if old.updates == new.updates or not new.cooldown or updates_done >= new.updates:
        return
    if updates_done > min(old.updates, new.updates) - new.cooldown:
        raise InputError(
            f"{folder}: this run has made {updates_done:,} updates; if {folder.name}.updates changed from "
            f"{old.updates} to {new.updates}, the learning rate would jump in the cooldown ({new.cooldown}); set it to "
            f"{old.updates} or choose another output folder"
        )


def require_same_data(config: Config, data: PreparedData) -> None:
    """Refuse to continue a run on other data than it was started on."""
    path = config.output / DATA
    if not exists(path):
        return
    try:
        before = read_json(path)["key"]
        if not isinstance(before, str):
            raise TypeError
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path}: is damaged; remove it if this run was started on the data in {data.folder}"
        ) from None
    if before != data.key:
        raise InputError(
            f"{data.folder}: is other data (fingerprint {data.key}) than this run was started on (fingerprint "
            f"{before}, {path}); give that data or choose another output folder"
        )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat

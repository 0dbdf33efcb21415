"""Models that differ in one setting: the variants that `memory-size`, `placement` and `window` train.

    recipe = Recipe(data, start, runs, updates=500, share=0.1)
    models = train_all(recipe, [CONTROL, Variant(MemoryConfig(slots=8))])    # finished variants are not trained again

Every variant is the same sentence model, finetuned on the same documents with the same settings, in its own folder
below `runs`. A run that was interrupted is resumed; one that was made with other settings is refused.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tram.config import Config, FinetuneConfig, MemoryConfig, ModelConfig, checked
from tram.data.arrays import PreparedData, SplitWriter, UnmarkedSentences
from tram.data.prepared_folder import describe, file_names, is_complete
from tram.errors import InputError
from tram.files import read_json, replacing_folder, write_json
from tram.fingerprints import checksums, content_fingerprint, fingerprint
from tram.model.folder import WEIGHTS, find_model, load_model, read_model_file, save_model
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.training.run import finished, train
from tram.training.trainer import Trainer

Window = tuple[int, int] | Literal["document"]  # sentences between two updates, as in `finetune.window`


@dataclass(frozen=True)
class Variant:
    """The setting in which a run differs; without a memory, the control: the sentence model, finetuned as long."""

    memory: MemoryConfig | None
    window: Window | None = None  # None: that of the recipe

    @property
    def name(self) -> str:
        """The name of its folder; analyses that need the same variant share the run."""
        parts = ["control"]
        if self.memory is not None:
            layers = "".join(f"_{layer}" for layer in self.memory.layers)
            parts = [f"slots{self.memory.slots}", self.memory.side, f"layers{layers}"]
        if self.window is not None:
            parts.append("window_" + (self.window if self.window == "document" else f"{self.window[1]}"))
        return "-".join(parts)


CONTROL = Variant(None)


@dataclass(frozen=True)
class Recipe:
    """The recipe that all variants share. settings: all other settings, as in the `finetune` section of a config."""

    data: Path  # prepared data
    start: Path  # a sentence model, or a model whose memory is removed
    runs: Path
    updates: int = 500
    share: float = 0.1  # of the training documents
    settings: FinetuneConfig = field(default_factory=FinetuneConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise InputError(f"updates {self.updates}: give 1 or more, for example 500")
        if not 0 < self.share <= 1:
            raise InputError(f"share {self.share}: give a number above 0 and up to 1, for example 0.1")

    @cached_property
    def start_folder(self) -> Path:
        """The folder of the sentence model; if `start` has a memory, a copy without it is written below `runs`."""
        folder = find_model(self.start)
        if not self.start_has_memory:
            return folder
        without_memory = self.runs / f"start-{content_fingerprint(folder / WEIGHTS)}"
        if not without_memory.exists():
            text = TextPipeline.load(folder) if (folder / "text.json").exists() else None
            save_model(load_model(folder).without_context(), without_memory, text)
        return without_memory

    @cached_property
    def start_has_memory(self) -> bool:
        """Whether `start` has a memory, which must be removed."""
        return read_model_file(find_model(self.start)).model.context is not None

    @cached_property
    def start_model(self) -> ModelConfig:
        """The config of the sentence model."""
        return read_model_file(self.start_folder).model

    def memory(self, **changes: Any) -> MemoryConfig:
        """Return the recipe's memory settings with some of them changed."""
        base = (self.settings.memory or MemoryConfig()).model_dump()
        if self.start_model.norm == "pre" and base["read"] == "norm":  # not possible in a pre-norm model
            base["read"] = "add"
        return checked(MemoryConfig, base | changes, "memory")

    @property
    def translations(self) -> Path:
        """The folder with the models' translations of test documents."""
        return self.runs / "translations"

    @cached_property
    def training_data(self) -> Path:
        """The folder with the prepared data of the share of documents to train on."""
        return prepared_share(self.data, self.share, self.runs, self.seed)

    def stage(self, variant: Variant) -> dict[str, Any]:
        """Return the settings of a variant's finetuning, without the start model."""
        fifth = max(self.updates // 5, 1)
        return self.settings.model_dump(mode="json", exclude={"start"}) | {
            "context": None if variant.memory is None else variant.memory.model_dump(mode="json"),
            "window": self.settings.window if variant.window is None else variant.window,
            "updates": self.updates,
            "warmup": min(self.settings.warmup, self.updates // 5),
            "cooldown": min(self.settings.cooldown, self.updates // 5),
            "evaluate_every": min(self.settings.evaluate_every, fifth),
            "checkpoint_every": min(self.settings.checkpoint_every, fifth),
            "patience": 0,  # all variants get the same number of updates
            "keep_checkpoints": 1,
            "log_every": 1,
        }

    def config(self, variant: Variant) -> Config:
        """Return the config of a variant's run, as for `tram train`."""
        values = {
            "data": str(self.training_data),
            "output": str(self.folder(variant)),
            "seed": self.seed,
            "model": self.start_model.model_dump() | {"context": None},
            "train": None,
            # An absolute path cannot be confused with a keyword of `start`.
            "finetune": self.stage(variant) | {"start": str(self.start_folder.absolute())},
        }
        return checked(Config, values, variant.name)

    def folder(self, variant: Variant) -> Path:
        """Return the folder of a variant's run."""
        return self.runs / variant.name

    def model(self, variant: Variant) -> Path:
        """Return the folder of a variant's finished model."""
        return self.folder(variant) / "finetune" / "model"

    def identity(self, variant: Variant) -> dict[str, Any]:
        """Return everything that affects the result of a variant's training, whatever its folders are called."""
        about = (self.data / "prepared.json").read_bytes()
        return {
            "data": hashlib.sha256(about).hexdigest()[:12],
            "start": content_fingerprint(self.start_folder / WEIGHTS),
            "share": self.share,
            "seed": self.seed,
            **json.loads(json.dumps(self.stage(variant))),
        }

    def check_existing_run(self, variant: Variant) -> None:
        """Raise InputError if the variant's run exists and was made with other settings."""
        path = self.folder(variant) / "recipe.json"
        if not path.exists():
            return
        try:
            # Settings that are newer than the run have their defaults.
            stored = FinetuneConfig.with_current_keys(dict(read_json(path)))
            before = FinetuneConfig().model_dump(mode="json") | stored
        except (ValueError, TypeError, OSError):
            raise InputError(f"{path}: is damaged; remove the folder {path.parent} and run again") from None
        now = self.identity(variant)
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                raise InputError(
                    f"{path}: this run was made with {key}: {before.get(key)}, not {now.get(key)}; "
                    "give another --runs folder"
                )

    def untrained_model(self, variant: Variant) -> Transformer:
        """Return the variant before its training: the sentence model with a freshly initialised memory."""
        config = self.config(variant)
        assert config.finetune is not None
        data = PreparedData.open(config.data)
        return Trainer(config, config.finetune, data, self.folder(variant), self.start_folder).model.float().eval()


def finetune_settings(config: Path | None, overrides: Sequence[str] | None = None) -> FinetuneConfig:
    """Return the finetune section of a config file with some settings overridden, or the defaults."""
    if config is None:
        if overrides:
            raise InputError(f"--set {overrides[0]}: overrides a setting of a config; also give --config")
        return FinetuneConfig()
    settings = Config.load(config, list(overrides or [])).finetune
    if settings is None:
        raise InputError(
            f"{config}: has no `finetune` section with the settings of the variants; give a config that has one"
        )
    return settings


def train_all(recipe: Recipe, variants: Sequence[Variant]) -> list[Path]:
    """Train the variants that are not trained yet, and return the model folders of all of them."""
    PreparedData.open(recipe.data)
    for variant in variants:  # check all of them before the first hour of training
        recipe.config(variant)
        recipe.check_existing_run(variant)
    for number, variant in enumerate(variants, start=1):
        config = recipe.config(variant)
        assert config.finetune is not None
        trained = finished(config, config.finetune)
        status = "already trained" if trained else f"{recipe.updates:,} updates"
        print(f"[{number}/{len(variants)}] {variant.name}: {status}", file=sys.stderr, flush=True)
        if not trained:
            write_json(recipe.folder(variant) / "recipe.json", recipe.identity(variant))
            train(config)
    return [recipe.model(variant) for variant in variants]


def prepared_share(data: Path, share: float, runs: Path, seed: int) -> Path:
    """Return a folder of prepared data with a share of the training documents of `data`; write it if it is missing.

    All other splits are copied as they are.
    """
    if share == 1:
        return data
    whole = PreparedData.open(data)
    about = read_json(data / "prepared.json")
    key = fingerprint([about, share, seed])
    folder = runs / f"data-{key}"
    if is_complete(folder):
        return folder
    names = file_names(whole.splits, whole.text())
    with replacing_folder(folder) as temporary:
        for name in (name for name in names if not name.startswith("train.")):
            whole.check(name)
            (temporary / name).parent.mkdir(exist_ok=True)
            shutil.copy(data / name, temporary / name)
        train = write_share(whole, share, seed, temporary)
        splits = about["splits"] | {"train": train}
        files = checksums(temporary, names)
        describe(temporary, about | {"key": key, "splits": splits, "files": files})
    return folder


def write_share(whole: PreparedData, share: float, seed: int, folder: Path) -> dict[str, int]:
    """Write a random share of the training documents, at least one, in their original order, and return its sizes."""
    split = whole.split("train")
    documents = len(split.documents) - 1
    count = max(round(share * documents), 1)
    chosen = np.sort(np.random.default_rng(seed).permutation(documents)[:count])
    target = split.target.sentences if isinstance(split.target, UnmarkedSentences) else split.target
    writer = SplitWriter(folder, "train", max(whole.vocabulary, whole.source_vocabulary or 0))
    for document in chosen.tolist():
        rows = range(int(split.documents[document]), int(split.documents[document + 1]))
        writer.add([split.source[row].tolist() for row in rows], [target[row].tolist() for row in rows])
    return writer.close()


def recipe_sentence(recipe: Recipe) -> str:
    """Return a sentence for the report on how the variants were trained."""
    settings = recipe.settings
    start = (
        f"`{recipe.start}` without its memory" if recipe.start_has_memory else f"the sentence model `{recipe.start}`"
    )
    return (
        f"Each model is {start}, finetuned for {recipe.updates:,} updates on "
        f"{recipe.share:.0%} of the training documents of `{recipe.data}` ({settings.optimizer}, lr {settings.lr:g}, "
        f"new parameters {settings.lr_new:g}, {settings.documents} document{'s' * (settings.documents != 1)} at a "
        f"time, seed {recipe.seed}), one run each; the checkpoint that is best on the held-out documents is used."
    )

"""Models that differ in one thing: what `memory-size`, `placement` and `window` train, and how they are compared.

    recipe = Recipe(data, start, runs, updates=500, share=0.1)
    models = train_all(recipe, [CONTROL, Variant(MemoryConfig(slots=8))])    # what is finished is only found again

Every variant is a finetuning of the same sentence model on the same documents with the same settings, in a folder of
its own below `runs`. A run that was stopped goes on where it stopped; one made in another way is refused.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tram.config import Config, FinetuneConfig, MemoryConfig, ModelConfig, checked
from tram.data.arrays import PreparedData, SplitWriter
from tram.data.corpus import ParallelDocument, read_parallel
from tram.errors import InputError
from tram.evaluation.metrics import Difference, Score, SystemResult, score_systems
from tram.files import content_fingerprint, fingerprint, replacing_folder, write_json
from tram.model.folder import WEIGHTS, find_model, load_model, read_model_file, save_model
from tram.model.transformer import Transformer
from tram.progress import Progress, plain_warnings
from tram.text.pipeline import TextPipeline
from tram.training.run import train
from tram.training.trainer import Trainer
from tram.translation.translator import Translator

Window = tuple[int, int] | Literal["document"]  # sentences between two updates, as `finetune.window` has them


@dataclass(frozen=True)
class Variant:
    """What sets one run apart from the others. memory None: the control, the sentence model trained on."""

    memory: MemoryConfig | None
    window: Window | None = None  # None: the recipe's

    @property
    def name(self) -> str:
        """Of its folder: analyses that need the same variant find the same run."""
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
    """How all variants are trained. settings: everything that is not said here, as in a config's `finetune`."""

    data: Path  # prepared
    start: Path  # a sentence model, or one whose memory is taken off
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
        """The folder of the sentence model; one that is inside a model with a memory is written below `runs`, once."""
        folder = find_model(self.start)
        if not self.start_has_memory:
            return folder
        alone = self.runs / f"start-{content_fingerprint(folder / WEIGHTS)}"
        if not alone.exists():
            text = TextPipeline.load(folder) if (folder / "text.json").exists() else None
            save_model(load_model(folder).without_memory(), alone, text)
        return alone

    @cached_property
    def start_has_memory(self) -> bool:
        """Whether a memory has to be taken off first."""
        return read_model_file(find_model(self.start)).model.memory is not None

    @cached_property
    def start_model(self) -> ModelConfig:
        """The sizes of the model that all variants start from."""
        return read_model_file(self.start_folder).model

    def memory(self, **changes: Any) -> MemoryConfig:
        """The recipe's memory with some of its settings changed."""
        base = (self.settings.memory or MemoryConfig()).model_dump()
        if self.start_model.norm == "pre" and base["read"] == "norm":  # which such a model does not know
            base["read"] = "add"
        return checked(MemoryConfig, base | changes, "memory")

    @property
    def translations(self) -> Path:
        """Where analyses keep what the models made of the test documents."""
        return self.runs / "translations"

    @cached_property
    def documents(self) -> Path:
        """The prepared folder with the share of the documents that is trained on."""
        return share_of(self.data, self.share, self.runs, self.seed)

    def stage(self, variant: Variant) -> dict[str, Any]:
        """The settings of one finetuning, without the model it starts from."""
        shortest = max(self.updates // 5, 1)
        return self.settings.model_dump(mode="json", exclude={"start"}) | {
            "memory": None if variant.memory is None else variant.memory.model_dump(mode="json"),
            "window": self.settings.window if variant.window is None else variant.window,
            "updates": self.updates,
            "warmup": min(self.settings.warmup, self.updates // 5),
            "cooldown": min(self.settings.cooldown, self.updates // 5),
            "evaluate_every": min(self.settings.evaluate_every, shortest),
            "checkpoint_every": min(self.settings.checkpoint_every, shortest),
            "patience": 0,  # all variants get the same number of updates
            "keep_checkpoints": 1,
            "log_every": 1,
        }

    def config(self, variant: Variant) -> Config:
        """The run of a variant, as `tram train` would be given it."""
        values = {
            "data": str(self.documents),
            "output": str(self.folder(variant)),
            "seed": self.seed,
            "model": self.start_model.model_dump() | {"memory": None},
            "train": None,
            # An absolute path is never taken for a keyword of `start`
            "finetune": self.stage(variant) | {"start": str(self.start_folder.absolute())},
        }
        return checked(Config, values, variant.name)

    def folder(self, variant: Variant) -> Path:
        """Where a variant's run lies."""
        return self.runs / variant.name

    def model(self, variant: Variant) -> Path:
        """Where its finished model lies."""
        return self.folder(variant) / "finetune" / "model"

    def identity(self, variant: Variant) -> dict[str, Any]:
        """All that decides what comes out of a variant's training, whatever the folders are called."""
        about = (self.data / "prepared.json").read_bytes()
        return {
            "data": hashlib.sha256(about).hexdigest()[:12],
            "start": content_fingerprint(self.start_folder / WEIGHTS),
            "share": self.share,
            "seed": self.seed,
            **json.loads(json.dumps(self.stage(variant))),
        }

    def check(self, variant: Variant) -> None:
        """Refuse a run that is there already and was made in another way."""
        path = self.folder(variant) / "recipe.json"
        if not path.exists():
            return
        try:
            # A setting that came into being after the run has its default
            stored = FinetuneConfig.with_current_keys(dict(json.loads(path.read_text(encoding="utf-8"))))
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

    def fresh(self, variant: Variant) -> Transformer:
        """The variant as its training begins: the sentence model with a memory that has learnt nothing."""
        config = self.config(variant)
        assert config.finetune is not None
        data = PreparedData.open(config.data)
        return Trainer(config, config.finetune, data, self.folder(variant), self.start_folder).model.float().eval()


def finetune_settings(config: Path | None, overrides: Sequence[str] | None = None) -> FinetuneConfig:
    """The finetune section of a config file with some settings on top of it, or the defaults."""
    if config is None:
        if overrides:
            raise InputError(f"--set {overrides[0]}: is set on top of a config; give one with --config")
        return FinetuneConfig()
    settings = Config.load(config, list(overrides or [])).finetune
    if settings is None:
        raise InputError(f"{config}: has no `finetune` section to train the variants by; give a config that has one")
    return settings


def train_all(recipe: Recipe, variants: Sequence[Variant]) -> list[Path]:
    """The models of all variants; those that are missing are trained first."""
    PreparedData.open(recipe.data)
    for variant in variants:  # before the first hour of training
        recipe.config(variant)
        recipe.check(variant)
    for number, variant in enumerate(variants, start=1):
        done = (recipe.model(variant) / WEIGHTS).exists()
        doing = "is there" if done else f"{recipe.updates:,} updates"
        print(f"[{number}/{len(variants)}] {variant.name}: {doing}", file=sys.stderr, flush=True)
        if not done:
            write_json(recipe.folder(variant) / "recipe.json", recipe.identity(variant))
            train(recipe.config(variant))
    return [recipe.model(variant) for variant in variants]


def share_of(data: Path, share: float, runs: Path, seed: int) -> Path:
    """A prepared folder with a share of another one's training documents, made once; other splits stay whole."""
    if share == 1:
        return data
    whole = PreparedData.open(data)
    about = json.loads((data / "prepared.json").read_text(encoding="utf-8"))
    key = fingerprint([about, share, seed])
    folder = runs / f"data-{key}"
    if (folder / "prepared.json").exists():
        return folder
    with replacing_folder(folder) as temporary:
        for name in ("text.json", *(f"{split}.*" for split in whole.splits if split != "train")):
            for path in data.glob(name):
                shutil.copy(path, temporary)
        train = write_share(whole, share, seed, temporary)
        write_json(temporary / "prepared.json", about | {"key": key, "splits": about["splits"] | {"train": train}})
    return folder


def write_share(whole: PreparedData, share: float, seed: int, folder: Path) -> dict[str, int]:
    """Write a random share of the training documents, at least one, in their old order; gives the sizes."""
    split = whole.split("train")
    documents = len(split.documents) - 1
    wanted = max(round(share * documents), 1)
    chosen = np.sort(np.random.default_rng(seed).permutation(documents)[:wanted])
    writer = SplitWriter(folder, "train", whole.vocabulary)
    for document in chosen.tolist():
        rows = range(int(split.documents[document]), int(split.documents[document + 1]))
        writer.add([split.source[row].tolist() for row in rows], [split.target[row].tolist() for row in rows])
    return writer.close()


def read_test(source: Path, reference: Path, documents: int | None = None) -> list[ParallelDocument]:
    """The documents to score on: all, or the first few."""
    if documents is not None and documents < 1:
        raise InputError(f"documents {documents}: give 1 or more, or leave it out for all")
    return list(islice(read_parallel(source, reference), documents))


def translate_and_score(
    systems: Sequence[tuple[str, Path]],
    documents: Sequence[ParallelDocument],
    beam: int,
    against: int = 0,
    kept: Path | None = None,
) -> list[SystemResult]:
    """Translate with every model, and compare each with the one numbered `against`: paired bootstrap over documents.

    kept: folder of translations, so that a second analysis, or one that was stopped, has each model translate once.
    """
    sources, gold = [each.source for each in documents], [each.target for each in documents]
    found = [(name, translations(name, folder, sources, beam, kept)) for name, folder in systems]
    results = score_systems([found[against], *found[:against], *found[against + 1 :]], [gold])
    results.insert(against, results.pop(0))
    return results


def translations(
    name: str, folder: Path, sources: list[list[str]], beam: int, kept: Path | None = None
) -> list[list[str]]:
    """What a model makes of some documents."""
    path = None
    if kept is not None:
        path = kept / f"{fingerprint([content_fingerprint(folder / WEIGHTS), sources, beam])}.json"
        if path.exists():
            return list(json.loads(path.read_text(encoding="utf-8")))
    translator = Translator.load(folder, beam=beam)
    with plain_warnings(), Progress(f"translating: {name}", sum(map(len, sources)), "sentences") as progress:
        found = list(translator.translate_documents(sources, progress.advance))
    if path is not None:
        write_json(path, found)
    return found


def score_named(result: SystemResult, name: str) -> Score:
    """One of a system's scores."""
    return next(score for score in result.scores if score.name == name)


def score_json(score: Score) -> dict[str, Any]:
    """A score as values that `json` can write."""
    return {"value": score.value, "low": score.low, "high": score.high, "signature": score.signature}


def score_text(score: Score) -> str:
    """A score and its interval, for a table."""
    return f"{score.value:.2f}" + ("" if score.low is None else f" ({score.low:.2f} to {score.high:.2f})")


def difference_named(result: SystemResult, name: str) -> Difference:
    """How one of a system's scores differs from the baseline's; the baseline's own does not."""
    if not result.differences:
        return Difference(name, 0.0, 0.0, 0.0, None, "")
    return next(difference for difference in result.differences if difference.name == name)


def difference_sentence(result: SystemResult, name: str, baseline: str) -> str:
    """How a system's score differs from the baseline's, and whether chance explains it."""
    found = difference_named(result, name)
    text = f"{found.difference:+.2f} {name} against {baseline}"
    if found.low is None or found.high is None or found.p is None:
        return f"{text} (one document: no interval)"
    return f"{text} (95% interval {found.low:+.2f} to {found.high:+.2f}, p = {found.p:.3f})"


def error_bars(differences: Sequence[Difference]) -> list[list[float]] | None:
    """Distances from the differences to the ends of their intervals, as matplotlib wants them; None without any."""
    bounds = [(each.difference - each.low, each.high - each.difference)
              for each in differences if each.low is not None and each.high is not None]  # fmt: skip
    if len(bounds) < len(differences):
        return None
    return [[max(below, 0.0) for below, _ in bounds], [max(above, 0.0) for _, above in bounds]]


def recipe_sentence(recipe: Recipe) -> str:
    """How the variants were trained, for the report."""
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

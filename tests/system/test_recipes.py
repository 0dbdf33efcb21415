"""The recipes in configs/: each loads, says what the paper says, and runs from raw benchmark files to a score."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import Done, made_up
from tram.config import Config, MemoryConfig, read_yaml
from tram.data.corpus import ParallelDocument
from tram.translation.translator import Translator

Command = Callable[..., Done]
CONFIGS = Path(__file__).parents[2] / "configs"
PAPER = ("ted", "news", "europarl")
SHARED = CONFIGS / "paper.yaml"  # has no data of its own: what the paper's three recipes extend
SMALL = {
    "model": {"d_model": 16, "feed_forward": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 2},
    "train": {"updates": 2, "tokens": 256},
    "finetune": {"updates": 2, "tokens": 64},
}


def recipe(name: str, overrides: Sequence[str] = ()) -> Config:
    return Config.load(CONFIGS / f"{name}.yaml", list(overrides))


@pytest.mark.parametrize("path", sorted((CONFIGS / "rivals").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_rival_differs_from_the_small_model_in_its_context_alone(path: Path) -> None:
    """A context module has a config of its name; what joins the positions of sentences needs more of them besides."""
    config, small = Config.load(path), Config.load(CONFIGS / "small.yaml")
    assert config.finetune is not None
    assert config.train == small.train
    context = config.finetune.context
    joined = context is None or context.kind == "g_transformer"
    changed = {name for name, value in config.model if value != getattr(small.model, name)}
    assert changed == ({"max_positions"} if joined else set())
    assert context is None or context.kind == path.stem


@pytest.mark.parametrize("path", sorted({*CONFIGS.glob("*.yaml")} - {SHARED}), ids=lambda path: path.stem)
def test_every_config_loads_and_names_its_stages(path: Path) -> None:
    """The small mixed model has a file for each stage, all others name both."""
    config = Config.load(path)
    assert (config.train is None) == path.stem.endswith("-memory")
    assert (config.finetune is None) == (path.stem in ("mixed-small", "shipped-base"))
    assert config.finetune is None or config.finetune.memory is not None
    assert not config.data.is_absolute()
    assert not config.output.is_absolute()


def test_there_is_a_config_for_every_corpus_of_the_paper() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} >= {*PAPER, "small"}


@pytest.mark.parametrize(
    ("name", "dropout", "finetune_dropout", "finetune_warmup"),
    [("ted", 0.3, 0.2, 1000), ("news", 0.3, 0.2, 2000), ("europarl", 0.1, 0.1, 2000)],
)
def test_a_recipe_says_what_the_paper_says(
    name: str, dropout: float, finetune_dropout: float, finetune_warmup: int
) -> None:
    config = recipe(name)
    model, train, finetune = config.model, config.train, config.finetune
    assert train is not None
    assert finetune is not None
    assert (model.d_model, model.heads, model.feed_forward) == (512, 8, 2048)
    assert (model.encoder_layers, model.decoder_layers, model.norm) == (6, 6, "post")
    assert (train.lr, train.warmup, train.dropout, train.tokens) == (5e-4, 4000, dropout, 4096)
    assert (finetune.lr_new, finetune.lr) == (3e-4, 6e-5)
    assert (finetune.warmup, finetune.dropout) == (finetune_warmup, finetune_dropout)
    assert (str(finetune.start), finetune.window, finetune.weighting) == ("train", "document", "authors")
    assert (finetune.documents, finetune.max_length_gap) == (8, 10)
    assert finetune.memory == MemoryConfig(
        slots=16, side="both", layers=(-1,), positions="sinusoidal", read="norm", depth=1
    )
    for stage in (train, finetune):
        assert (stage.patience, stage.watch, stage.label_smoothing, stage.clip) == (5, "loss", 0.0, 0.0)


def test_the_recipes_of_the_paper_differ_only_in_what_the_paper_tells_apart() -> None:
    apart = {"data", "output", "train.dropout", "finetune.dropout", "finetune.warmup"}
    shared = flat(read_yaml(SHARED))
    assert not apart & shared.keys()
    for name in PAPER:
        own = flat(read_yaml(CONFIGS / f"{name}.yaml"))
        assert own.pop("extends") == SHARED.name
        assert own.keys() == apart
    first, *others = (flat(recipe(name).model_dump()) for name in PAPER)
    for other in others:
        assert other.keys() == first.keys()
        assert {key for key, value in other.items() if value != first[key]} <= apart


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def write_benchmark(folder: Path, split: str, documents: Sequence[ParallelDocument]) -> list[Path]:
    """The two files of a split, named and marked as the benchmark's."""
    paths = []
    for language, sides in (("en", [d.source for d in documents]), ("de", [d.target for d in documents])):
        path = folder / f"concatenated_en2de_{split}_{language}.txt"
        path.write_text("".join("\n".join(["<d>", *side]) + "\n" for side in sides), encoding="utf-8")
        paths.append(path)
    return paths


@pytest.mark.parametrize("name", PAPER)
def test_a_recipe_runs_from_the_benchmarks_files_to_a_score(name: str, tmp_path: Path, tram: Command) -> None:
    documents = made_up([5, 7, 3, 6, 2, 3, 2, 3], seed=41)
    train, dev, test = (
        write_benchmark(tmp_path, split, part)
        for split, part in (("train", documents[:5]), ("dev", documents[5:6]), ("test", documents[6:]))
    )
    data, output = tmp_path / "prepared", tmp_path / "run"
    done = tram("prepare", data, "--train", *train, "--dev", *dev, "--merges", 60, "--workers", 1)
    assert done.code == 0, done.err
    assert "dev: 1 documents, 3 sentences" in done.out
    overrides = [f"{section}.{key}={value}" for section, keys in SMALL.items() for key, value in keys.items()]
    done = tram("train", CONFIGS / f"{name}.yaml", f"data={data}", f"output={output}", *overrides)
    assert done.code == 0, done.err
    assert done.out.strip() == str(output / "finetune" / "model")
    assert "extends" not in read_yaml(output / "config.yaml"), "a run stores its whole config"
    for stage in ("train", "finetune"):
        assert "held_loss" in (output / stage / "metrics.jsonl").read_text()
        assert Translator.load(output / stage / "model").model.has_context == (stage == "finetune")
    done = tram("evaluate", *test, "--model", output, "--beam", 1, "--json", tmp_path / "scores.json")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "scores.json").read_text())
    assert set(found["perplexity"]) == {"generated", "gold", "other", "none"}
    assert all(value > 1 for value in found["perplexity"].values())
    assert "s-BLEU" in json.dumps(found["systems"])

"""Memory sizes: information gain on known maps, a share of the data, and variants that are trained only once."""

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import Corpus, Done, contents, refused, snapshot
from helpers import START, few, random_ids, tiny_config, tiny_model
from tram.analysis.encoded import EncodedDocument
from tram.analysis.memory_size import Gain, SizeResult, UnitGain, information_gain, largest_gain_sentence, memory_gains
from tram.analysis.variants import CONTROL, Recipe, Variant, finetune_settings, prepared_share, recipe_sentence
from tram.config import FinetuneConfig, MemoryConfig
from tram.data.arrays import PreparedData
from tram.data.prepare import PrepareSettings, prepare
from tram.errors import InputError
from tram.evaluation.metrics import SystemResult
from tram.model.folder import WEIGHTS, load_model, save_model, weights
from tram.text.special_ids import HISTORY, SpecialIds

shapes = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 9))  # heads, queries, keys


def random_map(shape: tuple[int, ...], seed: int, sharpness: float = 3.0) -> Tensor:
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.softmax(sharpness * noise, dim=-1)


def document(lengths: list[int]) -> EncodedDocument:
    source, target = random_ids([lengths], 1), random_ids([lengths], 2, first=START)
    return EncodedDocument(list(range(1, len(lengths) + 1)), source, target, target, SpecialIds().control)


# Information gain.


@pytest.mark.parametrize("keys", [2, 8, 512])
def test_the_maximum_gain_is_from_uniform_attention_to_a_single_key(keys: int) -> None:
    uniform = torch.full((2, 3, keys), 1 / keys)
    single = torch.zeros(2, 3, keys)
    single[..., 1] = 1
    assert information_gain(uniform, single).nats == pytest.approx(math.log(keys))
    assert information_gain(uniform, single).share == pytest.approx(1)
    assert information_gain(single, uniform).share == pytest.approx(-1)


def test_halving_the_keys_gains_one_bit() -> None:
    fresh = torch.full((1, 1, 4), 0.25)
    trained = torch.tensor([[[0.5, 0.5, 0.0, 0.0]]])
    gain = information_gain(fresh, trained)
    assert gain.nats == pytest.approx(math.log(2))
    assert gain.share == pytest.approx(0.5)


def test_the_mean_is_over_queries_and_heads() -> None:
    fresh = torch.full((2, 2, 4), 0.25)
    trained = fresh.clone()
    trained[0, 1] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert information_gain(fresh, trained).nats == pytest.approx(math.log(4) / 4)


def test_a_single_key_leaves_nothing_to_gain() -> None:
    gain = information_gain(torch.ones(2, 3, 1), torch.ones(2, 3, 1))
    assert (gain.nats, gain.share) == (0, 0)


@few
@given(shapes, st.integers(0, 99))
def test_the_same_map_gains_nothing_nor_does_another_order_of_its_keys(shape: tuple[int, int, int], seed: int) -> None:
    one = random_map(shape, seed)
    order = torch.randperm(shape[-1], generator=torch.Generator().manual_seed(seed))
    assert information_gain(one, one).nats == 0
    assert information_gain(one, one[..., order]).nats == pytest.approx(0, abs=1e-12)


@few
@given(shapes, st.integers(0, 99), st.floats(0, 50))
def test_gain_is_bounded_antisymmetric_and_independent_of_the_order_of_keys(
    shape: tuple[int, int, int], seed: int, sharpness: float
) -> None:
    fresh, trained = random_map(shape, seed), random_map(shape, seed + 1, sharpness)
    order = torch.randperm(shape[-1], generator=torch.Generator().manual_seed(seed))
    gain = information_gain(fresh, trained)
    assert abs(gain.nats) <= math.log(shape[-1]) + 1e-9
    assert abs(gain.share) <= 1 + 1e-9
    assert information_gain(trained, fresh).nats == pytest.approx(-gain.nats, abs=1e-12)
    assert information_gain(fresh[..., order], trained[..., order]).nats == pytest.approx(gain.nats, abs=1e-12)


def test_a_model_gains_nothing_over_itself_in_any_unit() -> None:
    model = tiny_model(tiny_config(memory=MemoryConfig(slots=3)))
    gains = memory_gains(model, model, [document([4, 6]), document([3])])
    assert set(gains) == {"encoder.1.self", "decoder.1.self"}
    assert all(gain.update.nats == gain.output.nats == 0 for gain in gains.values())


def test_sharper_queries_gain_only_in_their_own_attention() -> None:
    config = tiny_config(memory=MemoryConfig(slots=4, side="source"))
    fresh, sharp = tiny_model(config), tiny_model(config)
    memory: Any = sharp.encoder.layers[1].self_attention.context
    with torch.no_grad():
        memory.output_attention.query.weight.mul_(40)
        memory.output_attention.query.bias.mul_(40)
    gains = memory_gains(fresh, sharp, [document([5, 5, 4])])["encoder.1.self"]
    assert gains.output.share > 0.2
    assert gains.update.nats == 0


def test_every_sentence_has_the_same_weight() -> None:
    config = tiny_config(memory=MemoryConfig(slots=4))
    one, other = tiny_model(config, seed=1), tiny_model(config, seed=2)
    parts = [memory_gains(one, other, [document(lengths)]) for lengths in ([5, 5, 4], [7])]
    both = memory_gains(one, other, [document([5, 5, 4]), document([7])])
    for name, gain in both.items():
        assert gain.update.nats == pytest.approx((3 * parts[0][name].update.nats + parts[1][name].update.nats) / 4)


def test_the_report_names_the_largest_gain_and_does_not_call_a_loss_a_gain() -> None:
    def result(slots: int, update: float, output: float) -> SizeResult:
        return SizeResult(slots, UnitGain(Gain(update, 0.1), Gain(output, -0.1)), {}, SystemResult("", [], []))

    results = [result(8, 0.2, -0.3), result(16, 0.5, -0.2)]
    assert "is largest with 16 slots (+0.500 nats" in largest_gain_sentence(results, "update")
    assert "less selective than at the start at every size, least so with 16 slots" in largest_gain_sentence(
        results, "output"
    )


def test_a_model_without_memory_is_refused() -> None:
    model = tiny_model(tiny_config())
    with pytest.raises(InputError, match="with a memory"):
        memory_gains(model, model, [document([3])])


# The variants' data and settings.


def test_a_share_of_the_documents_is_prepared_data_with_complete_documents(prepared: Path, tmp_path: Path) -> None:
    whole = PreparedData.open(prepared).split("train")
    folder = prepared_share(prepared, 0.3, tmp_path, seed=1)
    part = PreparedData.open(folder)
    assert part.text().fingerprint == PreparedData.open(prepared).fingerprint
    assert part.splits["train"]["documents"] == round(0.3 * (len(whole.documents) - 1))
    assert part.splits["held"] == PreparedData.open(prepared).splits["held"]
    assert (folder / "held.jsonl").read_bytes() == (prepared / "held.jsonl").read_bytes()

    def documents(split: Any) -> list[list[tuple[list[int], list[int]]]]:
        ends = split.documents.tolist()
        return [
            [(split.source[row].tolist(), split.target[row].tolist()) for row in range(start, end)]
            for start, end in pairwise(ends)
        ]

    chosen, all_of_them = documents(part.split("train")), documents(whole)
    indices = [all_of_them.index(each) for each in chosen]
    assert indices == sorted(set(indices))
    assert np.diff(part.split("train").source.offsets).sum() == part.splits["train"]["source_tokens"]


def test_a_share_is_written_once_and_another_seed_selects_other_documents(prepared: Path, tmp_path: Path) -> None:
    folder = prepared_share(prepared, 0.3, tmp_path, seed=1)
    before = snapshot(tmp_path)
    assert prepared_share(prepared, 0.3, tmp_path, seed=1) == folder
    assert snapshot(tmp_path) == before
    others = {prepared_share(prepared, 0.3, tmp_path, seed=seed) for seed in range(2, 5)}
    assert len(others | {folder}) == 4
    ids = {(each / "train.source.ids.npy").read_bytes() for each in others}
    assert len(ids) > 1
    assert prepared_share(prepared, 1, tmp_path, seed=1) == prepared


@pytest.mark.parametrize("name", ["train.source.ids.npy", "held.target.ids.npy", "dev.jsonl", "text.json"])
def test_a_share_of_damaged_data_is_refused(name: str, prepared: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(prepared, data)
    flip_last_digit(data / name)
    with pytest.raises(InputError, match=re.escape(str(data / name))):
        prepared_share(data, 0.3, tmp_path / "runs", seed=1)
    assert not contents(tmp_path / "runs")


def flip_last_digit(path: Path) -> None:
    """Change a file so that it stays readable: another id, or another digit in its text."""
    data = bytearray(path.read_bytes())
    place = len(data) - 2
    if path.suffix != ".npy":
        place = next(n for n in reversed(range(len(data))) if chr(data[n]).isalpha())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_damaged_share_is_written_again(prepared: Path, tmp_path: Path) -> None:
    folder = prepared_share(prepared, 0.3, tmp_path, seed=1)
    before = contents(folder)
    flip_last_digit(folder / "train.target.ids.npy")
    (folder / "held.jsonl").unlink()
    assert prepared_share(prepared, 0.3, tmp_path, seed=1) == folder
    assert contents(folder) == before


def test_a_share_keeps_the_marks_of_history(tmp_path: Path) -> None:
    lines = {"train.en": "It rained.\nWe stayed.\n", "train.de": f"{HISTORY} Es regnete.\nWir blieben.\n"}
    for name, text in lines.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    pair = (tmp_path / "train.en", tmp_path / "train.de")
    prepare(tmp_path / "data", [pair], [], PrepareSettings(merges=5, held_out=0, reserved=True), workers=1)
    folder = prepared_share(tmp_path / "data", 0.9, tmp_path / "runs", seed=1)
    split = PreparedData.open(folder).split("train")
    assert split.given is not None
    assert (split.given > 0).tolist() == [True, False]
    assert (folder / "train.target.ids.npy").read_bytes() == (tmp_path / "data" / "train.target.ids.npy").read_bytes()


def test_a_tiny_share_is_one_document(prepared: Path, tmp_path: Path) -> None:
    assert PreparedData.open(prepared_share(prepared, 1e-6, tmp_path, seed=1)).splits["train"]["documents"] == 1


def test_the_untrained_model_is_the_sentence_model_with_the_memory_that_training_starts_from(
    run: Path, prepared: Path, tmp_path: Path
) -> None:
    from tram.training.trainer import Trainer

    recipe = Recipe(prepared, run, tmp_path, updates=2, share=1)
    variant = Variant(recipe.memory(slots=5))
    untrained = dict(recipe.untrained_model(variant).named_parameters())
    config = recipe.config(variant)
    assert config.finetune is not None
    trainer = Trainer(config, config.finetune, PreparedData.open(prepared), tmp_path, recipe.start_folder)
    assert all(torch.equal(untrained[name], value) for name, value in trainer.model.named_parameters())
    sentence = dict(load_model(run).named_parameters())
    assert all(torch.equal(untrained[name], value) for name, value in sentence.items())
    assert {value.shape[0] for name, value in untrained.items() if name.endswith("context.table")} == {5}


def test_short_runs_warm_up_in_a_fifth_of_their_updates_and_all_run_to_the_end(
    run: Path, prepared: Path, tmp_path: Path
) -> None:
    stage = Recipe(prepared, run, tmp_path, updates=100).config(CONTROL).finetune
    assert stage is not None
    assert (stage.updates, stage.warmup, stage.patience, stage.memory) == (100, 20, 0, None)
    slow = Recipe(prepared, run, tmp_path, updates=100, settings=FinetuneConfig(warmup=3)).config(CONTROL).finetune
    assert slow is not None
    assert slow.warmup == 3


def test_variants_have_different_names() -> None:
    memory = MemoryConfig(slots=8)
    others = [MemoryConfig(slots=8, layers=(0, 1)), MemoryConfig(slots=8, side="source"), MemoryConfig(slots=16)]
    variants = [CONTROL, Variant(memory), Variant(memory, (1, 5)), Variant(memory, "document"), *map(Variant, others)]
    assert len({variant.name for variant in variants}) == len(variants)


# The command.


@pytest.fixture
def command(corpus: Corpus, run: Path, prepared: Path, tmp_path: Path) -> list[Any]:
    training = ["--data", prepared, "--start", run, "--runs", tmp_path / "runs", "--updates", 2, "--share", 0.5]
    options = ["--sizes", "2,3", "--beam", 1, "--output", tmp_path / "out"]
    return ["analyze", "memory-size", *corpus.dev, *training, *options]


def test_the_command_trains_what_is_missing_and_reports(
    tram: Callable[..., Done], command: list[Any], tmp_path: Path
) -> None:
    done = tram(*command)
    assert done.code == 0, done.err
    numbers = json.loads((tmp_path / "out" / "memory-size.json").read_text())
    assert [size["slots"] for size in numbers["sizes"]] == [2, 3]
    assert set(numbers["baselines"]) == {"sentence model", "finetuned without memory"}
    for size in numbers["sizes"]:
        assert set(size["units"]) == {"encoder.0.self", "decoder.0.self"}
        assert abs(size["output"]["nats"]) <= math.log(size["slots"])
        mean = sum(unit["update"]["nats"] for unit in size["units"].values()) / 2
        assert size["update"]["nats"] == pytest.approx(mean)
        assert "unit:sentence" in size["s-BLEU"]["signature"]
    text = (tmp_path / "out" / "memory-size.md").read_text()
    assert "2 updates on 50% of the training documents" in text
    drawn = (tmp_path / "out" / "memory-size.svg").read_text()
    for label in ("memory slots", "information gain (nats)", "s-BLEU", "output attention", "finetuned without memory"):
        assert label in drawn
    weights_file = tmp_path / "runs" / "control" / "finetune" / "model" / WEIGHTS
    written = weights_file.read_bytes()
    for damaged in (written[:-1] + bytes([written[-1] ^ 1]), b""):
        weights_file.write_bytes(damaged)
        refused(tram(*command), f"{weights_file}: is not the file that this run wrote")
    os.truncate(weights_file, 1 << 40)
    refused(tram(*command), str(weights_file))
    weights_file.write_bytes(written)
    before = snapshot(tmp_path / "runs")
    assert tram(*command[:-1], tmp_path / "again").code == 0
    assert snapshot(tmp_path / "runs") == before
    assert (tmp_path / "again" / "memory-size.json").read_text() == json.dumps(numbers, indent=2) + "\n"
    refused(tram(*command, "--updates", 3), "recipe.json", "updates: 2, not 3")
    path = tmp_path / "runs" / "control" / "recipe.json"  # as an earlier version wrote it
    former = {"max_length_gap": "like", "keep_checkpoints": "keep"}
    stored = {former.get(key, key): value for key, value in json.loads(path.read_text()).items() if key != "cooldown"}
    path.write_text(json.dumps(stored | {"foretell": 0.0}))
    assert tram(*command[:-1], tmp_path / "again").code == 0


def test_bad_input_is_refused_before_anything_is_trained(
    tram: Callable[..., Done], command: list[Any], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(tram(*command, "--sizes", "0,8"), "--sizes 0,8")
    refused(tram(*command, "--sizes", "8;16"), "--sizes 8;16")
    refused(tram(*command, "--share", 0), "share")
    refused(tram(*command, "--updates", 0), "--updates", "1")
    refused(tram(*command, "--documents", 0), "--documents", "1")
    refused(tram(*command, "--data", tmp_path), "no prepared data")
    refused(tram(*command, "--start", tmp_path / "nowhere"), "nowhere")
    refused(tram(*command, "--config", run / "config.yaml"), "no `finetune` section")
    refused(tram(*command, "--set", "finetune.lr=1"), "--set finetune.lr=1", "--config")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(tram(*command), "matplotlib", "pip install")
    assert not list((tmp_path / "runs").glob("*/finetune"))


def test_a_start_that_has_a_memory_is_used_without_it(prepared: Path, tmp_path: Path) -> None:
    model = tiny_model(tiny_config(memory=MemoryConfig(slots=5))).float()
    save_model(model, tmp_path / "model")
    recipe = Recipe(prepared, tmp_path / "model", tmp_path / "runs")
    assert recipe.start_model.memory is None
    assert recipe.start_folder.parent == tmp_path / "runs"
    assert Recipe(prepared, tmp_path / "model", tmp_path / "runs").start_folder == recipe.start_folder
    assert "without its memory" in recipe_sentence(recipe)
    found = weights(load_model(recipe.start_folder))
    assert found.keys() == {name for name in weights(model) if ".context." not in name}
    assert all(torch.equal(value, weights(model)[name]) for name, value in found.items())


def test_settings_come_from_the_finetune_section_of_a_config(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("data: d\noutput: o\nfinetune: {lr: 0.5, memory: {read: add}}\n")
    assert finetune_settings(path).lr == 0.5
    assert finetune_settings(path, ["finetune.lr=0.25"]).lr == 0.25
    assert finetune_settings(None) == FinetuneConfig()

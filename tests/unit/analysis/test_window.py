"""Optimisation windows: reading curves from runs, means and spreads, and training runs only once."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Done, refused, snapshot
from tram.analysis.window import LossCurve, last_half, loss_within, read_curve, running_mean, window, window_name
from tram.config import Config, FinetuneConfig, write_yaml

losses = st.lists(st.floats(0, 20), min_size=1, max_size=60)


def curve(loss: Sequence[float], tokens: int = 100) -> LossCurve:
    updates = np.arange(1.0, len(loss) + 1)
    return LossCurve("5", Path("run"), updates, updates * tokens, np.array(loss, dtype=np.float64))


def write_run(folder: Path, loss: Sequence[float], span: Any = "document", tokens: int = 100) -> Path:
    """Write the files of a `tram train` run that this analysis reads."""
    finetune = FinetuneConfig(window=span, start=folder)
    write_yaml(folder / "config.yaml", Config(data=folder, output=folder, train=None, finetune=finetune))
    lines = [{"update": i, "loss": nll + 1, "nll": nll, "tokens": i * tokens} for i, nll in enumerate(loss, start=1)]
    rows = [*lines, {"update": len(loss), "held_loss": 99.0}]
    (folder / "finetune").mkdir()
    (folder / "finetune" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_running_mean_is_centred_and_uses_fewer_values_at_the_ends() -> None:
    values = np.array([1.0, 2.0, 6.0, 4.0, 10.0])
    assert running_mean(values, 1).tolist() == pytest.approx(values.tolist())
    assert running_mean(values, 3).tolist() == pytest.approx([1.5, 3, 4, 20 / 3, 7])
    assert running_mean(values, 5).tolist() == pytest.approx([3, 13 / 4, 23 / 5, 22 / 4, 20 / 3])


@given(losses, st.integers(1, 30))
def test_a_running_mean_stays_between_the_smallest_and_the_largest_value(values: list[float], width: int) -> None:
    means = running_mean(np.array(values), width)
    assert len(means) == len(values)
    assert means.min() >= min(values) - 1e-9
    assert means.max() <= max(values) + 1e-9


@given(st.floats(-1, 1), st.floats(0, 5), st.integers(1, 30), st.integers(0, 30))
def test_a_straight_line_has_no_spread(slope: float, height: float, smooth: int, more: int) -> None:
    line = [height + slope * i for i in range(2 * smooth + more)]
    assert last_half(curve(line), smooth).spread == pytest.approx(0, abs=1e-6)


def test_the_spread_is_the_distance_from_the_running_mean_in_the_last_half() -> None:
    # Large jumps first, then 1 and 3 in turn: the mean of three around a 1 is 7/3, around a 3 it is 5/3.
    found = last_half(curve([50, 0, 70, 10, *[1.0, 3.0] * 10], tokens=400), smooth=3)
    assert found.spread == pytest.approx(4 / 3)
    assert found.spread_per_token == pytest.approx(4 / 3 * 20)
    assert found.loss == 2


def test_without_smoothing_there_is_no_spread() -> None:
    assert last_half(curve([5.0, 1.0, 4.0, 2.0]), smooth=1).spread == 0


def test_the_loss_within_some_tokens_is_that_of_their_second_half() -> None:
    falling = curve([4.0, 3.0, 2.0, 1.0, 0.0])
    assert loss_within(falling, tokens=400) == 1.5
    assert loss_within(falling, tokens=50) == 4.0


def test_windows_have_names() -> None:
    assert [window_name(span) for span in ("document", (1, 1), (1, 20))] == ["full document", "1", "1 to 20"]


def test_curves_are_the_losses_without_label_smoothing(tmp_path: Path) -> None:
    found = read_curve(write_run(tmp_path, [3.0, 2.5, 2.0], span=(1, 5), tokens=40))
    assert found.name == "1 to 5"
    assert found.updates.tolist() == [1, 2, 3]
    assert found.tokens.tolist() == [40, 80, 120]
    assert found.loss.tolist() == [3.0, 2.5, 2.0]
    assert found.tokens_per_update == 40


def test_a_report_compares_at_equal_updates_and_at_equal_tokens(tmp_path: Path) -> None:
    # The full window is lower at every update; per token the other one is.
    (tmp_path / "one").mkdir()
    (tmp_path / "full").mkdir()
    one = write_run(tmp_path / "one", [4 - 0.1 * i for i in range(20)], span=(1, 1), tokens=10)
    full = write_run(tmp_path / "full", [3.8 - 0.1 * i for i in range(20)], tokens=100)
    report = window([one, full], smooth=3)
    rows = report.numbers["runs"]
    assert [row["window"] for row in rows] == ["1", "full document"]
    assert report.numbers["common_tokens"] == 200
    assert rows[0]["loss_within_common_tokens"] == pytest.approx(2.55)
    assert rows[1]["loss_within_common_tokens"] == pytest.approx(3.7)
    assert "lowest loss in the last half of the updates: full document (2.350)" in report.text
    assert "(200, what every run has seen) the lowest loss is that of 1 (2.550)" in report.text
    drawn = report.write(tmp_path / "out")[1].read_text()
    for label in ("updates", "target tokens seen (thousands)", "training loss (nats per token)", "full document"):
        assert label in drawn


def test_the_report_says_if_runs_have_different_lengths(tmp_path: Path) -> None:
    for name, updates in (("a", 10), ("b", 20)):
        (tmp_path / name).mkdir()
        write_run(tmp_path / name, [2.0] * updates)
    assert "different numbers of updates" in window([tmp_path / "a", tmp_path / "b"]).text
    assert "different numbers of updates" not in window([tmp_path / "a", tmp_path / "a"]).text


def test_the_command_trains_the_windows_once(
    tram: Callable[..., Done], run: Path, prepared: Path, tmp_path: Path
) -> None:
    training = ["--train", "--data", prepared, "--start", run, "--runs", tmp_path / "runs", "--updates", 2]
    command = ["analyze", "window", *training, "--windows", "1,3,document", "--output", tmp_path / "out"]
    done = tram(*command)
    assert done.code == 0, done.err
    numbers = json.loads((tmp_path / "out" / "window.json").read_text())
    assert [row["window"] for row in numbers["runs"]] == ["1", "1 to 3", "full document"]
    assert [row["updates"] for row in numbers["runs"]] == [2, 2, 2]
    per_update = [row["tokens_per_update"] for row in numbers["runs"]]
    assert per_update[0] < per_update[2]
    assert all(math.isfinite(row["last_half"]["spread"]) for row in numbers["runs"])
    # The run with the config's window is shared with `placement` and `memory-size`.
    names = {"slots16-both-layers_-1" + window for window in ("-window_1", "-window_3", "")}
    assert {folder.name for folder in (tmp_path / "runs").iterdir()} == names
    before = snapshot(tmp_path / "runs")
    assert tram(*command).code == 0
    assert snapshot(tmp_path / "runs") == before
    refused(tram(*command, "--share", 0.5), "recipe.json", "share: 1.0, not 0.5", "--runs")


def test_bad_input_is_refused_in_a_sentence(tram: Callable[..., Done], run: Path, tmp_path: Path) -> None:
    out = ("--output", tmp_path / "out")
    refused(tram("analyze", "window", *out), "no run was given")
    refused(tram("analyze", "window", tmp_path / "nowhere", *out), "nowhere/config.yaml")
    refused(tram("analyze", "window", run, *out), "no finetune stage")
    refused(tram("analyze", "window", "--train", *out), "--data, --start and --runs")
    training = ("--train", "--data", tmp_path, "--start", run, "--runs", tmp_path)
    refused(tram("analyze", "window", *training, "--windows", "1,0", *out), "window `0`")
    short = tmp_path / "short"
    short.mkdir()
    write_run(short, [1.0])
    refused(tram("analyze", "window", short, *out), "too few losses for a curve (1)", "log_every")
    metrics = short / "finetune" / "metrics.jsonl"
    metrics.write_text('{"update": 1, "nll": 2.0, "tokens": 3}\n{"upd')
    refused(tram("analyze", "window", short, *out), "metrics.jsonl:2", "not JSON")
    metrics.unlink()
    refused(tram("analyze", "window", short, *out), "metrics.jsonl", "no such file")
    assert not (tmp_path / "out").exists()

"""The cost of decoding: models decode what is claimed, points are measured in isolation, reports are complete."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import Done, refused
from helpers import tiny_config
from tram.analysis import complexity
from tram.analysis.complexity import (
    CHUNK_TOKENS,
    MODEL_KINDS,
    CostPoint,
    ModelShape,
    decode_document,
    describe,
    growth_sentence,
    make_report,
    measure_point,
    random_model,
)
from tram.config import MemoryConfig
from tram.errors import InputError
from tram.measuring import peak_megabytes

SHAPE = ModelShape(tiny_config(memory=MemoryConfig(slots=3)), vocabulary=30, name="a tiny model")


def point(kind: Any, tokens: int, seconds: float, peak: float) -> CostPoint:
    return CostPoint(kind, tokens, seconds, [seconds], import_mb=200.0, model_mb=230.0, peak_mb=peak)


def linear_points() -> list[CostPoint]:
    return [
        point(kind, n, n / 100, 250.0 if kind != "document" else 250 + n / 10)
        for n in (100, 1000)
        for kind in MODEL_KINDS
    ]


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_the_number_of_decoded_tokens_is_that_of_the_source(kind: Any) -> None:
    torch.manual_seed(3)
    model = random_model(SHAPE, kind, tokens=25)
    assert decode_document(model, [list(range(3, 13)), list(range(3, 13)), [3, 4, 5, 6, 7]]) == 25
    assert (model.config.memory is not None) == (kind == "memory")


def test_the_document_model_reads_one_sequence_and_the_others_chunks() -> None:
    assert random_model(SHAPE, "document", tokens=250).config.max_positions == 250
    assert random_model(SHAPE, "memory", tokens=250).config.max_positions == CHUNK_TOKENS
    assert [len(chunk) for chunk in complexity.random_source(30, 250, CHUNK_TOKENS)] == [100, 100, 50]


def test_the_memory_is_carried_from_chunk_to_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    model = random_model(SHAPE, "memory", tokens=20)
    seen = []

    def spy(*arguments: Any, state: Any, **more: Any) -> Any:
        seen.append({name: unit["M"].clone() for name, unit in state.units.items()})
        return search(*arguments, state=state, **more)

    search = complexity.search
    monkeypatch.setattr(complexity, "search", spy)
    decode_document(model, [[4, 5, 6], [4, 5, 6]])
    assert len(seen[0]) == 2  # encoder and decoder
    assert all(not torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_a_point_has_the_memory_of_python_of_the_model_and_of_decoding() -> None:
    threads = torch.get_num_threads()
    try:
        found = measure_point(SHAPE, "memory", tokens=120, repeats=2)
    finally:
        torch.set_num_threads(threads)
    assert len(found.repeats) == 2
    assert min(found.repeats) <= found.seconds <= max(found.repeats)
    assert 0 < found.import_mb <= found.model_mb <= found.peak_mb


def test_a_slow_point_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complexity, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(complexity, "decode_document", lambda model, source: 0)
    assert len(measure_point(SHAPE, "sentence", tokens=10, repeats=3).repeats) == 1


def test_growth_is_described_with_numbers() -> None:
    text = growth_sentence([point("memory", 100, 2.0, 250.0), point("memory", 1000, 21.0, 251.0)])
    assert "10 times as many" in text
    assert "10.5-fold, to 21.0 s" in text
    assert "from 50 to 51 MB" in text


def test_the_table_has_a_dash_where_the_document_model_was_not_measured() -> None:
    points = [each for each in linear_points() if (each.model, each.tokens) != ("document", 1000)]
    text = describe(SHAPE, points, longest=100)
    assert "| 1,000 | 10.00 | 10.00 | – | 50 | 50 | – | 250 | 250 | – |" in text
    assert "not measured beyond 100 tokens" in text


def test_a_report_has_the_points_and_two_labelled_panels(tmp_path: Path) -> None:
    report = make_report(SHAPE, linear_points(), longest=1000)
    written = report.write(tmp_path)
    assert [path.name for path in written] == [f"complexity.{suffix}" for suffix in ("json", "svg", "png", "md")]
    numbers = json.loads(written[0].read_text())
    assert [each["own_mb"] for each in numbers["points"]] == [50, 50, 60, 50, 50, 150]
    drawn = written[1].read_text()
    for label in (
        "decoding time (s of one core)",
        "(MB)",
        "tokens of the document",
        "document model (to 1,000 tokens)",
    ):
        assert label in drawn


def test_the_command_measures_models_of_the_given_sizes(
    tram: Callable[..., Done], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def fake_measure(shape: ModelShape, kind: Any, tokens: int, repeats: int) -> CostPoint:
        measured.append((kind, tokens, repeats, shape.config.d_model))
        return point(kind, tokens, 1.0, 250.0)

    monkeypatch.setattr(complexity, "measure_in_process", fake_measure)
    done = tram("analyze", "complexity", "--tokens", "200,100", "--longest", 100, "--output", tmp_path / "out")
    assert done.code == 0
    first, second = ("sentence", "memory", "document"), ("sentence", "memory")
    assert measured == [*((kind, 100, 3, 256) for kind in first), *((kind, 200, 3, 256) for kind in second)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"complexity.{suffix}" for suffix in ("json", "md", "png", "svg")
    )
    refused(tram("analyze", "complexity", "--model", run, "--output", tmp_path), "train/model", "no memory")
    refused(tram("analyze", "complexity", "--tokens", "0,5", "--output", tmp_path), "--tokens 0,5")
    refused(tram("analyze", "complexity", "--tokens", "many", "--output", tmp_path), "--tokens many")
    refused(tram("analyze", "complexity", "--repeats", "0", "--output", tmp_path), "--repeats", "1")


def test_a_point_is_measured_in_its_own_process_without_the_memory_of_the_parent() -> None:
    ballast = torch.ones(100 * 2**20 // 4)  # 100 MB that the parent holds
    found = complexity.measure_in_process(SHAPE, "document", tokens=30, repeats=1)
    assert (found.model, found.tokens, len(found.repeats)) == ("document", 30, 1)
    assert found.import_mb < peak_megabytes() - 50
    assert ballast[0] == 1


def test_a_killed_process_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complexity, "measure_point", killed)
    with pytest.raises(InputError, match="30 tokens: its process was killed"):
        complexity.measure_in_process(SHAPE, "document", tokens=30, repeats=1)


def killed(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

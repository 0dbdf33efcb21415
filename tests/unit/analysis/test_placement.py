"""Sides and layers: the paper's rows for models of any depth, trained and existing models, and the report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Corpus, Done, made_up, refused, snapshot
from helpers import tiny_config, tiny_model
from tram.analysis import scoring
from tram.analysis.placement import ModelRow, draw, paper_placements, placement, read_row
from tram.analysis.report import markdown_table
from tram.analysis.scoring import error_bars, translate, translate_and_score
from tram.config import MemoryConfig, ModelConfig
from tram.errors import InputError
from tram.evaluation.metrics import Difference, score_systems
from tram.model.folder import save_model


def layers_of(encoder: int, decoder: int) -> list[tuple[str, str, tuple[int, ...]]]:
    found = paper_placements(ModelConfig(encoder_layers=encoder, decoder_layers=decoder))
    return [(place.side, place.name, place.layers) for place in found]


ONLY_LAST = [("both", "last", (-1,)), ("source", "last", (-1,)), ("target", "last", (-1,))]


def test_a_model_of_six_layers_has_the_papers_six_rows() -> None:
    assert layers_of(6, 6) == [
        ("both", "lower", (0, 1)),
        ("both", "middle", (2, 3)),
        ("both", "upper", (-2, -1)),
        *ONLY_LAST,
    ]


def test_smaller_models_have_the_rows_that_they_have_layers_for() -> None:
    assert layers_of(1, 1) == ONLY_LAST
    assert layers_of(4, 2) == [("both", "lower", (0,)), *ONLY_LAST]
    assert layers_of(3, 3) == [("both", "lower", (0,)), ("both", "middle", (1,)), *ONLY_LAST]


@given(st.integers(1, 24), st.integers(1, 24))
def test_every_row_fits_the_model_and_no_two_are_the_same(encoder: int, decoder: int) -> None:
    model = ModelConfig(encoder_layers=encoder, decoder_layers=decoder)
    seen = set()
    for place in paper_placements(model):
        memory = MemoryConfig(side=place.side, layers=place.layers)  # type: ignore[arg-type]
        ModelConfig(**model.model_dump() | {"context": memory})  # refuses layers that do not exist
        own = (place.side, *(tuple(memory.layer_numbers(layers)) for layers in (encoder, decoder)))
        assert own not in seen
        seen.add(own)


@pytest.mark.parametrize(
    ("side", "layers", "encoder", "decoder"),
    [("both", (-1,), (3,), (1,)), ("source", (0, -1), (0, 3), ()), ("target", (-2,), (), (0,))],
)
def test_the_row_of_a_model_has_its_layers_counted_from_0(
    tmp_path: Path, side: Any, layers: tuple[int, ...], encoder: tuple[int, ...], decoder: tuple[int, ...]
) -> None:
    config = tiny_config(encoder_layers=4, decoder_layers=2, memory=MemoryConfig(side=side, layers=layers, slots=2))
    save_model(tiny_model(config), tmp_path / "model")
    assert read_row("mine", tmp_path / "model") == ModelRow("mine", tmp_path / "model", side, encoder, decoder)


def test_a_model_without_memory_is_a_baseline_but_refused_alone(run: Path) -> None:
    row = read_row("plain", run)
    assert (row.side, row.encoder, row.decoder) == ("none", (), ())
    with pytest.raises(InputError, match="none of the models has a memory"):
        placement([row], made_up([2], seed=1))


class Parrot:
    """A translator that returns its input without the last word of every n-th sentence."""

    def __init__(self, folder: Path) -> None:
        self.every = int(folder.name)

    def translate_documents(self, documents: list[list[str]], advance: Callable[[int], None]) -> list[list[str]]:
        return [
            [line.rsplit(" ", 1)[0] if i % self.every == 0 else line for i, line in enumerate(each)]
            for each in documents
        ]


def test_systems_keep_their_order_and_are_compared_with_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring.Translator, "load", lambda folder, beam: Parrot(folder))
    documents = [each.__class__(each.source, each.source) for each in made_up([4, 5, 6], seed=2)]
    systems = [("worse", Path("1")), ("base", Path("2")), ("better", Path("3"))]
    worse, base, better = translate_and_score(systems, documents, beam=1, baseline=1)
    assert [worse.name, base.name, better.name] == ["worse", "base", "better"]
    assert base.differences == []
    assert worse.differences[0].difference < 0 < better.differences[0].difference
    assert better.differences[0].difference == pytest.approx(better.scores[0].value - base.scores[0].value)


def test_error_bars_are_distances_and_none_without_intervals() -> None:
    found = [Difference("s-BLEU", 2.0, 0.0, 5.0, 0.1, ""), Difference("s-BLEU", -1.0, -0.5, 1.0, 0.1, "")]
    assert error_bars(found) == [[2.0, 0.0], [3.0, 2.0]]
    assert error_bars([*found, Difference("s-BLEU", 5.0, None, None, None, "")]) is None


def test_a_table_in_markdown() -> None:
    assert markdown_table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_one_document_has_no_interval_but_a_figure() -> None:
    documents = [each.target for each in made_up([5], seed=3)]
    results = score_systems([("base", documents), ("memory", documents)], [documents])
    rows = [ModelRow("base", Path("a"), "none"), ModelRow("memory", Path("b"), "both", (1,), (0, 1))]
    panel = draw(rows, results).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["base", "memory (E1 D0,1)"]
    assert [text.get_text() for text in panel.texts] == ["100.00", "100.00", "s-BLEU"]


def test_a_model_translates_the_same_documents_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded = []

    def load(folder: Path, beam: int) -> Parrot:
        loaded.append((folder.name, beam))
        return Parrot(Path("2"))

    monkeypatch.setattr(scoring.Translator, "load", load)
    for name in ("one", "copy", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"weights" if name != "other" else b"others")
        (tmp_path / name / "config.yaml").touch()
    sources = [["a b", "c d"], ["e f"]]
    cache = tmp_path / "translations"
    first = translate("one", tmp_path / "one", sources, 1, cache)
    assert translate("copy", tmp_path / "copy", sources, 1, cache) == first
    assert loaded == [("one", 1)]
    for name, texts, beam in (("other", sources, 1), ("one", sources[:1], 1), ("one", sources, 2)):
        translate(name, tmp_path / name, texts, beam, cache)
    assert len(loaded) == 4
    (tmp_path / "copy" / "config.yaml").write_text("text: of another pipeline")
    translate("copy", tmp_path / "copy", sources, 1, cache)
    assert loaded[4:] == [("copy", 1)]


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text.replace("a", "z"), lambda _: "[]"])
def test_damaged_translations_are_made_again(
    damage: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scoring.Translator, "load", lambda *_, **__: Parrot(Path("2")))
    for name in ("model.safetensors", "config.yaml"):
        (tmp_path / name).touch()
    cache = tmp_path / "translations"
    first = translate("one", tmp_path, [["a b"]], 1, cache)
    (file,) = cache.iterdir()
    file.write_text(damage(file.read_text()))
    assert translate("one", tmp_path, [["a b"]], 1, cache) == first


def test_the_command_trains_every_placement_once_and_reads_existing_models(
    tram: Callable[..., Done], corpus: Corpus, run: Path, prepared: Path, tmp_path: Path
) -> None:
    command = ["analyze", "placement", *corpus.dev, "--start", run, "--beam", 1]
    train = ["--data", prepared, "--runs", tmp_path / "runs", "--updates", 2, "--output", tmp_path / "out"]
    done = tram(*command, *train)
    assert done.code == 0, done.err
    numbers = json.loads((tmp_path / "out" / "placement.json").read_text())
    assert [(row["name"], row["encoder_layers"], row["decoder_layers"]) for row in numbers["rows"]] == [
        ("sentence model", [], []),
        ("finetuned without memory", [], []),
        ("source + target, last", [0], [0]),
        ("source only, last", [0], []),
        ("target only, last", [], [0]),
    ]
    assert numbers["baseline"] == "finetuned without memory"
    assert [bool(row["differences"]) for row in numbers["rows"]] == [True, False, True, True, True]
    assert all({"s-BLEU", "d-BLEU/doc"} <= row.keys() for row in numbers["rows"])
    text = (tmp_path / "out" / "placement.md").read_text()
    assert "| source only, last | source only | 0 | – |" in text
    before = snapshot(tmp_path / "runs")
    assert tram(*command, *train).code == 0
    assert snapshot(tmp_path / "runs") == before
    folder = next((tmp_path / "runs").glob("*-source-*"))
    done = tram(*command, "--model", f"mine={folder}", "--output", tmp_path / "existing")
    assert done.code == 0, done.err
    rows = json.loads((tmp_path / "existing" / "placement.json").read_text())["rows"]
    assert [(row["name"], row["side"]) for row in rows] == [("sentence model", "none"), ("mine", "source")]
    same = next(row for row in numbers["rows"] if row["side"] == "source")
    assert rows[1]["s-BLEU"] == same["s-BLEU"]


def test_bad_input_is_refused_in_a_sentence(
    tram: Callable[..., Done], corpus: Corpus, run: Path, tmp_path: Path
) -> None:
    command = ["analyze", "placement", *corpus.dev, "--output", tmp_path / "out"]
    refused(tram(*command), "--model NAME=DIR", "--data")
    refused(tram(*command, "--model", run), "NAME=DIR")
    refused(tram(*command, "--model", f"a={tmp_path / 'nowhere'}"), "nowhere")
    refused(tram(*command, "--model", f"a={run}"), "none of the models has a memory")
    assert not (tmp_path / "out").exists()

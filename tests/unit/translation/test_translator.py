"""The translator: one translation for each sentence, whatever stands beside it; nothing lost of long input."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import TINY, Done, made_up, refused
from helpers import END
from tram.errors import InputError
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.parts import split_ids
from tram.translation.translator import Translator

Command = Callable[..., Done]
SENTENCES = [sentence for document in made_up([4, 5], seed=11) for sentence in document.source] + ["Tea!", "Why?"]


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run, dtype=torch.float64, beam=3)


@pytest.fixture(scope="module")
def alone(translator: Translator) -> dict[str, str]:
    """Every sentence translated on its own."""
    return {sentence: translator.translate([sentence])[0] for sentence in SENTENCES}


@pytest.fixture(scope="module")
def hasty(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that ends every translation at once: for input whose real translation would take long."""
    text = TextPipeline.load(prepared)
    model = Transformer(TINY.model_copy(update={"output_bias": True}), text.vocabulary)
    assert model.bias is not None
    with torch.no_grad():
        model.bias[END] = 1000.0
    folder = tmp_path_factory.mktemp("hasty")
    save_model(model, folder / "model", text)
    return folder / "model"


def test_the_tiny_model_says_different_things(alone: dict[str, str]) -> None:
    """Otherwise the tests below would show nothing."""
    assert len(set(alone.values())) > 3
    assert all(alone.values())


@settings(max_examples=8)
@given(st.permutations(SENTENCES), st.integers(1, 12), st.integers(0, 11))
def test_neighbours_and_batch_size_do_not_change_a_translation(
    translator: Translator, alone: dict[str, str], order: list[str], batch: int, cut: int
) -> None:
    other = Translator(translator.model, translator.text, beam=3, batch=batch)
    found = list(other.translate_documents([order[:cut], order[cut:]]))
    assert found == [[alone[sentence] for sentence in document] for document in (order[:cut], order[cut:])]


@pytest.mark.parametrize("text", ["", " ", "\t "])
def test_nothing_is_translated_into_nothing(prepared: Path, text: str) -> None:
    """By a model that has learnt nothing, too."""
    pipeline = TextPipeline.load(prepared)
    translator = Translator(Transformer(TINY, pipeline.vocabulary), pipeline, beam=2)
    first, _, last = translator.n_best([text, "Tea!", text], 2)
    assert [option.text for option in first + last] == ["", ""]


def test_empty_in_empty_out(translator: Translator, alone: dict[str, str]) -> None:
    first, second = SENTENCES[:2]
    assert translator.translate([]) == []
    assert list(translator.translate_documents([])) == []
    assert translator.translate(["", first, "  ", second, ""]) == ["", alone[first], "", alone[second], ""]
    assert list(translator.translate_documents([[], [first], [""]])) == [[], [alone[first]], [""]]


def test_the_best_come_first_and_the_first_is_the_translation(translator: Translator, alone: dict[str, str]) -> None:
    for sentence, options in zip(SENTENCES, translator.n_best(SENTENCES, 3), strict=True):
        assert options[0].text == alone[sentence]
        assert len(options) == 3
        scores = [option.score for option in options]
        assert scores == sorted(scores, reverse=True)
        assert max(scores) < 0


@pytest.mark.parametrize("n", [0, 4])
def test_more_translations_than_the_beam_holds_are_refused(translator: Translator, n: int) -> None:
    with pytest.raises(InputError, match=f"{n} translations were asked for, the beam holds 3"):
        translator.n_best(["Tea!"], n)


def test_a_long_sentence_is_split_with_a_warning_that_counts(translator: Translator, alone: dict[str, str]) -> None:
    long = " ".join(SENTENCES * 2)
    with pytest.warns(UserWarning, match="2 sentences were too long and were split"):
        found = translator.translate([long, "Tea!", long])
    assert found[1] == alone["Tea!"]
    assert found[0] == found[2]
    assert len(found[0]) > max(map(len, alone.values())), "all parts are translated"


@given(st.lists(st.integers(0, 9), min_size=1, max_size=80), st.integers(2, 12), st.data())
def test_parts_are_the_sentence_again(ids: list[int], longest: int, data: st.DataObject) -> None:
    pieces = [data.draw(st.sampled_from(["▁a", "b"])) for _ in ids]
    parts = split_ids(ids, longest, pieces)
    assert [number for part in parts for number in part] == ids
    assert all(0 < len(part) <= longest for part in parts)
    assert len(parts) <= 2 * len(ids) / longest + 1, "no tiny parts"


def test_a_long_sentence_is_split_where_a_word_starts() -> None:
    pieces = ["▁a", "b", "▁c", "▁d", "e", "f", "▁g"]
    assert split_ids(list(range(7)), 5, pieces) == [[0, 1, 2], [3, 4, 5, 6]]


def test_saved_and_moved_a_model_translates_the_same(
    translator: Translator, alone: dict[str, str], tmp_path: Path
) -> None:
    translator.save(tmp_path / "here")
    folder = shutil.move(tmp_path / "here", tmp_path / "there")
    again = Translator.load(folder, dtype=torch.float64, beam=3)
    assert again.translate(SENTENCES) == [alone[sentence] for sentence in SENTENCES]


def test_saved_in_half_precision_a_model_is_half_as_large_and_close(run: Path, tmp_path: Path) -> None:
    whole = Translator.load(run)
    Translator.load(run, dtype=torch.float16).save(tmp_path / "half")
    half = Translator.load(tmp_path / "half")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", run / "train" / "model")]
    assert sizes[0] < 0.6 * sizes[1]
    for name, value in half.model.state_dict().items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, whole.model.state_dict()[name], atol=1e-3, rtol=1e-3)


def test_without_a_path_the_model_that_ships_is_taken(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tram: Command
) -> None:
    monkeypatch.setattr("tram.translation.translator.SHIPPED", tmp_path / "model")
    with pytest.raises(InputError, match="no model of its own; give a model folder"):
        Translator.load()
    shutil.copytree(run / "train" / "model", tmp_path / "model")
    expected = Translator.load(run).translate(["Tea!"])
    assert Translator.load().translate(["Tea!"]) == expected
    assert tram("translate", stdin=b"Tea!\n").out == f"{expected[0]}\n"


def test_without_a_text_pipeline_a_model_takes_ids_but_no_text(run: Path, tmp_path: Path, tram: Command) -> None:
    folder = shutil.copytree(run / "train" / "model", tmp_path / "model")
    with_text = Translator.load(folder, beam=2)
    (folder / "text.json").unlink()
    without = Translator.load(folder, beam=2)
    ids = with_text.text.encode(["Tea!", "Why?"], "source")
    assert without.translate_ids(ids) == with_text.translate_ids(ids)
    with pytest.raises(InputError, match=r"model: has no text\.json"):
        without.translate(["Tea!"])
    (tmp_path / "a.txt").write_text("Tea!\n")
    for lines in ([], ["--lines"]):
        refused(tram("translate", tmp_path / "a.txt", "--model", folder, *lines), "has no text.json", "copy the")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("word " * 200_000, id="words"),
        pytest.param("a" * 1_000_000, id="one word", marks=pytest.mark.slow),
        pytest.param("\x00é—" * 333_333, id="signs", marks=pytest.mark.slow),
    ],
)
def test_a_line_of_a_million_characters_does_no_harm(hasty: Path, tmp_path: Path, tram: Command, line: str) -> None:
    (tmp_path / "long.txt").write_text(f"Tea!\n{line}\n\nWhy?\n")
    done = tram("translate", tmp_path / "long.txt", "--model", hasty, "--lines", "--beam", 1)
    assert done.code == 0
    assert done.out.count("\n") == 4
    assert re.search(r"warning: 1 sentences? .* too long and .* split", done.err)

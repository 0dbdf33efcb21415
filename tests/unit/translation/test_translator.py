"""The translator: one translation for each sentence, whatever stands beside it; nothing lost of long input."""

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from conftest import TINY, Done, made_up, refused
from helpers import END, make_translator
from tram.errors import InputError
from tram.model.folder import find_model, save_model
from tram.model.transformer import Transformer
from tram.text.bpe import BPE
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import RESERVED_CHARACTERS, SpecialIds
from tram.text.verbatim import VerbatimRules
from tram.text.words import pharaoh
from tram.translation.document_state import DocumentState
from tram.translation.engines.native import why_unavailable
from tram.translation.parts import Translation, split_ids
from tram.translation.spanned import SpannedDocument
from tram.translation.translator import Translator

Command = Callable[..., Done]
SENTENCES = [sentence for document in made_up([4, 5], seed=11) for sentence in document.source] + ["Tea!", "Why?"]


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    translator = Translator.load(run, dtype=torch.float64, beam=3)
    translator.guards = False  # it has hardly been trained and loops
    return translator


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


def test_the_tiny_model_has_different_translations(alone: dict[str, str]) -> None:
    """Otherwise the tests below would show nothing."""
    assert len(set(alone.values())) > 3
    assert all(alone.values())


@settings(max_examples=8)
@given(st.permutations(SENTENCES), st.integers(1, 12), st.integers(0, 11))
def test_neighbours_and_batch_size_do_not_change_a_translation(
    translator: Translator, alone: dict[str, str], order: list[str], batch: int, cut: int
) -> None:
    other = Translator(translator.model, translator.text, beam=3, batch=batch, guards=False)
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
    with pytest.raises(InputError, match=f"{n} translations need a beam of at least {n}, not 3"):
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
    again.guards = False
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
    with pytest.raises(InputError, match="ships without a model; give a model folder"):
        Translator.load()
    shutil.copytree(run / "train" / "model", tmp_path / "model")
    expected = Translator.load(run).translate(["Tea!"])
    assert Translator.load(precision="float32").translate(["Tea!"]) == expected
    assert tram("translate", "--precision", "float32", stdin=b"Tea!\n").out == f"{expected[0]}\n"


def test_models_run_in_float32_by_the_native_engine_where_there_is_one(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tram.translation.translator.SHIPPED", run / "train" / "model")
    default = "native" if why_unavailable() is None else "torch"
    assert Translator.load().engine.name == Translator.load(run).engine.name == default
    assert Translator.load(engine="torch").engine.name == "torch"


@pytest.mark.parametrize("rows", [{"vocabulary": 20}, {"vocabulary": -20}, {"source": -20}])
def test_tables_of_other_sizes_than_the_text_pipeline_are_refused(
    rows: dict[str, int], prepared: Path, tmp_path: Path
) -> None:
    """Rows that stand for nothing were an IndexError when a search chose one."""
    text = TextPipeline.load(prepared)
    source = text.vocabulary + rows["source"] if "source" in rows else None
    config = TINY.model_copy(update={"source_vocabulary": source})
    save_model(Transformer(config, text.vocabulary + rows.get("vocabulary", 0)), tmp_path / "model", text)
    with pytest.raises(InputError, match=r"text\.json: has .* ids for source and target"):
        Translator.load(tmp_path / "model")


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


@pytest.mark.parametrize("kind", ["hf", "tram", "int8", "adapter"])
def test_a_model_that_lost_its_text_pipeline_is_not_exported(
    kind: str, run: Path, tmp_path: Path, tram: Command
) -> None:
    folder = shutil.copytree(find_model(run), tmp_path / "model")
    (folder / "text.json").unlink()
    options = ["--without-context"] if kind == "hf" else []
    done = tram("export", kind, folder, tmp_path / "out", *options)
    refused(done, f"{folder}: has no text.json")
    assert not (tmp_path / "out").exists()


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


# Arguments, states and long sentences.

LONG = " ".join(["The old miller reads a letter on the bridge and sings near the station."] * 8)
LANG = " ".join(["Der alte Müller liest einen Brief auf der Brücke und singt nahe dem Bahnhof."] * 8)


def same_state(one: DocumentState, two: DocumentState) -> bool:
    first, second = one.state.tensors(), two.state.tensors()
    return first.keys() == second.keys() and all(torch.allclose(first[name], second[name]) for name in first)


@pytest.mark.parametrize("side", ["source", "target", "both"])
def test_read_splits_long_sentences_as_translate_does(prepared: Path, side: str) -> None:
    translator = make_translator(prepared, side)
    source, target = (
        ["A small fox sings.", LONG, "", "Our teacher waits."],
        ["Ein Fuchs singt.", LANG, "", "Er wartet."],
    )
    read, translated = translator.start(), translator.start()
    translator.read(source, target, read)
    with pytest.warns(UserWarning, match="too long"):
        list(translator.translate_documents([source], states=[translated], history="gold", gold=[target]))
    assert same_state(read, translated)
    assert read.sentences == translated.sentences == 3


def test_a_sentence_model_counts_sentences_like_a_document_model(prepared: Path) -> None:
    document = ["A small fox sings.", " ", "", LONG]
    for translator in (make_translator(prepared), without_memory(make_translator(prepared))):
        state = translator.start()
        with pytest.warns(UserWarning, match="too long"):
            translator.translate(document, state=state)
        assert state.sentences == 2


def without_memory(translator: Translator) -> Translator:
    return Translator(translator.model.without_context(), translator.text, guards=False)


def test_progress_counts_every_sentence_once(prepared: Path) -> None:
    documents = [["A small fox sings.", "", LONG], [], [LONG, " "]]
    for translator in (make_translator(prepared), without_memory(make_translator(prepared))):
        steps: list[int] = []
        with pytest.warns(UserWarning, match="too long"):
            list(translator.translate_documents(documents, steps.append))
        assert sum(steps) == 5
        assert all(step >= 0 for step in steps)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.translate("A house."),
        lambda t: t.translate(7),
        lambda t: t.translate([7]),
        lambda t: list(t.translate_documents("A house.")),
        lambda t: list(t.translate_documents(["A house."])),
        lambda t: t.n_best("A house."),
        lambda t: t.read("A house.", ["Ein Haus."], t.start()),
        lambda t: t.read(["A house."], "Ein Haus.", t.start()),
        lambda t: t.translate(["A house."], state="state"),
        lambda t: list(t.translate_documents([["A house."]], history="gol")),
    ],
)
@pytest.mark.parametrize("memory", [True, False])
def test_wrong_arguments_are_one_sentence(call: Callable[[Any], object], memory: bool, prepared: Path) -> None:
    translator = make_translator(prepared)
    with pytest.raises(InputError):
        call(translator if memory else without_memory(translator))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: Translator(t.model, "folder"), "text: is of type str; give TextPipeline"),
        (lambda t: Translator(t.model, t.text, engine="native"), "engine: is of type str; give Engine"),
        (lambda t: t.translate(["Tea!"], verbatim={"tea": "Tee"}), "verbatim: is of type dict; give VerbatimRules"),
        (lambda t: VerbatimRules(glossary={"tea": float("nan")}), "nan: is no term or translation"),
        (lambda t: VerbatimRules(glossary={"tea": " "}), "' ': is no term or translation"),
        (lambda t: VerbatimRules(keep="tea"), "keep is a tuple of terms"),
        (lambda t: t.save("model", precision="int4"), "precision 'int4': give one of"),
        (lambda t: Translator.load("model", device="gpu"), "device gpu: this machine"),
        (lambda t: Translator.load("model", dtype="float16"), "dtype 'float16': give one of torch.float32"),
        (lambda t: Translator.load("model", dtype=torch.int64), "dtype torch.int64: give one of"),
        (lambda t: t.n_best(["Tea!"], 1.5), "1.5 translations need a beam"),
        (lambda t: t.align(["Tea!"], ["Tee!", "Kaffee!"]), "1 source and 2 target sentences"),
        (lambda t: t.align(["Tea!"], ["Tee!"], words="Tea"), "words: is of type str; give Callable"),
        (lambda t: t.align(["Tea!"], ["Tee!"], min_share="1"), "min_share: is of type str; give float"),
        (lambda t: t.n_best(["Tea!"], 2, advance=1), "advance: is of type int; give Callable"),
        (lambda t: t.translate_documents(None), "documents: is of type NoneType; give Iterable"),
        (lambda t: t.translate_documents([], advance=1), "advance: is of type int; give Callable"),
        (lambda t: t.translate_documents([], states=t.start()), "states: is of type DocumentState; give Iterable"),
        (lambda t: t.translate_documents([], history="gold", gold=1), "gold: is of type int; give Iterable"),
        (lambda t: t.detailed([], remarks=[1]), "remarks: is of type list; give Remarks"),
        (lambda t: t.as_finished(1), "documents: is of type int; give Iterable"),
        (lambda t: t.as_finished([], advance="x"), "advance: is of type str; give Callable"),
        (lambda t: t.text.encode("Tea!", "source"), "sentences: is of type str; give list"),
        (lambda t: t.split(["Tea!", None]), "sentence 2: is of type NoneType; give str"),
        (lambda t: t.save(None), "path: is of type NoneType; give Path"),
        (lambda t: t.start().save(1), "path: is of type int; give Path"),
        (lambda t: DocumentState.load(b"state"), "path: is of type bytes; give Path"),
        (lambda t: Translator.load(1), "path: is of type int; give Path"),
        (lambda t: Translator.load("model", adapter=1), "adapter: is of type int; give Path"),
        (lambda t: Translator.load("model", target=1), "target: is of type int; give str"),
        (lambda t: Translator.load("model", device=10**30), "device 1000"),
        (lambda t: VerbatimRules(keep=None), "keep is a tuple of terms"),
    ],
)
def test_what_a_type_checker_would_find_is_one_sentence(
    call: Callable[[Any], object], words: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(words)):
        call(make_translator(prepared))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sentences", "words"),
    [
        (5, "sentences: is of type int; give list"),
        (["Tea!"], "sentence 1: is of type str; give list"),
        ([[5], []], "sentence 2: has 0 ids; give 1 to 46"),
        ([[5] * 47], "sentence 1: has 47 ids; give 1 to 46"),
        ([[5, -1]], "sentence 1: -1 is no id; give whole numbers from 1 to"),
        ([[0]], "0 is no id"),
        ([[10**6]], "1000000 is no id"),
        ([[2**70]], "is no id"),
        ([[1.0]], "1.0 is no id"),
        ([[True]], "True is no id"),
        ([[None]], "None is no id"),
    ],
)
def test_what_is_no_list_of_ids_is_one_sentence(sentences: Any, words: str, prepared: Path) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        make_translator(prepared).translate_ids(sentences)


def test_two_documents_with_one_state_are_refused(prepared: Path) -> None:
    """As of `states=[state] * 2`; one after the other, they may share it."""
    translator = make_translator(prepared)
    state = translator.start()
    with pytest.raises(InputError, match=r"two documents have the same state; give each its own"):
        list(translator.translate_documents([SENTENCES[:3], SENTENCES[3:]], states=[state] * 2))
    assert state.sentences == 0
    for document in (SENTENCES[:3], SENTENCES[3:]):
        list(translator.translate_documents([document], states=[state]))
    assert state.sentences == len(SENTENCES)


def test_an_error_in_the_middle_of_reading_leaves_the_state(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the same sentences can be read again."""
    translator = make_translator(prepared)
    state, expected = translator.start(), translator.start()
    pairs = [SENTENCES * 4, SENTENCES * 4]  # several blocks
    read, blocks = translator.model.forced_decode, itertools.count()

    def full(*arguments: Any) -> Any:
        if next(blocks) == 1:
            raise MemoryError
        return read(*arguments)

    monkeypatch.setattr(translator.model, "forced_decode", full)
    with pytest.raises(MemoryError):
        translator.read(*pairs, state)
    translator.read(*pairs, state)
    translator.read(*pairs, expected)
    tensors = expected.state.tensors()
    assert all(torch.equal(value, tensors[name]) for name, value in state.state.tensors().items())
    assert state.sentences == expected.sentences


def test_a_reference_is_a_list_of_sentences(prepared: Path) -> None:
    with pytest.raises(InputError, match="reference of document 1"):
        list(make_translator(prepared).translate_documents([["A house."]], history="gold", gold=["Ein Haus."]))  # type: ignore[list-item]


@pytest.mark.parametrize("value", [0, -1, 10**9, 1.5, "5", None, True])
@pytest.mark.parametrize("name", ["beam", "batch"])
def test_sizes_of_the_search_have_bounds(name: str, value: object, prepared: Path) -> None:
    translator = make_translator(prepared)
    with pytest.raises(InputError, match=name):
        Translator(translator.model, translator.text, **{name: value})  # type: ignore[arg-type]
    setattr(translator, name, value)
    with pytest.raises(InputError, match=name):
        translator.translate(["A small fox sings."])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e6, -11, "1"])
def test_a_length_penalty_is_a_small_number(value: Any, prepared: Path) -> None:
    translator = make_translator(prepared)
    with pytest.raises(InputError, match="length penalty"):
        Translator(translator.model, translator.text, length_penalty=value)


def test_weights_that_change_change_the_fingerprint(prepared: Path) -> None:
    translator = make_translator(prepared)
    state, before = translator.start(), translator.fingerprint
    with torch.no_grad():
        translator.model.tokens.weight[0, 0] += 1
    assert translator.fingerprint != before
    with pytest.raises(InputError, match="belongs to the model"):
        translator.translate(["A small fox sings."], state=state)


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_replaced_values_of_a_weight_change_fingerprint_and_translation(
    engine: str, prepared: Path, tmp_path: Path
) -> None:
    make_translator(prepared).save(tmp_path / "model")
    translator = Translator.load(tmp_path / "model", engine=engine)
    translator.guards = False
    before, translations = translator.fingerprint, translator.translate(SENTENCES)
    values = parameters_to_vector(translator.model.parameters()).detach()
    vector_to_parameters(values.flip(0), translator.model.parameters())
    assert translator.fingerprint != before
    assert translator.translate(SENTENCES) != translations


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_int8_weights_that_change_change_fingerprint_and_translation(
    engine: str, prepared: Path, tmp_path: Path
) -> None:
    make_translator(prepared).save(tmp_path / "model", "int8")
    translator = Translator.load(tmp_path / "model", engine=engine)
    translator.guards = False
    before, translations = translator.fingerprint, translator.translate(SENTENCES)
    with torch.no_grad():
        translator.model.tokens.values[4:] = translator.model.tokens.values[4:].flip(0)
    assert translator.fingerprint != before
    assert translator.translate(SENTENCES) != translations


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_fingerprint_is_that_of_the_file_whatever_the_data_type(
    dtype: torch.dtype, prepared: Path, tmp_path: Path
) -> None:
    translator = make_translator(prepared)
    translator.model.float()
    translator.save(tmp_path / "model")
    plain = Translator.load(tmp_path / "model")
    other = Translator.load(tmp_path / "model", dtype=dtype)
    assert other.fingerprint == plain.fingerprint == translator.fingerprint
    state = plain.start()
    plain.translate(["A small fox sings."], state=state)
    if dtype == torch.float64:
        other.translate(["A small fox sings."], state=state)
        assert state.sentences == 2


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ({"start": 0}, "special ids that are padding"),
        ({"banned": (0, 1, 2)}, "an end that is banned"),
        ({"banned": (1,)}, "a padding that is not"),  # a translation with padding is shorter than its states
        ({"source_prefix": (1,) * 47}, "max_length 48 leaves no room"),  # parts of no ids have no end
    ],
)
def test_special_ids_that_cannot_be_used_are_refused(
    ids: dict[str, Any], sentence: str, prepared: Path, tmp_path: Path
) -> None:
    text = replace(TextPipeline.load(prepared), special_ids=SpecialIds(**ids))
    save_model(Transformer(TINY, text.vocabulary), tmp_path / "model", text)
    with pytest.raises(InputError, match=sentence):
        Translator.load(tmp_path / "model")


def test_probabilities_that_overflow_are_one_sentence(prepared: Path) -> None:
    translator = make_translator(prepared)
    translator.model.float()
    with torch.no_grad():
        for parameter in translator.model.parameters():
            parameter.fill_(3e38)
    with pytest.raises(InputError, match="not numbers"):
        translator.translate(["A small fox sings."])


@pytest.mark.parametrize(
    ("source", "found", "wanted", "alignment"),
    [
        ("%d files were deleted.", "X1-Dateien wurden gelöscht.", "%d Dateien wurden gelöscht.", "0-0 0-1 1-2"),
        ("%(count)d files.", "X1-Dateien.", "%(count)d Dateien.", "0-0 0-1"),
        ("%s files.", "X1-Dateien.", "%s-Dateien.", "0-0"),
        ("A %d-bit number.", "Eine X1-Bit-Zahl.", "Eine %d-Bit-Zahl.", "0-0 1-1"),
    ],
)
def test_a_number_is_no_part_of_a_compound(source: str, found: str, wanted: str, alignment: str) -> None:
    document = SpannedDocument([source], VerbatimRules(), sentinels=False)
    links = [(0, 0), (1, 1)][: len(found.split())]
    (translation,) = document.join([Translation(found, 0.0, alignment=links)], alignment=True)
    assert translation.text == wanted
    assert translation.alignment is not None
    assert all(target < len(wanted.split()) for _, target in translation.alignment)
    assert pharaoh(translation.alignment) == alignment


def test_a_model_of_shorter_sentences_than_the_test_of_sentinels_translates() -> None:
    lines = ["A house and a fox."] * 3
    bpe = TextPipeline.learn(lines, lines, "en", "de", merges=5).bpe
    assert isinstance(bpe, BPE)
    text = TextPipeline("moses", "en", "de", BPE(bpe.alphabet, bpe.merges, RESERVED_CHARACTERS))
    config = TINY.model_copy(update={"max_length": 4, "max_positions": 4})
    translator = Translator(Transformer(config, text.vocabulary), text)
    assert len(next(translator.detailed([["a", "A house."]], verbatim=VerbatimRules()))) == 2

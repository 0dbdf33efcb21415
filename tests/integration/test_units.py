"""Models that translate several sentences as one sequence, from prepared text to a document that is continued."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from conftest import TINY, Corpus, Done, made_up, refused, write_pair
from helpers import shake
from tram.config import Config, ModelConfig
from tram.data.arrays import PreparedData
from tram.data.prepare import PrepareSettings, prepare
from tram.errors import InputError
from tram.evaluation.contrast import score_suite
from tram.evaluation.suite import ContrastiveItem
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SEPARATOR
from tram.training.run import train
from tram.translation.document_state import DocumentState
from tram.translation.lockstep import History
from tram.translation.translator import Translator

RIVALS = Path(__file__).parents[2] / "configs" / "rivals"
UNIT_CONFIGS = ("concat-2to1", "concat-2to2", "flat", "blocks", "document")  # beside those of other systems
Configure = Callable[..., Config]
SIZES = {"max_length": 48, "max_positions": 144, "encoder_layers": 2}
UNITS: dict[str, dict[str, Any]] = {
    "2+1": {"kind": "window", "source": 2, "target": 1},
    "2+2": {"kind": "window", "source": 2, "target": 2},
    "flat": {"kind": "window", "source": 2, "target": 1, "flat_layers": 1},
    "blocks": {"kind": "block", "sentences": 2, "tokens": 144},
    "document": {"kind": "document", "tokens": 144},
}
kinds = pytest.mark.parametrize("name", UNITS)
DOCUMENT = [
    "The old miller waits.",
    "",
    "A small fox sings on the bridge.",
    "My neighbour sleeps.",
    "Our teacher reads.",
]


def model_config(name: str) -> ModelConfig:
    return ModelConfig(**TINY.model_dump() | SIZES | {"unit": UNITS[name]})


@pytest.fixture(scope="session")
def reserved(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, prepared with reserved ids."""
    folder = tmp_path_factory.mktemp("data") / "reserved"
    settings = PrepareSettings(merges=60, held_out=0.1, reserved=True)
    prepare(folder, [corpus.train], [corpus.dev], settings, workers=1)
    return folder


@pytest.fixture(scope="session")
def translators(reserved: Path) -> dict[str, Translator]:
    """Random models of every kind."""
    text = TextPipeline.load(reserved)
    found = {}
    for name in UNITS:
        torch.manual_seed(1)
        model = Transformer(model_config(name), text.vocabulary).double()
        shake(model, seed=2)
        with torch.no_grad():
            model.tokens.weight[[text.special.end, text.special.separator]] *= 2  # type: ignore[index]
        found[name] = Translator(model, text, beam=2, guards=False)
    return found


def test_reserved_ids_come_after_all_others(prepared: Path, reserved: Path) -> None:
    plain, more = PreparedData.open(prepared), PreparedData.open(reserved)
    assert more.vocabulary == plain.vocabulary + 32
    assert plain.special.separator is None
    assert more.special.separator == plain.vocabulary + 16
    assert more.split("train").source.lengths.tolist() == plain.split("train").source.lengths.tolist()
    assert "reserved" not in PrepareSettings().identity, "folders prepared before there was this setting stay valid"


@kinds
def test_one_translation_for_each_sentence(translators: dict[str, Translator], name: str) -> None:
    translator = translators[name]
    found = translator.translate(DOCUMENT)
    assert len(found) == len(DOCUMENT)
    assert found[1] == ""
    assert all(SEPARATOR not in sentence for sentence in found)
    assert list(translator.translate_documents([DOCUMENT, [], DOCUMENT[3:], DOCUMENT])) == [
        found,
        [],
        translator.translate(DOCUMENT[3:]),
        found,
    ]


@kinds
def test_a_separator_in_a_text_is_a_space(translators: dict[str, Translator], name: str) -> None:
    translator = translators[name]
    given = [f"The old{SEPARATOR}miller waits.", SEPARATOR, "A small fox sings."]
    assert translator.translate(given) == translator.translate(["The old miller waits.", " ", "A small fox sings."])
    assert len(translator.n_best(given, 2)) == 3


@pytest.mark.parametrize("name", ["2+1", "2+2"])
def test_a_document_of_windows_is_continued_from_a_file(
    translators: dict[str, Translator], name: str, tmp_path: Path
) -> None:
    translator = translators[name]
    whole = translator.translate(DOCUMENT)
    state = translator.start()
    first = translator.translate(DOCUMENT[:3], state)
    state.save(tmp_path / "state")
    loaded = DocumentState.load(tmp_path / "state")
    fork = loaded.fork()
    assert [*first, *translator.translate(DOCUMENT[3:], loaded)] == whole
    assert [*first, *translator.translate(DOCUMENT[3:], fork)] == whole
    assert (state.sentences, loaded.sentences) == (2, 4)


@kinds
def test_reading_is_a_gold_history(translators: dict[str, Translator], name: str) -> None:
    """Sentences that are read are what the next unit is translated after."""
    translator = translators[name]
    gold = ["Der alte Müller wartet.", "", "Ein kleiner Fuchs singt auf der Brücke."]
    state = translator.start()
    translator.read(DOCUMENT[:3], gold, state)
    assert state.sentences == 2
    after = translator.translate(DOCUMENT[3:], state)
    other = translator.start()
    translator.read(DOCUMENT[:3], ["Der Müller.", "", "Nein, ein Fuchs."], other)
    if name in ("2+1", "flat"):
        assert translator.translate(DOCUMENT[3:], other) == after, "it reads sources only"
    elif name != "blocks":  # of two sentences: the first block was full
        assert translator.translate(DOCUMENT[3:], other) != after
    if name == "2+2":
        documents = translator.translate_documents([DOCUMENT[:4]], history="gold", gold=[[*gold, "Egal."]])
        assert next(documents)[3] == after[0]


def test_a_state_of_another_unit_or_damaged_is_refused(translators: dict[str, Translator]) -> None:
    translator = translators["2+2"]
    state = translator.start()
    translator.translate(DOCUMENT, state)
    state.history *= 3
    with pytest.raises(InputError, match="this state is damaged"):
        translator.translate(DOCUMENT, state)
    with pytest.raises(InputError, match="damaged or no document state"):
        DocumentState.from_bytes(_with_lengths_of_another_state(translator))


def _with_lengths_of_another_state(translator: Translator) -> bytes:
    from safetensors.torch import load, save

    state = translator.start()
    translator.translate(DOCUMENT, state)
    tensors = load(state.to_bytes())
    tensors["history/source/lengths"] = tensors["history/source/lengths"] + 1
    return save(tensors, metadata={"version": "1", "model": state.model, "sentences": "4"})


def test_a_sentence_that_is_too_long_is_split_inside_its_unit(translators: dict[str, Translator]) -> None:
    long = " ".join(["The tired pilot drinks cold tea near the station"] * 8)
    for translator in translators.values():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = translator.translate(["A fox.", long, "A loud parrot waits."])
        assert len(found) == 3
        assert "1 sentences were too long" in str(caught[0].message)


@kinds
def test_saved_and_loaded_a_model_knows_its_unit(translators: dict[str, Translator], name: str, tmp_path: Path) -> None:
    translators[name].save(tmp_path / "model")
    loaded = Translator.load(tmp_path / "model", dtype=torch.float64)
    loaded.beam, loaded.guards = 2, False
    assert loaded.model.config.unit == model_config(name).unit
    assert loaded.translate(DOCUMENT) == translators[name].translate(DOCUMENT)
    single = Translator.load(tmp_path / "model")
    assert [len(each) for each in single.translate_documents([DOCUMENT])] == [len(DOCUMENT)]


def test_a_folder_from_before_units_is_a_sentence_model(run: Path, tmp_path: Path) -> None:
    translator = Translator.load(run)
    translator.save(tmp_path / "old")
    path = tmp_path / "old" / "config.yaml"
    about = yaml.safe_load(path.read_text())
    assert about["model"].pop("unit") == {"kind": "sentence"}
    path.write_text(yaml.safe_dump(about))
    old = Translator.load(tmp_path / "old")
    assert old.units is None
    assert old.translate(DOCUMENT) == translator.translate(DOCUMENT)


def test_training_needs_a_separator(
    prepared: Path, tmp_path: Path, configure: Configure, tram: Callable[..., Done]
) -> None:
    config = configure(tmp_path / "run", model=model_config("2+2"))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    refused(tram("train", tmp_path / "config.yaml"), str(prepared), "separator", "--reserved")


@pytest.mark.parametrize("name", ["2+2", "document"])
def test_from_prepared_text_to_a_continued_document(
    name: str, reserved: Path, tmp_path: Path, configure: Configure, corpus: Corpus, tram: Callable[..., Done]
) -> None:
    """A sentence model is trained, finetuned on units, translates, saves a state and resumes."""
    finetune = {"unit": UNITS[name], "memory": None, "updates": 8, "tokens": 400, "warmup": 2, "lr": 0.01}
    sentence = ModelConfig(**TINY.model_dump() | SIZES)
    config = configure(tmp_path / "run", data=reserved, model=sentence, finetune=finetune, updates=20)
    train(config)
    assert Translator.load(tmp_path / "run" / "train" / "model").units is None
    translator = Translator.load(tmp_path / "run")
    assert translator.model.config.unit == model_config(name).unit
    whole = translator.translate(DOCUMENT)
    state = translator.start()
    first = translator.translate(DOCUMENT[:3], state)
    state.save(tmp_path / "state")
    rest = translator.translate(DOCUMENT[3:], DocumentState.load(tmp_path / "state"))
    assert len(first) + len(rest) == len(whole) == len(DOCUMENT)
    if name == "2+2":
        assert [*first, *rest] == whole
    done = tram("evaluate", *corpus.dev, "--model", tmp_path / "run", "--beam", 1)
    assert done.code == 0, done.err


def test_more_updates_lower_the_loss_of_the_current_sentence(
    reserved: Path, tmp_path: Path, configure: Configure
) -> None:
    """And a run that was interrupted ends with the same weights."""

    def run(output: str, updates: int) -> Path:
        settings = {"updates": updates, "tokens": 400, "checkpoint_every": 5, "evaluate_every": 100}
        return train(configure(tmp_path / output, data=reserved, model=model_config("2+2"), **settings))

    whole = Translator.load(run("whole", 25))
    run("parts", 10)
    parts = Translator.load(run("parts", 25))
    assert parts.fingerprint == whole.fingerprint
    lines = (tmp_path / "whole" / "train" / "metrics.jsonl").read_text().splitlines()
    losses = [yaml.safe_load(line)["loss"] for line in lines if '"loss"' in line]
    assert losses[-1] < losses[0] - 1


CONTEXT = {
    "source": ["The old miller waits.", "A small fox sings."],
    "target": ["Der alte Müller.", "Ein Fuchs singt."],
}
ITEMS = [
    ContrastiveItem(
        source_context=tuple(CONTEXT["source"][:n]),
        target_context=tuple(CONTEXT["target"][:n]),
        source="My neighbour sleeps.",
        reference="Mein Nachbar schläft.",
        contrastive=("Er schläft.",),
    )
    for n in (0, 1, 2)
]


@torch.no_grad()
def score_after(
    translator: Translator, item: ContrastiveItem, sources: list[list[int]], given: list[list[int]]
) -> float:
    """The log-probability of an item's reference after these sentences, by one teacher-forced pass."""
    text, special = translator.text, translator.special
    (source,), (reference,) = text.encode([item.source], "source"), text.encode([item.reference], "target")
    joined = [number for ids in sources for number in (*ids, special.separator)]
    prefix = [number for ids in given for number in (*ids, special.separator)]
    decoder_input = torch.tensor([[special.decoder_input([*prefix, *reference])]])
    hidden = torch.tensor([[len(joined) + 1 if joined else 0]])  # from the upper half of Flat-Transformer
    encoded = translator.model.encode(torch.tensor([[special.source([*joined, *source])]]), context=hidden)
    logits = translator.model.logits(translator.model.forced_decode(encoded, decoder_input).states)
    labels = torch.tensor([*reference, special.end])[:, None]
    return float(logits.log_softmax(-1)[len(prefix) :].gather(1, labels).sum())


@kinds
@pytest.mark.parametrize("history", ["gold", "none"])
def test_contrastive_scores_are_of_a_sentence_after_its_context(
    translators: dict[str, Translator], name: str, history: History
) -> None:
    translator = translators[name]
    for item, result in zip(ITEMS, score_suite(translator, ITEMS, history), strict=True):
        n = len(item.source_context) if history == "gold" else 0
        seen = {"2+1": min(n, 1), "flat": min(n, 1), "2+2": min(n, 1), "blocks": n % 2, "document": n}[name]
        sources = translator.text.encode(CONTEXT["source"][n - seen : n], "source")
        given = [] if name in ("2+1", "flat") else translator.text.encode(CONTEXT["target"][n - seen : n], "target")
        assert result.reference == pytest.approx(score_after(translator, item, sources, given), abs=1e-9)


def test_contrastive_scores_can_follow_the_models_own_translations(translators: dict[str, Translator]) -> None:
    translator = translators["2+2"]
    for item, result in zip(ITEMS[1:], score_suite(translator, ITEMS, "generated")[1:], strict=True):
        state = translator.start()
        translator.translate(list(item.source_context), state)
        (pair,) = state.history
        expected = score_after(translator, item, [pair.source], [pair.target])
        assert result.reference == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", UNIT_CONFIGS)
def test_the_configs_of_these_systems_differ_only_in_their_unit(name: str) -> None:
    config = Config.load(RIVALS / f"{name}.yaml")
    base = Config.load(RIVALS / "unit-base.yaml")
    assert config.finetune is not None
    assert base.finetune is not None
    assert config.finetune.unit is not None
    assert config.finetune.unit.kind != "sentence"
    same = config.finetune.model_copy(update={"unit": None})
    assert config.model_copy(update={"finetune": same, "output": base.output}) == base


def test_the_example_config_of_a_unit_runs(reserved: Path, tmp_path: Path, tram: Callable[..., Done]) -> None:
    small = ["model.d_model=16", "model.heads=2", "model.encoder_layers=1", "model.decoder_layers=1"]
    short = ["train.updates=2", "finetune.updates=2", f"data={reserved}", f"output={tmp_path / 'run'}"]
    done = tram("train", RIVALS / "blocks.yaml", *small, "model.feed_forward=16", *short)
    assert done.code == 0, done.err
    assert "units (block) in" in done.err + done.out
    done = tram("translate", "--model", tmp_path / "run", "--beam", 1, "--lines", stdin=b"A fox.\nIt sings.\n\nNo.\n")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 4


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("{kind: windw}", ["`model.unit.kind`", "no kind `windw`", "did you mean `window`?"]),
        ("{kind: window, source: 9}", ["9 sentences of max_length 48", "max_positions (144)"]),
        ("{kind: document}", ["unit.tokens (512)", "max_positions (144)"]),
        ("{kind: window, target: 3}", ["unit.target (3)", "unit.source (2)"]),
        ("{sentences: 3}", ["`model.unit.kind` is missing"]),
    ],
)
def test_a_unit_that_does_not_fit_is_refused(
    unit: str, words: list[str], reserved: Path, tmp_path: Path, configure: Configure, tram: Callable[..., Done]
) -> None:
    config = configure(tmp_path / "run", data=reserved, model=ModelConfig(**TINY.model_dump() | SIZES))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    refused(tram("train", tmp_path / "config.yaml", f"model.unit={unit}"), *words)


def test_a_memory_beside_a_unit_is_refused(reserved: Path, tmp_path: Path, configure: Configure) -> None:
    sentence = ModelConfig(**TINY.model_dump() | SIZES)
    with pytest.raises(ValueError, match=r"a context module works on sentences; unit\.kind window"):
        configure(tmp_path, data=reserved, model=sentence, finetune={"unit": UNITS["2+2"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
def test_a_model_translates_its_training_documents_as_it_learnt_them(name: str, tmp_path: Path) -> None:
    """Decoding joins, prefixes and splits as training does: anything else would be translated wrongly here."""
    documents = made_up([5, 7, 4, 6, 5, 6, 7, 5], seed=1)
    files = write_pair(tmp_path, "train", documents)
    settings = PrepareSettings(merges=200, held_out=0.0, reserved=True)
    prepare(tmp_path / "prepared", [files], [], settings, workers=1)
    sizes = {"d_model": 64, "heads": 2, "feed_forward": 128, "encoder_layers": 1, "decoder_layers": 1, "norm": "pre"}
    stage = {"lr": 4e-3, "warmup": 20, "optimizer": "muon", "schedule": "constant", "updates": 150, "tokens": 1024}
    values = {
        "data": str(tmp_path / "prepared"),
        "output": str(tmp_path / "run"),
        "model": sizes | SIZES | {"unit": UNITS[name]},
        "train": stage | {"dropout": 0.0, "label_smoothing": 0.0},
    }
    train(Config.model_validate(values))
    translator = Translator.load(tmp_path / "run")
    found = list(translator.translate_documents([document.source for document in documents]))
    assert found == [document.target for document in documents]

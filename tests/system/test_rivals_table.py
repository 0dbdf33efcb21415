"""docs/RIVALS.md is made from the JSON files of runs/rivals/run.sh: here from small ones whose numbers are known."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from conftest import Done
from tram.config import ContextConfig

ROOT = Path(__file__).parents[2]
DISTANCES = (1, 3, 20)
ANSWERS = {"pronoun": 3, "term": 2}
WINDOW = {"kind": "window", "source": 2, "target": 1}
MEMORY = {"kind": "memory", "side": "both"}


def script(name: str, *arguments: object) -> str:
    """Call a script of runs/rivals as run.sh does, and return what it prints."""
    command = [sys.executable, ROOT / "runs" / "rivals" / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode()


def numbers(
    name: str, knows: Callable[[str, int], bool], context: Any = None, unit: Any = None, carried: int | None = None
) -> dict[str, Any]:
    """Return the numbers of a system that is always right about what it knows, and otherwise guesses."""
    suite = {
        phenomenon: {
            str(d): {"right": 30 if knows(phenomenon, d) else 30 // answers, "items": 30, "chance": 1 / answers}
            for d in DISTANCES
        }
        for phenomenon, answers in ANSWERS.items()
    }
    found = {
        "system": name,
        "context": context,
        "unit": unit,
        "parameters": {"all": 1000, "new": 24, "new_in": []},
        "positions": {"source": "sentence", "target": "none"},
        "training": {"updates": 250, "target_tokens": 800_000, "held_loss": 0.125},
        "suite": suite,
    }
    return found if carried is None else found | {"costs": costs(carried)}


def costs(carried: int) -> dict[str, Any]:
    """Return what costs.py writes of a system."""
    cell = {"bytes": carried, "seconds_per_sentence": 0.002, "ratio_to_sentence": 1.25, "words_per_sentence": 6.5}
    speed = {"tokens_per_second": 4000.0, "ratio_to_control": 0.5}
    return {"training": speed, "decoding": {str(sentences): cell for sentences in (10, 100, 1000)}}


def page(folder: Path, *results: dict[str, Any]) -> str:
    """Return the page of some systems, on one line: where a line is wrapped does not matter."""
    for result in results:
        for value, place in ((result, folder / "rivals"), (result.pop("costs", None), folder / "rivals" / "costs")):
            place.mkdir(exist_ok=True)
            if value is not None:
                (place / f"{result['system']}.json").write_text(json.dumps(value), encoding="utf-8")
    script("table.py", folder / "rivals", folder)
    return " ".join((folder / "RIVALS.md").read_text(encoding="utf-8").split())


def test_the_page_says_what_the_numbers_show(tmp_path: Path) -> None:
    text = page(
        tmp_path,
        numbers("control", lambda *_: False, carried=0),
        numbers("concat-2to1", lambda phenomenon, d: phenomenon == "pronoun" and d <= 1, unit=WINDOW, carried=100),
        numbers("memory", lambda _, d: d <= 3, context=MEMORY, carried=2048),
    )
    assert "Above chance within the window: concatenation 2+1. Above chance beyond it: none." in text
    assert "| concatenation 2+1 | 1 | 100 (89–100) | 33 (23–46) | 33 |" in text
    assert "of the systems that see only the source none; of those that also see translations recurrent memory" in text
    assert "Furthest on what the source decides (3 sentences): recurrent memory (TRAM)." in text
    assert (
        "reaches 3 and 3 sentences. Fewer bytes are carried by: concatenation 2+1. Of these, at least as far on one"
        in text
    )
    assert "of the two: none." in text
    assert (
        "| recurrent memory (TRAM) | `kind: memory, side: both` | 1,000 | 24 | sentence and none | 250 | 0.800 |"
        in text
    )
    assert "| recurrent memory (TRAM) | 4,000 | 0.50 | 1.25 | 1.25 | 1.25 | 2,048 | 2,048 | 2,048 | 6.5 |" in text
    assert "Not finished: sentence model, concatenation 2+2," in text
    assert (tmp_path / "figures" / "rivals" / "accuracy.png").stat().st_size > 10_000
    assert (tmp_path / "figures" / "rivals" / "cost.png").stat().st_size > 10_000


def test_other_numbers_are_other_findings(tmp_path: Path) -> None:
    """A window that does not forget, and a memory that does nothing, are reported as such."""
    text = page(
        tmp_path,
        numbers("concat-2to1", lambda *_: True, unit=WINDOW),
        numbers("memory", lambda *_: False, context=MEMORY),
    )
    assert "Above chance beyond it: concatenation 2+1." in text
    assert "of the systems that see only the source concatenation 2+1; of those that also see translations none" in text
    assert "Furthest on terms (20 sentences): concatenation 2+1." in text
    assert "The bytes that the memory carries have not been measured yet." in text
    assert "Not measured yet." in text


def real_numbers(name: str, difference: float, low: float, high: float) -> dict[str, Any]:
    """Return what real.py writes of a system; the difference is that of every measure, in points."""
    share = {"items": 321, "value": 0.5, "difference": difference / 100, "low": low / 100, "high": high / 100}
    return {
        "system": name,
        "start": "123456789abc",
        "context": None if name == "control" else {**MEMORY, "tokens": 160},
        "unit": None,
        "max_positions": 256,
        "training": {"updates": 250, "target_tokens": 800_000, "held_loss": 0.125},
        "documents": 34,
        "sentences": 1234,
        "scores": [{"name": "s-BLEU", "value": 27.25}],
        "from_control": [{"name": "s-BLEU", "difference": difference, "low": low, "high": high}],
        "address": {"balanced": share},  # no document has two sentences with a form
        "pronouns": {"right": share},
    }


def test_scores_on_real_documents_are_beside_those_of_the_control(tmp_path: Path) -> None:
    folder = tmp_path / "rivals" / "real"
    folder.mkdir(parents=True)
    for real in (
        real_numbers("control", 0, 0, 0),
        real_numbers("memory", 1.5, 1, 2),
        real_numbers("han", -0.5, -1, -0.25),
        real_numbers("zheng", 0.25, -1, 1),
    ):
        (folder / f"{real['system']}.json").write_text(json.dumps(real), encoding="utf-8")
    text = page(tmp_path, numbers("memory", lambda *_: True, context=MEMORY))
    assert "the one that ships with tram (123456789abc;" in text
    assert "34 whole documents with 1,234 sentences" in text
    assert "321 items of ContraPro" in text
    assert "| recurrent memory (TRAM) | 250 | 0.800 | 160 | 0.1250 |" in text
    assert "| recurrent memory (TRAM) | 27.25 | 50.0 | – | 50.0 |" in text
    assert "| recurrent memory (TRAM) | **+1.50 [+1.00, +2.00]** | **+1.50 [+1.00, +2.00]** | – |" in text
    assert "| Zheng et al. 2020 | +0.25 [-1.00, +1.00] | +0.25 [-1.00, +1.00] | – |" in text
    assert "s-BLEU: above recurrent memory (TRAM); below HAN." in text
    assert "address, consistent: above none; below none." in text
    assert "Not finished: sentence model, concatenation 2+1," in text.partition("## Real documents")[2]


def test_longer_trainings_are_apart_from_the_others(tmp_path: Path) -> None:
    long = numbers("memory", lambda *_: True, context=MEMORY)
    path = tmp_path / "rivals" / "longer" / "memory.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(long), encoding="utf-8")
    above, _, below = page(tmp_path, numbers("memory", lambda *_: False, context=MEMORY)).partition(
        "Trained for longer"
    )
    assert "Furthest on terms (0 sentences)" in above
    assert "Terms: | system | 1 |" in below
    assert "| recurrent memory (TRAM) | 100 (89–100) |" in below.partition("## Cost")[0]


def test_every_config_and_every_context_is_compared() -> None:
    """A system that is built later joins the comparison as soon as its config exists."""
    trained = script("systems.py").split()
    configs = {path.stem for path in (ROOT / "configs" / "rivals").glob("*.yaml")} - {"unit-base"}
    assert set(trained) == configs | {"control", "memory"}
    union = get_args(ContextConfig)[0]
    assert {kind.model_fields["kind"].default for kind in get_args(union)} <= set(trained)


def test_the_committed_page_is_what_the_script_writes(tmp_path: Path) -> None:
    script("table.py", ROOT / "docs" / "rivals", tmp_path)
    assert (tmp_path / "RIVALS.md").read_text() == (ROOT / "docs" / "RIVALS.md").read_text()


SMALL = ("model.d_model=16", "model.heads=2", "model.feed_forward=32")
SHORT = ("finetune.updates=4", "finetune.documents=2", "finetune.log_every=2", "finetune.evaluate_every=2")


@pytest.mark.slow
def test_systems_are_trained_on_the_same_tokens_and_scored(tmp_path: Path, tram: Callable[..., Done]) -> None:
    """From generated documents to the page, with a context module and a unit, for a few updates."""
    recipe = ROOT / "configs" / "synthetic-rivals.yaml"
    texts = [tmp_path / "raw" / f"train.{language}" for language in ("en", "de")]
    first = ("finetune=null", "train.updates=2", "train.log_every=1", "train.evaluate_every=1")
    for command in (
        ("synthetic", tmp_path / "raw", "--documents", 60),
        ("prepare", tmp_path / "prepared", "--train", *texts, "--merges", 100, "--reserved", "--workers", 1),
        ("train", recipe, f"data={tmp_path / 'prepared'}", f"output={tmp_path / 'sentence'}", *SMALL, *first),
    ):
        done = tram(*command)
        assert done.code == 0, done.err
    found = {}
    for name in ("control", "concat-2to2", "han"):
        script("train.py", recipe, name, tmp_path, *SHORT)
        script("result.py", name, tmp_path, tmp_path / "rivals")
        found[name] = json.loads((tmp_path / "rivals" / f"{name}.json").read_text(encoding="utf-8"))
    tokens = {name: result["training"]["target_tokens"] for name, result in found.items()}
    assert tokens["han"] == tokens["control"], "the same documents"
    assert tokens["concat-2to2"] == pytest.approx(tokens["control"], rel=0.3), "nearly as many target tokens"
    assert found["control"]["parameters"]["new"] == found["concat-2to2"]["parameters"]["new"] == 0
    assert found["han"]["parameters"]["new"] > 0
    assert found["control"]["suite"]["pronoun"]["1"]["right"] == 16, "without context, one of three is right"
    for language in ("en", "de"):
        documents = (tmp_path / "raw" / f"train.{language}").read_text(encoding="utf-8").split("\n\n")
        (tmp_path / f"test.{language}").write_text("\n\n".join(documents[:3]), encoding="utf-8")
    items = (tmp_path / "raw" / "suite.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "pronouns.jsonl").write_text("".join(items[:4]), encoding="utf-8")
    translate = ("evaluate", tmp_path / "test.en", tmp_path / "test.de", "--beam", 1, "--no-perplexity")
    for name in ("control", "han"):
        model, output = tmp_path / name, tmp_path / f"{name}.jsonl"
        for command in (
            (*translate, "--model", model, "--hypothesis", output, "--json", tmp_path / f"{name}.json"),
            ("contrast", tmp_path / "pronouns.jsonl", "--model", model, "--json", tmp_path / f"{name}.pronouns.json"),
        ):
            done = tram(*command)
            assert done.code == 0, done.err
    script("real.py", tmp_path, tmp_path / "rivals" / "real")
    real = json.loads((tmp_path / "rivals" / "real" / "han.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in real["from_control"]] == ["s-BLEU", "d-BLEU/doc", "d-BLEU/512", "chrF2"]
    assert real["training"] == found["han"]["training"]
    assert (real["documents"], real["pronouns"]["right"]["items"]) == (3, 4)
    script("table.py", tmp_path / "rivals", tmp_path)
    text = (tmp_path / "RIVALS.md").read_text(encoding="utf-8")
    assert "| HAN | `" in text
    assert "3 whole documents" in " ".join(text.split())

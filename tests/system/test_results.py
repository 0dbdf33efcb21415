"""docs/RESULTS.md is made from the files of runs/shipped/ship.sh: here with translations whose scores are known."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import made_up, write_pair
from tram.data.corpus import Document, ParallelDocument, write_documents

ROOT = Path(__file__).parents[2]
SETS = ("opendocs/dev", "dialogue/dev", "conversation-nc/dev")


def script(name: str, *arguments: object) -> None:
    """Call a script of runs/shipped as ship.sh does."""
    command = [sys.executable, ROOT / "runs" / "shipped" / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()


def spoilt(document: ParallelDocument) -> ParallelDocument:
    """Its last translation is wrong."""
    return ParallelDocument(document.source, [*document.target[:-1], "Das ist kein guter Satz hier."])


def suite_result(right: list[bool]) -> dict[str, Any]:
    """What `tram contrast` writes of a contrastive suite."""
    share = {"value": sum(right) / len(right), "low": 0.0, "high": 1.0}
    return {
        "overall": {"accuracy": share["value"], "low": 0.0, "high": 1.0},
        "items": [{"right": each} for each in right],
        "contexts": {"all": {"items": len(right), "own": share, "other": share, "none": share}},
    }


@pytest.fixture
def folders(tmp_path: Path, prepared: Path) -> tuple[Path, Path]:
    """The corpora, and runs: the memory is right throughout with seed 1, and as wrong as the control with seed 2."""
    data, out = tmp_path / "data", tmp_path / "out"
    right = made_up([12, 12, 12, 12, 12, 3], seed=3)
    wrong = [spoilt(document) for document in right]
    for name in SETS:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        write_pair(data, name, right)
    origins = ["wmt20chat.dev\t12"] * 4 + ["andorstrail\t12", "andorstrail\t3"]
    (data / "dialogue" / "dev.docs.tsv").write_text("\n".join(origins) + "\n", encoding="utf-8")
    shutil.copytree(prepared, out / "documents")
    translations = {"sentence": wrong, "control": wrong, "memory-1": right, "memory-2": wrong}
    for run, translated in translations.items():
        scores = out / "scores" / run
        scores.mkdir(parents=True)
        for name in ("opendocs", "dialogue", *(["conversation-gold"] if run == "memory-1" else ["conversation"])):
            write_documents(scores / f"{name}.jsonl", [Document(document.target) for document in translated])
            (scores / f"{name}.json").write_text(json.dumps({"measures": {}}), encoding="utf-8")
        found = suite_result([translated is right, True, False, True])
        (scores / "contrapro.json").write_text(json.dumps(found), encoding="utf-8")
        if run == "sentence":
            continue  # was not trained here
        stage = out / "trained" / run / "finetune"
        (stage / "model").mkdir(parents=True)
        lines = [{"update": 40, "tokens": 1_500_000, "seconds": 5400.0}, {"held_loss": 2.25}, {"held_loss": 2.125}]
        (stage / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return data, out


def test_numbers_and_page_from_the_files_of_the_runs(folders: tuple[Path, Path], tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "RESULTS.md"
    script("scores.py", *folders, results)
    script("table.py", results, page)

    numbers = json.loads(results.read_text(encoding="utf-8"))
    opendocs = numbers["sets"]["opendocs"]["runs"]
    gains = {run: found["from_control"] and found["from_control"]["difference"] for run, found in opendocs.items()}
    assert gains["memory-1"] > 0
    assert gains["memory-2"] == 0
    assert gains["control"] is None
    assert gains["sentence"] == 0
    assert 0 < numbers["sets"]["opendocs"]["together"]["difference"] < gains["memory-1"], "won by one seed of two"
    sizes = {name: found["sentences"] for name, found in numbers["sets"].items()}
    assert sizes == {
        "opendocs": 63,
        "dialogue: chat": 48,
        "dialogue: game": 15,
        "conversation": 63,
        "conversation, gold history": 63,
    }
    gold = numbers["sets"]["conversation, gold history"]["runs"]
    assert gold["memory-1"]["from_control"]["difference"] > 0, "the control has no history: its one result counts"
    assert "memory-2" not in gold
    assert numbers["costs"]["memory-1"] == {"update": 40, "tokens": 1_500_000, "seconds": 5400.0, "held_loss": 2.125}
    contrapro = numbers["suites"]["contrapro"]
    assert contrapro["memory-1"]["from_control"]["right"]["difference"] == 0.25
    assert contrapro["memory-2"]["from_control"]["right"]["difference"] == 0

    text = " ".join(page.read_text(encoding="utf-8").split())  # where a line is wrapped does not matter
    assert "| (c) memory, seed 1 | 40 | 1.50 | 1.50 | 2.1250 |" in text
    assert "| (c) memory, seed 1 | 100.00 [100.00, 100.00] |" in text
    assert "All seeds together, s-BLEU of (c) against (b): +" in text
    assert "| (c) memory, seed 1 | all | 75.0 [0.0, 100.0] |" in text
    assert "benchmark/ted.dev" not in text, "nothing was translated"


def test_the_committed_page_is_what_the_script_writes(tmp_path: Path) -> None:
    script("table.py", ROOT / "docs" / "results.json", tmp_path / "RESULTS.md")
    assert (tmp_path / "RESULTS.md").read_text() == (ROOT / "docs" / "RESULTS.md").read_text()

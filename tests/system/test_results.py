"""docs/RESULTS.md is generated from the files of runs/mixed/run.sh: here with translations whose scores are known."""

import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import made_up, write_pair
from tram.data.corpus import ParallelDocument

ROOT = Path(__file__).parents[2]


def script(name: str, *arguments: object) -> None:
    """Call a script of runs/mixed as run.sh does."""
    command = [sys.executable, ROOT / "runs" / "mixed" / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()


def spoilt(document: ParallelDocument) -> ParallelDocument:
    """Its last translation is wrong."""
    return ParallelDocument(document.source, [*document.target[:-1], "Das ist kein guter Satz hier."])


@pytest.fixture
def folders(tmp_path: Path, prepared: Path) -> tuple[Path, Path]:
    """The corpora, and runs of which with seed 1 the memory is right throughout, with seed 2 the sentence model."""
    data, out = tmp_path / "data", tmp_path / "mixed"
    right = made_up([12, 12, 12, 12, 12, 3], seed=3)
    wrong = [spoilt(document) for document in right]
    for name in ("opendocs/dev", "benchmark/europarl.dev", "benchmark/news.dev", "benchmark/ted.dev"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        write_pair(data, name, right)
    with lzma.open(data / "opendocs" / "train.en.xz", "wt", encoding="utf-8") as file:
        file.write(right[0].source[0] + "\n" + right[2].source[1] + "\n")
    shutil.copytree(prepared, out / "real")
    translations = {"base": wrong, "sentence-1": wrong, "depth1-1": right, "sentence-2": right, "depth1-2": wrong}
    for run, translated in translations.items():
        scores, stage = out / "scores" / run, out / run / "finetune"
        scores.mkdir(parents=True)
        write_pair(scores, "opendocs", translated)
        (scores / "opendocs.json").write_text(json.dumps({"perplexity": {"none": 2.5}}), encoding="utf-8")
        if run == "base":
            continue  # was not trained here
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
    assert gains["depth1-1"] > 0
    assert gains["depth1-2"] == -gains["depth1-1"]
    assert gains["base"] is gains["sentence-1"] is None
    together = numbers["sets"]["opendocs"]["together"]
    assert {kind: tested["difference"] for kind, tested in together.items()} == {"depth1": 0}, "won and lost again"
    assert opendocs["base"]["from_start"] is None
    assert opendocs["sentence-1"]["from_start"]["difference"] == 0 < opendocs["depth1-1"]["from_start"]["difference"]
    assert (numbers["sets"]["opendocs"]["sentences"], numbers["sets"]["unseen"]["sentences"]) == (63, 61)
    bins = numbers["positions"]["depth1-1"]
    assert [(each["label"], each["sentences"]) for each in bins] == [("1–10", 53), ("11+", 10)]
    assert numbers["costs"]["depth1-1"] == {"update": 40, "tokens": 1_500_000, "seconds": 5400.0, "held_loss": 2.125}

    text = " ".join(page.read_text(encoding="utf-8").split())  # where a line is wrapped does not matter
    assert "| (c) memory, gradient depth 1, seed 1 | 40 | 1.50 | 1.50 | 2.1250 |" in text
    assert "| (b) finetuned sentence model (control), seed 2 | 100.00 [100.00, 100.00] |" in text
    assert "(a) is the sentence model inside the model that ships with tram" in text
    assert "Missing runs: (d) memory, full depth, seed 1;" in text
    assert "Both seeds pooled, s-BLEU against (b): (c) memory, gradient depth 1 +0.00 [" in text
    assert "Not scored on this set: (d) memory, full depth, seed 1; (d) memory, full depth, seed 2; (c) source" in text
    assert "benchmark/ted.dev" not in text, "nothing was translated"


def test_the_committed_page_is_what_the_script_writes(tmp_path: Path) -> None:
    script("table.py", ROOT / "docs" / "results.json", tmp_path / "RESULTS.md")
    assert (tmp_path / "RESULTS.md").read_text() == (ROOT / "docs" / "RESULTS.md").read_text()

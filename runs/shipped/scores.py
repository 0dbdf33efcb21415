"""Numbers of the runs of runs/shipped/ship.sh: docs/results.json, which is kept when the runs are deleted.

python runs/shipped/scores.py DATA FOLDER docs/results.json

FOLDER/scores/RUN holds what measure.sh wrote of each run. Scores with intervals; paired tests of each run, and of all
memories together, against the control, the sentence model finetuned as long; form of address and terms; suites; the
cost of each run.
Runs and sets that do not exist yet are left out, so this can be run at any time.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tram.analysis.window import last_update, read_metrics
from tram.data.corpus import read_documents
from tram.evaluation.comparison import compare_address, compare_suites
from tram.evaluation.metrics import Documents, Score, score_systems
from tram.files import write_json
from tram.text.pipeline import TextPipeline

CONTROL = "control"
RUNS = ("sentence", CONTROL, "memory-1", "memory-2")
SUITES = ("agreement", "inside", "contrapro", "pronouns", "formality", "auxiliary")


@dataclass(frozen=True)
class TestSet:
    """A set that is scored: its files, the file of measure.sh, and the origin of the documents if only some count."""

    path: str
    file: str
    origin: str = ""

    def documents(self, data: Path) -> list[bool]:
        """Return for every document of the files whether it belongs to the set."""
        origins = data / f"{self.path}.docs.tsv"
        if not self.origin:
            return [True] * len(read_sentences(data / f"{self.path}.en"))
        return [line.startswith(self.origin) for line in origins.read_text(encoding="utf-8").splitlines()]


SETS = {
    "opendocs": TestSet("opendocs/dev", "opendocs"),
    "europarl": TestSet("benchmark/europarl.dev", "europarl"),
    "news": TestSet("benchmark/news.dev", "news"),
    "ted": TestSet("benchmark/ted.dev", "ted"),
    "dialogue: chat": TestSet("dialogue/dev", "dialogue", "wmt20chat"),
    "dialogue: game": TestSet("dialogue/dev", "dialogue", "andorstrail"),
    "prose": TestSet("prose/dev", "prose"),
    "prose, gold history": TestSet("prose/dev", "prose-gold"),
    "conversation": TestSet("conversation-nc/dev", "conversation"),
    "conversation, gold history": TestSet("conversation-nc/dev", "conversation-gold"),
}


def read_sentences(path: Path) -> Documents:
    """Read the documents of a file."""
    return [document.sentences for document in read_documents(path)]


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; None if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def result_file(scores: Path, run: str, test: TestSet, suffix: str) -> Path:
    """Return a file of measure.sh; a sentence model knows no history, so its one result counts for every history."""
    name = test.file if run.startswith("memory") else test.file.removesuffix("-gold")
    return scores / run / f"{name}{suffix}"


def cost(stage: Path) -> dict[str, Any] | None:
    """Return updates, tokens, seconds and the best held-out loss of a finished stage; None of any other."""
    if not (stage / "model").exists():
        return None
    end = last_update(stage)
    losses = [line["held_loss"] for line in read_metrics(stage / "metrics.jsonl") if "held_loss" in line]
    return {key: end[key] for key in ("update", "tokens", "seconds")} | {"held_loss": min(losses)}


def beside_control(found: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield every other run, its value and that of the control, where both exist."""
    for run, value in found.items():
        if run != CONTROL and CONTROL in found:
            yield run, value, found[CONTROL]


def difference(system: Documents, baseline: Documents, references: Documents) -> dict[str, Any]:
    """Return the s-BLEU difference of two systems."""
    results = score_systems([("baseline", baseline), ("system", system)], [references])
    return asdict(results[1].difference("s-BLEU"))


def score_json(score: Score) -> dict[str, Any]:
    """Return a score without how it was resampled."""
    return {key: value for key, value in asdict(score).items() if key != "resampling"}


def score_set(test: TestSet, data: Path, scores: Path, text: TextPipeline) -> dict[str, Any] | None:
    """Score every run on a set and compare its s-BLEU with that of the control."""
    files = {run: path for run in RUNS if (path := result_file(scores, run, test, ".jsonl")).exists()}
    if not files:
        return None
    chosen = test.documents(data)

    def read(path: Path) -> Documents:
        return [document for document, wanted in zip(read_sentences(path), chosen, strict=True) if wanted]

    translations = {run: read(path) for run, path in files.items()}
    sources, references = (read(data / f"{test.path}.{language}") for language in ("en", "de"))
    tests = {run: difference(own, control, references) for run, own, control in beside_control(translations)}
    results = {
        result.name: {
            "scores": [score_json(score) for score in result.scores],
            "from_control": tests.get(result.name),
        }
        for result in score_systems(list(translations.items()), [references], sources, text)
    }
    pairs = [(own, control) for run, own, control in beside_control(translations) if run.startswith("memory")]
    together = None
    if len(pairs) > 1:  # a document is drawn together with its translations by all seeds
        own, control = ([list(chain(*parts)) for parts in zip(*side, strict=True)] for side in zip(*pairs, strict=True))
        together = difference(own, control, [document * len(pairs) for document in references])
    return {
        "path": test.path,
        "sentences": sum(map(len, sources)),
        "runs": results,
        "together": together,
        "measures": {} if test.origin else measures(test, scores),
    }


def measures(test: TestSet, scores: Path) -> dict[str, Any]:
    """Return form of address and terms of every run on a set, and the differences in address from the control."""
    files = {run: result_file(scores, run, test, ".json") for run in RUNS}
    found = {run: value["measures"] for run, path in files.items() if (value := read_json(path))}
    address = {run: value["address"] for run, value in found.items() if "address" in value}
    compared = {
        run: {name: asdict(each) for name, each in compare_address(own, control).items()}
        for run, own, control in beside_control(address)
    }
    return {
        run: {
            "address": _without_counts(value.get("address", {})),
            "terms": value.get("terms", {}),
            "address_from_control": compared.get(run),
        }
        for run, value in found.items()
    }


def _without_counts(address: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {key: each for key, each in part.items() if key != "counts"} for name, part in address.items()}


def suites(scores: Path) -> dict[str, Any]:
    """Return the shares of right items of every run on every suite, and the differences from the control."""
    results: dict[str, Any] = {}
    for suite in SUITES:
        found = {run: value for run in RUNS if (value := read_json(scores / run / f"{suite}.json"))}
        compared = {
            run: {name: asdict(each) for name, each in compare_suites(own, control).items()}
            for run, own, control in beside_control(found)
        }
        results[suite] = {
            run: {key: value for key, value in whole.items() if key not in ("items", "right", "suite", "model")}
            | {"from_control": compared.get(run)}
            for run, whole in found.items()
        }
    return {suite: runs for suite, runs in results.items() if runs}


def measure(data: Path, folder: Path) -> dict[str, Any]:
    """Return every number of docs/RESULTS.md."""
    scores = folder / "scores"
    text = TextPipeline.load(folder / "documents")
    sets = {name: score_set(test, data, scores, text) for name, test in SETS.items()}
    return {
        "costs": {run: found for run in RUNS if (found := cost(folder / "trained" / run / "finetune"))},
        "sets": {name: found for name, found in sets.items() if found},
        "suites": suites(scores),
    }


if __name__ == "__main__":
    write_json(Path(sys.argv[3]), measure(Path(sys.argv[1]), Path(sys.argv[2])))

"""What the runs of runs/mixed.sh came to, as numbers: docs/results.json, which stays when the runs are gone.

python runs/mixed_scores.py DATA FOLDER docs/results.json

Scores with intervals, paired tests against (a), against (b) of the same seed and against (b) with both seeds together,
differences by position, perplexities, pronouns, and what each run cost. Runs and test sets that are not there yet are
left out, so this can be run at any time.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tram.analysis.position import breakdown
from tram.analysis.window import last_update, read_metrics
from tram.data.corpus import read_documents
from tram.evaluation.metrics import Documents, score_systems
from tram.files import write_json
from tram.text.pipeline import TextPipeline

SETS = {"opendocs": "opendocs/dev", "europarl": "benchmark/europarl.dev", "news": "benchmark/news.dev",
        "ted": "benchmark/ted.dev"}  # fmt: skip
RUNS = ("base", "sentence-1", "sentence-2", "depth1-1", "depth1-2", "full-1", "full-2", "source-1", "target-1")
SEEDS = ("1", "2")
BY_POSITION = ("depth1-1", "full-1")


@dataclass(frozen=True)
class Data:
    """One test set."""

    sources: Documents
    references: Documents

    @classmethod
    def read(cls, path: Path) -> "Data":
        """Both sides."""
        return cls(*(sentences(path.with_name(f"{path.name}.{language}")) for language in ("en", "de")))

    def only(self, keep: list[list[bool]]) -> "Data":
        """Some of its sentences."""
        return Data(picked(self.sources, keep), picked(self.references, keep))


def sentences(path: Path) -> Documents:
    """The documents of a file."""
    return [document.sentences for document in read_documents(path)]


def picked(documents: Documents, keep: list[list[bool]]) -> Documents:
    """Some sentences of every document."""
    return [[s for s, wanted in zip(document, mask, strict=True) if wanted]
            for document, mask in zip(documents, keep, strict=True)]  # fmt: skip


def unseen(data: Data, training: Path) -> list[list[bool]]:
    """Which sentences do not stand in the training data word for word."""
    known = {sentence for document in sentences(training) for sentence in document}
    return [[sentence not in known for sentence in document] for document in data.sources]


def cost(stage: Path) -> dict[str, Any]:
    """What a training took, and where it ended."""
    last = last_update(stage)
    held = [line["held_loss"] for line in read_metrics(stage / "metrics.jsonl") if "held_loss" in line]
    return {key: last[key] for key in ("update", "tokens", "seconds")} | {"held_loss": min(held)}


def differences(baseline: str, found: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """How the s-BLEU of every other run differs from that of one; empty if that one is not there."""
    if baseline not in found:
        return {}
    systems = [(baseline, found[baseline]), *((run, found[run]) for run in found if run != baseline)]
    return {result.name: asdict(result.differences[0]) for result in score_systems(systems, [references])[1:]}


def of_seed(seed: str, found: dict[str, Documents]) -> dict[str, Documents]:
    """The runs with one seed, by their kind."""
    parts = {run: run.partition("-") for run in found}
    return {parts[run][0]: documents for run, documents in found.items() if parts[run][2] == seed}


def from_control(found: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """How the s-BLEU of every run with a memory differs from that of (b) with the same seed."""
    return {f"{kind}-{seed}": tested for seed in SEEDS
            for kind, tested in differences("sentence", of_seed(seed, found), references).items()}  # fmt: skip


def from_control_together(found: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """The same by kind, for those that are there with both seeds: a document is drawn with its translations by both."""
    first, second = (of_seed(seed, found) for seed in SEEDS)
    both = {
        kind: [one + other for one, other in zip(first[kind], second[kind], strict=True)]
        for kind in first
        if kind in second
    }
    return differences("sentence", both, [document + document for document in references])


def scored(data: Data, found: dict[str, Documents], text: TextPipeline) -> dict[str, Any]:
    """Scores of every run on a set, and how its s-BLEU differs from that of (a) and of (b), where these are there.

    found: (a), if it is there, is the first.
    """
    tested = from_control(found, data.references)
    results = {
        result.name: {
            "scores": [{key: value for key, value in asdict(score).items() if key != "resampling"}
                       for score in result.scores],
            "from_start": asdict(result.differences[0]) if "base" in found and result.differences else None,
            "from_control": tested.get(result.name),
        }
        for result in score_systems(list(found.items()), [data.references], data.sources, text)
    }  # fmt: skip
    together = from_control_together(found, data.references)
    return {"sentences": sum(map(len, data.sources)), "runs": results, "together": together}


def read_json(path: Path) -> Any:
    """A file's value; None if it is not there."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def measured(data: Path, folder: Path) -> dict[str, Any]:
    """Everything that docs/RESULTS.md shows."""
    scores = folder / "scores"
    runs = [run for run in RUNS if (scores / run / "opendocs.json").exists()]
    text = TextPipeline.load(folder / "real")
    stages = [*folder.glob("*/train"), *folder.glob("*/finetune")]
    sets: dict[str, Any] = {}
    positions: dict[str, Any] = {}
    for name, path in SETS.items():
        test = Data.read(data / path)
        files = {run: scores / run / f"{name}.de" for run in runs}
        found = {run: sentences(file) for run, file in files.items() if file.exists()}
        if not found:
            continue
        sets[name] = scored(test, found, text)
        if name == "opendocs":
            keep = unseen(test, data / "opendocs" / "train.en.xz")
            some = {run: picked(hypotheses, keep) for run, hypotheses in found.items()}
            sets["unseen"] = scored(test.only(keep), some, text)
            for run in BY_POSITION:
                if {run, "sentence-1"} <= found.keys():
                    bins = breakdown(found[run], found["sentence-1"], test.references).bins
                    positions[run] = [{"label": each.label, **asdict(each)} for each in bins]
    return {
        "costs": {stage.parent.name: cost(stage) for stage in sorted(stages) if (stage / "model").exists()},
        "sets": sets,
        "positions": positions,
        "perplexities": {run: read_json(scores / run / "opendocs.json")["perplexity"] for run in runs},
        "pronouns": {run: found["overall"] for run in runs if (found := read_json(scores / run / "contrapro.json"))},
    }


if __name__ == "__main__":
    write_json(Path(sys.argv[3]), measured(Path(sys.argv[1]), Path(sys.argv[2])))

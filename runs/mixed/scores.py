"""Numbers of the runs of runs/mixed/run.sh: docs/results.json, which is kept when the runs are deleted.

python runs/mixed/scores.py DATA FOLDER docs/results.json

Scores with intervals; paired tests against (a), against (b) of the same seed, and against (b) with both seeds together;
differences by position; perplexities; pronouns; and the cost of each run. Runs and test sets that do not exist yet are
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
from tram.evaluation.metrics import Documents, Score, score_systems
from tram.files import write_json
from tram.text.pipeline import TextPipeline

SETS = {
    "opendocs": "opendocs/dev",
    "europarl": "benchmark/europarl.dev",
    "news": "benchmark/news.dev",
    "ted": "benchmark/ted.dev",
}
RUNS = ("base", "sentence-1", "sentence-2", "depth1-1", "depth1-2", "full-1", "full-2", "source-1", "target-1")
SEEDS = ("1", "2")
BY_POSITION = ("depth1-1", "full-1")


@dataclass(frozen=True)
class TestSet:
    """Source and reference documents of a test set."""

    sources: Documents
    references: Documents

    @classmethod
    def read(cls, path: Path) -> "TestSet":
        """Read PATH.en and PATH.de."""
        return cls(*(read_sentences(path.with_name(f"{path.name}.{language}")) for language in ("en", "de")))

    def select(self, mask: list[list[bool]]) -> "TestSet":
        """Return the set with only the sentences that the mask marks."""
        return TestSet(select(self.sources, mask), select(self.references, mask))


def read_sentences(path: Path) -> Documents:
    """Read the documents of a file."""
    return [document.sentences for document in read_documents(path)]


def select(documents: Documents, mask: list[list[bool]]) -> Documents:
    """Return the sentences of every document that the mask marks."""
    return [
        [sentence for sentence, wanted in zip(document, row, strict=True) if wanted]
        for document, row in zip(documents, mask, strict=True)
    ]


def unseen(test: TestSet, training: Path) -> list[list[bool]]:
    """Mark the source sentences that do not occur word for word in the training data."""
    known = {sentence for document in read_sentences(training) for sentence in document}
    return [[sentence not in known for sentence in document] for document in test.sources]


def cost(stage: Path) -> dict[str, Any]:
    """Return updates, tokens and seconds of a training, and its best held-out loss."""
    last = last_update(stage)
    losses = [line["held_loss"] for line in read_metrics(stage / "metrics.jsonl") if "held_loss" in line]
    return {key: last[key] for key in ("update", "tokens", "seconds")} | {"held_loss": min(losses)}


def differences(baseline: str, translations: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """Return the s-BLEU difference of every other run to the baseline; empty if the baseline is missing."""
    if baseline not in translations:
        return {}
    others = [(run, documents) for run, documents in translations.items() if run != baseline]
    systems = [(baseline, translations[baseline]), *others]
    return {result.name: asdict(result.differences[0]) for result in score_systems(systems, [references])[1:]}


def of_seed(seed: str, translations: dict[str, Documents]) -> dict[str, Documents]:
    """Return the translations of the runs with one seed, by kind."""
    parts = {run: run.partition("-") for run in translations}
    return {parts[run][0]: documents for run, documents in translations.items() if parts[run][2] == seed}


def from_control(translations: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """Return the s-BLEU difference of every run with a memory to (b) with the same seed."""
    return {
        f"{kind}-{seed}": difference
        for seed in SEEDS
        for kind, difference in differences("sentence", of_seed(seed, translations), references).items()
    }


def from_control_together(translations: dict[str, Documents], references: Documents) -> dict[str, Any]:
    """Return the same by kind, over both seeds: a document is drawn together with its translations by both."""
    first, second = (of_seed(seed, translations) for seed in SEEDS)
    both = {
        kind: [one + other for one, other in zip(first[kind], second[kind], strict=True)]
        for kind in first
        if kind in second
    }
    return differences("sentence", both, [document + document for document in references])


def score_json(score: Score) -> dict[str, Any]:
    """Return a score without how it was resampled."""
    return {key: value for key, value in asdict(score).items() if key != "resampling"}


def score_set(test: TestSet, translations: dict[str, Documents], text: TextPipeline) -> dict[str, Any]:
    """Score every run on a set and compare its s-BLEU with that of (a) and of (b), where these exist.

    translations: by run; (a), if it is there, comes first.
    """
    against_control = from_control(translations, test.references)
    results = {}
    for result in score_systems(list(translations.items()), [test.references], test.sources, text):
        against_start = "base" in translations and result.differences
        results[result.name] = {
            "scores": [score_json(score) for score in result.scores],
            "from_start": asdict(result.differences[0]) if against_start else None,
            "from_control": against_control.get(result.name),
        }
    together = from_control_together(translations, test.references)
    return {"sentences": sum(map(len, test.sources)), "runs": results, "together": together}


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; None if the file does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def measure(data: Path, folder: Path) -> dict[str, Any]:
    """Return every number of docs/RESULTS.md."""
    scores = folder / "scores"
    runs = [run for run in RUNS if (scores / run / "opendocs.json").exists()]
    text = TextPipeline.load(folder / "real")
    stages = [*folder.glob("*/train"), *folder.glob("*/finetune")]
    sets: dict[str, Any] = {}
    positions: dict[str, Any] = {}
    for name, path in SETS.items():
        test = TestSet.read(data / path)
        files = {run: scores / run / f"{name}.de" for run in runs}
        translations = {run: read_sentences(file) for run, file in files.items() if file.exists()}
        if not translations:
            continue
        sets[name] = score_set(test, translations, text)
        if name == "opendocs":
            mask = unseen(test, data / "opendocs" / "train.en.xz")
            some = {run: select(documents, mask) for run, documents in translations.items()}
            sets["unseen"] = score_set(test.select(mask), some, text)
            for run in BY_POSITION:
                if {run, "sentence-1"} <= translations.keys():
                    bins = breakdown(translations[run], translations["sentence-1"], test.references).bins
                    positions[run] = [{"label": each.label, **asdict(each)} for each in bins]
    return {
        "costs": {stage.parent.name: cost(stage) for stage in sorted(stages) if (stage / "model").exists()},
        "sets": sets,
        "positions": positions,
        "perplexities": {run: read_json(scores / run / "opendocs.json")["perplexity"] for run in runs},
        "pronouns": {run: found["overall"] for run in runs if (found := read_json(scores / run / "contrapro.json"))},
    }


if __name__ == "__main__":
    write_json(Path(sys.argv[3]), measure(Path(sys.argv[1]), Path(sys.argv[2])))

"""docs/RESULTS.md from the runs of runs/mixed.sh: scores, paired tests against (b), what each run cost.

python runs/mixed_table.py DATA FOLDER docs/RESULTS.md

Runs and test sets that are not there yet are left out, so the page can be made at any time.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tram.analysis.position import breakdown
from tram.analysis.report import markdown_table
from tram.analysis.window import last_update, read_metrics
from tram.corpus import read_documents
from tram.files import write_text
from tram.metrics import Documents, score_systems
from tram.subwords import TextPipeline

SETS = {"opendocs": "opendocs/dev", "europarl": "benchmark/europarl.dev", "news": "benchmark/news.dev",
        "ted": "benchmark/ted.dev"}  # fmt: skip
KINDS = {
    "base": "(a) sentence model",
    "sentence": "(b) sentence model trained on",
    "depth1": "(c) memory, gradient depth 1",
    "full": "(d) memory, full depth",
    "source": "(c) source side only",
    "target": "(c) target side only",
    "realsentence": "(b) real documents only",
    "realdepth1": "(c) real documents only",
    "realfull": "(d) real documents only",
}
RUNS = ("base", "sentence-1", "sentence-2", "depth1-1", "depth1-2", "full-1", "full-2", "source-1", "target-1",
        "realsentence-1", "realdepth1-1", "realfull-1")  # fmt: skip
PAPER = """\
| paper, transformer-base | TED s-BLEU | d-BLEU | News s-BLEU | d-BLEU | Europarl s-BLEU | d-BLEU |
|---|---|---|---|---|---|---|
| sentence baseline | 24.73 | – | 25.18 | – | 30.13 | – |
| finetuned with memory | 25.62 (+0.89) | 29.47 | 25.73 (+0.55) | 27.78 | 31.41 (+1.28) | 33.50 |
"""
DIFFERS = """\
What differs from the paper: a model of 256 instead of 512 dimensions, 4+2 instead of 6+6 layers, pre-norm, `read:
add`; a vocabulary of 8,500 instead of 30,000; trained on software documents and parliament speeches for hours on a
CPU, not on the benchmark's own training sets, which are not here, so TED and News are foreign to it; generated
documents before the real ones of the second stage and among them, except where a row says otherwise; Muon instead of
AdamW; dev sets instead of test sets; sacreBLEU on cased, detokenised text instead of BLEU on tokens. Only differences
between rows of one table can be compared with the paper's.
"""


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


def shaped(hypotheses: Documents, like: Documents) -> Documents:
    """Translations, cut into documents as their sources are."""
    lines = iter([line for document in hypotheses for line in document])
    return [[next(lines) for _ in document] for document in like]


def order(run: str) -> tuple[int, str]:
    """As in KINDS, then by seed."""
    return list(KINDS).index(run.partition("-")[0]), run


def named(run: str) -> str:
    """What a run is, for a reader."""
    kind, _, seed = run.partition("-")
    if kind == "warm":
        return f"{KINDS[seed]}: first on generated documents"
    return KINDS[kind] + (f", seed {seed}" if seed else "")


def training_table(folder: Path, runs: list[str]) -> str:
    """What every run cost, and before them the warm-ups that they began with."""
    warm = [f"warm-{kind}" for kind in KINDS if any(run.startswith(f"{kind}-") for run in runs)]
    rows = []
    for run in [*runs[:1], *(each for each in warm if (folder / each).exists()), *runs[1:]]:
        stage = folder / run / ("train" if run == "base" else "finetune")
        last = last_update(stage)
        held = [line["held_loss"] for line in read_metrics(stage / "metrics.jsonl") if "held_loss" in line]
        rows.append([named(run), f"{last['update']:,}", f"{last['tokens'] / 1e6:.2f}", f"{last['seconds'] / 3600:.2f}",
                     f"{min(held):.4f}"])  # fmt: skip
    return markdown_table(["run", "updates", "million target tokens", "hours", "held-out loss"], rows)


def score_table(data: Data, found: dict[str, Documents], text: TextPipeline) -> tuple[str, set[str]]:
    """Scores of all runs on a set, tested against (b) of the same seed and documents; and the signatures."""
    rows: list[list[str]] = []
    signatures: set[str] = set()
    for run in found:
        kind, _, seed = run.partition("-")
        rival = f"{'real' * kind.startswith('real')}sentence-{seed or 1}"
        paired = rival in found and kind != "base" and run != rival
        systems = [(name, found[name]) for name in ([rival, run] if paired else [run])]
        result = score_systems(systems, [data.references], data.sources, text)[-1]
        row = [named(run)]
        for score in result.scores:
            row.append(f"{score.value:.2f} [{score.low:.2f}, {score.high:.2f}]")
            signatures.add(score.signature)
        difference = result.differences[0] if paired else None
        row.append(
            f"{difference.difference:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}], p = {difference.p:.3f}"
            if difference
            else "–"
        )
        rows.append(row)
        header = ["run", *(score.name for score in result.scores), "s-BLEU against (b)"]
    return markdown_table(header, rows), signatures


def unseen(data: Data, training: Path) -> list[list[bool]]:
    """Which sentences do not stand in the training data word for word."""
    known = {sentence for document in sentences(training) for sentence in document}
    return [[sentence not in known for sentence in document] for document in data.sources]


def position_table(data: Data, found: dict[str, Documents], system: str, baseline: str) -> str:
    """Differences by the index of a sentence."""
    bins = breakdown(found[system], found[baseline], data.references).bins
    rows = [[each.label, str(each.sentences), f"{each.baseline:.2f}", f"{each.system:.2f}",
             f"{each.difference:+.2f} [{each.low:+.2f}, {each.high:+.2f}]"] for each in bins]  # fmt: skip
    return markdown_table(["sentences", "number", named(baseline), named(system), "difference"], rows)


def history_table(scores: Path, runs: list[str]) -> str:
    """Perplexity with four kinds of history on opendocs (sentence models have none), and ContraPro's pronouns."""
    rows = []
    for run in runs:
        about: dict[str, Any] = json.loads((scores / run / "opendocs.json").read_text(encoding="utf-8"))
        found = about["perplexity"]
        row = [named(run), *(f"{found[name]:.3f}" if name in found else "–"
                             for name in ("generated", "gold", "other", "none"))]  # fmt: skip
        contrast = scores / run / "contrapro.json"
        if contrast.exists():
            overall = json.loads(contrast.read_text(encoding="utf-8"))["overall"]
            row.append(f"{100 * overall['accuracy']:.1f} [{100 * overall['low']:.1f}, {100 * overall['high']:.1f}]")
        rows.append([*row, *["–"] * (6 - len(row))])
    return markdown_table(["run", "generated", "gold", "another document's", "none", "ContraPro sample, % right"], rows)


def page(data: Path, folder: Path) -> str:
    """The whole of docs/RESULTS.md."""
    scores = folder / "scores"
    done = [path.name for path in scores.iterdir() if (path / "opendocs.json").exists()]
    runs = sorted((run for run in done if run.partition("-")[0] in KINDS), key=order)
    text = TextPipeline.load(folder / "prepared")
    parts = ["# Results on real documents", "Made by `python runs/mixed_table.py` from the runs of `runs/mixed.sh`."]
    parts += ["## Runs", training_table(folder, runs)]
    if missing := [named(run) for run in RUNS if run not in runs]:
        parts.append(f"Not here yet: {'; '.join(missing)}.")
    parts += [DIFFERS, PAPER]
    signatures: set[str] = set()
    for name, path in SETS.items():
        test = Data.read(data / path)
        here = [run for run in runs if (scores / run / f"{name}.de").exists()]
        found = {run: shaped(sentences(scores / run / f"{name}.de"), test.sources) for run in here}
        if not found:
            continue
        made, used = score_table(test, found, text)
        signatures |= used
        parts += [f"## {path}", made]
        if name == "opendocs":
            keep = unseen(test, data / "opendocs" / "train.en.xz")
            count = sum(map(sum, keep))
            some = {run: picked(hypotheses, keep) for run, hypotheses in found.items()}
            parts += [f"Without the sentences that stand in the training data ({count:,} of"
                      f" {sum(map(len, keep)):,} are left):", score_table(test.only(keep), some, text)[0]]  # fmt: skip
            for run in ("depth1-1", "full-1"):
                if {run, "sentence-1"} <= found.keys():
                    parts += [f"{named(run)}, by the index of the sentence in its document:",
                              position_table(test, found, run, "sentence-1")]  # fmt: skip
    parts += ["## Perplexity a subword on opendocs/dev by target history; pronouns", history_table(scores, runs)]
    parts += ["## Signatures", "\n".join(f"- `{signature}`" for signature in sorted(signatures))]
    parts.append("Intervals are 95%, from a bootstrap over documents (1,000 draws); p from the same draws, paired.")
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[3]), page(Path(sys.argv[1]), Path(sys.argv[2])))

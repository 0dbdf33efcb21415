"""docs/RESULTS.md from docs/results.json, the numbers of runs/mixed_scores.py: what came out, beside the paper's table.

python runs/mixed_table.py docs/results.json docs/RESULTS.md
"""

import json
import sys
from pathlib import Path
from typing import Any

from mixed_scores import RUNS, SETS

from tram.analysis.report import markdown_table
from tram.files import write_text

KINDS = {
    "base": "(a) sentence model",
    "sentence": "(b) sentence model trained on",
    "depth1": "(c) memory, gradient depth 1",
    "full": "(d) memory, full depth",
    "source": "(c) source side only",
    "target": "(c) target side only",
}
HISTORIES = {"generated": "generated", "gold": "gold", "other": "another document's", "none": "none"}
PAPER = """\
| paper, transformer-base | TED s-BLEU | d-BLEU | News s-BLEU | d-BLEU | Europarl s-BLEU | d-BLEU |
|---|---|---|---|---|---|---|
| sentence baseline | 24.73 | – | 25.18 | – | 30.13 | – |
| finetuned with memory | 25.62 (+0.89) | 29.47 | 25.73 (+0.55) | 27.78 | 31.41 (+1.28) | 33.50 |
"""
DIFFERS = """\
What differs from the paper: a model of 256 instead of 512 dimensions, 4+2 instead of 6+6 layers, pre-norm, `read:
scaled`; a vocabulary of 8,500 instead of 30,000; trained on software documents and parliament speeches for hours on a
CPU, not on the benchmark's own training sets, which are not here, so TED and News are foreign to it; Muon instead of
AdamW; dev sets instead of test sets; sacreBLEU on cased, detokenised text instead of BLEU on tokens. Only differences
between rows of one table can be compared with the paper's, and those of the paper are against (a): it has no (b), the
sentence model that saw as many updates, so that what it gains is not all the memory's.
"""
SHIPPED = """\
(a) is the sentence model inside the one that ships with tram, its memory taken off: it has seen these documents
before, and generated ones. Its card says what it cost. All other rows start from it.
"""


def named(run: str) -> str:
    """What a run is, for a reader."""
    kind, _, seed = run.partition("-")
    return KINDS[kind] + (f", seed {seed}" if seed else "")


def bounded(value: float, low: float, high: float, form: str = ".2f") -> str:
    """A number and its interval."""
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def training_table(costs: dict[str, Any]) -> str:
    """What every run cost."""
    rows = [
        [named(run), f"{cost['update']:,}", f"{cost['tokens'] / 1e6:.2f}", f"{cost['seconds'] / 3600:.2f}",
         f"{cost['held_loss']:.4f}"]
        for run in RUNS if (cost := costs.get(run))
    ]  # fmt: skip
    return markdown_table(["run", "updates", "million target tokens", "hours", "held-out loss"], rows)


def moved(tested: dict[str, Any] | None) -> str:
    """A difference with its interval and p; a dash where there is none."""
    if tested is None:
        return "–"
    return f"{bounded(tested['difference'], tested['low'], tested['high'], '+.2f')}, p = {tested['p']:.3f}"


def score_table(results: dict[str, Any]) -> str:
    """Scores of all runs on a set, and their tests against (a) and (b)."""
    rows, header = [], []
    for run in RUNS:
        if found := results["runs"].get(run):
            header = [score["name"] for score in found["scores"]]
            row = [bounded(score["value"], score["low"], score["high"]) for score in found["scores"]]
            rows.append([named(run), *row, moved(found["from_start"]), moved(found["from_control"])])
    table = markdown_table(["run", *header, "s-BLEU against (a)", "against (b)"], rows)
    together = [f"{named(kind)} {moved(tested)}" for kind, tested in results["together"].items()]
    parts = [table]
    if together:
        parts.append(f"Both seeds together against (b): {'; '.join(together)}.")
    if missing := [named(run) for run in RUNS if run not in results["runs"]]:
        parts.append(f"Not scored here: {'; '.join(missing)}.")
    return "\n\n".join(parts)


def position_table(bins: list[dict[str, Any]], run: str) -> str:
    """Differences by the index of a sentence."""
    rows = [[each["label"], str(each["sentences"]), f"{each['baseline']:.2f}", f"{each['system']:.2f}",
             bounded(each["difference"], each["low"], each["high"], "+.2f")] for each in bins]  # fmt: skip
    return markdown_table(["sentences", "number", named("sentence-1"), named(run), "difference"], rows)


def history_table(perplexities: dict[str, Any], pronouns: dict[str, Any]) -> str:
    """Perplexity with four kinds of history on opendocs (sentence models have none), and ContraPro's pronouns."""
    rows = []
    for run in RUNS:
        if found := perplexities.get(run):
            values = [f"{found[name]:.3f}" if name in found else "–" for name in HISTORIES]
            right = pronouns.get(run)
            share = right and bounded(*(100 * right[key] for key in ("accuracy", "low", "high")), ".1f")
            rows.append([named(run), *values, share or "–"])
    return markdown_table(["run", *HISTORIES.values(), "ContraPro sample, % right"], rows)


def page(results: dict[str, Any]) -> str:
    """The whole of docs/RESULTS.md."""
    sets = results["sets"]
    parts = ["# Results on real documents",
             "Made by `python runs/mixed_table.py` from `docs/results.json`, what the runs of `runs/mixed.sh` came to.",
             "## Runs", training_table(results["costs"])]  # fmt: skip
    if "base" not in results["costs"]:
        parts.append(SHIPPED)
    if missing := [named(run) for run in RUNS if run not in results["perplexities"]]:
        parts.append(f"Not here yet: {'; '.join(missing)}.")
    parts += [DIFFERS, PAPER]
    for name, title in SETS.items():
        if name not in sets:
            continue
        parts += [f"## {title}", score_table(sets[name])]
        if name == "opendocs":
            left, all_of_it = sets["unseen"]["sentences"], sets[name]["sentences"]
            parts += [f"Without the sentences that stand in the training data ({left:,} of {all_of_it:,} are left):",
                      score_table(sets["unseen"])]  # fmt: skip
            for run, bins in results["positions"].items():
                parts += [f"{named(run)}, by the index of the sentence in its document:", position_table(bins, run)]
    parts += ["## Perplexity a subword on opendocs/dev by target history; pronouns",
              history_table(results["perplexities"], results["pronouns"])]  # fmt: skip
    signatures = {
        score["signature"] for found in sets.values() for run in found["runs"].values() for score in run["scores"]
    }
    parts += ["## Signatures", "\n".join(f"- `{signature}`" for signature in sorted(signatures))]
    parts.append("Intervals are 95%, from a bootstrap over documents (1,000 draws); p from the same draws, paired.")
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[2]), page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))

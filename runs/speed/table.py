"""The page of speeds, docs/SPEED.md, from the files that `run.sh` writes.

python runs/speed/table.py docs/speed docs/SPEED.md
"""

import sys
from pathlib import Path
from typing import Any

from tram.analysis.report import markdown_table, wrap_markdown
from tram.errors import InputError
from tram.files import read_json, write_text

Row = dict[str, Any]
INTRODUCTION = """# Speed

Written by `python runs/speed/table.py docs/speed docs/SPEED.md` from the measurements of `runs/speed/run.sh`. One
thread; processor time; what is compared was measured in turn in one run. A ratio is the
median over the rounds, in brackets its 95% interval (sign test). Above 1, tram is faster. CTranslate2 runs the same
weights without the memory, one sentence of each document per call, as a memory demands; "all at once" is what it may do
because it has none."""
DOCUMENTS = {1: "document", 16: "documents16", 64: "documents64"}


def main() -> None:
    """Write the page."""
    if len(sys.argv) != 3:
        raise SystemExit("give the folder of the measurements and the page, such as docs/speed docs/SPEED.md")
    folder, page = map(Path, sys.argv[1:])
    if not folder.is_dir():
        raise SystemExit(f"{folder}: is no folder; run runs/speed/run.sh first")
    conditions = folder / "conditions.md"  # what else ran, in a paragraph, if something did
    remark = [conditions.read_text(encoding="utf-8").strip()] if conditions.exists() else []
    sections = (documents, decoding, speculation, torch, training, quality, loading)
    parts = [part for make in sections for part in make(folder)]
    write_text(page, wrap_markdown("\n\n".join([INTRODUCTION, *remark, *parts])) + "\n")


def rows(folder: Path, name: str) -> list[Row]:
    """Return the rows of one measurement; none: it was not made."""
    path = folder / f"{name}.json"
    try:
        found: list[Row] = read_json(path) if path.exists() else []
    except ValueError:
        raise InputError(f"{path}: is no JSON; measure again with runs/speed/run.sh") from None
    return found


def interval(row: Row, key: str = "ratio") -> str:
    """Return a ratio with its interval."""
    low, high = row["interval"] if "interval" in row else (row["low"], row["high"])
    return f"{row[key]:.2f} [{low:.2f}, {high:.2f}]"


def against(found: list[Row], what: str, peer: str) -> str:
    """Return the ratio of an engine to a peer."""
    (row,) = (each for each in found if each["what"] == what)
    return interval(row, f"ratio to {peer}")


def documents(folder: Path) -> list[str]:
    """Return the tables of documents of real text."""
    ratios, times = [], []
    for number, name in DOCUMENTS.items():
        for beam in (5, 1):
            if not (found := rows(folder, f"{name}-beam{beam}")):
                continue
            case = [str(number), "greedy" if beam == 1 else f"beam {beam}"]
            ratios.append(
                case + [against(found, f"tram native {kind}", f"CTranslate2 {kind}") for kind in ("float32", "int8")]
            )
            times += [[*case, row["what"], f"{row['ms/sentence']:.1f}"] for row in found]
    if not ratios:
        return []
    heads = ["documents at once", "search"]
    return [
        "## Documents of real text, shipped weights (`tram bench document`)",
        markdown_table([*heads, "native float32 : CTranslate2 float32", "native int8 : CTranslate2 int8"], ratios),
        markdown_table([*heads, "what", "ms per sentence"], times),
    ]


def decoding(folder: Path) -> list[str]:
    """Return the table of random weights with a peaked output layer."""
    names = [f"decode-{size}-{batch}" for size in ("base", "small") for batch in (1, 16)]
    found = [row for name in names for row in rows(folder, name)]
    lines = []
    for model in dict.fromkeys(row["model"] for row in found):
        own = [row for row in found if row["model"] == model]
        lines.append(
            [model, *(against(own, f"tram native {kind}", f"CTranslate2 {kind}") for kind in ("float32", "int8"))]
        )
    if not lines:
        return []
    heads = ["model", "native float32 : CTranslate2 float32", "native int8 : CTranslate2 int8"]
    title = "## Random weights with a peaked output layer, 25 tokens (`tram bench decode`)"
    return [title, markdown_table(heads, lines)]


def speculation(folder: Path) -> list[str]:
    """Return the table of sentences that are translated ahead."""
    lines = [
        [row["model"], row["precision"], str(row["at once"]), f"{row['ms/sentence']:.1f}"]
        + ([f"{row['drafts kept']:.0%}", interval(row)] if row["at once"] > 1 else ["", ""])
        for row in rows(folder, "speculation")
    ]
    if not lines:
        return []
    heads = ["model", "precision", "sentences at once", "ms per sentence", "drafts kept", "times as fast as one"]
    return [
        "## One document by greedy search, some sentences ahead (`--speculate`, `runs/speed/speculation.py`)",
        markdown_table(heads, lines),
        "The translations are the same. Drafts of the random weights are kept as often as those of the shipped model "
        "were, by a draw.",
    ]


def torch(folder: Path) -> list[str]:
    """Return the table of the torch engine against an older commit."""
    names = [f"torch{documents}-beam{beam}" for documents in (1, 16) for beam in (5, 1)]
    found = [row for name in names for row in rows(folder, name)]
    title = "## The torch engine against 596f58d (`runs/speed/checkouts.py decoding`)"
    return [title, compared(found, "translations")] if found else []


def training(folder: Path) -> list[str]:
    """Return the table of training against an older commit."""
    found = rows(folder, "training") + rows(folder, "muon")
    title = "## Training against 596f58d (`runs/speed/checkouts.py training`, `muon`)"
    return [title, compared(found, None)] if found else []


def compared(found: list[Row], result: str | None) -> str:
    """Return a table of two checkouts."""
    heads = ["work", "596f58d, ms", "now, ms", "ratio", "rounds", *([result] if result else [])]
    return markdown_table(
        heads,
        [
            [row["work"], f"{row['old ms']:,.0f}", f"{row['new ms']:,.0f}", interval(row), str(row["rounds"])]
            + ([] if result is None else ["identical" if row["same result"] else "DIFFERENT"])
            for row in found
        ],
    )


def quality(folder: Path) -> list[str]:
    """Return the tables of identical translations and of what int8 costs."""
    parts = []
    if found := rows(folder, "identity"):
        lines = [
            [row["what"], f"{row['as torch']:,} of {row['sentences']:,}", f"{row['largest difference']}"]
            for row in found
        ]
        title = "## Translations as with torch (`tram bench identity`, beam 5, opendocs/dev)"
        parts += [title, markdown_table(["engine", "identical sentences", "largest difference of logits"], lines)]
    lines, most = [], 0.0
    for name in ("opendocs", "dialogue"):
        scores = [
            next(score["value"] for score in system["scores"] if score["name"] == "s-BLEU")
            for system in rows(folder, f"int8-{name}")
        ]
        if scores:
            most = max(most, scores[0] - scores[1])
            lines.append([f"{name}/dev", *(f"{score:.2f}" for score in scores), f"{scores[1] - scores[0]:+.2f}"])
    if lines:
        parts += [
            "## What int8 costs (`tram export int8 --check`, s-BLEU, beam 5)",
            markdown_table(["set", "float32", "int8", "difference"], lines),
            "The rule: the shipped model runs in int8 by default only if that costs at most 0.1 on both sets. "
            + ("Here it costs more." if most > 0.1 else "Here it does not cost more."),
        ]
    return parts


def loading(folder: Path) -> list[str]:
    """Return the table of time to load and memory."""
    found = rows(folder, "load")
    if not found:
        return []
    heads = list(found[0])
    lines = [[row["what"], *(f"{row[name]:,.1f}" for name in heads[1:])] for row in found]
    return ["## Loading the shipped model (`tram bench load`)", markdown_table(heads, lines)]


if __name__ == "__main__":
    main()

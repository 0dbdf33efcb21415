"""The part of docs/RIVALS.md about real documents, from the JSON files of runs/rivals/real.py."""

from collections.abc import Iterable
from typing import Any

from systems import BY_NAME, CONTROL, SYSTEMS

from tram.analysis.report import markdown_table
from tram.errors import InputError

# Measure and share of it, and the title of its column
SHARES = (
    ("address", "balanced", "address, balanced, %"),
    ("address", "consistency", "address, consistent, %"),
    ("pronouns", "right", "pronouns, %"),
)
DIFFERENCES = """\
Differences from the control with 95% intervals (paired bootstrap over documents; pronouns: over items), in points and
percentage points; bold where the interval does not contain zero."""
INTRODUCTION = """\
One translator for all: the sentence model inside the one that ships with tram ({start}; a later one may ship by now),
which each system is finetuned from, on the same documents and, as nearly as batches allow, the same number of target
tokens (`runs/rivals/real.yaml`): windows of help pages, dialogues and prose, and documents spliced from their
sentences (`tram splice`), in which a pronoun or the form of address depends on an earlier sentence. Translated
greedily: {documents:,} whole documents with {sentences:,} sentences, about as many of help pages, dialogues, prose
and everyday conversations. Form of address: the mean of the recalls of its forms where the reference has one
(balanced), and how often a document keeps the form it began with (consistent). Pronouns: {pronouns:,} items of
ContraPro, each after one sentence of context with its reference translation."""
CAVEATS = """\
What this shows, and what not. The trainings are short ({updates:,} updates, {tokens:.2f} million target tokens),
and the systems do not start equal: the sentence model has been trained far longer on these corpora, and what a
system changes in it has to be learnt again. Transformer-XL, the Compressive Transformer and Zheng's decoder drop
its positions; HAN puts a new layer norm on top of it, selective attention a gate that is half open at first;
G-Transformer and units of several sentences use positions that it has hardly seen. Its table has {positions} of
them, so that segments stay below {segment} tokens, not 512. A system below the control has not recovered by then;
it does not follow that it cannot. The rates are those of the training of the memory that ships with tram, and were
not chosen for any other system. Nothing was chosen on the documents and items reported here. The intervals are over
documents, not over trainings: one seed was run. Among so many comparisons, one in twenty has an interval without
zero by chance."""


def real_tables(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the scores on real documents, if there are any."""
    if not found:
        return []
    about = next(iter(found.values()))
    if len({result["start"] for result in found.values()}) > 1:
        raise InputError("docs/rivals/real has systems from several sentence models; remove those of all but one")
    introduction = INTRODUCTION.format(
        start=about["start"],
        documents=about["documents"],
        sentences=about["sentences"],
        pronouns=about["pronouns"]["right"]["items"],
    )
    header = ["system", *measures(about)]
    compared = {name: result for name, result in found.items() if name != CONTROL}
    missing = [system.title for system in SYSTEMS if system.name not in found]
    return [
        "## Real documents",
        introduction,
        trained_table(found),
        *([f"Not finished: {', '.join(missing)}."] if missing else []),
        markdown_table(header, [[title(name), *values(result)] for name, result in found.items()]),
        f"{DIFFERENCES} {findings(compared)}",
        markdown_table(header, [[title(name), *differences(result)] for name, result in compared.items()]),
        *caveats(found),
    ]


def title(name: str) -> str:
    """Return what a system is called in the tables."""
    return BY_NAME[name].title


def measures(result: dict[str, Any]) -> list[str]:
    """Return the names of all measures, in the order of the columns."""
    return [*(score["name"] for score in result["scores"]), *(column for _, _, column in SHARES)]


def values(result: dict[str, Any]) -> list[str]:
    """Return the scores of a system, and its shares in percent."""
    scores = [f"{score['value']:.2f}" for score in result["scores"]]
    return scores + [f"{100 * share['value']:.1f}" if share else "–" for share in shares(result)]


def shares(result: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Return form of address and pronouns of a system beside the control; None where nothing was measured."""
    return [result[kind].get(key) for kind, key, _ in SHARES]


def compared_measures(result: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Return the differences of a system from the control, in points and percentage points."""
    scaled = [
        share and share | {key: share[key] and 100 * share[key] for key in ("difference", "low", "high")}
        for share in shares(result)
    ]
    return [*result["from_control"], *scaled]


def differences(result: dict[str, Any]) -> list[str]:
    """Return the differences of a system from the control, each with its interval."""
    return [_cell(found) for found in compared_measures(result)]


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    if found["low"] is None:
        return f"{found['difference']:+.2f}"
    text = f"{found['difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"
    return f"**{text}**" if side(found) else text


def side(found: dict[str, Any] | None) -> int:
    """Return whether the interval of a difference is above zero (1), below it (-1), or contains it (0)."""
    if found is None or found["low"] is None:
        return 0
    return int(found["low"] > 0) - int(found["high"] < 0)


def findings(compared: dict[str, dict[str, Any]]) -> str:
    """Return which systems are above the control in each measure, and which are below it."""
    if not compared:
        return ""
    found = []
    for column, name in enumerate(measures(next(iter(compared.values())))):
        sides = {each: side(compared_measures(result)[column]) for each, result in compared.items()}
        above, below = (listed(each for each, found in sides.items() if found == sign) for sign in (1, -1))
        found.append(f"{name.removesuffix(', %')}: above {above}; below {below}.")
    return " ".join(found)


def listed(names: Iterable[str]) -> str:
    """Return the titles of systems, or "none"."""
    return ", ".join(map(title, names)) or "none"


def trained_table(found: dict[str, dict[str, Any]]) -> str:
    """Return what each system was trained on."""
    rows = []
    for name, result in found.items():
        training, settings = result["training"], result["context"] or result["unit"] or {}
        if training is not None:
            tokens = f"{settings['tokens']:,}" if "tokens" in settings else "–"
            target = f"{training['target_tokens'] / 1e6:.3f}"
            rows.append([title(name), f"{training['updates']:,}", target, tokens, f"{training['held_loss']:.4f}"])
    return markdown_table(["system", "updates", "million target tokens", "tokens of a segment", "held-out loss"], rows)


def caveats(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return what has to be known about the numbers."""
    trained = [result for result in found.values() if result["training"] is not None]
    if not trained:
        return []
    segments = [(result["context"] or result["unit"] or {}).get("tokens") for result in trained]
    text = CAVEATS.format(
        updates=trained[0]["training"]["updates"],
        tokens=trained[0]["training"]["target_tokens"] / 1e6,
        positions=trained[0]["max_positions"],
        segment=max(filter(None, segments), default=trained[0]["max_positions"]),
    )
    return [text]

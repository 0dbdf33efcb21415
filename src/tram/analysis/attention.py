"""What a memory takes from one sentence and gives to another: the paper's maps of update and output attention.

    report = attention("run", translator, {1: document})   # documents by number; finds the pair of sentences itself
    report.write(Path("analysis"))                         # attention.json, .svg, .png and .md

The pair shown is the one with the strongest path from a word through a slot to a later word (see `paths`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tram.analysis.encoded import memories
from tram.analysis.paths import (
    SEARCHED,
    Path,
    Reading,
    best_of_pairs,
    is_target,
    read_document,
    search_effects,
    search_weights,
    with_slot,
    word_effects,
)
from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_mosaic
from tram.analysis.report import Report, markdown_table
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.significance import Values
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rank = Literal["effect", "weight", "lift"]
RANKS: tuple[Rank, ...] = ("effect", "weight", "lift")
LISTED = 20  # paths
HEADS_IN_A_ROW = 4

DEFINITIONS: dict[Rank, str] = {
    "effect": (
        "A path's effect is how much log-probability, in nats, the later word loses if the memory unit does not see "
        "the earlier word in its update; everything else stays the same, and the updates in between are recomputed. "
        "Its slot is the one that restores most of it (`slot alone`) if it alone sees the earlier word. Paths are "
        "ranked by effect because attention weights show where a unit looks, not whether the later word needs what is "
        "there."
    ),
    "weight": (
        "A path's weight is the update attention of the slot on the earlier word (its subwords added up) times the "
        "output attention of the later word (its subwords averaged) on the slot, heads averaged. Neighbouring "
        "sentences only. It shows where the unit looks, not whether the later word needs what is there."
    ),
    "lift": (
        "A path's lift is the update attention of the slot on the earlier word, relative to its mean over all slots, "
        "times the output attention of the later word on the slot, relative to its mean over all words of the "
        "sentence, heads averaged. Neighbouring sentences only. It favours slots that differ from the others, "
        "however little information they carry."
    ),
}


@dataclass(frozen=True)
class Shown:
    """The maps of one unit for two sentences, tokens along the columns, slots along the rows."""

    document: int
    unit: str
    i: int
    j: int
    update: Values  # (heads, slots, tokens of sentence i)
    output: Values  # (heads, slots, tokens of sentence j)
    update_tokens: list[str]
    output_tokens: list[str]
    path: Path | None  # marked in the picture


def attention(
    name: str,
    translator: Translator,
    documents: Mapping[int, ParallelDocument],
    *,
    sentences: tuple[int, int] | None = None,
    unit: str | None = None,
    rank: Rank = "effect",
    reach: int = 3,
) -> Report:
    """Maps and strongest paths of some documents, by their numbers; sentences: the pair to look at, from 1."""
    need_matplotlib()
    units = _units(translator, unit)
    if sentences is not None and len(documents) > 1:
        raise InputError("--sentences: say of which document, with --document")
    readings = {number: read_document(translator, each, number) for number, each in documents.items()}
    readings = {number: reading for number, reading in readings.items() if len(reading.document) > 1}
    if not readings:
        told = f"document {next(iter(documents))} has" if len(documents) == 1 else "all documents searched have"
        raise InputError(f"{told} one sentence only; give one with an earlier and a later sentence")
    pair = None if sentences is None else _pair(next(iter(readings.values())), sentences)
    found = [path for reading in readings.values() for path in find_paths(reading, units, rank, reach, pair)]
    paths = best_of_pairs(found)[:LISTED]
    shown = choose(readings, units, paths, pair)
    numbers = {
        "model": name,
        "documents": {number: len(reading.document) for number, reading in readings.items()},
        "rank": rank,
        "units": units,
        "paths": [_path_json(readings[path.document], path) for path in paths],
        "shown": _shown_json(readings[shown.document], shown),
    }
    title = "What the memory carries from sentence to sentence"
    text = _text(name, rank, reach, readings, units, paths, shown)
    return Report("attention", title, numbers, text, lambda: _draw(readings[shown.document], shown))


def find_paths(
    reading: Reading, units: Sequence[str], rank: Rank, reach: int, pair: tuple[int, int] | None = None
) -> list[Path]:
    """The strongest paths of a document, or of one pair of its sentences; best first."""
    if rank != "effect":
        found = search_weights(reading, units, rank == "lift", LISTED if pair is None else None)
        return [path for path in found if pair in {None, (path.i, path.j)}][:LISTED]
    if pair is None:
        return search_effects(reading, units, reach, LISTED)
    found = best_of_pairs([path for unit in units for path in word_effects(reading, unit, *pair)])
    return [with_slot(reading, path) for path in found[:LISTED]]


def _units(translator: Translator, unit: str | None) -> list[str]:
    units = list(memories(translator))
    if unit is not None and unit not in units:
        raise InputError(f"--unit {unit}: the model has no such memory; it has {', '.join(units)}")
    return units if unit is None else [unit]


def _pair(reading: Reading, sentences: tuple[int, int]) -> tuple[int, int]:
    numbers = reading.document.numbers
    for sentence in sentences:
        if sentence not in numbers:
            raise InputError(f"--sentences: there is no sentence {sentence}; give two from 1 to {numbers[-1]}")
    i, j = (numbers.index(sentence) for sentence in sentences)
    if i >= j:
        raise InputError(f"--sentences {sentences[0]} {sentences[1]}: the second must come after the first")
    return i, j


def choose(
    readings: Mapping[int, Reading], units: Sequence[str], paths: Sequence[Path], pair: tuple[int, int] | None
) -> Shown:
    """The maps around the strongest path; without any path, those of the last unit and the first pair."""
    path = paths[0] if paths else None
    reading = readings[path.document if path else min(readings)]
    unit = path.unit if path else units[-1]
    i, j = (path.i, path.j) if path else pair or (0, 1)
    document, pieces = reading.document, reading.text.bpe.pieces
    before, after = reading.maps(unit, i), reading.maps(unit, j)
    written, read = (document.decoder_input, document.labels) if is_target(unit) else (document.source,) * 2
    tokens = [pieces([n for n in side[0, t].tolist() if n]) for side, t in ((written, i), (read, j))]
    update, output = before.update.double().cpu().numpy(), after.output.double().cpu().numpy()
    return Shown(reading.number, unit, i, j, update, output.swapaxes(1, 2), tokens[0], tokens[1], path)


def _path_json(reading: Reading, path: Path) -> dict[str, Any]:
    # A path ranked by attention may end at a word of the source, which is not predicted.
    gain = None if path.slot_value is None else float(reading.gains[path.j][path.b.places].sum())
    return {
        "document": path.document,
        "unit": path.unit,
        "from_sentence": reading.document.numbers[path.i],
        "from_word": path.a.text,
        "slot": path.slot + 1,
        "to_sentence": reading.document.numbers[path.j],
        "to_word": path.b.text,
        "value": path.value,
        "slot_value": path.slot_value,
        "gain_of_all_memory": gain,
    }


def _shown_json(reading: Reading, shown: Shown) -> dict[str, Any]:
    numbers = reading.document.numbers
    return {
        "document": shown.document,
        "unit": shown.unit,
        "sentences": [numbers[shown.i], numbers[shown.j]],
        "update_tokens": shown.update_tokens,
        "update": shown.update.mean(0).round(4).tolist(),
        "output_tokens": shown.output_tokens,
        "output": shown.output.mean(0).round(4).tolist(),
    }


def _text(
    name: str,
    rank: Rank,
    reach: int,
    readings: Mapping[int, Reading],
    units: Sequence[str],
    paths: Sequence[Path],
    shown: Shown,
) -> str:
    """Return the findings and the method as Markdown."""
    sign = "nats" if rank == "effect" else rank
    lines = ["## Findings", "", "No path was found between these sentences.", ""]
    if paths:
        best = paths[0]
        i, j = _sentences(readings, best)
        lines[2] = (
            f"The strongest path: {spoken(best)}, {best.value:.2f} {sign}, in document {best.document} from sentence "
            f"{i} to sentence {j}, through `{best.unit}`. It is the maximum of a search over many paths: the same "
            "words need not take the same path elsewhere."
        )
    rows = []
    for path in paths:
        i, j = _sentences(readings, path)
        alone = "-" if path.slot_value is None else f"{path.slot_value:.3f}"
        rows.append([spoken(path), f"{path.value:.3f}", alone, str(path.document), f"{i} → {j}", f"`{path.unit}`"])
    lines.append(markdown_table(["path", sign, "slot alone", "document", "sentences", "unit"], rows))
    where = "predicted tokens" if is_target(shown.unit) else "tokens"
    row = "" if is_target(shown.unit) else "; on the right only its slot, because any source token may have read it"
    searched = (
        f"The search covers paths into the {SEARCHED} sentences of each document that the memory helps most (compared "
        f"with a document that begins there), from up to {reach} sentences before. "
        if rank == "effect"
        else ""
    )
    these = ", ".join(map(str, readings))
    numbers = readings[shown.document].document.numbers
    method = (
        f"Model `{name}`, {'document' if len(readings) == 1 else 'documents'} {these} with the reference as "
        f"target history; memory units searched: {', '.join(f'`{unit}`' for unit in units)}. {DEFINITIONS[rank]} "
        f"{searched}Special tokens and punctuation are left out; each pair of words has one entry. Documents, "
        "sentences and slots are counted from 1.\n\n"
        f"The picture: document {shown.document}, `{shown.unit}`; left, how each slot's update attends to the tokens "
        f"of sentence {numbers[shown.i]}; right, how the {where} of sentence {numbers[shown.j]} attend to the slots; "
        f"top: mean over heads; bottom: each head. The frames mark the strongest path{row}."
    )
    return "\n".join([*lines, "", "## Method", "", method])


def _sentences(readings: Mapping[int, Reading], path: Path) -> tuple[int, int]:
    """The numbers of a path's sentences in their document."""
    numbers = readings[path.document].document.numbers
    return numbers[path.i], numbers[path.j]


def spoken(path: Path) -> str:
    """Frau → slot 8 → sie."""
    first, last = (word.text.replace("|", "\\|") for word in (path.a, path.b))
    return f"{first} → slot {path.slot + 1} → {last}"


def _draw(reading: Reading, shown: Shown) -> "Figure":
    heads, slots = shown.update.shape[:2]
    columns = min(heads, HEADS_IN_A_ROW)
    rows = -(-heads // columns)
    names = [["update"] * columns + ["output"] * columns]
    for row in range(rows):
        these = [f"{row * columns + c}" if row * columns + c < heads else "." for c in range(columns)]
        names.append([f"{side}{head}" if head != "." else "." for side in ("u", "o") for head in these])
    tall = min(max(0.13 * slots, 1.2), 4.0)
    figure, axes = new_mosaic(names, [tall + 0.8, *[1.0] * rows], PAGE)
    sides = [
        ("update", shown.update, shown.update_tokens, shown.i),
        ("output", shown.output, shown.output_tokens, shown.j),
    ]
    for side, maps, tokens, sentence in sides:
        image = _heat(axes[side], maps.mean(0), float(maps.mean(0).max()))
        figure.colorbar(image, ax=axes[side], shrink=0.8, pad=0.02).ax.tick_params(labelsize=6)
        axes[side].set_title(f"{side} attention, sentence {reading.document.numbers[sentence]}")
        size = float(np.clip(PAGE / 2 * 48 / len(tokens), 3.5, 7))
        labels = axes[side].set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=size)
        for tick in labels:
            tick.label1.set_parse_math(False)  # a token may hold a dollar sign
        step = -(-slots // 16)
        axes[side].set_yticks(range(0, slots, step), [str(slot + 1) for slot in range(0, slots, step)], fontsize=6)
        for head in range(heads):
            panel = axes[f"{side[0]}{head}"]
            _heat(panel, maps[head], float(maps.max()))
            panel.set_title(f"head {head + 1}", fontsize=6)
            panel.set_xticks([])
            panel.set_yticks([])
    axes["update"].set_ylabel("slot")
    if shown.path is not None:
        _mark(axes["update"], shown.path.a.places, shown.path.slot)
        # All tokens of a source sentence read its memory before a word is predicted
        whole = list(range(len(shown.output_tokens)))
        _mark(axes["output"], shown.path.b.places if is_target(shown.unit) else whole, shown.path.slot)
    return figure


def _heat(axes: Any, values: Values, most: float) -> Any:
    axes.grid(visible=False)
    return axes.imshow(values, aspect="auto", cmap="Blues", vmin=0, vmax=most, interpolation="nearest")


def _mark(axes: Any, places: Sequence[int], slot: int) -> None:
    x = (places[0] - 0.5, places[-1] + 0.5)
    y = (slot - 0.5, slot + 0.5)
    axes.plot([x[0], x[1], x[1], x[0], x[0]], [y[0], y[0], y[1], y[1], y[0]], color=COLOURS[1], clip_on=False)

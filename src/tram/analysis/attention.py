"""Attention of a memory to two sentences: the paper's maps of update and output attention.

    report = attention("run", translator, {1: document})   # documents by number
    report.write(Path("analysis"))                         # attention.json, .svg, .png and .md

By default the report shows the two sentences with the strongest path from a word through a slot to a later word (see
`paths`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tram.analysis.encoded import memory_units
from tram.analysis.paths import (
    SEARCHED_SENTENCES,
    DocumentTrace,
    MemoryPath,
    best_per_word_pair,
    is_target,
    search_by_effect,
    search_by_weight,
    trace_document,
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
TITLE = "What the memory carries from sentence to sentence"
MAX_PATHS = 20  # in a report
HEADS_PER_ROW = 4

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
class AttentionMaps:
    """The maps of one unit for two sentences that are drawn: slots are rows, tokens are columns."""

    document: int
    unit: str
    i: int
    j: int
    update: Values  # (heads, slots, tokens of sentence i)
    output: Values  # (heads, slots, tokens of sentence j)
    update_tokens: list[str]
    output_tokens: list[str]
    path: MemoryPath | None  # marked in the figure


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
    """Return a report on the strongest paths of some documents, by their numbers, and the maps of the strongest one.

    sentences: search only this pair of an earlier and a later sentence, counted from 1; reach: how many sentences back
    the search by effect goes.
    """
    need_matplotlib()
    units = _selected_units(translator, unit)
    if sentences is not None and len(documents) > 1:
        raise InputError("--sentences: there are several documents; choose one with --document")
    traces = {number: trace_document(translator, each, number) for number, each in documents.items()}
    traces = {number: trace for number, trace in traces.items() if len(trace.document) > 1}
    if not traces:
        which = f"document {next(iter(documents))} has" if len(documents) == 1 else "all documents searched have"
        raise InputError(f"{which} only one sentence; give a document with at least two")
    pair = None if sentences is None else _sentence_pair(next(iter(traces.values())), sentences)
    candidates = [path for trace in traces.values() for path in find_paths(trace, units, rank, reach, pair)]
    paths = best_per_word_pair(candidates)[:MAX_PATHS]
    shown = choose_maps(traces, units, paths, pair)
    numbers = {
        "model": name,
        "documents": {number: len(trace.document) for number, trace in traces.items()},
        "rank": rank,
        "units": units,
        "paths": [_path_json(traces[path.document], path) for path in paths],
        "shown": _maps_json(traces[shown.document], shown),
    }
    text = describe(name, rank, reach, traces, units, paths, shown)
    return Report("attention", TITLE, numbers, text, lambda: draw(traces[shown.document], shown))


def find_paths(
    trace: DocumentTrace, units: Sequence[str], rank: Rank, reach: int, pair: tuple[int, int] | None = None
) -> list[MemoryPath]:
    """Return the strongest paths of a document, or of one pair of its sentences, strongest first."""
    if rank != "effect":
        paths = search_by_weight(trace, units, rank == "lift", MAX_PATHS if pair is None else None)
        return [path for path in paths if pair in {None, (path.i, path.j)}][:MAX_PATHS]
    if pair is None:
        return search_by_effect(trace, units, reach, MAX_PATHS)
    paths = best_per_word_pair([path for unit in units for path in word_effects(trace, unit, *pair)])
    return [with_slot(trace, path) for path in paths[:MAX_PATHS]]


def _selected_units(translator: Translator, unit: str | None) -> list[str]:
    units = list(memory_units(translator))
    if unit is not None and unit not in units:
        raise InputError(f"--unit {unit}: the model has no such memory unit; it has {', '.join(units)}")
    return units if unit is None else [unit]


def _sentence_pair(trace: DocumentTrace, sentences: tuple[int, int]) -> tuple[int, int]:
    numbers = trace.document.numbers
    for sentence in sentences:
        if sentence not in numbers:
            raise InputError(f"--sentences: there is no sentence {sentence}; give two from 1 to {numbers[-1]}")
    i, j = (numbers.index(sentence) for sentence in sentences)
    if i >= j:
        raise InputError(f"--sentences {sentences[0]} {sentences[1]}: the second must come after the first")
    return i, j


def choose_maps(
    traces: Mapping[int, DocumentTrace],
    units: Sequence[str],
    paths: Sequence[MemoryPath],
    pair: tuple[int, int] | None,
) -> AttentionMaps:
    """Return the maps of the strongest path; if there is no path, those of the last unit and the first pair."""
    path = paths[0] if paths else None
    trace = traces[path.document if path else min(traces)]
    unit = path.unit if path else units[-1]
    i, j = (path.i, path.j) if path else pair or (0, 1)
    document, pieces = trace.document, trace.text.subwords("target" if is_target(unit) else "source").pieces
    before, after = trace.maps(unit, i), trace.maps(unit, j)
    updated, predicted = (document.decoder_input, document.labels) if is_target(unit) else (document.source,) * 2
    tokens = [pieces([n for n in ids[0, t].tolist() if n]) for ids, t in ((updated, i), (predicted, j))]
    update, output = before.update.double().cpu().numpy(), after.output.double().cpu().numpy()
    return AttentionMaps(trace.number, unit, i, j, update, output.swapaxes(1, 2), tokens[0], tokens[1], path)


def _path_json(trace: DocumentTrace, path: MemoryPath) -> dict[str, Any]:
    # A path ranked by attention may end at a word of the source, which is not predicted.
    gain = None if path.slot_value is None else float(trace.token_gains[path.j][path.b.positions].sum())
    return {
        "document": path.document,
        "unit": path.unit,
        "from_sentence": trace.document.numbers[path.i],
        "from_word": path.a.text,
        "slot": path.slot + 1,
        "to_sentence": trace.document.numbers[path.j],
        "to_word": path.b.text,
        "value": path.value,
        "slot_value": path.slot_value,
        "gain_of_all_memory": gain,
    }


def _maps_json(trace: DocumentTrace, shown: AttentionMaps) -> dict[str, Any]:
    numbers = trace.document.numbers
    return {
        "document": shown.document,
        "unit": shown.unit,
        "sentences": [numbers[shown.i], numbers[shown.j]],
        "update_tokens": shown.update_tokens,
        "update": shown.update.mean(0).round(4).tolist(),
        "output_tokens": shown.output_tokens,
        "output": shown.output.mean(0).round(4).tolist(),
    }


def describe(
    name: str,
    rank: Rank,
    reach: int,
    traces: Mapping[int, DocumentTrace],
    units: Sequence[str],
    paths: Sequence[MemoryPath],
    shown: AttentionMaps,
) -> str:
    """Return the findings and the method as Markdown."""
    measure = "nats" if rank == "effect" else rank
    lines = ["## Findings", "", "No path was found between these sentences.", ""]
    if paths:
        best = paths[0]
        i, j = _sentence_numbers(traces, best)
        lines[2] = (
            f"The strongest path: {format_path(best)}, {best.value:.2f} {measure}, in document {best.document} from "
            f"sentence {i} to sentence {j}, through `{best.unit}`. It is the maximum of a search over many paths: the "
            "same words need not take the same path elsewhere."
        )
    rows = []
    for path in paths:
        i, j = _sentence_numbers(traces, path)
        alone = "-" if path.slot_value is None else f"{path.slot_value:.3f}"
        rows.append([format_path(path), f"{path.value:.3f}", alone, str(path.document), f"{i} → {j}", f"`{path.unit}`"])
    lines.append(markdown_table(["path", measure, "slot alone", "document", "sentences", "unit"], rows))
    where = "predicted tokens" if is_target(shown.unit) else "tokens"
    row = "" if is_target(shown.unit) else "; on the right only its slot, because any source token may have read it"
    searched = (
        f"The search covers paths into the {SEARCHED_SENTENCES} sentences of each document that the memory helps most "
        f"(compared with a document that begins there), from up to {reach} sentences before. "
        if rank == "effect"
        else ""
    )
    documents = ", ".join(map(str, traces))
    numbers = traces[shown.document].document.numbers
    method = (
        f"Model `{name}`, {'document' if len(traces) == 1 else 'documents'} {documents} with the reference as "
        f"target history; memory units searched: {', '.join(f'`{unit}`' for unit in units)}. {DEFINITIONS[rank]} "
        f"{searched}Special tokens and punctuation are left out; each pair of words has one entry. Documents, "
        "sentences and slots are counted from 1.\n\n"
        f"The picture: document {shown.document}, `{shown.unit}`; left, how each slot's update attends to the tokens "
        f"of sentence {numbers[shown.i]}; right, how the {where} of sentence {numbers[shown.j]} attend to the slots; "
        f"top: mean over heads; bottom: each head. The frames mark the strongest path{row}."
    )
    return "\n".join([*lines, "", "## Method", "", method])


def _sentence_numbers(traces: Mapping[int, DocumentTrace], path: MemoryPath) -> tuple[int, int]:
    numbers = traces[path.document].document.numbers
    return numbers[path.i], numbers[path.j]


def format_path(path: MemoryPath) -> str:
    """Return a path as Markdown: `Frau → slot 8 → sie`."""
    first, last = (word.text.replace("|", "\\|") for word in (path.a, path.b))
    return f"{first} → slot {path.slot + 1} → {last}"


def draw(trace: DocumentTrace, shown: AttentionMaps) -> "Figure":
    """Draw update attention to the earlier sentence and output attention of the later one: head mean and each head."""
    heads, slots = shown.update.shape[:2]
    columns = min(heads, HEADS_PER_ROW)
    rows = -(-heads // columns)
    names = [["update"] * columns + ["output"] * columns]
    for row in range(rows):
        numbers = [f"{row * columns + c}" if row * columns + c < heads else "." for c in range(columns)]
        names.append([f"{panel}{number}" if number != "." else "." for panel in ("u", "o") for number in numbers])
    height = min(max(0.13 * slots, 1.2), 4.0)
    figure, axes = new_mosaic(names, [height + 0.8, *[1.0] * rows], PAGE)
    panels = [
        ("update", shown.update, shown.update_tokens, shown.i),
        ("output", shown.output, shown.output_tokens, shown.j),
    ]
    for name, maps, tokens, sentence in panels:
        image = _heat_map(axes[name], maps.mean(0), float(maps.mean(0).max()))
        figure.colorbar(image, ax=axes[name], shrink=0.8, pad=0.02).ax.tick_params(labelsize=6)
        axes[name].set_title(f"{name} attention, sentence {trace.document.numbers[sentence]}")
        size = float(np.clip(PAGE / 2 * 48 / len(tokens), 3.5, 7))
        labels = axes[name].set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=size)
        for tick in labels:
            tick.label1.set_parse_math(False)  # a token may contain a dollar sign
        step = -(-slots // 16)
        axes[name].set_yticks(range(0, slots, step), [str(slot + 1) for slot in range(0, slots, step)], fontsize=6)
        for head in range(heads):
            panel = axes[f"{name[0]}{head}"]
            _heat_map(panel, maps[head], float(maps.max()))
            panel.set_title(f"head {head + 1}", fontsize=6)
            panel.set_xticks([])
            panel.set_yticks([])
    axes["update"].set_ylabel("slot")
    if shown.path is not None:
        _mark(axes["update"], shown.path.a.positions, shown.path.slot)
        # All tokens of a source sentence read its memory before any word is predicted.
        whole = list(range(len(shown.output_tokens)))
        _mark(axes["output"], shown.path.b.positions if is_target(shown.unit) else whole, shown.path.slot)
    return figure


def _heat_map(axes: Any, values: Values, maximum: float) -> Any:
    axes.grid(visible=False)
    return axes.imshow(values, aspect="auto", cmap="Blues", vmin=0, vmax=maximum, interpolation="nearest")


def _mark(axes: Any, positions: Sequence[int], slot: int) -> None:
    x = (positions[0] - 0.5, positions[-1] + 0.5)
    y = (slot - 0.5, slot + 0.5)
    axes.plot([x[0], x[1], x[1], x[0], x[0]], [y[0], y[0], y[1], y[1], y[0]], color=COLOURS[1], clip_on=False)

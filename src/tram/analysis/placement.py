"""The paper's table on memory side and position: s-BLEU and d-BLEU of memories on other sides and layers.

    placement(train_placements(recipe), read_test(source, reference)).write(Path("analysis"))
    placement([listed("sentence", DIR), listed("memory", DIR)], documents)      # or models that are there

Of listed models the first is what the others are compared with; of those trained here it is the sentence model trained
on for as many updates, so that a difference is due to the memory and not to more training. The paper's rows are: both
sides on the lower, the middle and the upper third of the layers and on the last one; each side alone on the last one.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.analysis.trainings import (
    CONTROL,
    Recipe,
    Variant,
    difference_named,
    difference_sentence,
    error_bars,
    recipe_sentence,
    score_json,
    score_named,
    score_text,
    train_all,
    translate_and_score,
)
from tram.config import ModelConfig
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.metrics import SystemResult
from tram.model.folder import find_model, read_model_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Sides and layers of the memory"
MEASURES = ("s-BLEU", "d-BLEU/doc")
SIDES = {"both": "source + target", "source": "source only", "target": "target only", "none": "no memory"}


@dataclass(frozen=True)
class Place:
    """Where a memory sits: a side, and layers as `memory.layers` counts them."""

    name: str
    side: str
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """A model of the table; layers of each side count from 0."""

    name: str
    model: Path
    side: str  # none: without memory
    encoder: tuple[int, ...] = ()
    decoder: tuple[int, ...] = ()


def places(model: ModelConfig) -> list[Place]:
    """The paper's six placements, as far as a model has layers for them.

    `memory.layers` is one list for both sides, so the thirds are those of the side with fewer layers; the lower and the
    middle one count from the bottom, the upper one from the top. A third that is no third of its own is left out.
    """
    layers = min(model.encoder_layers, model.decoder_layers)
    third = max(layers // 3, 1)
    middle = (layers - third) // 2
    rows = []
    if layers > 1:
        rows.append(Place("lower", "both", tuple(range(third))))
    if layers > 2:
        rows.append(Place("middle", "both", tuple(range(middle, middle + third))))
    if third > 1:
        rows.append(Place("upper", "both", tuple(range(-third, 0))))
    return [*rows, *(Place("last", side, (-1,)) for side in ("both", "source", "target"))]


def listed(name: str, model: Path) -> Entry:
    """A model that is there already, with the layers its config names."""
    folder = find_model(model)
    about = read_model_file(folder).model
    if about.memory is None:
        return Entry(name, folder, "none")
    memory = about.memory
    encoder = () if memory.side == "target" else tuple(memory.layer_numbers(about.encoder_layers))
    decoder = () if memory.side == "source" else tuple(memory.layer_numbers(about.decoder_layers))
    return Entry(name, folder, memory.side, encoder, decoder)


def train_placements(recipe: Recipe) -> list[Entry]:
    """The sentence model, the same trained on without memory, and every placement; what is missing is trained."""
    need_matplotlib()  # before an hour of training
    rows = places(recipe.start_model)
    variants = [Variant(recipe.memory(side=place.side, layers=place.layers)) for place in rows]
    control, *models = train_all(recipe, [CONTROL, *variants])
    baselines = [listed("sentence model", recipe.start_folder), listed("finetuned without memory", control)]
    names = [f"{SIDES[place.side]}, {place.name}" for place in rows]
    return [*baselines, *(listed(name, model) for name, model in zip(names, models, strict=True))]


def placement(
    entries: Sequence[Entry], documents: Sequence[ParallelDocument], beam: int = 5, recipe: Recipe | None = None
) -> Report:
    """Translate the documents with every model and compare each with the baseline; recipe: how they were trained.

    The baseline is the first model, or, where there is a recipe, the second: the sentence model trained on as long.
    """
    need_matplotlib()
    if all(entry.side == "none" for entry in entries):
        raise InputError("none of the models has a memory, so there is no placement to compare; give one that has")
    against = 0 if recipe is None else 1
    systems = [(entry.name, entry.model) for entry in entries]
    results = translate_and_score(systems, documents, beam, against, None if recipe is None else recipe.translations)
    numbers = {
        "test_documents": len(documents),
        "beam": beam,
        "baseline": entries[against].name,
        "updates": None if recipe is None else recipe.updates,
        "share_of_documents": None if recipe is None else recipe.share,
        "rows": [
            {
                "name": entry.name,
                "model": str(entry.model),
                "side": entry.side,
                "encoder_layers": list(entry.encoder),
                "decoder_layers": list(entry.decoder),
                **{name: score_json(score_named(result, name)) for name in MEASURES},
                "differences": [asdict(difference) for difference in result.differences],
            }
            for entry, result in zip(entries, results, strict=True)
        ],
    }
    words = describe(entries, results, against, len(documents), beam, recipe)
    return Report("placement", TITLE, numbers, words, lambda: draw(entries, results, against))


def describe(
    entries: Sequence[Entry],
    results: Sequence[SystemResult],
    against: int,
    documents: int,
    beam: int,
    recipe: Recipe | None,
) -> str:
    """What is seen, the paper's table, and how it was computed."""
    header = ["model", "side", "encoder layers", "decoder layers", "s-BLEU", "d-BLEU", "s-BLEU difference"]
    rows = [
        [entry.name, SIDES[entry.side], _layers(entry.encoder), _layers(entry.decoder),
         *(score_text(score_named(result, name)) for name in MEASURES), _difference(result)]
        for entry, result in zip(entries, results, strict=True)
    ]  # fmt: skip
    lines = []
    for name in MEASURES:
        best = max((result for result, entry in zip(results, entries, strict=True) if entry.side != "none"),
                   key=lambda result: score_named(result, name).value)  # fmt: skip
        line = f"The memory with the highest {name} is `{best.name}`"
        if best.differences:
            line += f": {difference_sentence(best, name, f'`{entries[against].name}`')}"
        lines.append(f"{line}.")
    if recipe is not None:
        smaller = min(recipe.start_model.encoder_layers, recipe.start_model.decoder_layers)
        if recipe.start_model.encoder_layers != recipe.start_model.decoder_layers or smaller < 6:
            lines.append("The layers of each row are the paper's as far as this model has them; the table lists them.")
    return "\n\n".join([
        " ".join(lines),
        markdown_table(header, rows),
        "Method: layers count from 0; E and D in the figure are those of encoder and decoder. s-BLEU and d-BLEU (each "
        f"document one segment) are on {documents} documents, beam {beam}, with 95% intervals of a bootstrap over "
        "documents; the figure shows the intervals of the differences. Differences are against "
        f"`{entries[against].name}`, paired on the same draws; p-values are not corrected for the number of "
        "comparisons. "
        + ("" if recipe is None else f"{recipe_sentence(recipe)} ")
        + f"Signatures: {'; '.join(score_named(results[0], name).signature for name in MEASURES)}.",
    ])  # fmt: skip


def _layers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def _difference(result: SystemResult) -> str:
    if not result.differences:
        return "–"
    found = difference_named(result, MEASURES[0])
    return f"{found.difference:+.2f}" + ("" if found.p is None else f" (p = {found.p:.3f})")


def draw(entries: Sequence[Entry], results: Sequence[SystemResult], against: int = 0) -> "Figure":
    """A row for every model: how far it is from the baseline, with its interval, and its score in figures."""
    figure, panels = new_figure(1, 2, width=PAGE, height=0.8 + 0.24 * len(entries))
    heights = list(range(len(entries)))[::-1]
    for axes, name, colour in zip(panels, MEASURES, COLOURS, strict=False):
        found = [difference_named(result, name) for result in results]
        axes.axvline(0, color=COLOURS[-1], linestyle=":", linewidth=1)
        axes.errorbar([each.difference for each in found], heights, xerr=error_bars(found), fmt="o", color=colour,
                      capsize=2, linewidth=1)  # fmt: skip
        short = name.replace("/doc", "")
        axes.set_xlabel(f"{short} against no memory" if entries[against].side == "none" else f"{short} difference")
        axes.set_yticks(heights, [""] * len(entries))
        beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        for height, result in zip(heights, results, strict=True):
            axes.annotate(f"{score_named(result, name).value:.2f}", (1, height), (4, 0), **beside)
        axes.annotate(short, (1, len(entries) - 0.4), (4, 0), **beside)
    panels[0].set_yticks(heights, [_label(entry) for entry in entries])
    return figure


def _label(entry: Entry) -> str:
    """The row's name, and its layers where the name does not tell them."""
    sides = [f"{letter}{','.join(map(str, numbers))}" for letter, numbers in zip("ED", (entry.encoder, entry.decoder),
             strict=True) if numbers]  # fmt: skip
    return f"{entry.name} ({' '.join(sides)})" if sides else entry.name

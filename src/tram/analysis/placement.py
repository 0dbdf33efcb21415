"""The paper's table on memory side and position: s-BLEU and d-BLEU with the memory on different sides and layers.

    placement(train_placements(recipe), read_test_documents(source, reference)).write(Path("analysis"))
    placement([read_row("sentence", DIR), read_row("memory", DIR)], documents)      # or existing models

Existing models are compared with the first of them. Models trained here are compared with the control, the sentence
model finetuned as long, so that a difference is due to the memory and not to more training. The paper's rows are both
sides on the lower, the middle and the upper third of the layers and on the last layer, and each side alone on the last
layer.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.analysis.scoring import difference_sentence, error_bars, score_json, score_text, translate_and_score
from tram.analysis.variants import CONTROL, Recipe, Variant, recipe_sentence, train_all
from tram.config import ModelConfig
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.metrics import SystemResult
from tram.model.folder import find_model, read_model_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Sides and layers of the memory"
METRICS = ("s-BLEU", "d-BLEU/doc")
SIDE_LABELS = {"both": "source + target", "source": "source only", "target": "target only", "none": "no memory"}


@dataclass(frozen=True)
class MemoryPlacement:
    """The placement of a memory: a side, and layers as in `memory.layers`."""

    name: str
    side: str
    layers: tuple[int, ...]


@dataclass(frozen=True)
class ModelRow:
    """A model in the table and the layers of its memory, counted from 0."""

    name: str
    model: Path
    side: str  # "none": without a memory
    encoder: tuple[int, ...] = ()
    decoder: tuple[int, ...] = ()


def paper_placements(model: ModelConfig) -> list[MemoryPlacement]:
    """Return the paper's six placements, as far as a model has enough layers.

    `memory.layers` is one list for both sides, so the thirds are those of the side with fewer layers; the lower and the
    middle third are counted from the bottom, the upper one from the top. A third that would repeat another placement is
    left out.
    """
    layers = min(model.encoder_layers, model.decoder_layers)
    third = max(layers // 3, 1)
    middle = (layers - third) // 2
    rows = []
    if layers > 1:
        rows.append(MemoryPlacement("lower", "both", tuple(range(third))))
    if layers > 2:
        rows.append(MemoryPlacement("middle", "both", tuple(range(middle, middle + third))))
    if third > 1:
        rows.append(MemoryPlacement("upper", "both", tuple(range(-third, 0))))
    return [*rows, *(MemoryPlacement("last", side, (-1,)) for side in ("both", "source", "target"))]


def read_row(name: str, model: Path) -> ModelRow:
    """Return the row of an existing model, with the layers that its config names."""
    folder = find_model(model)
    about = read_model_file(folder).model
    if about.memory is None:
        return ModelRow(name, folder, "none")
    memory = about.memory
    encoder = () if memory.side == "target" else tuple(memory.layer_numbers(about.encoder_layers))
    decoder = () if memory.side == "source" else tuple(memory.layer_numbers(about.decoder_layers))
    return ModelRow(name, folder, memory.side, encoder, decoder)


def train_placements(recipe: Recipe) -> list[ModelRow]:
    """Train what is not trained yet, and return the sentence model, the control and a model for every placement."""
    need_matplotlib()  # before an hour of training
    placements = paper_placements(recipe.start_model)
    variants = [Variant(recipe.memory(side=each.side, layers=each.layers)) for each in placements]
    control, *models = train_all(recipe, [CONTROL, *variants])
    baselines = [read_row("sentence model", recipe.start_folder), read_row("finetuned without memory", control)]
    names = [f"{SIDE_LABELS[each.side]}, {each.name}" for each in placements]
    return [*baselines, *(read_row(name, model) for name, model in zip(names, models, strict=True))]


def placement(
    models: Sequence[ModelRow], documents: Sequence[ParallelDocument], beam: int = 5, recipe: Recipe | None = None
) -> Report:
    """Translate the documents with every model and return a report that compares each with the baseline.

    recipe: how the models were trained, if it is known. The baseline is the first model, or, with a recipe, the second:
    the control, the sentence model finetuned as long.
    """
    need_matplotlib()
    if all(row.side == "none" for row in models):
        raise InputError("none of the models has a memory, so there is no placement to compare; give one that has")
    baseline = 0 if recipe is None else 1
    systems = [(row.name, row.model) for row in models]
    results = translate_and_score(systems, documents, beam, baseline, None if recipe is None else recipe.translations)
    numbers = {
        "test_documents": len(documents),
        "beam": beam,
        "baseline": models[baseline].name,
        "updates": None if recipe is None else recipe.updates,
        "share_of_documents": None if recipe is None else recipe.share,
        "rows": [
            {
                "name": row.name,
                "model": str(row.model),
                "side": row.side,
                "encoder_layers": list(row.encoder),
                "decoder_layers": list(row.decoder),
                **{metric: score_json(result.score(metric)) for metric in METRICS},
                "differences": [asdict(difference) for difference in result.differences],
            }
            for row, result in zip(models, results, strict=True)
        ],
    }
    text = describe(models, results, baseline, len(documents), beam, recipe)
    return Report("placement", TITLE, numbers, text, lambda: draw(models, results, baseline))


def describe(
    models: Sequence[ModelRow],
    results: Sequence[SystemResult],
    baseline: int,
    documents: int,
    beam: int,
    recipe: Recipe | None,
) -> str:
    """Return the findings, the paper's table and the method as Markdown."""
    header = ["model", "side", "encoder layers", "decoder layers", "s-BLEU", "d-BLEU", "s-BLEU difference"]
    rows = []
    for row, result in zip(models, results, strict=True):
        scores = [score_text(result.score(metric)) for metric in METRICS]
        layers = [_format_layers(row.encoder), _format_layers(row.decoder)]
        rows.append([row.name, SIDE_LABELS[row.side], *layers, *scores, _format_difference(result)])
    with_memory = [result for result, row in zip(results, models, strict=True) if row.side != "none"]
    lines = []
    for metric in METRICS:
        best = max(with_memory, key=lambda result: result.score(metric).value)
        line = f"The memory with the highest {metric} is `{best.name}`"
        if best.differences:
            line += f": {difference_sentence(best, metric, f'`{models[baseline].name}`')}"
        lines.append(f"{line}.")
    if recipe is not None:
        smaller = min(recipe.start_model.encoder_layers, recipe.start_model.decoder_layers)
        if recipe.start_model.encoder_layers != recipe.start_model.decoder_layers or smaller < 6:
            lines.append("The layers of each row are the paper's as far as this model has them; the table lists them.")
    trained = "" if recipe is None else f"{recipe_sentence(recipe)} "
    method = (
        "Method: layers count from 0; E and D in the figure are those of encoder and decoder. s-BLEU and d-BLEU (each "
        f"document one segment) are on {documents} documents, beam {beam}, with 95% intervals of a bootstrap over "
        "documents; the figure shows the intervals of the differences. Differences are against "
        f"`{models[baseline].name}`, paired on the same draws; p-values are not corrected for the number of "
        f"comparisons. {trained}Signatures: {'; '.join(results[0].score(metric).signature for metric in METRICS)}."
    )
    return "\n\n".join([" ".join(lines), markdown_table(header, rows), method])


def _format_layers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def _format_difference(result: SystemResult) -> str:
    if not result.differences:
        return "–"
    difference = result.difference(METRICS[0])
    return f"{difference.difference:+.2f}" + ("" if difference.p is None else f" (p = {difference.p:.3f})")


def draw(models: Sequence[ModelRow], results: Sequence[SystemResult], baseline: int = 0) -> "Figure":
    """Draw a row for every model: its difference to the baseline with the interval, and its score as a number."""
    figure, panels = new_figure(1, 2, width=PAGE, height=0.8 + 0.24 * len(models))
    heights = list(range(len(models)))[::-1]
    for axes, metric, colour in zip(panels, METRICS, COLOURS, strict=False):
        differences = [result.difference(metric) for result in results]
        axes.axvline(0, color=COLOURS[-1], linestyle=":", linewidth=1)
        values = [each.difference for each in differences]
        axes.errorbar(values, heights, xerr=error_bars(differences), fmt="o", color=colour, capsize=2, linewidth=1)
        short = metric.replace("/doc", "")
        axes.set_xlabel(f"{short} against no memory" if models[baseline].side == "none" else f"{short} difference")
        axes.set_yticks(heights, [""] * len(models))
        beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        for height, result in zip(heights, results, strict=True):
            axes.annotate(f"{result.score(metric).value:.2f}", (1, height), (4, 0), **beside)
        axes.annotate(short, (1, len(models) - 0.4), (4, 0), **beside)
    panels[0].set_yticks(heights, [_row_label(row) for row in models])
    return figure


def _row_label(row: ModelRow) -> str:
    """Return a model's name and the layers of its memory."""
    sides = zip("ED", (row.encoder, row.decoder), strict=True)
    layers = [f"{letter}{','.join(map(str, numbers))}" for letter, numbers in sides if numbers]
    return f"{row.name} ({' '.join(layers)})" if layers else row.name

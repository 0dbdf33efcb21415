"""The paper's figure on memory size: information gain of the memory's attention, and s-BLEU, by number of slots.

    memory_size(recipe, read_test_documents(source, reference), sizes=(8, 16, 32)).write(Path("analysis"))

Information gain, which the paper does not define, is here the entropy of a query's attention in the freshly initialised
memory minus its entropy in the trained one; it is positive if training has made the attention more selective.

    gain = H(p_fresh) − H(p_trained),   H(p) = −Σ_k p_k ln p_k   over the keys k of one query

It is averaged over the queries and heads of a sentence, then over sentences, then over memory units. In the update
attention, slots are queries and tokens are keys; in the output attention, tokens are queries and slots are keys. With n
keys no gain exceeds ln n, so it is also reported as a share of ln n.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from tram.analysis.encoded import EncodedDocument, encode_document
from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.analysis.scoring import difference_sentence, error_bars, score_json, score_text, translate_and_score
from tram.analysis.variants import CONTROL, Recipe, Variant, recipe_sentence, train_all
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.metrics import Score, SystemResult
from tram.model.folder import load_model
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (8, 16, 32, 64, 128, 512)
TITLE = "Information gain and s-BLEU by memory size"


@dataclass(frozen=True)
class Gain:
    """Information gain in nats, and as a share of ln n, the maximum for n keys."""

    nats: float
    share: float


@dataclass(frozen=True)
class UnitGain:
    """Information gain of the two attentions of a memory unit."""

    update: Gain
    output: Gain


@dataclass(frozen=True)
class SizeResult:
    """The result of one memory size."""

    slots: int
    mean: UnitGain  # over all units
    units: dict[str, UnitGain]  # by sublayer name
    scores: SystemResult

    @property
    def bleu(self) -> Score:
        """The s-BLEU score."""
        return self.scores.score("s-BLEU")


def entropy(attention: Tensor) -> Tensor:
    """Return the entropy of every query's distribution over its keys in nats: (…, keys) → (…)."""
    return torch.special.entr(attention.double()).sum(-1)


def information_gain(fresh: Tensor, trained: Tensor) -> Gain:
    """Return the gain from `fresh` to `trained`, two maps of the same sentence: (heads, queries, keys) each."""
    nats = float((entropy(fresh) - entropy(trained)).mean())
    maximum = math.log(fresh.shape[-1])
    return Gain(nats, nats / maximum if maximum else 0.0)  # with a single key there is nothing to select


def mean_gain(gains: Sequence[Gain]) -> Gain:
    """Return the mean of gains."""
    return Gain(*(sum(values) / len(gains) for values in ([g.nats for g in gains], [g.share for g in gains])))


def mean_unit_gain(gains: Sequence[UnitGain]) -> UnitGain:
    """Return the mean of the gains of units or of sentences."""
    return UnitGain(mean_gain([gain.update for gain in gains]), mean_gain([gain.output for gain in gains]))


def memory_gains(fresh: Transformer, trained: Transformer, documents: Iterable[EncodedDocument]) -> dict[str, UnitGain]:
    """Return the gain of every memory unit on documents with their reference translations."""
    gains_by_unit: dict[str, list[UnitGain]] = {}
    for document in documents:  # one by one, because the maps of a large memory are large
        before, after = (each.memory_maps(document.source, document.decoder_input) for each in (fresh, trained))
        for name, (maps,) in before.items():
            gains_by_unit.setdefault(name, []).extend(
                UnitGain(information_gain(a.update, b.update), information_gain(a.output, b.output))
                for a, b in zip(maps, *after[name], strict=True)
            )
    if not gains_by_unit:
        raise InputError("no attention to compare: give models with a memory and documents that are not empty")
    return {name: mean_unit_gain(gains) for name, gains in gains_by_unit.items()}


def memory_size(
    recipe: Recipe, documents: Sequence[ParallelDocument], sizes: Sequence[int] = SIZES, beam: int = 5
) -> Report:
    """Train the sizes that are not trained yet, and return a report on all of them on the same documents."""
    need_matplotlib()
    if not sizes or min(sizes) < 1:
        raise InputError(f"sizes {', '.join(map(str, sizes)) or '(none)'}: give numbers of slots, for example 8,16,32")
    start = Translator.load(recipe.start_folder)
    encoded = [encode_document(start, document) for document in documents]
    sizes = sorted(set(sizes))
    variants = [Variant(recipe.memory(slots=size)) for size in sizes]
    control, *models = train_all(recipe, [CONTROL, *variants])
    names = ["sentence model", "finetuned without memory", *(f"{size} slots" for size in sizes)]
    systems = list(zip(names, [recipe.start_folder, control, *models], strict=True))
    scored = translate_and_score(systems, documents, beam, baseline=1, cache=recipe.translations)
    results = []
    with Progress("attention maps", len(sizes), "sizes") as progress:
        for size, variant, model, scores in zip(sizes, variants, models, scored[2:], strict=True):
            units = memory_gains(recipe.untrained_model(variant), load_model(model), encoded)
            results.append(SizeResult(size, mean_unit_gain(list(units.values())), units, scores))
            progress.advance(1, f"{size} slots")
    return make_report(recipe, results, scored[:2], len(documents), beam)


def make_report(
    recipe: Recipe, results: list[SizeResult], baselines: Sequence[SystemResult], documents: int, beam: int
) -> Report:
    """Return the report of the results."""
    numbers: dict[str, Any] = {
        "start": str(recipe.start),
        "updates": recipe.updates,
        "share_of_documents": recipe.share,
        "test_documents": documents,
        "beam": beam,
        "baselines": {each.name: score_json(each.score("s-BLEU")) for each in baselines},
        "sizes": [
            {
                "slots": result.slots,
                **asdict(result.mean),
                "units": {name: asdict(unit) for name, unit in result.units.items()},
                "s-BLEU": score_json(result.bleu),
                "differences": [asdict(difference) for difference in result.scores.differences],
            }
            for result in results
        ],
    }
    text = describe(recipe, results, baselines, documents, beam)
    return Report("memory-size", TITLE, numbers, text, lambda: draw(results, baselines))


def describe(
    recipe: Recipe, results: list[SizeResult], baselines: Sequence[SystemResult], documents: int, beam: int
) -> str:
    """Return the findings, a table and the method as Markdown."""
    best = max(results, key=lambda result: result.bleu.value)
    lines = [
        largest_gain_sentence(results, "update"),
        largest_gain_sentence(results, "output"),
        f"s-BLEU is highest with {best.slots} slots: {difference_sentence(best.scores, 's-BLEU', 'the control')}.",
    ]
    rows = [[each.name, *["–"] * 4, score_text(each.score("s-BLEU"))] for each in baselines]
    for result in results:
        gains = (result.mean.update, result.mean.output)
        cells = [cell for gain in gains for cell in (f"{gain.nats:+.3f}", f"{gain.share:+.1%}")]
        rows.append([f"{result.slots} slots", *cells, score_text(result.bleu)])
    header = ["memory", "update gain, nats", "of ln n", "output gain, nats", "of ln n", "s-BLEU"]
    method = (
        "Method: information gain is the entropy of a query's attention in the freshly initialised memory minus that "
        "in the trained one, on the same documents with their reference translations: the mean over the queries and "
        "heads of a sentence, then over sentences, then over the memory units. The gain in nats is not normalised; `of "
        "ln n` divides a sentence's gain by the logarithm of its number of keys (tokens for the update, slots for the "
        f"output attention). {recipe_sentence(recipe)} `Finetuned without memory`, the control, had the same updates. "
        f"s-BLEU (beam {beam}) is on {documents} documents, with the 95% interval of a bootstrap over documents; the "
        f"figure shows the paired differences to the control, with their intervals. Signature: {best.bleu.signature}."
    )
    return "\n\n".join([" ".join(lines), markdown_table(header, rows), method])


def largest_gain_sentence(results: list[SizeResult], attention: Literal["update", "output"]) -> str:
    """Return one sentence on the memory size at which the gain of one attention is largest."""
    gains = {result.slots: result.mean.update if attention == "update" else result.mean.output for result in results}
    slots = max(gains, key=lambda size: gains[size].nats)
    largest = f"{slots} slots ({gains[slots].nats:+.3f} nats, {gains[slots].share:+.1%} of ln n)"
    if gains[slots].nats < 0:
        return f"The {attention} attention is less selective than at the start at every size, least so with {largest}."
    return f"The gain of the {attention} attention is largest with {largest}."


def draw(results: list[SizeResult], baselines: Sequence[SystemResult]) -> "Figure":
    """Draw the gain in nats and as a share of its maximum, and s-BLEU against the control, by number of slots."""
    figure, (nats, share, bleu) = new_figure(1, 3, width=PAGE)
    slots = [result.slots for result in results]
    for attention, colour, marker in (("update", COLOURS[0], "o"), ("output", COLOURS[1], "s")):
        gains: list[Gain] = [getattr(result.mean, attention) for result in results]
        style = {"color": colour, "marker": marker, "label": f"{attention} attention"}
        nats.plot(slots, [gain.nats for gain in gains], **style)
        share.plot(slots, [100 * gain.share for gain in gains], **style)
    differences = [result.scores.difference("s-BLEU") for result in results]
    heights = [each.difference for each in differences]
    bleu.errorbar(slots, heights, error_bars(differences), color=COLOURS[2], marker="D", capsize=2)
    for each, line in zip(baselines, (":", "--"), strict=True):
        value = each.difference("s-BLEU").difference
        bleu.axhline(value, color=COLOURS[-1], linestyle=line, linewidth=1, label=each.name)
    labels = ("information gain (nats)", "information gain (% of ln n)", "s-BLEU against no memory")
    for axes, label in zip((nats, share, bleu), labels, strict=True):
        axes.set_xscale("log", base=2)
        axes.set_xticks(slots, [str(size) for size in slots])
        axes.minorticks_off()
        axes.set(xlabel="memory slots", ylabel=label)
    lines = [*nats.get_legend_handles_labels()[0], *bleu.get_legend_handles_labels()[0]]
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines), fontsize=8, frameon=False)
    return figure

"""Which earlier sentence a translation depends on, by gradient and by omission, where the answer is known.

    report = planted("memory", translator, read_suite("suite.jsonl"))
    report.write(Path("analysis"))             # planted.json, .svg, .png and .md

In every item of a contrastive suite, a sentence at a known distance decides the translation of the last one, that is,
the log-odds L = log p(reference) − log p(wrong translation). The analysis measures for the sentence k back:

    gradient   the mean of |∂L / ∂x| over its embedded tokens x, each type of a side once, as a share of the sum over k
    effect     L minus L without that sentence, in nats

It uses L and not the loss, which is flat once a model is certain. The effect should be largest for the planted
sentence; the gradient need not be, because a memory that stores something robustly barely changes with the input it
came from.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tram.analysis.attribution import DistanceRange, both_sides, mean_norms, token_gradients
from tram.analysis.encoded import EncodedDocument, encode_document, memory_units
from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.contrast import score_suite
from tram.evaluation.significance import SAMPLES, SEED, Resampling, Values, interval
from tram.evaluation.suite import ContrastiveItem
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Gradient and effect of the deciding sentence"
EXTRA_SENTENCES = 3  # measured before the planted one, so that it has to be found among others


@dataclass(frozen=True)
class MeanInterval:
    """A mean over items and its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Profile:
    """Gradient and effect of the sentences 1, 2, … back, over items whose deciding sentence is `distance` back."""

    distance: int
    items: int
    gradient: list[MeanInterval]
    effect: list[MeanInterval]


def planted(
    name: str, translator: Translator, items: Sequence[ContrastiveItem], *, most: int = 60, longest: int = 20
) -> Report:
    """Return a report with the profiles of all planted distances up to `longest`, from at most `most` items each."""
    need_matplotlib()
    memory_units(translator)
    groups = sample_items(items, most, longest)
    profiles = []
    with Progress("gradients", sum(map(len, groups.values())), "items") as progress:
        for distance, chosen in groups.items():
            gradients = []
            for item in chosen:
                gradients.append(gradient_shares(translator, item, distance + EXTRA_SENTENCES))
                progress.advance(1, f"distance {distance}")
            effects = sentence_effects(translator, chosen, distance + EXTRA_SENTENCES)
            profiles.append(
                Profile(distance, len(chosen), mean_intervals(np.stack(gradients)), mean_intervals(effects))
            )
    numbers = {"model": name, "profiles": [asdict(each) for each in profiles]}
    return Report("planted", TITLE, numbers, describe(name, profiles), lambda: draw(profiles))


def sample_items(items: Sequence[ContrastiveItem], most: int, longest: int) -> dict[int, list[ContrastiveItem]]:
    """Return items by distance, nearest first, at most `most` of each distance, chosen at random."""
    groups: dict[int, list[ContrastiveItem]] = defaultdict(list)
    for item in items:
        if item.distance and item.distance <= min(longest, len(item.source_context) - EXTRA_SENTENCES):
            groups[item.distance].append(item)
    if not groups:
        raise InputError(
            f"no item has a distance from 1 to {longest} and {EXTRA_SENTENCES} more sentences of context; "
            "give a suite of `tram synthetic`, or a larger --longest"
        )
    random = np.random.default_rng(SEED)
    return {
        distance: [groups[distance][n] for n in random.permutation(len(groups[distance]))[:most]]
        for distance in sorted(groups)
    }


def gradient_shares(translator: Translator, item: ContrastiveItem, farthest: int) -> Values:
    """Return the shares of the sentences 1 to `farthest` back in the gradient of an item's log-odds: (farthest,)."""
    source = [*item.source_context, item.source]
    right, wrong = (
        encode_document(translator, ParallelDocument(source, [*item.target_context, target]))
        for target in (item.reference, item.contrastive[0])
    )
    norms = log_odds_gradients(translator.model, right, wrong)
    sides, last = both_sides(right), len(right) - 1
    norms_by_distance = [mean_norms(sides, norms, last, DistanceRange(k, k))[0] for k in range(1, farthest + 1)]
    return np.array(norms_by_distance) / sum(norms_by_distance)


def log_odds_gradients(model: Transformer, right: EncodedDocument, wrong: EncodedDocument) -> list[Values]:
    """Return |∂L / ∂x| for the context tokens of each side, (tokens,); the documents differ only in the last target."""
    last = len(right) - 1
    (a,), (b,) = (list(token_gradients(model, document, {last})) for document in (right, wrong))
    return [
        (first[:count] - second[:count]).norm(dim=-1).double().cpu().numpy()
        for first, second, count in (
            (a.source, b.source, int((right.source[:, :last] != 0).sum())),
            (a.target, b.target, int((right.decoder_input[:, :last] != 0).sum())),
        )
    ]


def sentence_effects(translator: Translator, items: Sequence[ContrastiveItem], farthest: int) -> Values:
    """Return what each item's log-odds lose without the sentence 1 to `farthest` back: (items, farthest)."""
    variants = [each for item in items for each in (item, *(without_sentence(item, k) for k in range(1, farthest + 1)))]
    odds = [result.reference - result.variants[0] for result in score_suite(translator, variants)]
    table = np.array(odds).reshape(len(items), farthest + 1)
    return table[:, :1] - table[:, 1:]


def without_sentence(item: ContrastiveItem, k: int) -> ContrastiveItem:
    """Return an item without the sentence `k` back."""
    sources, targets = (
        (*context[: len(context) - k], *context[len(context) - k + 1 :])
        for context in (item.source_context, item.target_context)
    )
    return item.model_copy(update={"source_context": sources, "target_context": targets})


def mean_intervals(items: Values) -> list[MeanInterval]:
    """Return mean and interval of every column of (items, columns)."""
    drawn = Resampling(len(items), SAMPLES, SEED).sums(items) / len(items)
    return [MeanInterval(float(items[:, k].mean()), *interval(drawn[:, k])) for k in range(items.shape[1])]


def peak_distance(profile: Sequence[MeanInterval]) -> int:
    """Return the distance with the largest mean."""
    return 1 + int(np.argmax([each.mean for each in profile]))


def neighbour_gradient(profile: Profile) -> float:
    """Return the mean gradient of the sentences before and after the planted one."""
    around = [profile.gradient[k - 1].mean for k in (profile.distance - 1, profile.distance + 1) if k]
    return float(np.mean(around))


def describe(name: str, profiles: Sequence[Profile]) -> str:
    """Return the findings, a table and the method as Markdown."""
    rows = []
    for each in profiles:
        share, effect = each.gradient[each.distance - 1], each.effect[each.distance - 1]
        others = max(mean.mean for k, mean in enumerate(each.effect, start=1) if k != each.distance)
        cells = {
            "planted": str(each.distance),
            "items": str(each.items),
            "largest gradient": str(peak_distance(each.gradient)),
            "gradient where planted": f"{share.mean:.1%}",
            "of its neighbours": f"{neighbour_gradient(each):.1%}",
            "largest effect": str(peak_distance(each.effect)),
            "effect where planted, nats": f"{effect.mean:.2f} ({effect.low:.2f} to {effect.high:.2f})",
            "next largest effect": f"{others:.2f}",
        }
        rows.append(cells)
    count = len(profiles)
    by_effect, by_gradient = (
        sum(peak_distance(getattr(each, measure)) == each.distance for each in profiles)
        for measure in ("effect", "gradient")
    )
    above = sum(each.gradient[each.distance - 1].mean > neighbour_gradient(each) for each in profiles)
    findings = (
        f"For {by_effect} of {count} planted distances the deciding sentence has the largest effect on the decision. "
        f"For {above} its gradient is larger than that of its neighbours, for {by_gradient} it is the largest of all."
    )
    method = (
        f"Method: model `{name}`. L = log p(reference) − log p(wrong translation) of the dependent sentence. Gradient: "
        "the mean norm of ∂L with respect to the embedded tokens of a sentence, source and target, each type of a side "
        "once, through all updates of the memory, as a share of the sum over all sentences up to "
        f"{EXTRA_SENTENCES} beyond the planted one. Effect: L minus L without that sentence. Means over items, with "
        f"reference translations as target history; intervals are 95%, from a bootstrap over items ({SAMPLES} draws). "
        "A memory that stores something robustly barely changes with the input it came from, so a small gradient does "
        "not mean that a sentence is forgotten."
    )
    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    return "\n\n".join([findings, table, method])


def draw(profiles: Sequence[Profile]) -> "Figure":
    """Draw gradient and effect by sentences back, a line for each planted distance."""
    figure, (left, right) = new_figure(1, 2, width=PAGE, height=2.6)
    for number, each in enumerate(profiles):
        style = {"color": COLOURS[number % len(COLOURS)], "label": str(each.distance)}
        _draw_profile(left, each.gradient, 100, each.distance, style)
        _draw_profile(right, each.effect, 1, each.distance, style)
    left.set(ylabel="share of the gradient [%]", ylim=(0, None))
    right.set(ylabel="effect of the sentence [nats]")
    for axes in (left, right):
        axes.set_xscale("log")
        ticks = [each.distance for each in profiles]
        axes.set_xticks(ticks, map(str, ticks))
        axes.minorticks_off()
        axes.set_xlabel("sentences back")
    lines = left.get_legend_handles_labels()[0]
    figure.legend(handles=lines, title="planted at", loc="outside right upper")
    return figure


def _draw_profile(
    axes: Any, profile: Sequence[MeanInterval], scale: float, distance: int, style: dict[str, Any]
) -> None:
    """Draw one profile with its band, and a dot where the sentence was planted."""
    x = range(1, len(profile) + 1)
    mean, low, high = scale * np.array([[each.mean, each.low, each.high] for each in profile]).T
    axes.plot(x, mean, **style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.plot(distance, mean[distance - 1], "o", color=style["color"], markersize=5)

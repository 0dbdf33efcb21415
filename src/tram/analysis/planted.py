"""Which earlier sentence a decision depends on: by its gradient, and by leaving it out, where the answer is known.

    report = planted("memory", translator, read_suite("suite.jsonl"))
    report.write(Path("analysis"))             # planted.json, .svg, .png and .md

In every item of a contrastive suite the sentence that decides stands a known number of sentences before the one asked
about. It decides the log-odds L = log p(right) − log p(wrong), and so two things are told of the sentence k back:

    gradient   the mean of |∂L / ∂x| over its embedded tokens x, each type of a side once, as a share of the sum over k
    effect     L minus L without that sentence, in nats

L and not the loss, which is flat once a model is sure. The effect should be largest where the sentence was planted; the
gradient need not be: a memory that stores something robustly barely changes with the input it came from.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tram.analysis.attribution import Range, Tokens, mean_norms, token_gradients
from tram.analysis.encoded import EncodedDocument, encode, memories
from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.contrast import score_suite
from tram.evaluation.significance import Resampling, Values, interval
from tram.evaluation.suite import Item
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Gradient and effect of the deciding sentence"
BEYOND = 3  # sentences before the one that decides: what is planted should be found among others
DRAWS, SEED = 1000, 12345


@dataclass(frozen=True)
class Mean:
    """The mean over items and its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Profile:
    """Gradient and effect of the sentences 1, 2, … back, for items whose deciding sentence stands `distance` back."""

    distance: int
    items: int
    gradient: list[Mean]
    effect: list[Mean]


def planted(name: str, translator: Translator, items: Sequence[Item], *, most: int = 60, longest: int = 20) -> Report:
    """Profiles of all planted distances up to `longest`, from at most so many items each."""
    need_matplotlib()
    memories(translator)
    groups = sample(items, most, longest)
    profiles = []
    with Progress("gradients", sum(map(len, groups.values())), "items") as progress:
        for distance, chosen in groups.items():
            gradients = []
            for item in chosen:
                gradients.append(gradient_shares(translator, item, distance + BEYOND))
                progress.advance(1, f"distance {distance}")
            effects = sentence_effects(translator, chosen, distance + BEYOND)
            profiles.append(Profile(distance, len(chosen), means(np.stack(gradients)), means(effects)))
    numbers = {"model": name, "profiles": [asdict(each) for each in profiles]}
    return Report("planted", TITLE, numbers, _text(name, profiles), lambda: _draw(profiles))


def sample(items: Sequence[Item], most: int, longest: int) -> dict[int, list[Item]]:
    """Items by distance, near ones first; of many a random choice."""
    groups: dict[int, list[Item]] = defaultdict(list)
    for item in items:
        if item.distance and item.distance <= min(longest, len(item.source_context) - BEYOND):
            groups[item.distance].append(item)
    if not groups:
        raise InputError(
            f"no item tells a distance from 1 to {longest} with {BEYOND} more sentences before; "
            "give a suite of `tram synthetic`, or a larger --longest"
        )
    random = np.random.default_rng(SEED)
    return {
        distance: [groups[distance][n] for n in random.permutation(len(groups[distance]))[:most]]
        for distance in sorted(groups)
    }


def gradient_shares(translator: Translator, item: Item, farthest: int) -> Values:
    """The shares of the sentences 1 to `farthest` back in the gradient of an item's log-odds."""
    right, wrong = (
        encode(translator, ParallelDocument([*item.source_context, item.source], [*item.target_context, answer]))
        for answer in (item.reference, item.contrastive[0])
    )
    norms = log_odds_gradients(translator.model, right, wrong)
    sides = [Tokens.of(right.source, right.special), Tokens.of(right.decoder_input, right.special)]
    found = [mean_norms(sides, norms, len(right) - 1, Range(k, k))[0] for k in range(1, farthest + 1)]
    return np.array(found) / sum(found)


def log_odds_gradients(model: Transformer, right: EncodedDocument, wrong: EncodedDocument) -> list[Values]:
    """|∂L / ∂x| for the tokens of both sides' contexts; the documents differ in their last translation only."""
    last = len(right) - 1
    (a,), (b,) = (list(token_gradients(model, document, {last})) for document in (right, wrong))
    return [
        (mine[:count] - other[:count]).norm(dim=-1).double().cpu().numpy()
        for mine, other, count in (
            (a.source, b.source, int((right.source[:, :last] != 0).sum())),
            (a.target, b.target, int((right.decoder_input[:, :last] != 0).sum())),
        )
    ]


def sentence_effects(translator: Translator, items: Sequence[Item], farthest: int) -> Values:
    """What the log-odds of each item lose without the sentence 1 to `farthest` back: (items, farthest)."""
    asked = [variant for item in items for variant in (item, *(without(item, k) for k in range(1, farthest + 1)))]
    odds = [result.reference - result.variants[0] for result in score_suite(translator, asked)]
    table = np.array(odds).reshape(len(items), farthest + 1)
    return table[:, :1] - table[:, 1:]


def without(item: Item, k: int) -> Item:
    """An item whose context lacks the sentence `k` back."""
    sources, targets = (
        (*context[: len(context) - k], *context[len(context) - k + 1 :])
        for context in (item.source_context, item.target_context)
    )
    return item.model_copy(update={"source_context": sources, "target_context": targets})


def means(items: Values) -> list[Mean]:
    """Mean and interval of every column."""
    drawn = Resampling(len(items), DRAWS, SEED).sums(items) / len(items)
    return [Mean(float(items[:, k].mean()), *interval(drawn[:, k])) for k in range(items.shape[1])]


def peak(profile: Sequence[Mean]) -> int:
    """Sentences back to where the mean is largest."""
    return 1 + int(np.argmax([each.mean for each in profile]))


def neighbours(profile: Profile) -> float:
    """The mean gradient of the sentences before and after the one that decides."""
    around = [profile.gradient[k - 1].mean for k in (profile.distance - 1, profile.distance + 1) if k]
    return float(np.mean(around))


def _text(name: str, profiles: Sequence[Profile]) -> str:
    """What is seen, and how it was computed."""
    rows = []
    for each in profiles:
        share, effect = each.gradient[each.distance - 1], each.effect[each.distance - 1]
        others = max(mean.mean for k, mean in enumerate(each.effect, start=1) if k != each.distance)
        rows.append([
            str(each.distance), str(each.items), str(peak(each.gradient)), f"{share.mean:.1%}",
            f"{neighbours(each):.1%}", str(peak(each.effect)),
            f"{effect.mean:.2f} ({effect.low:.2f} to {effect.high:.2f})", f"{others:.2f}",
        ])  # fmt: skip
    header = ["planted", "items", "largest gradient", "gradient where planted", "of its neighbours",
              "largest effect", "effect where planted, nats", "next largest effect"]  # fmt: skip
    count = len(profiles)
    by_effect, by_gradient = (
        sum(peak(getattr(each, measure)) == each.distance for each in profiles) for measure in ("effect", "gradient")
    )
    above = sum(each.gradient[each.distance - 1].mean > neighbours(each) for each in profiles)
    return "\n\n".join([
        f"For {by_effect} of {count} planted distances the deciding sentence has the largest effect on the decision. "
        f"For {above} its gradient is larger than that of its neighbours, for {by_gradient} it is the largest of all.",
        markdown_table(header, rows),
        f"Method: model `{name}`. L = log p(reference) − log p(wrong translation) of the dependent sentence. Gradient: "
        "the mean norm of ∂L with respect to the embedded tokens of a sentence, source and target, each type of a side "
        "once, through all updates of the memory, as a share of the sum over all sentences up to "
        f"{BEYOND} beyond the planted one. Effect: L minus L without that sentence. Means over items, with reference "
        f"translations as target history; intervals are 95%, from a bootstrap over items ({DRAWS} draws). A memory "
        "that stores something robustly barely changes with the input it came from, so a small gradient does not mean "
        "that a sentence is forgotten.",
    ])  # fmt: skip


def _draw(profiles: Sequence[Profile]) -> "Figure":
    figure, (left, right) = new_figure(1, 2, width=PAGE, height=2.6)
    for number, each in enumerate(profiles):
        look = {"color": COLOURS[number % len(COLOURS)], "label": str(each.distance)}
        _line(left, [100 * np.array([m.mean, m.low, m.high]) for m in each.gradient], each.distance, look)
        _line(right, [np.array([m.mean, m.low, m.high]) for m in each.effect], each.distance, look)
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


def _line(axes: Any, bounds: list[Values], distance: int, look: dict[str, Any]) -> None:
    """One profile with its band, and a dot where the sentence was planted."""
    x = range(1, len(bounds) + 1)
    middle, low, high = np.stack(bounds, axis=1)
    axes.plot(x, middle, **look)
    axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    axes.plot(distance, middle[distance - 1], "o", color=look["color"], markersize=5)

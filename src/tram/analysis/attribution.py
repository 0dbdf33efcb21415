"""How far back a sentence's loss depends on earlier sentences: the paper's "Long-Range Influence", by gradients.

    report = attribution([("memory", translator)], documents)
    report.write(Path("analysis"))             # attribution.json, .svg, .png and .md

g_j(x) = |∂ loss of sentence j / ∂ embedded token x|, with gradients through all updates of the memory, whatever depth
the model was trained with. For a range of distances, G(j, range) is the mean of g_j over the tokens of the sentences i
with j − i in that range. Each token type of a side counts once, at its first occurrence in the range; bos and eos do
not count.

    Score(range) = Σ_j G(j, range) / Σ_j G(j, {0})        over all sentences j that have a sentence in that range

A score of 0.01 means that a token that far back changes the loss a hundredth as much as a token of the sentence itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.analysis.encoded import EncodedDocument, encode_document, memory_units
from tram.analysis.plots import COLOURS, COLUMN, need_matplotlib, new_figure
from tram.analysis.report import Report
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.significance import SAMPLES, SEED, Resampling, Values, interval
from tram.model.contexts.memory import Memory
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Gradient of a sentence's loss by distance"
TOKEN_GROUPS = ("both sides", "source", "target")  # rows of `GradientSums`
LEGEND_CHARACTERS = 28  # of a model's name
NOTABLE_SCORE = 0.001  # the report says how far back scores reach this


@dataclass(frozen=True)
class DistanceRange:
    """Distances from `first` to `last` sentences; without a `last`, all from `first` on."""

    first: int
    last: int | None

    @property
    def label(self) -> str:
        """The label on the axis and in the table."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def contains(self, distances: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return for each distance whether it is in the range."""
        return (distances >= self.first) & (True if self.last is None else distances <= self.last)


OWN = DistanceRange(0, 0)  # the sentence itself


@dataclass(frozen=True)
class DistanceScore:
    """Score(range) of one model; the interval is None if only one document reaches the range."""

    distance: str
    score: float
    low: float | None
    high: float | None
    source: float  # the score of the source tokens only
    target: float
    sentences: int  # number of sentences with an earlier sentence in this range


@dataclass(frozen=True)
class ModelScores:
    """The scores of one model by distance."""

    model: str
    scores: list[DistanceScore]


def attribution(
    models: Sequence[tuple[str, Translator]],
    documents: Sequence[ParallelDocument],
    *,
    size: int = 10,
    longest: int = 100,
) -> Report:
    """Return a report on scores by distance: `size` distances per range, one range for all distances over `longest`."""
    need_matplotlib()
    if not models or not documents:
        raise InputError("attribution needs a model and a document; give at least one of each")
    for _, translator in models:
        memory_units(translator)
    ranges = distance_ranges([_count_pairs(document) for document in documents], size, longest)
    results = []
    with Progress("gradients", len(models) * sum(len(d.source) for d in documents), "sentences") as progress:
        for name, translator in models:
            sums = []
            for document in documents:
                sums.append(document_sums(translator.model, encode_document(translator, document), ranges))
                progress.advance(len(document.source), name)
            results.append(ModelScores(name, distance_scores(sums, ranges)))
    sentences = sum(len(document.source) for document in documents)
    numbers = {"documents": len(documents), "sentences": sentences, "models": [asdict(each) for each in results]}
    return Report("attribution", TITLE, numbers, describe(results, len(documents), sentences), lambda: draw(results))


def _count_pairs(document: ParallelDocument) -> int:
    """Return the number of sentences with text on both sides."""
    return sum(bool(a.strip() and b.strip()) for a, b in zip(document.source, document.target, strict=True))


def distance_ranges(lengths: Sequence[int], size: int, longest: int) -> list[DistanceRange]:
    """Return ranges of `size` distances, from 1 to the largest distance in these documents; at least two ranges."""
    if size < 1 or longest < 1:
        raise InputError(f"--bin {size} and --longest {longest} are numbers of sentences; give 1 or more")
    farthest = max(lengths) - 1
    starts = range(1, min(farthest, longest) + 1, size)
    ranges = [DistanceRange(first, min(first + size - 1, longest)) for first in starts]
    if farthest > longest:
        ranges.append(DistanceRange(longest + 1, None))
    if len(ranges) < 2:
        raise InputError(
            f"the longest document has {max(lengths)} sentences, too few for two ranges of {size}; "
            "give longer documents or a smaller --bin"
        )
    return ranges


@dataclass(frozen=True)
class TokenGradients:
    """The gradients of one sentence's loss with respect to the embedded tokens of the document.

    source, target: (real tokens of that side, d_model).
    """

    sentence: int
    source: Tensor
    target: Tensor


def token_gradients(
    model: Transformer, document: EncodedDocument, sentences: Collection[int] | None = None
) -> Iterator[TokenGradients]:
    """Compute the gradients of the losses of all sentences, or of some: one forward pass, one backward pass for each.

    A backward pass also runs, with zeros, over the sentences after j; leaving those out would save less than half.
    """
    with full_depth(model), embedding_leaves(model) as leaves, flush_denormals(), torch.enable_grad():
        decoded = model.forced_decode(document.source, document.decoder_input)
        counts = decoded.layout.counts.tolist()
        labels = decoded.layout.pack(document.labels).split(counts)
        for j, (states, gold) in enumerate(zip(decoded.states.split(counts), labels, strict=True)):
            if sentences is not None and j not in sentences:
                continue
            loss = F.cross_entropy(model.logits(states), gold, reduction="sum")
            source, target = torch.autograd.grad(loss, leaves, retain_graph=True)
            yield TokenGradients(j, source, target)


@contextmanager
def full_depth(model: nn.Module) -> Iterator[None]:
    """Backpropagate through all updates of every memory unit inside this context."""
    units = [module for module in model.modules() if isinstance(module, Memory)]
    depths = [unit.depth for unit in units]
    for unit in units:
        unit.depth = "full"
    try:
        yield
    finally:
        for unit, depth in zip(units, depths, strict=True):
            unit.depth = depth


@contextmanager
def embedding_leaves(model: Transformer) -> Iterator[list[Tensor]]:
    """Make embedded tokens leaves of the graph inside this context, and yield them: source first, then target."""
    leaves: list[Tensor] = []

    def detach(module: nn.Module, arguments: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_(True))
        return leaves[-1]

    handles = [side.embeddings.register_forward_hook(detach) for side in (model.encoder, model.decoder)]
    try:
        yield leaves
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Round denormal numbers to zero inside this context: gradients from far back get that small and then are slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@dataclass(frozen=True)
class GradientSums:
    """Σ_j G(j, range) and Σ_j G(j, {0}) for each token group, and the number of sentences j, of one document."""

    far: Values  # (token groups, ranges)
    own: Values  # (token groups, ranges)
    sentences: npt.NDArray[np.int64]  # (ranges,)


def document_sums(model: Transformer, document: EncodedDocument, ranges: Sequence[DistanceRange]) -> GradientSums:
    """Sum the mean gradient norms over all sentences of a document."""
    sides = both_sides(document)
    far, own = np.zeros((len(TOKEN_GROUPS), len(ranges))), np.zeros((len(TOKEN_GROUPS), len(ranges)))
    count = np.zeros(len(ranges), dtype=np.int64)
    for gradients in token_gradients(model, document):
        j = gradients.sentence
        norms = [g.norm(dim=-1).double().cpu().numpy() for g in (gradients.source, gradients.target)]
        own_norms = mean_norms(sides, norms, j, OWN)
        for k, distances in enumerate(ranges):
            if j >= distances.first:
                far[:, k] += mean_norms(sides, norms, j, distances)
                own[:, k] += own_norms
                count[k] += 1
    return GradientSums(far, own, count)


@dataclass(frozen=True)
class PackedTokens:
    """The real tokens of one side of a document: their ids and the sentences they belong to, (tokens,) each."""

    ids: npt.NDArray[np.int64]
    sentences: npt.NDArray[np.int64]
    special: tuple[int, ...]  # ids that are not text

    @classmethod
    def of(cls, ids: Tensor, special: Iterable[int]) -> "PackedTokens":
        """Return the tokens of ids (1, sentences, tokens)."""
        _, sentences, _ = (real := ids.nonzero(as_tuple=True))
        return cls(ids[real].cpu().numpy(), sentences.cpu().numpy(), tuple(special))

    def first_occurrences(self, j: int, distances: DistanceRange) -> npt.NDArray[np.int64]:
        """Return the indices of the first token of each type in a range before sentence j, without bos and eos."""
        indices = np.flatnonzero(distances.contains(j - self.sentences) & ~np.isin(self.ids, self.special))
        return indices[np.unique(self.ids[indices], return_index=True)[1]]


def both_sides(document: EncodedDocument) -> list[PackedTokens]:
    """Return the tokens of the source and of the decoder input."""
    return [PackedTokens.of(ids, document.special) for ids in (document.source, document.decoder_input)]


def mean_norms(sides: list[PackedTokens], norms: list[Values], j: int, distances: DistanceRange) -> list[float]:
    """Return G(j, range) for each token group: both sides together, source, target."""
    source, target = (norm[side.first_occurrences(j, distances)] for side, norm in zip(sides, norms, strict=True))
    return [float(np.mean(part)) if len(part) else 0.0 for part in (np.concatenate([source, target]), source, target)]


def distance_scores(documents: Sequence[GradientSums], ranges: Sequence[DistanceRange]) -> list[DistanceScore]:
    """Return Score(range) over all documents, with intervals from a bootstrap over documents."""
    far, own = np.stack([each.far for each in documents]), np.stack([each.own for each in documents])
    sentences = np.sum([each.sentences for each in documents], axis=0)
    values = far.sum(axis=0) / own.sum(axis=0)
    resampling = Resampling(len(far), SAMPLES, SEED)
    # A draw in which no document reaches the range is 0 / 0 and is left out below.
    with np.errstate(invalid="ignore"):
        drawn = resampling.sums(far[:, 0]) / resampling.sums(own[:, 0])
    result = []
    for k, distances in enumerate(ranges):
        valid = drawn[~np.isnan(drawn[:, k]), k]
        reaching = sum(bool(each.sentences[k]) for each in documents)
        low, high = interval(valid) if reaching > 1 else (None, None)
        both, source, target = values[:, k].tolist()
        result.append(DistanceScore(distances.label, both, low, high, source, target, int(sentences[k])))
    return result


def describe(results: Sequence[ModelScores], documents: int, sentences: int) -> str:
    """Return the findings and the method as Markdown."""
    lines = ["## Findings", ""]
    for each in results:
        near, above = each.scores[0], [s.distance for s in each.scores if s.score >= NOTABLE_SCORE]
        reach = (
            f"the last range with a score of {NOTABLE_SCORE} or more is {above[-1]}"
            if above
            else f"no range has a score of {NOTABLE_SCORE} or more"
        )
        lines.append(
            f"- `{each.model}`: the gradient of a token at distance {near.distance} is {near.score:.2g} "
            f"{_bounds(near)} times that of a token of the sentence itself; {reach}."
        )
    lines += ["- A non-zero gradient shows that information can flow, not that the model benefits from it.", ""]
    lines += [
        "| model | distance | score | 95% interval | source only | target only | sentences |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{each.model}` | {s.distance} | {s.score:.2e} | {_bounds(s)} | {s.source:.2e} | {s.target:.2e} "
        f"| {s.sentences} |"
        for each in results
        for s in each.scores
    ]
    return "\n".join([*lines, "", "## Method", "", _method(documents, sentences)])


def _method(documents: int, sentences: int) -> str:
    return (
        f"{documents} documents, {sentences} sentences, the reference as target history. For the loss of every "
        "sentence *j*, we take the gradient with respect to every embedded token of the document, source and target, "
        "through all updates of the memory, whatever depth the model was trained with. G(*j*, range) is the mean norm "
        "over the tokens of the sentences in that range before *j*; each token type of a side counts once, at its "
        "first occurrence in the range; bos and eos do not count. The score is the sum of G(*j*, range) over all *j*, "
        "divided by that of G(*j*, 0), the same mean over the tokens of sentence *j* itself, so that models can be "
        "compared. (The paper sums the gradients and does not normalise them.) Intervals: bootstrap over documents, "
        f"{SAMPLES} draws, seed {SEED}; none where only one document has sentences in the range."
    )


def _bounds(score: DistanceScore) -> str:
    return "-" if score.low is None or score.high is None else f"[{score.low:.2e}, {score.high:.2e}]"


def draw(results: Sequence[ModelScores]) -> "Figure":
    """Draw the scores of every model by distance, with their intervals."""
    figure, axes = new_figure(width=COLUMN, height=2.5)
    labels = [score.distance for score in results[0].scores]
    for number, each in enumerate(results):
        colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":")[number % 3]
        x = [k for k, score in enumerate(each.scores) if score.score > 0]
        drawn = [each.scores[k] for k in x]
        axes.plot(x, [s.score for s in drawn], f"o{style}", color=colour, label=each.model[-LEGEND_CHARACTERS:])
        bounds = [(k, s.low, s.high) for k, s in zip(x, drawn, strict=True) if s.low]
        if bounds:
            axes.fill_between(*zip(*bounds, strict=True), color=colour, alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    step = -(-len(labels) // 12)  # at most twelve labels
    crowded = max(map(len, labels)) > 2 and len(labels) > 5
    slant = {"rotation": 45, "ha": "right"} if crowded else {"rotation": 0, "ha": "center"}
    axes.set_xticks(range(0, len(labels), step), labels[::step], **slant)
    axes.set_xlabel("distance [sentences back]")
    axes.set_ylabel("gradient, relative to\nthe sentence's own tokens")
    if len(results) > 1:
        axes.legend()
    return figure

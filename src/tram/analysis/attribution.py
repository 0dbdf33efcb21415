"""How far back a sentence's loss feels: the paper's "Long-Range Influence", as gradients of earlier sentences' tokens.

    report = attribution([("memory", translator)], documents)
    report.write(Path("analysis"))             # attribution.json, .svg, .png and .md

g_j(x) = |∂ loss of sentence j / ∂ embedded token x|, with gradients through all updates of the memory, whatever depth
the model was trained with. For a range of distances, G(j, range) is the mean of g_j over the tokens of the sentences i
with j − i in that range: each token type of a side once, at its first occurrence in the range, bos and eos left out.

    Score(range) = Σ_j G(j, range) / Σ_j G(j, {0})        over all sentences j that have a sentence in that range

so that 0.01 says: a token that far back moves the loss a hundredth as much as a token of the sentence itself.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.analysis.encoded import EncodedDocument, encode, memories
from tram.analysis.plots import COLOURS, COLUMN, need_matplotlib, new_figure
from tram.analysis.report import Report
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.significance import Resampling, Values, interval
from tram.model.contexts.memory import Memory
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.translation.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sides = Literal["both", "source", "target"]
SIDES: tuple[Sides, ...] = ("both", "source", "target")
DRAWS, SEED = 1000, 12345
LEGEND = 28  # characters of a model's name that fit
NOTABLE = 0.001  # the text tells how far back scores stay above this


@dataclass(frozen=True)
class Range:
    """Distances from `first` to `last` sentences; `last` None: all beyond."""

    first: int
    last: int | None

    @property
    def label(self) -> str:
        """As it stands under the axis."""
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def holds(self, distances: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these distances lie in it."""
        return (distances >= self.first) & (True if self.last is None else distances <= self.last)


OWN = Range(0, 0)


@dataclass(frozen=True)
class Score:
    """Score(range) of one model; the interval is None where there is one document only."""

    distance: str
    score: float
    low: float | None
    high: float | None
    source: float  # the same with the tokens of one side only
    target: float
    sentences: int  # that have a sentence in this range before them


@dataclass(frozen=True)
class ModelScores:
    """One model's scores by distance."""

    model: str
    scores: list[Score]


def attribution(
    models: Sequence[tuple[str, Translator]], documents: Sequence[ParallelDocument], *, size: int = 10,
    longest: int = 100,
) -> Report:  # fmt: skip
    """Scores by distance, `size` sentences in a range, one range for all beyond `longest`."""
    need_matplotlib()
    if not models or not documents:
        raise InputError("attribution needs a model and a document; give at least one of each")
    for _, translator in models:
        memories(translator)
    ranges = distance_ranges([_pairs(document) for document in documents], size, longest)
    found = []
    with Progress("gradients", len(models) * sum(len(d.source) for d in documents), "sentences") as progress:
        for name, translator in models:
            sums = []
            for document in documents:
                sums.append(document_sums(translator.model, encode(translator, document), ranges))
                progress.advance(len(document.source), name)
            found.append(ModelScores(name, scores(sums, ranges)))
    sentences = sum(len(document.source) for document in documents)
    numbers = {"documents": len(documents), "sentences": sentences, "models": [asdict(each) for each in found]}
    title = "Gradient of a sentence's loss by distance"
    return Report("attribution", title, numbers, _text(found, len(documents), sentences), lambda: _draw(found))


def _pairs(document: ParallelDocument) -> int:
    """Sentences with text on both sides."""
    return sum(bool(a.strip() and b.strip()) for a, b in zip(document.source, document.target, strict=True))


def distance_ranges(lengths: Sequence[int], size: int, longest: int) -> list[Range]:
    """1 to `size` sentences back, and so on as far as these documents go; at least two ranges."""
    if size < 1 or longest < 1:
        raise InputError(f"--bin {size} and --longest {longest} are numbers of sentences; give 1 or more")
    farthest = max(lengths) - 1
    ranges = [Range(first, min(first + size - 1, longest)) for first in range(1, min(farthest, longest) + 1, size)]
    if farthest > longest:
        ranges.append(Range(longest + 1, None))
    if len(ranges) < 2:
        raise InputError(
            f"the longest document has {max(lengths)} sentences, too few for two ranges of {size}; "
            "give longer documents or a smaller --bin"
        )
    return ranges


@dataclass(frozen=True)
class TokenGradients:
    """∂ loss of sentence j / ∂ embedded tokens of the whole document: (real tokens, d_model) for each side."""

    sentence: int
    source: Tensor
    target: Tensor


def token_gradients(
    model: Transformer, document: EncodedDocument, sentences: Collection[int] | None = None
) -> Iterator[TokenGradients]:
    """The gradients of every sentence's loss, or of some sentences': one forward pass, and one backward pass for each.

    Backward passes also walk over the sentences behind j, with zeros; leaving those out would save less than half.
    """
    with full_depth(model), embedded_leaves(model) as leaves, flushed(), torch.enable_grad():
        done = model.forced_decode(document.source, document.decoder_input)
        counts = done.layout.counts.tolist()
        labels = done.layout.pack(document.labels).split(counts)
        for j, (states, gold) in enumerate(zip(done.states.split(counts), labels, strict=True)):
            if sentences is not None and j not in sentences:
                continue
            loss = F.cross_entropy(model.logits(states), gold, reduction="sum")
            source, target = torch.autograd.grad(loss, leaves, retain_graph=True)
            yield TokenGradients(j, source, target)


@contextmanager
def full_depth(model: nn.Module) -> Iterator[None]:
    """Inside, gradients go through all updates of every memory."""
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
def embedded_leaves(model: Transformer) -> Iterator[list[Tensor]]:
    """Inside, embedded tokens are leaves of the graph: those of the source, then those of the target."""
    leaves: list[Tensor] = []

    def cut(module: nn.Module, given: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_(True))
        return leaves[-1]

    handles = [side.embeddings.register_forward_hook(cut) for side in (model.encoder, model.decoder)]
    try:
        yield leaves
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def flushed() -> Iterator[None]:
    """Inside, denormal numbers are zero: gradients from far back get that small, and products of them are slow."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@dataclass(frozen=True)
class GradientSums:
    """Σ_j of G(j, range) and of G(j, {0}), (sides, ranges) each, and how many j there are in each range."""

    far: Values
    own: Values
    sentences: npt.NDArray[np.int64]


def document_sums(model: Transformer, document: EncodedDocument, ranges: Sequence[Range]) -> GradientSums:
    """Go through all sentences of a document."""
    sides = [Tokens.of(document.source, document.special), Tokens.of(document.decoder_input, document.special)]
    far, own = np.zeros((len(SIDES), len(ranges))), np.zeros((len(SIDES), len(ranges)))
    count = np.zeros(len(ranges), dtype=np.int64)
    for gradients in token_gradients(model, document):
        j = gradients.sentence
        norms = [g.norm(dim=-1).double().cpu().numpy() for g in (gradients.source, gradients.target)]
        here = mean_norms(sides, norms, j, OWN)
        for k, wanted in enumerate(ranges):
            if j >= wanted.first:
                far[:, k] += mean_norms(sides, norms, j, wanted)
                own[:, k] += here
                count[k] += 1
    return GradientSums(far, own, count)


@dataclass(frozen=True)
class Tokens:
    """The tokens of one side of a document, packed: their ids and the sentences they belong to."""

    ids: npt.NDArray[np.int64]
    sentences: npt.NDArray[np.int64]
    special: tuple[int, ...]  # ids that stand for no text

    @classmethod
    def of(cls, ids: Tensor, special: Iterable[int]) -> "Tokens":
        """Return the tokens of ids (1, sentences, tokens)."""
        _, sentences, _ = (places := ids.nonzero(as_tuple=True))
        return cls(ids[places].cpu().numpy(), sentences.cpu().numpy(), tuple(special))

    def chosen(self, j: int, wanted: Range) -> npt.NDArray[np.int64]:
        """Places of the tokens that count: each type at its first occurrence in the range, no bos and no eos."""
        places = np.flatnonzero(wanted.holds(j - self.sentences) & ~np.isin(self.ids, self.special))
        return places[np.unique(self.ids[places], return_index=True)[1]]


def mean_norms(sides: list[Tokens], norms: list[Values], j: int, wanted: Range) -> list[float]:
    """G(j, range) of both sides together, of the source, and of the target."""
    source, target = (norm[side.chosen(j, wanted)] for side, norm in zip(sides, norms, strict=True))
    return [float(np.mean(part)) if len(part) else 0.0 for part in (np.concatenate([source, target]), source, target)]


def scores(documents: Sequence[GradientSums], ranges: Sequence[Range]) -> list[Score]:
    """Score(range) for all documents together, with intervals from a bootstrap over documents."""
    far, own = np.stack([each.far for each in documents]), np.stack([each.own for each in documents])
    sentences = np.sum([each.sentences for each in documents], axis=0)
    values = far.sum(axis=0) / own.sum(axis=0)
    resampling = Resampling(len(far), DRAWS, SEED)
    # A draw without any document that is long enough says nothing about the range: 0 / 0, left out below.
    with np.errstate(invalid="ignore"):
        drawn = resampling.sums(far[:, 0]) / resampling.sums(own[:, 0])
    result = []
    for k, wanted in enumerate(ranges):
        kept = drawn[~np.isnan(drawn[:, k]), k]
        reaching = sum(bool(each.sentences[k]) for each in documents)
        low, high = interval(kept) if reaching > 1 else (None, None)
        both, source, target = values[:, k].tolist()
        result.append(Score(wanted.label, both, low, high, source, target, int(sentences[k])))
    return result


def _text(found: Sequence[ModelScores], documents: int, sentences: int) -> str:
    """Return the findings and the method as Markdown."""
    lines = ["## Findings", ""]
    for each in found:
        near, above = each.scores[0], [s.distance for s in each.scores if s.score >= NOTABLE]
        reach = (
            f"the last range with a score of {NOTABLE} or more is {above[-1]}"
            if above
            else f"no range has a score of {NOTABLE} or more"
        )
        lines.append(
            f"- `{each.model}`: the gradient of a token at distance {near.distance} is {near.score:.2g} "
            f"{_bounds(near)} times that of a token of the sentence itself; {reach}."
        )
    lines += ["- A non-zero gradient shows that information can flow, not that the model benefits from it.", ""]
    lines += ["| model | distance | score | 95% interval | source only | target only | sentences |",
              "|---|---|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| `{each.model}` | {s.distance} | {s.score:.2e} | {_bounds(s)} | {s.source:.2e} | {s.target:.2e} "
        f"| {s.sentences} |"
        for each in found
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
        f"{DRAWS} draws, seed {SEED}; none where only one document has sentences in the range."
    )


def _bounds(score: Score) -> str:
    return "-" if score.low is None or score.high is None else f"[{score.low:.2e}, {score.high:.2e}]"


def _draw(found: Sequence[ModelScores]) -> "Figure":
    figure, axes = new_figure(width=COLUMN, height=2.5)
    labels = [score.distance for score in found[0].scores]
    for number, each in enumerate(found):
        colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":")[number % 3]
        x = [k for k, score in enumerate(each.scores) if score.score > 0]
        drawn = [each.scores[k] for k in x]
        axes.plot(x, [s.score for s in drawn], f"o{style}", color=colour, label=each.model[-LEGEND:])
        bounds = [(k, s.low, s.high) for k, s in zip(x, drawn, strict=True) if s.low]
        if bounds:
            axes.fill_between(*zip(*bounds, strict=True), color=colour, alpha=0.2, linewidth=0)
    axes.set_yscale("log")
    step = -(-len(labels) // 12)  # no more labels than fit
    crowded = max(map(len, labels)) > 2 and len(labels) > 5
    axes.set_xticks(range(0, len(labels), step), labels[::step], rotation=45 if crowded else 0,
                    ha="right" if crowded else "center")  # fmt: skip
    axes.set_xlabel("distance [sentences back]")
    axes.set_ylabel("gradient, relative to\nthe sentence's own tokens")
    if len(found) > 1:
        axes.legend()
    return figure

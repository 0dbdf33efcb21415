"""s-BLEU against a baseline by position in the document: the paper's figure "Metric Breakdown".

    report = position(hypotheses, baseline, references, names=("memory", "sentence"))
    report.write(Path("analysis"))             # position.json, .svg, .png and .md

The paper scores every sentence, averages at each index and then over ten indices. The BLEU of single sentences depends
on the smoothing, so here a bin is one corpus: all sentences whose index falls into it, scored together.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from tram.analysis.plots import COLOURS, COLUMN, new_figure
from tram.analysis.report import Report
from tram.errors import InputError
from tram.evaluation.metrics import Documents, Measure, check_aligned, per_sentence_spans
from tram.evaluation.significance import SAMPLES, SEED, Counts, Resampling, Values, interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "s-BLEU difference by position in the document"
MIN_DOCUMENTS = 5  # per bin
LAST_INDEX = 100  # later sentences share the last bin
FEW_DOCUMENTS = 30  # with fewer, bootstrap intervals are too narrow (see `significance.p_value`)


@dataclass(frozen=True)
class PositionBin:
    """The scores of sentences `first` to `last` of all documents, counted from 1; without a `last`, to the end."""

    first: int
    last: int | None
    documents: int
    sentences: int
    system: float
    baseline: float
    difference: float
    low: float
    high: float

    @property
    def label(self) -> str:
        """The label on the axis and in the table."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class Trend:
    """The difference in all later bins minus the difference in the first bin."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Breakdown:
    """The differences by position, and whether they grow."""

    bins: list[PositionBin]
    trend: Trend
    signature: str
    resampling: Resampling


def position(
    hypotheses: Documents,
    baseline: Documents,
    references: Documents,
    names: tuple[str, str] = ("system", "baseline"),
    *,
    size: int = 10,
    bootstrap: int = SAMPLES,
    seed: int = SEED,
) -> Report:
    """Return a report on the s-BLEU difference to a baseline by index in the document, `size` indices per bin."""
    result = breakdown(hypotheses, baseline, references, size=size, bootstrap=bootstrap, seed=seed)
    numbers = {
        "system": names[0],
        "baseline": names[1],
        "signature": result.signature,
        "resampling": asdict(result.resampling),
        "bins": [{"label": each.label, **asdict(each)} for each in result.bins],
        "later_minus_first": asdict(result.trend),
    }
    return Report("position", TITLE, numbers, describe(result, names), lambda: draw(result))


def breakdown(
    hypotheses: Documents,
    baseline: Documents,
    references: Documents,
    *,
    size: int = 10,
    bootstrap: int = SAMPLES,
    seed: int = SEED,
) -> Breakdown:
    """Score both systems in every bin, on all documents and on every draw."""
    check_aligned("the hypothesis", hypotheses, "the reference", references)
    check_aligned("the baseline", baseline, "the reference", references)
    if size < 1 or bootstrap < 1:
        raise InputError("a bin needs at least one sentence and the interval at least one draw; give larger numbers")
    lengths = [len(document) for document in references]
    firsts = bin_starts(lengths, size)
    places = [(d, min(i // size, len(firsts) - 1)) for d, length in enumerate(lengths) for i in range(length)]
    flat = [[sentence] for document in references for sentence in document]
    measure = Measure("s-BLEU", BLEU(references=[[s for [s] in flat]]), per_sentence_spans(flat), "unit:sentence")
    resampling = Resampling(len(lengths), bootstrap, seed)
    system, base = (
        _BinScores.of(measure, documents, places, len(firsts), resampling) for documents in (hypotheses, baseline)
    )
    bins = []
    for k, first in enumerate(firsts):
        low, high = _interval(system.bins[:, k] - base.bins[:, k])
        last = None if k == len(firsts) - 1 else first + size - 1
        documents = sum(length >= first for length in lengths)
        sentences = sum(place == k for _, place in places)
        values = system.bin_values[k], base.bin_values[k]
        bins.append(PositionBin(first, last, documents, sentences, *values, values[0] - values[1], low, high))
    growth = (system.later - system.bins[:, 0]) - (base.later - base.bins[:, 0])
    value = (system.later_value - system.bin_values[0]) - (base.later_value - base.bin_values[0])
    return Breakdown(bins, Trend(value, *_interval(growth)), measure.signature, resampling)


def bin_starts(lengths: Sequence[int], size: int, where: str = "") -> list[int]:
    """Return the first index of every bin; bins that fewer than `MIN_DOCUMENTS` documents reach are merged.

    where: prefix of error messages
    """
    if len(lengths) < MIN_DOCUMENTS:
        raise InputError(
            f"{where}{len(lengths)} documents are too few for intervals by position; give at least {MIN_DOCUMENTS}"
        )
    starts = [
        first
        for first in range(1, max(LAST_INDEX, size) + 2, size)
        if sum(n >= first for n in lengths) >= MIN_DOCUMENTS
    ]
    if len(starts) < 2:
        raise InputError(
            f"{where}fewer than {MIN_DOCUMENTS} documents are longer than {size} sentences, which leaves only one bin; "
            "give longer documents or a smaller --bin"
        )
    return starts


@dataclass(frozen=True)
class _BinScores:
    """A system's s-BLEU in every bin and in all bins after the first together; nan for a draw without sentences."""

    bin_values: list[float]
    later_value: float
    bins: Values  # (draws, bins)
    later: Values  # (draws,)

    @classmethod
    def of(
        cls,
        measure: Measure,
        documents: Documents,
        places: list[tuple[int, int]],
        count: int,
        resampling: Resampling,
    ) -> "_BinScores":
        rows = measure.statistics([[sentence] for document in documents for sentence in document])
        table = np.zeros((resampling.documents, count, rows.shape[1]), dtype=np.int64)
        owners, bins = np.array(places).T
        np.add.at(table, (owners, bins), rows)
        draws = resampling.sums(table.reshape(len(table), -1)).reshape(resampling.samples, count, -1)
        totals = table.sum(axis=0)

        def value(statistics: Counts) -> float:
            return measure.value(statistics) if statistics.any() else float("nan")

        return cls(
            [value(part) for part in totals],
            value(totals[1:].sum(axis=0)),
            np.array([[value(part) for part in draw] for draw in draws]),
            np.array([value(draw[1:].sum(axis=0)) for draw in draws]),
        )


def _interval(values: Values) -> tuple[float, float]:
    """Return the 95% interval over the draws that have a document in the bin."""
    return interval(values[~np.isnan(values)])


def describe(result: Breakdown, names: tuple[str, str]) -> str:
    """Return the findings and the method as Markdown."""
    above = [each.label for each in result.bins if each.low > 0]
    below = [each.label for each in result.bins if each.high < 0]
    findings = [
        f"- Sentences {', '.join(labels)}: {names[0]} scores {how}; the interval excludes zero."
        for labels, how in ((above, "higher"), (below, "lower"))
        if labels
    ]
    unclear = len(result.bins) - len(above) - len(below)
    findings += [f"- In {unclear} of {len(result.bins)} bins the interval includes zero."] if unclear else []
    trend = result.trend
    verdict = "grows" if trend.low > 0 else "shrinks" if trend.high < 0 else "neither clearly grows nor clearly shrinks"
    findings.append(
        f"- The difference {verdict} with the index: after sentence {result.bins[1].first - 1} it changes by "
        f"{trend.value:+.2f} BLEU [{trend.low:+.2f}, {trend.high:+.2f}]."
    )
    rows = [
        f"| {each.label} | {each.documents} | {each.sentences} | {each.system:.2f} | {each.baseline:.2f} "
        f"| {each.difference:+.2f} | [{each.low:+.2f}, {each.high:+.2f}] |"
        for each in result.bins
    ]
    few = (
        f" With fewer than {FEW_DOCUMENTS} documents the intervals are too narrow."
        if result.resampling.documents < FEW_DOCUMENTS
        else ""
    )
    return "\n".join(
        [
            "## Findings",
            "",
            *findings,
            "",
            "| index | documents | sentences | system | baseline | difference | 95% interval |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "## Method",
            "",
            f"System: `{names[0]}`; baseline: `{names[1]}`; {result.resampling.documents} documents. s-BLEU of a bin "
            "is corpus BLEU of all sentences whose index in their document falls into it. (The paper averages the "
            "scores of single sentences at each index, then over ten indices; such scores depend on the smoothing.) "
            f"The last bin is open-ended; bins that fewer than {MIN_DOCUMENTS} documents reach are merged into it. "
            f"Intervals: paired bootstrap over documents, {result.resampling.samples} draws, seed "
            f"{result.resampling.seed}, the same draws for both systems and all bins; each interval covers its own bin "
            f"at 95%, not all bins jointly.{few}",
            "",
            f"Signature: `{result.signature}`",
        ]
    )


def draw(result: Breakdown) -> "Figure":
    """Draw the difference in every bin with its interval."""
    figure, axes = new_figure(width=COLUMN, height=2.4)
    x = range(len(result.bins))
    values = [each.difference for each in result.bins]
    below = [each.difference - each.low for each in result.bins]
    above = [each.high - each.difference for each in result.bins]
    axes.axhline(0, color="black", linewidth=0.8)
    axes.errorbar(x, values, yerr=(np.maximum(below, 0), np.maximum(above, 0)), fmt="o-", capsize=2, color=COLOURS[0])
    crowded = len(result.bins) > 6
    labels = [each.label for each in result.bins]
    axes.set_xticks(list(x), labels, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("sentence's index in its document")
    axes.set_ylabel("s-BLEU: system − baseline")
    return figure

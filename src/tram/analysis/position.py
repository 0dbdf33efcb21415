"""Where in a document a system is better than a baseline: the paper's figure "Metric Breakdown".

    report = position(hypotheses, baseline, references, names=("memory", "sentence"))
    report.write(Path("analysis"))             # position.json, .svg, .png and .md

The paper scores every sentence, averages at each index and then over ten indices. BLEU of single sentences depends on
how it is smoothed, so here a bin is one corpus: all sentences whose index falls into it, scored together.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from tram.analysis.plots import COLOURS, COLUMN, new_figure
from tram.analysis.report import Report
from tram.errors import InputError
from tram.evaluation.metrics import Documents, Measure, check_aligned, sentence_spans
from tram.evaluation.significance import Counts, Resampling, Values, interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MINIMUM = 5  # documents in a bin: fewer say nothing
LONGEST = 100  # sentences beyond this index share the last bin
NOTE = 30  # documents: below, bootstrap intervals are too narrow (see `significance.p_value`)


@dataclass(frozen=True)
class Bin:
    """Sentences `first` to `last` of all documents, counted from 1; `last` None: to the end."""

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
        """As it stands under the axis."""
        return f"{self.first}+" if self.last is None else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class Trend:
    """Difference after the first bin minus difference in it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Breakdown:
    """Differences by index, and whether they grow."""

    bins: list[Bin]
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
    bootstrap: int = 1000,
    seed: int = 12345,
) -> Report:
    """s-BLEU difference to a baseline by the sentence's index in its document, `size` indices in a bin."""
    found = breakdown(hypotheses, baseline, references, size=size, bootstrap=bootstrap, seed=seed)
    numbers = {
        "system": names[0],
        "baseline": names[1],
        "signature": found.signature,
        "resampling": asdict(found.resampling),
        "bins": [{"label": each.label, **asdict(each)} for each in found.bins],
        "later_minus_first": asdict(found.trend),
    }
    title = "s-BLEU difference by position in the document"
    return Report("position", title, numbers, _text(found, names), lambda: _draw(found))


def breakdown(
    hypotheses: Documents,
    baseline: Documents,
    references: Documents,
    *,
    size: int = 10,
    bootstrap: int = 1000,
    seed: int = 12345,
) -> Breakdown:
    """Score both systems in every bin and on every draw of documents."""
    check_aligned("the hypothesis", hypotheses, "the reference", references)
    check_aligned("the baseline", baseline, "the reference", references)
    if size < 1 or bootstrap < 1:
        raise InputError("a bin needs at least one sentence and the interval at least one draw; give larger numbers")
    lengths = [len(document) for document in references]
    firsts = bin_starts(lengths, size)
    places = [(d, min(i // size, len(firsts) - 1)) for d, length in enumerate(lengths) for i in range(length)]
    flat = [[sentence] for document in references for sentence in document]
    measure = Measure("s-BLEU", BLEU(references=[[s for [s] in flat]]), sentence_spans(flat), "unit:sentence")
    resampling = Resampling(len(lengths), bootstrap, seed)
    scored = [_Scores.of(measure, documents, places, len(firsts), resampling) for documents in (hypotheses, baseline)]
    system, base = scored
    bins = []
    for k, first in enumerate(firsts):
        low, high = _interval(system.bins[:, k] - base.bins[:, k])
        last = None if k == len(firsts) - 1 else first + size - 1
        documents = sum(length >= first for length in lengths)
        sentences = sum(place == k for _, place in places)
        values = system.bin_values[k], base.bin_values[k]
        bins.append(Bin(first, last, documents, sentences, *values, values[0] - values[1], low, high))
    growth = (system.later - system.bins[:, 0]) - (base.later - base.bins[:, 0])
    value = (system.later_value - system.bin_values[0]) - (base.later_value - base.bin_values[0])
    return Breakdown(bins, Trend(value, *_interval(growth)), measure.signature, resampling)


def bin_starts(lengths: Sequence[int], size: int) -> list[int]:
    """First sentence of every bin; a bin that fewer than `MINIMUM` documents reach joins the one before it."""
    if len(lengths) < MINIMUM:
        raise InputError(f"{len(lengths)} documents are too few for intervals by position; give at least {MINIMUM}")
    starts = [first for first in range(1, max(LONGEST, size) + 2, size) if sum(n >= first for n in lengths) >= MINIMUM]
    if len(starts) < 2:
        raise InputError(
            f"fewer than {MINIMUM} documents are longer than {size} sentences, which leaves one bin only; "
            "give longer documents or a smaller --bin"
        )
    return starts


@dataclass(frozen=True)
class _Scores:
    """A system's s-BLEU in every bin and in all bins after the first; arrays: on every draw, nan where it is empty."""

    bin_values: list[float]
    later_value: float
    bins: Values
    later: Values

    @classmethod
    def of(
        cls,
        measure: Measure,
        documents: Documents,
        places: list[tuple[int, int]],
        count: int,
        resampling: Resampling,
    ) -> "_Scores":
        rows = measure.statistics([[sentence] for document in documents for sentence in document])
        table = np.zeros((resampling.documents, count, rows.shape[1]), dtype=np.int64)
        owners, bins = np.array(places).T
        np.add.at(table, (owners, bins), rows)
        draws = resampling.sums(table.reshape(len(table), -1)).reshape(resampling.samples, count, -1)
        all_of = table.sum(axis=0)

        def value(statistics: Counts) -> float:
            return measure.value(statistics) if statistics.any() else float("nan")

        return cls(
            [value(part) for part in all_of],
            value(all_of[1:].sum(axis=0)),
            np.array([[value(part) for part in draw] for draw in draws]),
            np.array([value(draw[1:].sum(axis=0)) for draw in draws]),
        )


def _interval(values: Values) -> tuple[float, float]:
    """95% interval over the draws that have a document in the bin."""
    return interval(values[~np.isnan(values)])


def _text(found: Breakdown, names: tuple[str, str]) -> str:
    """Return the findings and the method as Markdown."""
    above = [each.label for each in found.bins if each.low > 0]
    below = [each.label for each in found.bins if each.high < 0]
    seen = [f"- {_listed(above)}: {names[0]} scores higher; the interval excludes zero."] if above else []
    seen += [f"- {_listed(below)}: {names[0]} scores lower; the interval excludes zero."] if below else []
    unclear = len(found.bins) - len(above) - len(below)
    seen += [f"- In {unclear} of {len(found.bins)} bins the interval includes zero."] if unclear else []
    trend = found.trend
    verdict = "grows" if trend.low > 0 else "shrinks" if trend.high < 0 else "neither clearly grows nor clearly shrinks"
    seen.append(
        f"- The difference {verdict} with the index: after sentence {found.bins[1].first - 1} it changes by "
        f"{trend.value:+.2f} BLEU [{trend.low:+.2f}, {trend.high:+.2f}]."
    )
    rows = [
        f"| {each.label} | {each.documents} | {each.sentences} | {each.system:.2f} | {each.baseline:.2f} "
        f"| {each.difference:+.2f} | [{each.low:+.2f}, {each.high:+.2f}] |"
        for each in found.bins
    ]
    few = " With fewer than 30 documents the intervals are too narrow." if found.resampling.documents < NOTE else ""
    return "\n".join(
        [
            "## Findings",
            "",
            *seen,
            "",
            "| index | documents | sentences | system | baseline | difference | 95% interval |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "## Method",
            "",
            f"System: `{names[0]}`; baseline: `{names[1]}`; {found.resampling.documents} documents. s-BLEU of a bin is "
            "corpus BLEU of all sentences whose index in their document falls into it. (The paper averages the scores "
            "of single sentences at each index, then over ten indices; such scores depend on the smoothing.) The last "
            f"bin is open-ended; bins that fewer than {MINIMUM} documents reach are merged into it. Intervals: paired "
            f"bootstrap over documents, {found.resampling.samples} draws, seed {found.resampling.seed}, the same draws "
            f"for both systems and all bins; each interval covers its own bin at 95%, not all bins jointly.{few}",
            "",
            f"Signature: `{found.signature}`",
        ]
    )


def _listed(labels: list[str]) -> str:
    return "Sentences " + ", ".join(labels)


def _draw(found: Breakdown) -> "Figure":
    figure, axes = new_figure(width=COLUMN, height=2.4)
    x = range(len(found.bins))
    values = [each.difference for each in found.bins]
    below = [each.difference - each.low for each in found.bins]
    above = [each.high - each.difference for each in found.bins]
    axes.axhline(0, color="black", linewidth=0.8)
    axes.errorbar(x, values, yerr=(np.maximum(below, 0), np.maximum(above, 0)), fmt="o-", capsize=2, color=COLOURS[0])
    crowded = len(found.bins) > 6
    labels = [each.label for each in found.bins]
    axes.set_xticks(list(x), labels, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.grid(axis="x", visible=False)
    axes.set_xlabel("sentence's index in its document")
    axes.set_ylabel("s-BLEU: system − baseline")
    return figure

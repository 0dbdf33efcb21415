"""Scores of translated documents on sacreBLEU: s-BLEU, d-BLEU/doc, d-BLEU/512, chrF2; do two systems differ?

    score_documents(hypotheses, references)                 # documents of sentences, raw, cased, detokenised
    compare(baseline, system, references)                   # paired bootstrap over documents
    print(scores_table(score_systems([("base", a), ("memory", b)], references)))

A score carries sacreBLEU's signature with the unit that was scored, so that two numbers can be told apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal, Protocol

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from tram.errors import InputError
from tram.evaluation.significance import Counts, Resampling, Values, interval, p_value

Documents = list[list[str]]
Spans = list[list[tuple[int, int]]]
"""For each document, the runs of sentences (first, one past the last) that are scored as one segment."""


class SubwordCounter(Protocol):
    """What d-BLEU/512 asks of a text pipeline: subwords (no bos, no eos) and a name for itself."""

    @property
    def fingerprint(self) -> str:
        """Stand for the pipeline in a signature."""

    def encode(self, sentences: list[str], side: Literal["source", "target"]) -> list[list[int]]:
        """Cut sentences into subwords."""


@dataclass(frozen=True)
class Authors:
    """Score as the paper's authors did: unsmoothed BLEU of order 4 on tokenised, truecased text.

    `tokens` gives a sentence's tokens with blanks between them; None: the text is in that form already.
    `fingerprint` names the text pipeline behind `tokens` in the signature.
    """

    tokens: Callable[[str], str] | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Score:
    """A system's score; `low` and `high` bound its 95% interval, where one could be computed."""

    name: str
    value: float
    signature: str
    low: float | None = None
    high: float | None = None
    resampling: Resampling | None = None


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's; interval and p are None where documents cannot be resampled."""

    name: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    signature: str
    resampling: Resampling | None = None


@dataclass(frozen=True)
class SystemResult:
    """A system's scores and their differences from the first system's, which itself has none."""

    name: str
    scores: list[Score]
    differences: list[Difference]


@dataclass(frozen=True)
class Measure:
    """A metric of sacreBLEU that holds the references, cut into segments of one unit.

    The two private calls are those of sacreBLEU's own significance tests and the same for all its metrics.
    """

    name: str
    metric: BLEU | CHRF
    spans: Spans
    suffix: str

    @property
    def signature(self) -> str:
        """Say how the score is made, as sacreBLEU does, and on which unit."""
        return f"{self.metric.get_signature()}|{self.suffix}"

    def statistics(self, documents: Documents) -> Counts:
        """Sum the metric's sufficient statistics over each non-empty document: (documents, statistics)."""
        extracted = self.metric._extract_corpus_statistics(_joined(documents, self.spans), None)
        rows = np.asarray(extracted, dtype=np.int64)
        owners = np.repeat(np.arange(len(documents)), [len(spans) for spans in self.spans])
        totals = np.zeros((len(documents), rows.shape[1]), dtype=np.int64)
        np.add.at(totals, owners, rows)
        return totals[[bool(document) for document in documents]]

    def value(self, statistics: Counts) -> float:
        """Give the score of summed statistics: (statistics,)."""
        return float(self.metric._compute_score_from_stats(statistics.tolist()).score)


@dataclass(frozen=True)
class _Outcome:
    """A system's score by one measure, and its scores on the resampled documents."""

    value: float
    resampled: Values | None


def score_documents(
    hypotheses: Documents,
    references: list[Documents],
    sources: Documents | None = None,
    text: SubwordCounter | None = None,
    *,
    compat: Authors | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
) -> list[Score]:
    """Score one system; `sources` with `text` add d-BLEU/512, `compat` gives the authors' scores instead."""
    systems = [("hypothesis", hypotheses)]
    results = score_systems(systems, references, sources, text, compat=compat, bootstrap=bootstrap, seed=seed)
    return results[0].scores


def compare(
    baseline: Documents,
    system: Documents,
    references: list[Documents],
    sources: Documents | None = None,
    text: SubwordCounter | None = None,
    *,
    compat: Authors | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
) -> list[Difference]:
    """Test whether `system` scores otherwise than `baseline`: paired bootstrap over documents."""
    systems = [("baseline", baseline), ("system", system)]
    results = score_systems(systems, references, sources, text, compat=compat, bootstrap=bootstrap, seed=seed)
    return results[1].differences


def score_systems(
    systems: Sequence[tuple[str, Documents]],
    references: list[Documents],
    sources: Documents | None = None,
    text: SubwordCounter | None = None,
    *,
    compat: Authors | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
) -> list[SystemResult]:
    """Score named systems on the same segments, compare each with the first; `bootstrap=0`: no intervals."""
    _check_input(systems, references, sources, bootstrap, seed)
    if compat is not None:
        systems = [(name, _tokenised(documents, compat.tokens)) for name, documents in systems]
        references = [_tokenised(documents, compat.tokens) for documents in references]
        measures = authors_measures(references, compat)
    else:
        measures = standard_measures(references, sources, text)
    count = sum(map(bool, references[0]))
    resampling = Resampling(count, bootstrap, seed) if count > 1 and bootstrap > 0 else None
    outcomes = [[_outcome(m, documents, resampling) for m in measures] for _, documents in systems]
    results = []
    for index, (name, _) in enumerate(systems):
        scores = [_score(m, o, resampling) for m, o in zip(measures, outcomes[index], strict=True)]
        pairs = zip(measures, outcomes[0], outcomes[index], strict=True) if index > 0 else ()
        results.append(SystemResult(name, scores, [_difference(m, a, b, resampling) for m, a, b in pairs]))
    return results


def standard_measures(
    references: list[Documents], sources: Documents | None = None, text: SubwordCounter | None = None
) -> list[Measure]:
    """Make s-BLEU, d-BLEU/doc, d-BLEU/512 (with a text pipeline) and chrF2 for these references."""
    sentences, documents = sentence_spans(references[0]), document_spans(references[0])
    measures = [
        Measure("s-BLEU", BLEU(references=_segments(references, sentences)), sentences, "unit:sentence"),
        Measure("d-BLEU/doc", BLEU(references=_segments(references, documents)), documents, "unit:document"),
    ]
    if text is not None:
        if sources is None:
            raise InputError("d-BLEU/512 counts the subwords of the source too: give the source documents")
        runs = [runs_below(costs, 512) for costs in subword_costs(references, sources, text)]
        suffix = f"unit:512|text:{text.fingerprint}"
        measures.append(Measure("d-BLEU/512", BLEU(references=_segments(references, runs)), runs, suffix))
    chrf = CHRF(references=_segments(references, sentences))
    return [*measures, Measure("chrF2", chrf, sentences, "unit:sentence")]


def authors_measures(references: list[Documents], compat: Authors) -> list[Measure]:
    """Make the authors' s-BLEU and d-BLEU for references that are tokenised already."""
    suffix = "compat:authors" + (f"|text:{compat.fingerprint}" if compat.fingerprint else "")
    sentences, documents = sentence_spans(references[0]), document_spans(references[0])

    def bleu(spans: Spans) -> BLEU:
        # `force`: sacreBLEU would warn that the text looks tokenised, which here it must be.
        joined = _segments(references, spans)
        return BLEU(force=True, tokenize="none", smooth_method="none", references=joined)

    return [
        Measure("s-BLEU/authors", bleu(sentences), sentences, f"unit:sentence|{suffix}"),
        Measure("d-BLEU/authors", bleu(documents), documents, f"unit:document|{suffix}"),
    ]


def sentence_spans(documents: Documents) -> Spans:
    """Make every sentence a segment."""
    return [[(i, i + 1) for i in range(len(document))] for document in documents]


def document_spans(documents: Documents) -> Spans:
    """Make every document a segment."""
    return [[(0, len(document))] for document in documents]


def runs_below(costs: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Cut sentences into runs whose costs sum to less than `limit`; one that alone reaches it stays alone."""
    runs: list[tuple[int, int]] = []
    start, total = 0, 0
    for index, cost in enumerate(costs):
        if index > start and total + cost >= limit:
            runs.append((start, index))
            start, total = index, 0
        total += cost
    return [*runs, (start, len(costs))] if costs else []


def subword_costs(references: list[Documents], sources: Documents, text: SubwordCounter) -> list[list[int]]:
    """Count max(|source|, |reference|) + 2 subwords for each sentence; of several references, the longest."""
    costs = []
    for source, *targets in zip(sources, *references, strict=True):
        encoded = [text.encode(source, "source"), *(text.encode(target, "target") for target in targets)]
        costs.append([max(map(len, versions)) + 2 for versions in zip(*encoded, strict=True)])
    return costs


def _joined(documents: Documents, spans: Spans) -> list[str]:
    """Join the sentences of each span with blanks."""
    pairs = zip(documents, spans, strict=True)
    return [" ".join(document[first:last]) for document, cuts in pairs for first, last in cuts]


def _segments(references: list[Documents], spans: Spans) -> list[list[str]]:
    """Join each reference's sentences alike."""
    return [_joined(documents, spans) for documents in references]


def _tokenised(documents: Documents, tokens: Callable[[str], str] | None) -> Documents:
    """Apply `tokens` to every sentence."""
    return [list(map(tokens, document)) for document in documents] if tokens else documents


def _outcome(measure: Measure, documents: Documents, resampling: Resampling | None) -> _Outcome:
    """Score a system on its documents and on every draw of them."""
    statistics = measure.statistics(documents)
    value = measure.value(statistics.sum(axis=0))
    if resampling is None:
        return _Outcome(value, None)
    return _Outcome(value, np.array([measure.value(sums) for sums in resampling.sums(statistics)]))


def _score(measure: Measure, result: _Outcome, resampling: Resampling | None) -> Score:
    """Put a score and its interval together."""
    low, high = (None, None) if result.resampled is None else interval(result.resampled)
    return Score(measure.name, result.value, measure.signature, low, high, resampling)


def _difference(measure: Measure, baseline: _Outcome, system: _Outcome, resampling: Resampling | None) -> Difference:
    """Put a difference, its interval and its p-value together."""
    low, high, p = None, None, None
    if baseline.resampled is not None and system.resampled is not None:
        differences = system.resampled - baseline.resampled
        (low, high), p = interval(differences), p_value(differences)
    moved = system.value - baseline.value
    return Difference(measure.name, moved, low, high, p, measure.signature, resampling)


def _check_input(
    systems: Sequence[tuple[str, Documents]],
    references: list[Documents],
    sources: Documents | None,
    bootstrap: int,
    seed: int,
) -> None:
    """Refuse what cannot be scored."""
    if not references or not systems:
        raise InputError("nothing to score: give at least one reference and one hypothesis")
    if not any(references[0]):
        raise InputError("reference: there is no sentence in it: give a file with at least one")
    if bootstrap < 0:
        raise InputError(f"bootstrap: {bootstrap} is not a number of resamples: give 1000, or 0 for none")
    if seed < 0:
        raise InputError(f"seed: {seed} is negative: give 0 or more")
    for number, documents in enumerate(references[1:], start=2):
        check_aligned(f"reference {number}", documents, "reference 1", references[0])
    if sources is not None:
        check_aligned("source", sources, "reference", references[0])
    for name, documents in systems:
        check_aligned(name, documents, "reference", references[0])


def check_aligned(name_a: str, docs_a: Documents, name_b: str, docs_b: Documents) -> None:
    """Refuse two sides that do not have the same documents with the same numbers of sentences."""
    counts = zip_longest(map(len, docs_a), map(len, docs_b))
    for number, (count_a, count_b) in enumerate(counts, start=1):
        if count_a != count_b:
            raise InputError(
                f"document {number}: {_spoken(count_a)} in {name_a} but {_spoken(count_b)} in {name_b}:"
                " give both with the same documents and one line for each sentence"
            )


def _spoken(count: int | None) -> str:
    """Say how many sentences a document has, None standing for one that is not there."""
    if count is None:
        return "missing"
    return "1 sentence" if count == 1 else f"{count} sentences"


def results_json(results: Sequence[SystemResult]) -> list[dict[str, Any]]:
    """Give the results as values that `json` can write."""
    return [asdict(result) for result in results]


def scores_table(results: Sequence[SystemResult]) -> str:
    """Lay the results out for a reader: metric by metric, a line for each system, the signatures below."""
    header = ["metric", "system", "score", "95% interval"]
    if any(result.differences for result in results):
        header += ["difference", "95% interval", "p"]
    rows = [header]
    for column, first in enumerate(results[0].scores):
        for result in results:
            title = first.name if result is results[0] else ""
            rows.append([title, result.name, *_score_cells(result.scores[column])])
            if result.differences:
                rows[-1] += _difference_cells(result.differences[column])
    lines = [*_aligned(rows), ""]
    lines += [f"{entry.name}: {entry.signature}" for entry in results[0].scores]
    return "\n".join([*lines, _resampling_note(results[0].scores[0].resampling)])


def _score_cells(entry: Score) -> list[str]:
    """Write a score and its interval."""
    return [f"{entry.value:.2f}", _bounds(entry.low, entry.high, "")]


def _difference_cells(entry: Difference) -> list[str]:
    """Write a difference, its interval and its p-value."""
    p = "-" if entry.p is None else f"{entry.p:.3f}"
    return [f"{entry.difference:+.2f}", _bounds(entry.low, entry.high, "+"), p]


def _bounds(low: float | None, high: float | None, sign: Literal["", "+"]) -> str:
    """Write an interval, or a dash for none."""
    return "-" if low is None or high is None else f"[{low:{sign}.2f}, {high:{sign}.2f}]"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Pad the cells of each column to one width."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _resampling_note(resampling: Resampling | None) -> str:
    """Say where intervals and p-values come from, and how far to trust them."""
    if resampling is None:
        return "No intervals and no significance: they need at least two documents and some resamples."
    note = (
        f"Intervals and p (two-sided): bootstrap over {resampling.documents} documents,"
        f" {resampling.samples} resamples, seed {resampling.seed}."
    )
    if resampling.documents < 30:
        note += " Fewer than 30 documents make intervals too narrow and p too small: do not lean on them."
    return note

"""s-BLEU, d-BLEU/doc, d-BLEU/512 and chrF2 of translated documents with sacreBLEU, and paired tests of two systems.

    score_documents(hypotheses, references)                 # documents of sentences, raw, cased, detokenised
    compare(baseline, system, references)                   # paired bootstrap over documents
    print(scores_table(score_systems([("base", a), ("memory", b)], references)))

A score includes sacreBLEU's signature and the scored unit, so that only comparable numbers are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from tram.errors import InputError
from tram.evaluation.significance import SAMPLES, SEED, Counts, Resampling, Values, interval, p_value

Documents = list[list[str]]
Spans = list[list[tuple[int, int]]]
"""For each document, the runs of sentences (start, stop) that are scored as one segment."""


class SubwordCounter(Protocol):
    """The part of a text pipeline that d-BLEU/512 needs."""

    @property
    def fingerprint(self) -> str:
        """The name of the pipeline in a signature."""

    def encode(self, sentences: list[str], side: Literal["source", "target"]) -> list[list[int]]:
        """Split sentences into subwords, without bos and eos."""


@dataclass(frozen=True)
class AuthorsBleu:
    """The BLEU of the paper's authors: unsmoothed, of order 4, on tokenised and truecased text.

    `tokens` returns a sentence's tokens separated by spaces; without it, the text is already in that form.
    `fingerprint` names the text pipeline of `tokens` in the signature.
    """

    tokens: Callable[[str], str] | None = None
    fingerprint: str | None = None


class ScoreOptions(TypedDict, total=False):
    """The options of all scoring functions; see `score_systems`."""

    sources: Documents | None
    text: SubwordCounter | None
    compat: AuthorsBleu | None
    bootstrap: int
    seed: int


@dataclass(frozen=True)
class Score:
    """A system's score; `low` and `high` are the bounds of its 95% interval, if it has one."""

    name: str
    value: float
    signature: str
    low: float | None = None
    high: float | None = None
    resampling: Resampling | None = None


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's; interval and p are None if documents cannot be resampled."""

    name: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    signature: str
    resampling: Resampling | None = None


@dataclass(frozen=True)
class SystemResult:
    """A system's scores and their differences from the baseline, which itself has no differences."""

    name: str
    scores: list[Score]
    differences: list[Difference]

    def score(self, metric: str) -> Score:
        """Return the score of a metric, for example s-BLEU."""
        return next(score for score in self.scores if score.name == metric)

    def difference(self, metric: str) -> Difference:
        """Return the difference from the baseline in a metric; for the baseline itself it is zero."""
        if not self.differences:
            return Difference(metric, 0.0, 0.0, 0.0, None, "")
        return next(difference for difference in self.differences if difference.name == metric)


@dataclass(frozen=True)
class Measure:
    """A metric of sacreBLEU with the references, joined into segments of one unit.

    The two private methods that it calls are used by sacreBLEU's own significance tests and exist for all its metrics.
    """

    name: str
    metric: BLEU | CHRF
    spans: Spans
    suffix: str

    @property
    def signature(self) -> str:
        """How the score is computed: the signature of sacreBLEU, and the unit that is scored."""
        return f"{self.metric.get_signature()}|{self.suffix}"

    def statistics(self, documents: Documents) -> Counts:
        """Return the metric's sufficient statistics of each non-empty document: (documents, statistics)."""
        extracted = self.metric._extract_corpus_statistics(_joined(documents, self.spans), None)
        rows = np.asarray(extracted, dtype=np.int64)
        owners = np.repeat(np.arange(len(documents)), [len(spans) for spans in self.spans])
        totals = np.zeros((len(documents), rows.shape[1]), dtype=np.int64)
        np.add.at(totals, owners, rows)
        return totals[[bool(document) for document in documents]]

    def value(self, statistics: Counts) -> float:
        """Return the score of summed statistics: (statistics,)."""
        return float(self.metric._compute_score_from_stats(statistics.tolist()).score)


@dataclass(frozen=True)
class _ResampledScore:
    """A system's score in one metric, and its scores on the resampled documents: (samples,)."""

    value: float
    resampled: Values | None


def score_documents(hypotheses: Documents, references: list[Documents], **options: Unpack[ScoreOptions]) -> list[Score]:
    """Return the scores of one system."""
    return score_systems([("hypothesis", hypotheses)], references, **options)[0].scores


def compare(
    baseline: Documents, system: Documents, references: list[Documents], **options: Unpack[ScoreOptions]
) -> list[Difference]:
    """Test whether the scores of `system` and `baseline` differ: paired bootstrap over documents."""
    return score_systems([("baseline", baseline), ("system", system)], references, **options)[1].differences


def score_systems(
    systems: Sequence[tuple[str, Documents]],
    references: list[Documents],
    sources: Documents | None = None,
    text: SubwordCounter | None = None,
    *,
    compat: AuthorsBleu | None = None,
    bootstrap: int = SAMPLES,
    seed: int = SEED,
) -> list[SystemResult]:
    """Score named systems on the same segments, and compare each with the first.

    sources, text: both are needed for d-BLEU/512; compat: compute the BLEU of the paper's authors instead; bootstrap:
    the number of resamples for intervals and tests, 0 for none.
    """
    _check_input(systems, references, sources, bootstrap, seed)
    if compat is not None:
        systems = [(name, _tokenised(documents, compat.tokens)) for name, documents in systems]
        references = [_tokenised(documents, compat.tokens) for documents in references]
        measures = authors_measures(references, compat)
    else:
        measures = standard_measures(references, sources, text)
    count = sum(map(bool, references[0]))
    resampling = Resampling(count, bootstrap, seed) if count > 1 and bootstrap > 0 else None
    scored = [[_resampled_score(m, documents, resampling) for m in measures] for _, documents in systems]
    results = []
    for index, (name, _) in enumerate(systems):
        scores = [_score(m, each, resampling) for m, each in zip(measures, scored[index], strict=True)]
        pairs = zip(measures, scored[0], scored[index], strict=True) if index > 0 else ()
        results.append(SystemResult(name, scores, [_difference(m, a, b, resampling) for m, a, b in pairs]))
    return results


def standard_measures(
    references: list[Documents], sources: Documents | None = None, text: SubwordCounter | None = None
) -> list[Measure]:
    """Return s-BLEU, d-BLEU/doc, d-BLEU/512 (with a text pipeline) and chrF2 for these references."""
    sentences, documents = per_sentence_spans(references[0]), per_document_spans(references[0])
    measures = [
        Measure("s-BLEU", BLEU(references=_segments(references, sentences)), sentences, "unit:sentence"),
        Measure("d-BLEU/doc", BLEU(references=_segments(references, documents)), documents, "unit:document"),
    ]
    if text is not None:
        if sources is None:
            raise InputError("d-BLEU/512 also counts the subwords of the source; give the source documents")
        runs = [runs_below(costs, 512) for costs in subword_costs(references, sources, text)]
        suffix = f"unit:512|text:{text.fingerprint}"
        measures.append(Measure("d-BLEU/512", BLEU(references=_segments(references, runs)), runs, suffix))
    chrf = CHRF(references=_segments(references, sentences))
    return [*measures, Measure("chrF2", chrf, sentences, "unit:sentence")]


def authors_measures(references: list[Documents], compat: AuthorsBleu) -> list[Measure]:
    """Return the authors' s-BLEU and d-BLEU for references that are tokenised already."""
    suffix = "compat:authors" + (f"|text:{compat.fingerprint}" if compat.fingerprint else "")
    sentences, documents = per_sentence_spans(references[0]), per_document_spans(references[0])

    def bleu(spans: Spans) -> BLEU:
        # Without `force`, sacreBLEU warns that the text looks tokenised, as it should be here.
        joined = _segments(references, spans)
        return BLEU(force=True, tokenize="none", smooth_method="none", references=joined)

    return [
        Measure("s-BLEU/authors", bleu(sentences), sentences, f"unit:sentence|{suffix}"),
        Measure("d-BLEU/authors", bleu(documents), documents, f"unit:document|{suffix}"),
    ]


def per_sentence_spans(documents: Documents) -> Spans:
    """Return one segment per sentence."""
    return [[(i, i + 1) for i in range(len(document))] for document in documents]


def per_document_spans(documents: Documents) -> Spans:
    """Return one segment per document."""
    return [[(0, len(document))] for document in documents]


def runs_below(costs: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Split sentences into runs whose costs sum to less than `limit`; a longer sentence is a run by itself."""
    runs: list[tuple[int, int]] = []
    start, total = 0, 0
    for index, cost in enumerate(costs):
        if index > start and total + cost >= limit:
            runs.append((start, index))
            start, total = index, 0
        total += cost
    return [*runs, (start, len(costs))] if costs else []


def subword_costs(references: list[Documents], sources: Documents, text: SubwordCounter) -> list[list[int]]:
    """Return max(|source|, |reference|) + 2 in subwords for each sentence, with the longest of several references."""
    costs = []
    for source, *targets in zip(sources, *references, strict=True):
        encoded = [text.encode(source, "source"), *(text.encode(target, "target") for target in targets)]
        costs.append([max(map(len, versions)) + 2 for versions in zip(*encoded, strict=True)])
    return costs


def _joined(documents: Documents, spans: Spans) -> list[str]:
    """Join the sentences of each span with spaces."""
    pairs = zip(documents, spans, strict=True)
    return [" ".join(document[first:last]) for document, runs in pairs for first, last in runs]


def _segments(references: list[Documents], spans: Spans) -> list[list[str]]:
    """Join the sentences of each reference."""
    return [_joined(documents, spans) for documents in references]


def _tokenised(documents: Documents, tokens: Callable[[str], str] | None) -> Documents:
    """Apply `tokens` to every sentence."""
    return [list(map(tokens, document)) for document in documents] if tokens else documents


def _resampled_score(measure: Measure, documents: Documents, resampling: Resampling | None) -> _ResampledScore:
    """Score a system on all documents and on every draw of them."""
    statistics = measure.statistics(documents)
    value = measure.value(statistics.sum(axis=0))
    if resampling is None:
        return _ResampledScore(value, None)
    return _ResampledScore(value, np.array([measure.value(sums) for sums in resampling.sums(statistics)]))


def _score(measure: Measure, scored: _ResampledScore, resampling: Resampling | None) -> Score:
    """Return a score with its interval."""
    low, high = (None, None) if scored.resampled is None else interval(scored.resampled)
    return Score(measure.name, scored.value, measure.signature, low, high, resampling)


def _difference(
    measure: Measure, baseline: _ResampledScore, system: _ResampledScore, resampling: Resampling | None
) -> Difference:
    """Return a difference with its interval and its p-value."""
    low, high, p = None, None, None
    if baseline.resampled is not None and system.resampled is not None:
        differences = system.resampled - baseline.resampled
        (low, high), p = interval(differences), p_value(differences)
    difference = system.value - baseline.value
    return Difference(measure.name, difference, low, high, p, measure.signature, resampling)


def _check_input(
    systems: Sequence[tuple[str, Documents]],
    references: list[Documents],
    sources: Documents | None,
    bootstrap: int,
    seed: int,
) -> None:
    """Raise InputError if the input cannot be scored."""
    if not references or not systems:
        raise InputError("nothing to score; give at least one reference and one hypothesis")
    if not any(references[0]):
        raise InputError("reference: has no sentence; give a file with at least one")
    if bootstrap < 0:
        raise InputError(f"bootstrap: {bootstrap} is not a number of resamples; give 1000, or 0 for none")
    if seed < 0:
        raise InputError(f"seed: {seed} is negative; give 0 or more")
    for number, documents in enumerate(references[1:], start=2):
        check_aligned(f"reference {number}", documents, "reference 1", references[0])
    if sources is not None:
        check_aligned("source", sources, "reference", references[0])
    for name, documents in systems:
        check_aligned(name, documents, "reference", references[0])


def check_aligned(name_a: str, docs_a: Documents, name_b: str, docs_b: Documents) -> None:
    """Raise InputError unless both sides have the same number of documents and of sentences in each document."""
    counts = zip_longest(map(len, docs_a), map(len, docs_b))
    for number, (count_a, count_b) in enumerate(counts, start=1):
        if count_a != count_b:
            raise InputError(
                f"document {number}: {_sentence_count(count_a)} in {name_a} but {_sentence_count(count_b)} in {name_b};"
                " give both with the same documents and one line for each sentence"
            )


def _sentence_count(count: int | None) -> str:
    """Return a number of sentences in words; None is a missing document."""
    if count is None:
        return "missing"
    return "1 sentence" if count == 1 else f"{count} sentences"


def results_json(results: Sequence[SystemResult]) -> list[dict[str, Any]]:
    """Return the results as values that `json` can write."""
    return [asdict(result) for result in results]


def scores_table(results: Sequence[SystemResult]) -> str:
    """Return the results as a table: metric by metric, one line for each system, then the signatures."""
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
    lines += [f"{score.name}: {score.signature}" for score in results[0].scores]
    return "\n".join([*lines, _resampling_note(results[0].scores[0].resampling)])


def _score_cells(score: Score) -> list[str]:
    """Format a score and its interval."""
    return [f"{score.value:.2f}", _bounds(score.low, score.high, "")]


def _difference_cells(difference: Difference) -> list[str]:
    """Format a difference, its interval and its p-value."""
    p = "-" if difference.p is None else f"{difference.p:.3f}"
    return [f"{difference.difference:+.2f}", _bounds(difference.low, difference.high, "+"), p]


def _bounds(low: float | None, high: float | None, sign: Literal["", "+"]) -> str:
    """Format an interval; no interval is a dash."""
    return "-" if low is None or high is None else f"[{low:{sign}.2f}, {high:{sign}.2f}]"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Pad the cells of each column to the same width."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _resampling_note(resampling: Resampling | None) -> str:
    """Return a note on how intervals and p-values were computed and when not to trust them."""
    if resampling is None:
        return "No intervals and no significance tests: they need at least two documents and some resamples."
    note = (
        f"Intervals and p (two-sided): bootstrap over {resampling.documents} documents,"
        f" {resampling.samples} resamples, seed {resampling.seed}."
    )
    if resampling.documents < 30:
        note += " Fewer than 30 documents make intervals too narrow and p too small: do not rely on them."
    return note

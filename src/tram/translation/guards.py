"""Translations that cannot be right are noticed, and the sentence is translated again.

    guard = Guard(text, search, longest)                          # search: ids → hypotheses, without context
    chosen = guard.choose(source, hypotheses, spans)              # the first hypothesis in nearly all cases

A translation that loops, is far longer than its source, is empty, or has lost a span (`tram.text.verbatim`) is replaced
by the next hypothesis of the same search, else by a translation without context, else by one with the spans in plain
text, else by one in parts. What none of these helps is marked as doubtful.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tram.text.pipeline import TextPipeline
from tram.text.verbatim import Protected, Written
from tram.translation.parts import split_ids
from tram.translation.search import Hypothesis

Ids = list[int]
Search = Callable[[list[Ids]], list[list[Hypothesis]]]
Problem = Literal["empty", "too long", "loop"]

# What a user is told about a translation.
REPEATED = "repeated"  # translated again without context, or with its spans in plain text
IN_PARTS = "in parts"  # translated piece by piece: every span is present, the sentence may not be fluent
DOUBTFUL = "doubtful"  # loops, is too long or empty whatever was tried

# Thresholds, in subwords. Of 26,391 human translations (development sets of opendocs, dialogue, prose, TED, news and
# Europarl) they reject 11: nine for their length, two because they repeat a word that their source does not repeat.
LENGTH_RATIO, LENGTH_MARGIN = 2, 10  # longer than ratio · source + margin is too long
NGRAM = 4  # shorter ones recur in good translations
MAX_RECURRENCE = 2  # an n-gram recurs more often than this and twice the count of any n-gram of the source: a loop
COPIES = 3  # in a row are a loop, if there are not half as many in the source,
MIN_RUN = 6  # and if they are so many subwords: "blah blah blah" is two or three each
MIN_CLAUSE = 4  # subwords of a part; fewer have too little to go by


@dataclass(frozen=True, slots=True)
class Spans:
    """A sentence, or a part of it, with spans: as it is, and as it was given to the model."""

    protected: Protected
    written: Written

    def of_part(self, text: str) -> "Spans":
        """Return the spans of a part of the sentence, written in the same way."""
        protected = replace(self.protected, text=self.written.with_sentinels(text))
        return Spans(protected, replace(self.written, text=text))


def find_problem(source: Ids, target: Ids) -> Problem | None:
    """Return why a translation cannot be right, judged by its subwords; None in nearly all cases."""
    if not target:
        return "empty"
    if len(target) > LENGTH_RATIO * len(source) + LENGTH_MARGIN:
        return "too long"
    counts = _ngrams(target)
    if max(counts.values(), default=1) == 1:  # nothing recurs: no need to look closer
        return None
    recurs = max(counts.values()) > 2 * max(_ngrams(source).values(), default=1) + MAX_RECURRENCE
    run = _longest_run(target)
    return "loop" if recurs or (run >= MIN_RUN and run > 2 * _longest_run(source)) else None


def _ngrams(ids: Ids) -> Counter[tuple[int, ...]]:
    return Counter(tuple(ids[i : i + NGRAM]) for i in range(len(ids) - NGRAM + 1))


def _longest_run(ids: Ids) -> int:
    """Return the length of the longest stretch that is at least three copies of the same subwords in a row."""
    longest = 0
    for period in range(1, len(ids) // COPIES + 1):
        same = 0
        for i in range(period, len(ids)):
            same = same + 1 if ids[i] == ids[i - period] else 0
            if same >= (COPIES - 1) * period:
                longest = max(longest, same + period)
    return longest


@dataclass(frozen=True)
class Guard:
    """Chooses the translation of a sentence, and asks for others where the search's own cannot be right."""

    text: TextPipeline
    search: Search  # without context
    longest: int  # the most ids of a sentence

    def choose(
        self, source: Ids, hypotheses: list[Hypothesis], spans: Spans | None = None, in_context: bool = True
    ) -> Hypothesis:
        """Return the first of the search's hypotheses that can be right, or a new one with warnings.

        A new one has no `update_inputs`: the state must be updated by reading it.
        """
        if (found := self._acceptable(source, hypotheses, spans)) is not None:
            return found
        alone = self.search([source])[0] if in_context else []
        if (found := self._acceptable(source, alone, spans)) is not None:
            return _new(found, REPEATED)
        if spans is None:
            in_parts = self._in_clauses(source)
        elif (found := self._in_plain_text(spans)) is not None:
            return _new(found, REPEATED)
        else:
            in_parts = self._between_spans(spans)
        if in_parts is not None and (spans is not None or find_problem(source, in_parts.ids) is None):
            return self._readable(in_parts)
        # All that is left is wrong; the shortest has the least of a loop
        attempts = [each for each in (*hypotheses[:1], *alone[:1], in_parts) if each is not None]
        return self._readable(_new(min(attempts, key=lambda each: (not each.ids, len(each.ids))), DOUBTFUL))

    def _readable(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return a translation whose ids the model can read; those of many parts may be too many for it."""
        if len(hypothesis.ids) <= self.longest:
            return hypothesis
        text = self._decoded(hypothesis) if hypothesis.text is None else hypothesis.text
        return replace(hypothesis, ids=hypothesis.ids[: self.longest], text=text)

    def _acceptable(self, source: Ids, hypotheses: list[Hypothesis], spans: Spans | None) -> Hypothesis | None:
        return next((each for each in hypotheses if self.accepts(source, each, spans)), None)

    def accepts(self, source: Ids, hypothesis: Hypothesis, spans: Spans | None = None) -> bool:
        """Return whether a translation can be right: without a problem, and with all spans of its source."""
        if find_problem(source, hypothesis.ids) is not None:
            return False
        return spans is None or spans.written.keeps_spans(spans.written.text, self._decoded(hypothesis))

    def _decoded(self, hypothesis: Hypothesis) -> str:
        return self.text.decode([hypothesis.ids])[0]

    def _in_plain_text(self, spans: Spans) -> Hypothesis | None:
        """Translate a sentence with its spans in their places; None if they do not come out as they went in."""
        plain = spans.protected.as_plain()
        if plain is None:
            return None
        ids = self.text.encode([plain.text], "source")[0]
        for hypothesis in self.search([ids])[0] if 0 < len(ids) <= self.longest else []:
            text = self._decoded(hypothesis)
            if find_problem(ids, hypothesis.ids) is None and plain.keeps_spans(plain.text, text):
                return replace(hypothesis, text=plain.with_sentinels(text))
        return None

    def _between_spans(self, spans: Spans) -> Hypothesis:
        """Translate the text between the spans piece by piece."""
        scores: list[float] = []
        wrong = False

        def translate(pieces: list[str]) -> list[str]:
            nonlocal wrong
            ids = [each[: self.longest] for each in self.text.encode(pieces, "source")]
            found = iter(self.search([each for each in ids if each]))
            texts = []
            for each in ids:
                hypotheses = next(found) if each else []
                best = next((h for h in hypotheses if find_problem(each, h.ids) is None), None)
                wrong |= best is None and bool(each)
                texts.append(self._decoded(best or hypotheses[0]) if hypotheses else "")
                scores.extend(h.score for h in hypotheses[:1])
            return texts

        text = spans.protected.in_pieces(translate)
        ids = self.text.encode([text], "target")[0]
        warnings = (IN_PARTS, DOUBTFUL) if wrong else (IN_PARTS,)
        return Hypothesis(ids, sum(scores) / max(len(scores), 1), text=text, warnings=warnings)

    def _in_clauses(self, source: Ids) -> Hypothesis | None:
        """Translate the clauses of a sentence, or its halves, on their own; None if it is too short for that."""
        clauses = split_clauses(source, self.text.bpe.pieces(source))
        if len(clauses) < 2:
            return None
        best = [
            next((each for each in found if find_problem(clause, each.ids) is None), found[0])
            for clause, found in zip(clauses, self.search(clauses), strict=True)
        ]
        ids = [number for each in best for number in each.ids]
        return Hypothesis(ids, sum(each.score for each in best) / len(best), warnings=(IN_PARTS,))


def _new(hypothesis: Hypothesis, warning: str) -> Hypothesis:
    """Return a hypothesis of another search: its decoder states are not those of the document."""
    return replace(hypothesis, update_inputs={}, warnings=(*hypothesis.warnings, warning))


def split_clauses(ids: Ids, pieces: list[str]) -> list[Ids]:
    """Split a sentence after its signs, or into halves where it has none inside."""
    clauses, start = [], 0
    for end, piece in enumerate(pieces, start=1):
        if piece.lstrip("▁") in {",", ";", ":", ".", "!", "?", "–", "—"} and end - start >= MIN_CLAUSE:
            if len(ids) - end < MIN_CLAUSE:
                break
            clauses.append(ids[start:end])
            start = end
    if not clauses and len(ids) >= 2 * MIN_CLAUSE:
        return split_ids(ids, (len(ids) + 1) // 2 + 1, pieces)
    return [*clauses, ids[start:]]

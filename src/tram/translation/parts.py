"""Sentences as ids: those too long for the model are translated in several parts and joined again."""

from bisect import bisect_right
from dataclasses import dataclass

from tram.text.pipeline import TextPipeline
from tram.text.words import Alignment
from tram.translation.alignment import words_of_attention
from tram.translation.search import Hypothesis

Found = list[Hypothesis]  # of one sentence or part, best first


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence; score: log-probability / length^penalty.

    alignment: (source word, target word) pairs, words being what white space separates; None unless asked for.
    warnings: `repeated`, `in parts`, `doubtful` (`tram.translation.guards`).
    """

    text: str
    score: float
    alignment: Alignment | None = None
    warnings: tuple[str, ...] = ()


class SplitSentences:
    """Sentences as ids, in several parts where they are too long, and the way back.

    ids: of all parts, none empty; split: how many sentences have more than one part.
    """

    def __init__(self, text: TextPipeline, sentences: list[str], longest: int) -> None:
        self.text = text
        self.sentences = sentences
        self.longest = longest
        self.ids: list[list[int]] = []
        self.split = 0
        self._parts: list[range] = []  # of every sentence
        for ids in text.encode(sentences, "source"):
            start = len(self.ids)
            self.ids += split_ids(ids, longest, text.bpe.pieces(ids)) if len(ids) > longest else [ids] * bool(ids)
            self._parts.append(range(start, len(self.ids)))
            self.split += len(self._parts[-1]) > 1
        self._last = {parts[-1] for parts in self._parts if parts}

    @property
    def empty(self) -> int:
        """The number of sentences without ids."""
        return len(self._parts) - self.non_empty()

    def completes(self, part: int) -> bool:
        """Return whether a part is the last one of its sentence."""
        return part in self._last

    def non_empty(self, start: int = 0, end: int | None = None) -> int:
        """Return how many of the sentences, or of those from start to end, have any ids."""
        return sum(len(parts) > 0 for parts in self._parts[start:end])

    def pairs(self, targets: list[str]) -> list[list[tuple[list[int], list[int]]]]:
        """Return the parts of every sentence with the parts of its translation; those that lack either are left out."""
        gold = self.gold(targets)
        found = [[(self.ids[part], gold[part]) for part in parts] for parts in self._parts]
        return [parts for parts in found if any(target for _, target in parts)]

    def gold(self, targets: list[str]) -> list[list[int]]:
        """Return the ids of reference translations, in as many parts as their sources have, truncated if too long."""
        gold: list[list[int]] = []
        for parts, ids in zip(self._parts, self.text.encode(targets, "target"), strict=True):
            size = -(-len(ids) // len(parts)) if len(parts) else 0
            gold += [ids[i * size : (i + 1) * size][: self.longest] for i in range(len(parts))]
        return gold

    def join(self, found: list[Found], n: int) -> list[list[Translation]]:
        """Return n-best lists of the sentences from those of their parts; a split sentence has only its best."""
        results = []
        for sentence, parts in zip(self.sentences, self._parts, strict=True):
            if len(parts) == 0:
                results.append([Translation("", 0.0)])
            elif len(parts) == 1:
                results.append([self._translation(sentence, parts, [option]) for option in found[parts[0]][:n]])
            else:
                results.append([self._translation(sentence, parts, [found[part][0] for part in parts])])
        return results

    def _translation(self, sentence: str, parts: range, found: Found) -> Translation:
        """Return the translation of a sentence from those of its parts."""
        decoded = self.text.decode([part.ids for part in found])
        text = " ".join(each if part.text is None else part.text for each, part in zip(decoded, found, strict=True))
        score = sum(part.score for part in found) / len(found)
        weights = [part.attention for part in found if part.attention is not None]
        alignment = None
        if weights:
            ids = [self.ids[part] for part in parts], [part.ids for part in found]
            alignment = words_of_attention(self.text, sentence, text, *ids, weights)
        return Translation(text, score, alignment, tuple(dict.fromkeys(w for part in found for w in part.warnings)))

    def sentence_of(self, part: int) -> tuple[int, int]:
        """Return the number of the sentence that a part belongs to, and how many parts that has."""
        number = bisect_right(self._parts, part, key=lambda parts: parts.start) - 1
        return number, len(self._parts[number])


def split_ids(ids: list[int], longest: int, pieces: list[str]) -> list[list[int]]:
    """Split ids into parts of at most `longest`, at the start of a word if that leaves no tiny part."""
    starts = [i for i, piece in enumerate(pieces) if piece.startswith("▁")]
    parts, start, words = [], 0, 0
    while len(ids) - start > longest:
        cut = start + longest
        while words < len(starts) and starts[words] <= cut:
            words += 1
        if words and starts[words - 1] > start + longest // 2:
            cut = starts[words - 1]
        parts.append(ids[start:cut])
        start = cut
    return [*parts, ids[start:]]

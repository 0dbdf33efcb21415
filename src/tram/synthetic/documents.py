"""Synthetic documents: threads of sentences that depend on each other, with plain sentences between them.

    for document in generate(seed=1, documents=1000):
        document.source, document.target

An opening is valid until the next opening of its kind: "it" is the thing announced last, "you" the person greeted
last, "I" the person introduced last. An ambiguous noun depends on its topic, a term on its first translation.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.synthetic import frames
from tram.synthetic.grammar import Frame, Word, fill
from tram.synthetic.threads import (
    PHENOMENA,
    PHENOMENON_NAMES,
    SplitName,
    Thread,
    ThreadSentence,
    draw_fillers,
    draw_thread,
    is_allowed,
)

_OPENING_PROBABILITY = 0.6  # that a free position opens a thread
_MAX_QUESTIONS = 4  # per opening


def generate(
    seed: int,
    documents: int,
    distances: Sequence[int] | None = None,
    sentences: tuple[int, int] = (10, 40),
    split: SplitName = "train",
    phenomena: Sequence[str] = PHENOMENON_NAMES,
) -> Iterator[ParallelDocument]:
    """Yield documents, which are a function of the seed.

    distances: allowed numbers of sentences from an opening to its questions; None: any, with a bias to short ones
    sentences: minimum and maximum length of a document; a document is extended if a distance would not fit
    phenomena: names of the phenomena to use
    """
    check_distances(distances)
    check_phenomena(phenomena)
    if not 2 <= sentences[0] <= sentences[1]:
        raise InputError(f"sentences={sentences}: give a minimum of 2 or more and a maximum that is not smaller")
    return (_document(seed, number, distances, sentences, split, phenomena) for number in range(documents))


def check_distances(distances: Sequence[int] | None) -> None:
    """Refuse an empty list of distances and distances below 1."""
    if distances is not None and (not distances or min(distances) < 1):
        raise InputError(f"distances={list(distances)}: give one or more distances, each 1 or more")


def check_phenomena(names: Sequence[str]) -> None:
    """Refuse unknown names of phenomena."""
    if unknown := [name for name in names if name not in PHENOMENON_NAMES]:
        raise InputError(f"phenomenon {unknown[0]!r} is not known: choose from {', '.join(PHENOMENON_NAMES)}")


def _document(
    seed: int,
    number: int,
    distances: Sequence[int] | None,
    sentences: tuple[int, int],
    split: SplitName,
    phenomena: Sequence[str],
) -> ParallelDocument:
    rng = Random(f"{seed} {split} {number}")
    length = rng.randint(*sentences)
    if distances and (longest := rng.choice(distances)) >= length:
        length += longest
    outline = Outline(rng, split, length, phenomena)
    outline.add_threads(distances)
    pairs = outline.sentences()
    return ParallelDocument(
        [pair.source for pair in pairs], [pair.target for pair in pairs], f"synthetic-{seed}-{split}-{number}"
    )


class Outline:
    """The outline of a document: which sentence belongs to which thread."""

    def __init__(self, rng: Random, split: SplitName, length: int, phenomena: Sequence[str] = PHENOMENON_NAMES) -> None:
        self._rng, self._split, self._length = rng, split, length
        self._phenomena = [phenomenon for phenomenon in PHENOMENA if phenomenon.name in phenomena]
        self._placed: dict[int, tuple[ThreadSentence, int]] = {}  # with the answer
        self._question_counts: Counter[str] = Counter()
        self._reserved: list[tuple[range, set[str]]] = []

    def place(self, thread: Thread, answer: int, start: int, questions: Sequence[int]) -> dict[int, ThreadSentence]:
        """Put a thread's opening and questions at these positions and return its sentences by position."""
        sentences = {start: thread.opening(self._rng)}
        sentences |= zip(questions, thread.questions(self._rng, self._split, len(questions)), strict=True)
        self._placed |= {position: (sentence, answer) for position, sentence in sentences.items()}
        self._question_counts[thread.phenomenon.name] += len(questions)
        end = max(questions) + 1 if thread.phenomenon.variable else self._length
        self._reserved.append((range(start, end), thread.reserved))
        return sentences

    def reserve(self, thread: Thread) -> None:
        """Reserve the variable and words of this thread in the whole document."""
        self._reserved.append((range(self._length), thread.reserved))

    def add_threads(self, distances: Sequence[int] | None = None) -> None:
        """Open threads at free positions, from left to right, with questions at later free positions."""
        for start in range(self._length):
            if start not in self._placed and self._rng.random() < _OPENING_PROBABILITY:
                after = range(1, self._length - start) if distances is None else distances
                self._add_thread(start, [start + distance for distance in after])

    def sentences(self) -> list[Frame]:
        """Return all sentences of the document, in both languages."""
        return [self._sentence(position) for position in range(self._length)]

    def _add_thread(self, start: int, positions: Sequence[int]) -> None:
        free = [position for position in positions if position < self._length and position not in self._placed]
        thread = self._draw_thread(start) if free else None
        if thread:
            weights = [1 / (position - start) for position in free]
            count = self._rng.randint(1, min(_MAX_QUESTIONS, thread.question_count(self._split)))
            questions = sorted(set(self._rng.choices(free, weights, k=count)))
            self.place(thread, self._rng.randrange(thread.phenomenon.answers), start, questions)

    def _draw_thread(self, position: int) -> Thread | None:
        avoid = self._reserved_at(position)
        shuffled = self._rng.sample(self._phenomena, len(self._phenomena))
        rarest_first = sorted(shuffled, key=lambda phenomenon: self._question_counts[phenomenon.name])
        drawn = (draw_thread(self._rng, phenomenon, avoid) for phenomenon in rarest_first)
        return next(filter(None, drawn), None)

    def _reserved_at(self, position: int) -> set[str]:
        return {name for span, names in self._reserved if position in span for name in names}

    def _sentence(self, position: int) -> Frame:
        if position in self._placed:
            sentence, answer = self._placed[position]
            return sentence.realize(answer)
        return plain_sentence(self._rng, self._split, self._reserved_at(position))


def plain_sentence(rng: Random, split: SplitName, avoid: set[str]) -> Frame:
    """Draw a sentence that needs no context and mentions no noun in `avoid`."""
    index = rng.randrange(len(frames.PLAIN))

    def fits(word: Word) -> bool:
        return word.source not in avoid and is_allowed(split, word.number, index)

    return fill(frames.PLAIN[index], draw_fillers(rng, frames.PLAIN[index], fits))

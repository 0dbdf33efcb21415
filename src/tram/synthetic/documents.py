"""Synthetic documents: threads laid out over the sentences, plain sentences between them.

    for document in generate(seed=1, documents=1000):
        document.source, document.target

An opening rules until the next one of its kind: "it" is what was announced last, "you" whoever was greeted
last, "I" whoever gave a name last. An ambiguous noun follows the topic that suits it, a term its first use.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.synthetic import frames
from tram.synthetic.grammar import Frame, Word, say
from tram.synthetic.threads import NAMES, PHENOMENA, Split, Thread, Turn, belongs, draw, fillers

_START = 0.6  # how often a sentence that is still free opens a thread
_QUESTIONS = 4  # at most so many hang on one opening


def generate(
    seed: int,
    documents: int,
    distances: Sequence[int] | None = None,
    sentences: tuple[int, int] = (10, 40),
    split: Split = "train",
    phenomena: Sequence[str] = NAMES,
) -> Iterator[ParallelDocument]:
    """Give documents; the same seed gives the same ones.

    distances: how many sentences after its opening a question may stand; None: any, short ones more often
    sentences: least and most sentences of a document; one is lengthened by a distance that would not fit
    phenomena: what is asked for, by name
    """
    check_distances(distances)
    check_phenomena(phenomena)
    if not 2 <= sentences[0] <= sentences[1]:
        raise InputError(f"sentences={sentences}: give the least, 2 or more, and the most, not below the least")
    return (_document(seed, number, distances, sentences, split, phenomena) for number in range(documents))


def check_distances(distances: Sequence[int] | None) -> None:
    """Refuse distances that no sentence can have."""
    if distances is not None and (not distances or min(distances) < 1):
        raise InputError(f"distances={list(distances)}: give one or more distances, each 1 or more")


def check_phenomena(names: Sequence[str]) -> None:
    """Refuse names that no phenomenon has."""
    if unknown := [name for name in names if name not in NAMES]:
        raise InputError(f"phenomenon {unknown[0]!r} is not known: choose from {', '.join(NAMES)}")


def _document(
    seed: int,
    number: int,
    distances: Sequence[int] | None,
    sentences: tuple[int, int],
    split: Split,
    phenomena: Sequence[str],
) -> ParallelDocument:
    rng = Random(f"{seed} {split} {number}")
    length = rng.randint(*sentences)
    if distances and (longest := rng.choice(distances)) >= length:
        length += longest
    script = Script(rng, split, length, phenomena)
    script.add_threads(distances)
    pairs = script.sentences()
    return ParallelDocument(
        [pair.source for pair in pairs], [pair.target for pair in pairs], f"synthetic-{seed}-{split}-{number}"
    )


class Script:
    """The plan of a document: which sentence belongs to which thread."""

    def __init__(self, rng: Random, split: Split, length: int, phenomena: Sequence[str] = NAMES) -> None:
        self._rng, self._split, self._length = rng, split, length
        self._phenomena = [phenomenon for phenomenon in PHENOMENA if phenomenon.name in phenomena]
        self._turns: dict[int, tuple[Turn, int]] = {}
        self._asked: Counter[str] = Counter()
        self._running: list[tuple[range, set[str]]] = []

    def place(self, thread: Thread, answer: int, start: int, questions: Sequence[int]) -> dict[int, Turn]:
        """Put a thread's opening and questions at these positions; give its turns."""
        turns = {start: thread.opening(self._rng)}
        turns |= zip(questions, thread.questions(self._rng, self._split, len(questions)), strict=True)
        self._turns |= {position: (turn, answer) for position, turn in turns.items()}
        self._asked[thread.phenomenon.name] += len(questions)
        end = max(questions) + 1 if thread.phenomenon.variable else self._length
        self._running.append((range(start, end), thread.holds))
        return turns

    def reserve(self, thread: Thread) -> None:
        """Keep all other sentences away from what this thread holds."""
        self._running.append((range(self._length), thread.holds))

    def add_threads(self, distances: Sequence[int] | None = None) -> None:
        """Open threads at free positions, from left to right, with questions at free positions after them."""
        for start in range(self._length):
            if start not in self._turns and self._rng.random() < _START:
                after = range(1, self._length - start) if distances is None else distances
                self._add_thread(start, [start + distance for distance in after])

    def sentences(self) -> list[Frame]:
        """Say the whole document."""
        return [self._sentence(position) for position in range(self._length)]

    def _add_thread(self, start: int, positions: Sequence[int]) -> None:
        free = [position for position in positions if position < self._length and position not in self._turns]
        thread = self._draw(start) if free else None
        if thread:
            weights = [1 / (position - start) for position in free]
            count = self._rng.randint(1, min(_QUESTIONS, thread.variety(self._split)))
            questions = sorted(set(self._rng.choices(free, weights, k=count)))
            self.place(thread, self._rng.randrange(thread.phenomenon.answers), start, questions)

    def _draw(self, position: int) -> Thread | None:
        avoid = self._held(position)
        shuffled = self._rng.sample(self._phenomena, len(self._phenomena))
        rarest_first = sorted(shuffled, key=lambda phenomenon: self._asked[phenomenon.name])
        drawn = (draw(self._rng, phenomenon, avoid) for phenomenon in rarest_first)
        return next(filter(None, drawn), None)

    def _held(self, position: int) -> set[str]:
        return {name for span, names in self._running if position in span for name in names}

    def _sentence(self, position: int) -> Frame:
        if position in self._turns:
            turn, answer = self._turns[position]
            return turn.voiced(answer)
        return plain(self._rng, self._split, self._held(position))


def plain(rng: Random, split: Split, avoid: set[str]) -> Frame:
    """Draw a sentence that needs no context and mentions no noun in `avoid`."""
    index = rng.randrange(len(frames.PLAIN))

    def fits(word: Word) -> bool:
        return word.source not in avoid and belongs(split, word.number, index)

    return say(frames.PLAIN[index], fillers(rng, frames.PLAIN[index], fits))

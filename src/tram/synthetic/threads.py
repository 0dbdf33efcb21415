"""What earlier sentences decide: six phenomena, and threads of sentences that belong together by one of them.

    thread = draw(rng, phenomenon, avoid=set())
    opening, (question,) = thread.opening(rng), thread.questions(rng, "train", 1)
    opening.voiced(0), question.voiced(0)

This says both sentences with the first answer; `question.answers()` are the translations with all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, NamedTuple

from tram.synthetic import frames, lexicon
from tram.synthetic.grammar import Frame, Word, choose, say, slots

Split = Literal["train", "dev", "test"]
HELD_OUT = 6  # one combination of word and frame in so many is kept for the test


class Cast(NamedTuple):
    """The words of a thread, one for each answer: in its opening and in its questions; in English, these are one."""

    marks: tuple[Word, ...]
    subjects: tuple[Word, ...]


@dataclass(frozen=True)
class Phenomenon:
    """A kind of sentence that needs context.

    `variable` names what an opening sets until the next one sets it anew; without it, each word is a variable
    of its own and keeps its value for the whole document.
    """

    name: str
    answers: int
    openings: tuple[Frame, ...]
    questions: tuple[Frame, ...]
    cast: Callable[[Random, set[str]], Cast | None]
    variable: str | None = None


class Turn(NamedTuple):
    """One sentence of a thread, ready to be said; `marks` has the word `x` for each answer."""

    frame: Frame
    fillers: Mapping[str, Word]
    marks: tuple[Word, ...]

    def voiced(self, answer: int) -> Frame:
        """Say the sentence with one answer, in both languages."""
        said = say(self.frame, {**self.fillers, "x": self.marks[answer]})
        return Frame(said.source, choose(said.target, answer))

    def answers(self) -> list[str]:
        """Give the translation with each of the answers."""
        return [self.voiced(answer).target for answer in range(len(self.marks))]


@dataclass(frozen=True)
class Thread:
    """An opening and the questions it decides."""

    phenomenon: Phenomenon
    cast: Cast

    @property
    def holds(self) -> set[str]:
        """Name what no other sentence may touch while the thread runs: its variable and its English words."""
        words = {word.source for word in (*self.cast.marks, *self.cast.subjects)}
        return words | ({self.phenomenon.variable} if self.phenomenon.variable else set())

    def opening(self, rng: Random) -> Turn:
        """Draw the sentence that decides."""
        frame = rng.choice(self.phenomenon.openings)
        return Turn(frame, fillers(rng, frame), self.cast.marks)

    def questions(self, rng: Random, split: Split, count: int) -> list[Turn]:
        """Draw different sentences that are decided; there are no more than the split has `variety`."""
        drawn = rng.sample(self._frames(split), count)
        return [Turn(frame, fillers(rng, frame), self.cast.subjects) for frame in drawn]

    def variety(self, split: Split) -> int:
        """Count the frames in which the split may use the thread's word."""
        return len(self._frames(split))

    def _frames(self, split: Split) -> list[Frame]:
        number = self.cast.subjects[0].number
        return [f for index, f in enumerate(self.phenomenon.questions) if belongs(split, number, index)]


def belongs(split: Split, word: int, frame: int) -> bool:
    """Tell whether a split may use word number `word` in frame number `frame`.

    Every sixth combination is the test's alone, and the test has no others.
    """
    return ((word + frame) % HELD_OUT == 0) == (split == "test")


def draw(rng: Random, phenomenon: Phenomenon, avoid: set[str]) -> Thread | None:
    """Draw a thread that touches nothing in `avoid`, if there is one."""
    if phenomenon.variable in avoid:
        return None
    cast = phenomenon.cast(rng, avoid)
    return Thread(phenomenon, cast) if cast else None


def fillers(rng: Random, frame: Frame, fits: Callable[[Word], bool] = lambda _: True) -> dict[str, Word]:
    """Draw words for the slots that decide nothing, no word twice; nouns must fit."""
    chosen: dict[str, Word] = {}
    for slot in _fillable(frame):
        noun = slot in ("thing", "thing2", "animal")
        words = [word for word in lexicon.FILLERS[slot] if not noun or fits(word)]
        chosen[slot] = rng.choice([word for word in words if word not in chosen.values()])
    return chosen


@cache
def _fillable(frame: Frame) -> tuple[str, ...]:
    return tuple(sorted(slots(frame) - {"x"}))


def _free(words: Iterable[Word], avoid: set[str]) -> list[Word]:
    return [word for word in words if word.source not in avoid]


def _objects(rng: Random, avoid: set[str]) -> tuple[Word, Word, Word]:
    """Draw a thing of each gender, all three alike in the frames that are held out for them."""
    rest = rng.randrange(HELD_OUT)
    masculine, feminine, neuter = (
        rng.choice([word for word in _free(things, avoid) if word.number % HELD_OUT == rest])
        for things in lexicon.THINGS.values()
    )
    return masculine, feminine, neuter


def _pronoun(rng: Random, avoid: set[str]) -> Cast:
    marks = _objects(rng, avoid)
    return Cast(marks, (marks[0],) * 3)


def _possessive(rng: Random, avoid: set[str]) -> Cast:
    masculine, feminine, neuter = _objects(rng, avoid)
    mark = rng.choice((masculine, neuter))
    return Cast((mark, feminine), (mark, mark))


def _address(rng: Random, avoid: set[str]) -> Cast:
    subject = rng.choice(_free(lexicon.ALL_THINGS, avoid))
    return Cast((rng.choice(lexicon.FRIENDS), rng.choice(lexicon.STRANGERS)), (subject, subject))


def _speaker(rng: Random, avoid: set[str]) -> Cast:
    names = rng.choice(lexicon.MEN), rng.choice(lexicon.WOMEN)
    job = rng.choice(lexicon.JOBS)
    return Cast(names, (job, job))


def _sense(rng: Random, avoid: set[str]) -> Cast | None:
    nouns = [noun for noun in lexicon.AMBIGUOUS if noun.word.source not in avoid]
    if not nouns:
        return None
    noun = rng.choice(nouns)
    return Cast(noun.topics, (noun.word, noun.word))


def _term(rng: Random, avoid: set[str]) -> Cast | None:
    terms = [term for term in lexicon.TERMS if term[0].source not in avoid]
    if not terms:
        return None
    term = rng.choice(terms)
    return Cast(term, term)


PHENOMENA = (
    Phenomenon("pronoun", 3, frames.ANNOUNCEMENTS, frames.PRONOUN, _pronoun, "(object)"),
    Phenomenon("possessive", 2, frames.ANNOUNCEMENTS, frames.POSSESSIVE, _possessive, "(object)"),
    Phenomenon("address", 2, frames.GREETINGS, frames.ADDRESS, _address, "(addressee)"),
    Phenomenon("speaker", 2, frames.INTRODUCTIONS, frames.SPEAKER, _speaker, "(speaker)"),
    Phenomenon("sense", 2, frames.TOPICS, frames.SENSE, _sense),
    Phenomenon("term", 2, frames.FIRST_MENTIONS, frames.TERM, _term),
)
NAMES = tuple(phenomenon.name for phenomenon in PHENOMENA)

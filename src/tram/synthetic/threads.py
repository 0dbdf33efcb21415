"""Six phenomena in which an earlier sentence decides a translation, and threads of sentences that they connect.

    thread = draw_thread(rng, phenomenon, avoid=set())
    opening, (question,) = thread.opening(rng), thread.questions(rng, "train", 1)
    opening.realize(0), question.realize(0)

The last line returns both sentences with the first answer; `question.translations()` has one translation per answer.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal, NamedTuple

from tram.synthetic import frames, lexicon
from tram.synthetic.grammar import Frame, Word, choose_answer, fill, slots

SplitName = Literal["train", "dev", "test"]
HELD_OUT = 6  # one in this many combinations of word and frame is reserved for the test


class ThreadWords(NamedTuple):
    """The words of a thread, one per answer; the words of the questions are the same in English."""

    opening: tuple[Word, ...]
    questions: tuple[Word, ...]


@dataclass(frozen=True)
class Phenomenon:
    """A kind of sentence that needs context.

    `variable` is the name of what an opening sets until the next opening sets it again; without it, each word is a
    variable of its own and keeps its value for the whole document.
    """

    name: str
    answers: int
    openings: tuple[Frame, ...]
    questions: tuple[Frame, ...]
    draw_words: Callable[[Random, set[str]], ThreadWords | None]
    variable: str | None = None


class ThreadSentence(NamedTuple):
    """One sentence of a thread; `words` has the word for the slot `x`, one per answer."""

    frame: Frame
    fillers: Mapping[str, Word]
    words: tuple[Word, ...]

    def realize(self, answer: int) -> Frame:
        """Return the sentence with one answer, in both languages."""
        filled = fill(self.frame, {**self.fillers, "x": self.words[answer]})
        return Frame(filled.source, choose_answer(filled.target, answer))

    def translations(self) -> list[str]:
        """Return the translation with each of the answers."""
        return [self.realize(answer).target for answer in range(len(self.words))]


@dataclass(frozen=True)
class Thread:
    """An opening and the questions whose translation it decides."""

    phenomenon: Phenomenon
    words: ThreadWords

    @property
    def reserved(self) -> set[str]:
        """What no other sentence may use while the thread is open: its variable and its English words."""
        words = {word.source for word in (*self.words.opening, *self.words.questions)}
        return words | ({self.phenomenon.variable} if self.phenomenon.variable else set())

    def opening(self, rng: Random) -> ThreadSentence:
        """Draw the sentence that decides."""
        frame = rng.choice(self.phenomenon.openings)
        return ThreadSentence(frame, draw_fillers(rng, frame), self.words.opening)

    def questions(self, rng: Random, split: SplitName, count: int) -> list[ThreadSentence]:
        """Draw `count` different questions, at most `question_count`."""
        drawn = rng.sample(self._frames(split), count)
        return [ThreadSentence(frame, draw_fillers(rng, frame), self.words.questions) for frame in drawn]

    def question_count(self, split: SplitName) -> int:
        """Count the frames in which the split may use the thread's word."""
        return len(self._frames(split))

    def _frames(self, split: SplitName) -> list[Frame]:
        number = self.words.questions[0].number
        return [f for index, f in enumerate(self.phenomenon.questions) if is_allowed(split, number, index)]


def is_allowed(split: SplitName, word: int, frame: int) -> bool:
    """Return whether a split may use word number `word` in frame number `frame`.

    Every sixth combination is reserved for the test, which has no others.
    """
    return ((word + frame) % HELD_OUT == 0) == (split == "test")


def draw_thread(rng: Random, phenomenon: Phenomenon, avoid: set[str]) -> Thread | None:
    """Draw a thread that uses nothing in `avoid`, if there is one."""
    if phenomenon.variable in avoid:
        return None
    words = phenomenon.draw_words(rng, avoid)
    return Thread(phenomenon, words) if words else None


def draw_fillers(rng: Random, frame: Frame, fits: Callable[[Word], bool] = lambda _: True) -> dict[str, Word]:
    """Draw different words for the slots that do not affect the answer; nouns must satisfy `fits`."""
    chosen: dict[str, Word] = {}
    for slot in _filler_slots(frame):
        noun = slot in ("thing", "thing2", "animal")
        words = [word for word in lexicon.FILLERS[slot] if not noun or fits(word)]
        chosen[slot] = rng.choice([word for word in words if word not in chosen.values()])
    return chosen


@cache
def _filler_slots(frame: Frame) -> tuple[str, ...]:
    return tuple(sorted(slots(frame) - {"x"}))


def _without(words: Iterable[Word], avoid: set[str]) -> list[Word]:
    return [word for word in words if word.source not in avoid]


def _objects(rng: Random, avoid: set[str]) -> tuple[Word, Word, Word]:
    """Draw a thing of each gender, with the same held-out frames for all three."""
    rest = rng.randrange(HELD_OUT)
    masculine, feminine, neuter = (
        rng.choice([word for word in _without(things, avoid) if word.number % HELD_OUT == rest])
        for things in lexicon.THINGS.values()
    )
    return masculine, feminine, neuter


def _pronoun(rng: Random, avoid: set[str]) -> ThreadWords:
    things = _objects(rng, avoid)
    return ThreadWords(things, (things[0],) * 3)


def _possessive(rng: Random, avoid: set[str]) -> ThreadWords:
    masculine, feminine, neuter = _objects(rng, avoid)
    thing = rng.choice((masculine, neuter))
    return ThreadWords((thing, feminine), (thing, thing))


def _address(rng: Random, avoid: set[str]) -> ThreadWords:
    thing = rng.choice(_without(lexicon.ALL_THINGS, avoid))
    return ThreadWords((rng.choice(lexicon.FRIENDS), rng.choice(lexicon.STRANGERS)), (thing, thing))


def _speaker(rng: Random, avoid: set[str]) -> ThreadWords:
    names = rng.choice(lexicon.MEN), rng.choice(lexicon.WOMEN)
    job = rng.choice(lexicon.JOBS)
    return ThreadWords(names, (job, job))


def _sense(rng: Random, avoid: set[str]) -> ThreadWords | None:
    nouns = [noun for noun in lexicon.AMBIGUOUS if noun.word.source not in avoid]
    if not nouns:
        return None
    noun = rng.choice(nouns)
    return ThreadWords(noun.topics, (noun.word, noun.word))


def _term(rng: Random, avoid: set[str]) -> ThreadWords | None:
    terms = [term for term in lexicon.TERMS if term[0].source not in avoid]
    if not terms:
        return None
    term = rng.choice(terms)
    return ThreadWords(term, term)


PHENOMENA = (
    Phenomenon("pronoun", 3, frames.ANNOUNCEMENTS, frames.PRONOUN, _pronoun, "(object)"),
    Phenomenon("possessive", 2, frames.ANNOUNCEMENTS, frames.POSSESSIVE, _possessive, "(object)"),
    Phenomenon("address", 2, frames.GREETINGS, frames.ADDRESS, _address, "(addressee)"),
    Phenomenon("speaker", 2, frames.INTRODUCTIONS, frames.SPEAKER, _speaker, "(speaker)"),
    Phenomenon("sense", 2, frames.TOPICS, frames.SENSE, _sense),
    Phenomenon("term", 2, frames.FIRST_MENTIONS, frames.TERM, _term),
)
PHENOMENON_NAMES = tuple(phenomenon.name for phenomenon in PHENOMENA)

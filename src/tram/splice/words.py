"""Sentence pairs and their tokenisation for the rules of splicing."""

import re
from dataclasses import dataclass

_WORD = re.compile(r"\w+(?:-\w+)*|(?<=\w)['’]\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Pair:
    """A source sentence, its translation, and the number of the corpus that they come from."""

    source: str
    target: str
    corpus: int


class Tokenized:
    """A pair split into words and punctuation marks: "It's" is two words, "file-system" is one."""

    __slots__ = ("lower", "pair", "source", "target")

    def __init__(self, pair: Pair):
        self.pair = pair
        self.source = [word.lower() for word in words(pair.source)]  # in lower case
        self.target = words(pair.target)
        self.lower = [word.lower() for word in self.target]  # of the target


def words(text: str) -> list[str]:
    """Return words and punctuation marks."""
    return _WORD.findall(text)


def spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of the words of `words(text)`."""
    return [match.span() for match in _WORD.finditer(text)]


def is_word(token: str) -> bool:
    """Return whether a token is a word and not a punctuation mark."""
    return token[0].isalnum()


def is_capitalized(token: str) -> bool:
    """Return whether a token looks like a German noun or a name."""
    return token[0].isupper()


def clause(tokens: list[str], at: int) -> tuple[int, int]:
    """Return the range of words around a position, up to the next punctuation marks."""
    start = end = at
    while start > 0 and is_word(tokens[start - 1]):
        start -= 1
    while end + 1 < len(tokens) and is_word(tokens[end + 1]):
        end += 1
    return start, end + 1

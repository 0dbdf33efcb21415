"""Truecasing: put the first word of a sentence in its usual case, and capitalise it again after translation.

    truecaser = Truecaser.learn(count_cases(tokenised_sentences))
    tokens = truecaser.truecase(["The", "house", "."])          # the house .
    detruecase(tokens)                                          # The house .

The method is that of Moses' train-truecaser and truecase scripts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tram.text.special_ids import SEPARATOR

TAG = re.compile(r"<\S[^>]*>")
LETTER = re.compile(r"[^\W\d_]")
TECHNICAL = re.compile(r"[\d_/\\@]")
SENTENCE_ENDS = frozenset((".", "?", "!", SEPARATOR))
OPENING_PUNCTUATION = frozenset("([\"'")  # Moses skips these when it looks for the first word


def count_cases(sentences: Iterable[list[str]]) -> Counter[str]:
    """Count the words of tokenised sentences as written anywhere but at the start of a sentence.

    Counts of parts of a corpus can be added with `update`; added in the order of the parts, they equal the count of
    the whole corpus, including ties.
    """
    counts: Counter[str] = Counter()
    for tokens in sentences:
        counts.update(_inner_words(tokens))
    return counts


def _inner_words(tokens: list[str]) -> Iterator[str]:
    """Yield the words that Moses' train-truecaser counts; a word after a colon may be capitalised as at a start."""
    first = True
    for token in tokens:
        if token in OPENING_PUNCTUATION or TAG.search(token):
            continue
        if not first and (token in SENTENCE_ENDS or token == ":"):
            first = True
            continue
        if not first and LETTER.search(token):
            yield token
        first = False


class Truecaser:
    """A truecaser, which puts the first word of a sentence in its usual case: "The house" becomes "the house".

    The best forms are those of sacremoses' `MosesTruecaser`, whose trainer does not return counts that can be added,
    and whose `truecase` also rewrites words inside the sentence. Here a first word changes only if `detruecase`
    restores it: "THE" and "iPhone" stay. A word after a colon stays as well, because its case could not be restored.
    """

    def __init__(self, words: Iterable[str]) -> None:
        """Create a truecaser from the best forms of words that are not usually capitalised."""
        self.words = sorted(words)
        self._best = {capitalized(word): word for word in self.words}

    @classmethod
    def learn(cls, counts: Counter[str]) -> "Truecaser":
        """Choose the most frequent form of each word; among equally frequent forms, the one counted first."""
        best: dict[str, str] = {}
        for form, count in counts.items():
            current = best.setdefault(form.lower(), form)
            if count > counts[current]:
                best[form.lower()] = form
        return cls(form for form in best.values() if form != capitalized(form))

    def truecase(self, tokens: list[str]) -> list[str]:
        """Return the tokens with the first word of each sentence in its best form."""
        tokens = list(tokens)
        for start in _sentence_starts(tokens):
            tokens[start] = self._best.get(tokens[start], tokens[start])
        return tokens


def detruecase(tokens: list[str]) -> list[str]:
    """Return the tokens with the first word of each sentence capitalised."""
    tokens = list(tokens)
    for start in _sentence_starts(tokens):
        tokens[start] = capitalized(tokens[start])
    return tokens


def capitalized(word: str) -> str:
    """Return the word with a capital first letter; names of files and commands (exit_group, x86) stay as they are."""
    return word if TECHNICAL.search(word) else word[:1].upper() + word[1:]


def _sentence_starts(tokens: list[str]) -> Iterator[int]:
    first = True
    for position, token in enumerate(tokens):
        if token in SENTENCE_ENDS:
            first = True
        elif first and token not in OPENING_PUNCTUATION and not TAG.fullmatch(token):
            first = False
            yield position

"""Text on its way to the subwords and back: Moses' normalisation, tokenisation and truecasing (sacremoses).

    moses = Moses("de")
    tokens = moses.tokenize(moses.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    moses.detokenize(tokens)

How plain text falls into sentences stands in the second half: `split_sentences` and `split_document`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

TAG = re.compile(r"<\S[^>]*>")


LETTER = re.compile(r"[^\W\d_]")


TECHNICAL = re.compile(r"[\d_/\\@]")


SENTENCE_ENDS = frozenset(".?!")


BEFORE_A_START = frozenset("([\"'")  # Moses looks for the first word behind these


def count_cases(sentences: Iterable[list[str]]) -> Counter[str]:
    """Count the words of tokenised sentences as they are written where no sentence starts.

    Counts of parts of a corpus are added with `update`; in the order of the parts the sum is the count of the
    whole, ties included.
    """
    counts: Counter[str] = Counter()
    for tokens in sentences:
        counts.update(_inner_words(tokens))
    return counts


def _inner_words(tokens: list[str]) -> Iterator[str]:
    """The words that Moses' train-truecaser counts; one behind a colon may be written as at a start."""
    first = True
    for token in tokens:
        if token in BEFORE_A_START or TAG.search(token):
            continue
        if not first and (token in SENTENCE_ENDS or token == ":"):
            first = True
            continue
        if not first and LETTER.search(token):
            yield token
        first = False


class Truecaser:
    """Writes the first word of a sentence as it is mostly written elsewhere: "The house" becomes "the house".

    The best forms are those of sacremoses' `MosesTruecaser`, whose trainer gives no counts to be added and
    whose `truecase` also rewrites words inside the sentence. Here a first word changes only if `detruecase`
    brings it back: "THE" and "iPhone" stay; so does a word behind a colon, for nothing tells its case later.
    """

    def __init__(self, words: Iterable[str]) -> None:
        """Take the best forms of those words that are not mostly written as at the start of a sentence."""
        self.words = sorted(words)
        self._best = {capitalized(word): word for word in self.words}

    @classmethod
    def learn(cls, counts: Counter[str]) -> "Truecaser":
        """Choose the most frequent form of each word, of equally frequent ones that which came first."""
        best: dict[str, str] = {}
        for form, count in counts.items():
            rival = best.setdefault(form.lower(), form)
            if count > counts[rival]:
                best[form.lower()] = form
        return cls(form for form in best.values() if form != capitalized(form))

    def truecase(self, tokens: list[str]) -> list[str]:
        """Write the first words of sentences as they are mostly written."""
        tokens = list(tokens)
        for start in _starts(tokens):
            tokens[start] = self._best.get(tokens[start], tokens[start])
        return tokens


def detruecase(tokens: list[str]) -> list[str]:
    """Write the first words of sentences with a capital letter."""
    tokens = list(tokens)
    for start in _starts(tokens):
        tokens[start] = capitalized(tokens[start])
    return tokens


def capitalized(word: str) -> str:
    """The word with a capital first letter; names of files and commands (exit_group, x86) stay."""
    return word if TECHNICAL.search(word) else word[:1].upper() + word[1:]


def _starts(tokens: list[str]) -> Iterator[int]:
    first = True
    for position, token in enumerate(tokens):
        if token in SENTENCE_ENDS:
            first = True
        elif first and token not in BEFORE_A_START and not TAG.fullmatch(token):
            first = False
            yield position

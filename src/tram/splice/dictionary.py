"""Association of source words and target nouns, by co-occurrence in sentence pairs."""

from collections import Counter

from tram.splice.words import Tokenized, is_capitalized

LEAST_LETTERS = 3


class Dictionary:
    """Counts of words, of nouns and of their co-occurrences."""

    def __init__(self) -> None:
        self.pairs = 0
        self.sources: Counter[str] = Counter()
        self.nouns: Counter[str] = Counter()
        self._together: Counter[tuple[str, str]] = Counter()

    def add(self, tokens: Tokenized) -> None:
        """Count the words of a pair, each once."""
        source = {word for word in tokens.source if len(word) >= LEAST_LETTERS}
        # The first word of a sentence is capitalized whatever it is.
        nouns = {word for word in tokens.target[1:] if is_capitalized(word) and len(word) >= LEAST_LETTERS}
        self.pairs += 1
        self.sources.update(source)
        self.nouns.update(nouns)
        self._together.update([(word, noun) for noun in nouns for word in source])

    def together(self, word: str, noun: str) -> int:
        """Return the number of pairs that contain both."""
        return self._together[word, noun]

    def dice(self, word: str, noun: str) -> float:
        """Return 2 · together / (pairs with the word + pairs with the noun), from 0 to 1."""
        total = self.sources[word] + self.nouns[noun]
        return 2 * self._together[word, noun] / total if total else 0.0

    def translations(self) -> Counter[tuple[str, str]]:
        """Return the co-occurrence counts of all pairs of words."""
        return self._together

"""Genders of nouns, learned from the articles before them in plain text.

genders = NounGenders(german).learn(sentences)
genders["Fenster"]                           # "n"; a compound has the gender of its last part: Hauptfenster
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Self

from tram.evaluation.language import GENDERS, Gender, Language, tokens

EVIDENCE = 2  # minimum number of articles seen
SHARE = 0.75  # minimum share of them that fit the gender
MARGIN = 0.2  # minimum lead over any other gender
PLURAL = "p"
KINDS = (*GENDERS, PLURAL)
PART = 4  # minimum letters of a compound's last part


class NounGenders:
    """Counts of the articles before each noun, and the genders that follow from them."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.articles: dict[str, str] = language.need("articles")
        self.pattern = language.need("noun")
        self.seen: dict[str, Counter[str]] = defaultdict(Counter)
        self.known: dict[str, Gender | None] = {}

    def learn(self, sentences: Iterable[str]) -> Self:
        """Count the articles of a text."""
        for sentence in sentences:
            words = tokens(sentence)
            for place, word in enumerate(words):
                if word.lower() in self.articles:
                    self._follow(word.lower(), words[place + 1 : place + 4])
        self.known.clear()
        return self

    def _follow(self, article: str, words: list[str]) -> None:
        """Count the noun after an article and at most two adjectives."""
        for word in words:
            if self.pattern.fullmatch(word):
                self.seen[word][article] += 1
                return
            if (
                not (word.islower() and word[-1] in "enrsm")
                or word in self.language.singular_verbs | self.articles.keys()
            ):
                return

    def __getitem__(self, noun: str) -> Gender | None:
        """Return the gender of a singular noun, None if it is unknown or may be a plural."""
        if noun not in self.known:
            self.known[noun] = self._judge(noun)
        return self.known[noun]

    def may_be(self, noun: str, genders: Collection[Gender]) -> bool:
        """Return whether a noun of the text may be a singular with one of the genders, as far as its articles show."""
        known = self[noun]
        if known is not None:
            return known in genders
        fits = self._fits(noun)
        return fits is None or any(fits[gender] > MARGIN for gender in genders)

    def _fits(self, noun: str) -> dict[str, float] | None:
        """Return the share of a noun's articles that fit each gender and the plural; None if too few were seen."""
        seen = self.seen.get(noun, Counter())
        total = sum(seen.values())
        if total < EVIDENCE:
            return None
        return {kind: sum(n for article, n in seen.items() if kind in self.articles[article]) / total for kind in KINDS}

    def _judge(self, noun: str) -> Gender | None:
        fits = self._fits(noun)
        if fits is None:
            return None if noun in self.seen else self._part(noun)
        best = max(GENDERS, key=lambda gender: fits[gender])
        rivals = [fits[gender] for gender in GENDERS if gender != best]
        if fits[best] < SHARE or fits[best] - max(rivals) < MARGIN or fits[PLURAL] >= fits[best]:
            return None
        return best

    def _part(self, noun: str) -> Gender | None:
        """Return the gender of the longest known noun that a compound ends with."""
        for start in range(PART - 1, len(noun) - PART + 1):
            part = noun[start:].capitalize()
            if part in self.seen:
                return self[part]
        return None

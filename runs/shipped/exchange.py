"""Real sentences in another form of address: "Du hast recht." for "Sie haben recht." and the other way round.

In the corpora the form goes with the style: games say *du*, speeches and chats *Sie*, so that a sentence alone shows
its form. With both forms of the same sentence, only the context decides. A sentence is exchanged only if every word
that changes is known: pronouns, possessives, and verbs that occur beside *du* and, as infinitives, beside *Sie*.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import yaml
from everyday import Pair

from tram.evaluation.address import addresses_someone
from tram.evaluation.language import load_language, tokens

LEAST = 2  # occurrences of a verb beside its pronoun
LONGEST = 90  # characters of a side
PRONOUNS = {"du": "Sie", "dich": "Sie", "dir": "Ihnen"}
POSSESSIVE = re.compile(r"dein(?:e[mnrs]?)?")
POLITE_POSSESSIVE = re.compile(r"Ihr(?:e[mnrs]?)?")
CALLS = re.compile(
    r"\b(you (?:two|guys|all|both)|yourselves|everybody|everyone|gentlemen|ladies|guys|kid|boy|girl|young|friend|"
    r"brother|sister|sir|madam|mr|mrs|ms|son|dear)\b",
    re.IGNORECASE,
)
ADJECTIVE = re.compile(r"e[mnrs]?$")
POLITE = re.compile(r"\b(?:Sie|Ihnen|Ihr(?:e[mnrs]?)?)\b")
UNSAFE = re.compile(r"[\"„“”»«<>{}()/:;]|\b(?:ihr|euch|euer|eure\w*|sich|selbst|selber|derselbe|Ihnen|Ihr\w*)\b")


class Exchange:
    """Forms of verbs learnt from sentences: those beside *du* whose infinitive occurs beside *Sie*."""

    def __init__(self, sentences: Iterable[str]) -> None:
        words = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
        self._no_command, self._other = set(words["no_command"].split()), set(words["other_words"].split())
        self._question_start, self._statement_start = set(words["question_start"]), set(words["statement_start"])
        self._accusative_before = set(words["accusative_before"])
        self._english = load_language("en")
        familiar, polite = Counter[str](), Counter[str]()
        for sentence in map(tokens, sentences):
            for number, word in enumerate(sentence):
                beside = [*sentence[max(number - 1, 0) : number], *sentence[number + 1 : number + 2]]
                if word in ("du", "Du"):
                    familiar.update(other.lower() for other in beside)
                elif word == "Sie" and number:
                    polite.update(other.lower() for other in beside)
        regular = {word: word[:-2] + "en" for word, count in familiar.items() if word.endswith("st") and count >= LEAST}
        irregular = dict(pair.split("/") for pair in words["verbs"].split())
        self.polite = irregular | {
            word: infinitive
            for word, infinitive in regular.items()
            if word not in self._other and word not in irregular and polite[infinitive] >= LEAST
        }
        stems = {verb[:-2] for verb in self.polite if verb.endswith("st")} | {verb[:-1] for verb in self.polite}
        self._imperatives = set(words["imperatives"].split()) | stems | {stem + "e" for stem in stems}
        self.familiar = {infinitive: word for word, infinitive in reversed(self.polite.items())}

    def _suitable(self, pair: Pair) -> bool:
        """Return whether somebody who is not called by any name is addressed in a pair of short sentences."""
        source, target = pair
        short = len(source) <= LONGEST and len(target) <= LONGEST and not re.search(r"[.!?…]\W*\w", target)
        capitals = any(word.isupper() and len(word) > 3 for word in tokens(target))
        return short and not capitals and addresses_someone(source, self._english) and not CALLS.search(source)

    def to_polite(self, pair: Pair) -> Pair | None:
        """Return a pair with *Sie* for *du*, or None if a word is not known."""
        source, target = pair
        if not self._suitable(pair) or UNSAFE.search(target):
            return None
        words = re.split(r"(\W+)", target)
        lower = [word.lower() for word in words]
        shown = {word for word in lower if word in PRONOUNS or POSSESSIVE.fullmatch(word)}
        if not shown or ("du" in shown and shown & {"dich", "dir"}):  # reflexive, perhaps
            return None
        if "du" not in shown and self._no_command.isdisjoint(lower):
            return None
        clauses = [",", *tokens(target.lower())]
        if any(word in self._imperatives and before in (",", "und", "-") for before, word in pairwise(clauses)):
            return None
        verbs = [word for word in lower if word in self.polite]
        unknown = [
            word for word in lower if word.endswith("st") and word not in self.polite and word not in self._other
        ]
        if lower.count("du") != len(verbs) or unknown:
            return None
        return source, _spelled([self._polite(word, other) for word, other in zip(words, lower, strict=True)], target)

    def _polite(self, word: str, lower: str) -> str:
        if lower in PRONOUNS:
            return PRONOUNS[lower]
        if POSSESSIVE.fullmatch(lower):
            return "Ihr" + lower[len("dein") :]
        return self.polite.get(lower, word)

    def to_familiar(self, pair: Pair) -> Pair | None:
        """Return a pair with *du* for *Sie*, or None if a verb is unknown or not beside *Sie*."""
        source, target = pair
        if not self._suitable(pair) or UNSAFE.search(POLITE.sub("", target)):
            return None
        words = tokens(target)
        if not any(POLITE.fullmatch(word) for word in words) or any(
            word == "Ihr" and after.islower() and not ADJECTIVE.search(after) for word, after in pairwise(words)
        ):
            return None  # an old plural of politeness: "Da seid Ihr ja."
        result = list(words)
        for number, word in enumerate(words):
            if word == "Sie":
                changed = self._subject(words, number)
                if changed is None:
                    return None
                for place, value in changed.items():
                    result[place] = value
            elif word == "Ihnen":
                result[number] = "dir"
            elif POLITE_POSSESSIVE.fullmatch(word):
                if number == 0:
                    return None
                result[number] = "dein" + word[len("Ihr") :]
        return source, _spelled(_joined(target, words, result), target)

    def _subject(self, words: list[str], number: int) -> dict[int, str] | None:
        """Return the words that change around a *Sie*: its verb, if it is certainly the subject, or *dich*."""
        before = words[number - 1].lower() if number else "."
        after = words[number + 1].lower() if number + 1 < len(words) else "."
        if before in self._accusative_before:
            return {number: "dich"}
        start = words[number - 2].lower() if number > 1 else "."
        # After other words it is an imperative, perhaps.
        opens = start in (self._question_start if words[-1] == "?" else self._statement_start)
        if before in self.familiar and opens and after not in self.familiar:
            return {number: "du", number - 1: self.familiar[before]}
        if number == 0 and after in self.familiar:
            return {number: "du", number + 1: self.familiar[after]}
        return None


def _spelled(parts: list[str], before: str) -> str:
    """Join the parts of a sentence, with a capital at its start if there was one before."""
    text = "".join(parts)
    return text[0].upper() + text[1:] if before[0].isupper() else text


def _joined(text: str, words: list[str], result: list[str]) -> list[str]:
    """Return the new words with the characters between the old ones."""
    parts, end = [], 0
    for word, new in zip(words, result, strict=True):
        start = text.index(word, end)
        parts += [text[end:start], new]
        end = start + len(word)
    return [*parts, text[end:]]


def exchanged(pairs: Iterable[Pair], exchange: Exchange) -> Iterator[tuple[Pair, Pair]]:
    """Yield the familiar and the polite form of each pair that can be exchanged."""
    for pair in pairs:
        polite, familiar = exchange.to_polite(pair), exchange.to_familiar(pair)
        if polite and not familiar:
            yield pair, polite
        elif familiar and not polite:
            yield familiar, pair

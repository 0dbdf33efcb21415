"""Genders of nouns, counted from the determiners before them, and nouns that denote persons.

counts = NounCounts(rules)
counts.add(source, target)         # every pair of sentences of the corpora
lexicon = counts.lexicon()
lexicon.gender("Preisliste")       # "f", by its last part if the compound is rare
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tram.evaluation.language import GENDERS, Gender
from tram.splice.rules import Rules
from tram.splice.words import Tokenized, is_word

LEAST_EVIDENCE = 3  # minimum number of determiners that allow only one gender
LEAST_SHARE = 0.1  # minimum share of these in the evidence, so that a few errors do not make "ein Name" neuter
PURITY = 0.92  # minimum share of the evidence that agrees
WELL_KNOWN = 20  # with this many determiners, a compound's own evidence overrules that of its last part
LEAST_FIRST, LEAST_HEAD = 3, 5  # minimum letters of a compound's parts: Vorteile has no "Eile", Beweise no "Weise"
LEAST_PERSON = 6  # minimum letters of a person at the end of a compound: not Miss in Kompromiss
_RELATIVE = re.compile(r"\b([a-z]+),? (who|which)\b")


class NounCounts:
    """Counts of determiners and other evidence around nouns in a corpus."""

    def __init__(self, rules: Rules):
        self._rules = rules
        self._kinds = {
            context.replace("_", " "): kind for kind, contexts in rules.gender_evidence.items() for context in contexts
        }
        longest_first = sorted(map(re.escape, self._kinds), key=len, reverse=True)
        capitals = [context[0].upper() + context[1:] for context in longest_first]
        self._pattern = re.compile(rf"\b({'|'.join(longest_first + capitals)}) ([A-ZÄÖÜ][\w-]+)")
        self._noun = re.compile(r"\b[A-ZÄÖÜ]\w+")
        articles = {word.capitalize(): gender for word, gender in rules.nominative.items()}
        verbs = "|".join(sorted(rules.singular_verbs))
        self._subject = re.compile(rf"({'|'.join(articles)}) ([A-ZÄÖÜ][\w-]+) (?:{verbs})\b")
        self._articles = articles
        subjects = "|".join(
            sorted({rules.pronouns["nominative"]["m"], rules.pronouns["nominative"]["n"], rules.anyone})
        )
        ending = r"([a-zäöüß]+te?)"
        self._verb = re.compile(rf"\b(?:(?:{subjects}|{subjects.title()}) {ending}|{ending} (?:{subjects}))\b")
        self._verbs: set[str] = set()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._relatives: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._capitalized: set[str] = set()

    def add(self, source: str, target: str) -> None:
        """Count the determiners of the target's nouns and the relative pronouns after the source's."""
        for context, noun in self._pattern.findall(target):
            self._counts[noun][self._kinds[context.lower()]] += 1
        if subject := self._subject.match(target):
            self._counts[subject[2]][self._articles[subject[1]]] += 1
        self._capitalized.update(self._noun.findall(target))
        self._verbs.update(found for match in self._verb.findall(target) for found in match)
        for noun, relative in _RELATIVE.findall(source):
            self._relatives[noun][relative] += 1

    def lexicon(self) -> "GenderLexicon":
        """Return the nouns whose evidence agrees on one gender, and the persons."""
        genders = {noun: gender for noun, counts in self._counts.items() if (gender := _clear_gender(counts))}
        persons = self._with_feminine() | self._rules.persons
        people = {noun for noun, seen in self._relatives.items() if seen["who"] > max(1, 2 * seen["which"])}
        people |= self._rules.source_persons
        verbs = self._rules.singular_verbs | {word for word in self._verbs if self._rules.is_singular_verb(word)}
        return GenderLexicon(genders, dict(self._counts), persons, people, self._rules.person_endings, verbs)

    def _with_feminine(self) -> set[str]:
        """Return nouns that have a feminine, and their feminines: Minister and Ministerin, but not Term and Termin."""
        singular, plural = self._rules.feminine_endings
        nouns = set()
        for word in self._capitalized:
            stem = word.removesuffix(plural) if word.endswith(plural) else word.removesuffix(singular)
            seen = self._counts.get(word, Counter())
            feminine = word.endswith(plural) or seen["f"] > seen["m"] + seen["n"] + seen["x"]
            if stem != word and len(stem) > 3 and feminine and stem in self._capitalized:
                nouns |= {stem, stem + singular}
        return nouns


def _clear_gender(counts: Counter[str]) -> Gender | None:
    best: Gender = max(GENDERS, key=lambda gender: counts[gender])
    support = counts[best] + (counts["x"] if best != "f" else 0)
    if counts[best] >= max(LEAST_EVIDENCE, LEAST_SHARE * support) and support >= PURITY * counts.total():
        return best
    return None


class GenderLexicon:
    """Nouns with one clear gender; compounds have the gender of their last part.

    genders: clear genders; evidence: determiners by noun, also of nouns without a clear gender; persons: target nouns
    that denote persons; source_persons: such source nouns; person_endings: last parts of compounds that denote persons;
    verbs: singular finite verbs, seen beside a pronoun.
    """

    def __init__(
        self,
        genders: dict[str, Gender],
        evidence: dict[str, Counter[str]] | None = None,
        persons: Iterable[str] = (),
        source_persons: Iterable[str] = (),
        person_endings: tuple[str, ...] = (),
        verbs: Iterable[str] = (),
    ):
        self.genders = genders
        self.evidence = evidence or {}
        self.persons = frozenset(persons)
        self.source_persons = frozenset(source_persons)
        self.person_endings = person_endings
        self.verbs = frozenset(verbs)

    def is_person(self, noun: str) -> bool:
        """Return whether the noun, or the last part of a compound, is a person."""
        if noun in self.persons or noun.endswith(self.person_endings):
            return True
        return any(head in self.persons for head in _heads(noun) if len(head) >= LEAST_PERSON)

    def gender(self, noun: str) -> Gender | None:
        """Return the gender of a singular noun that is not a person; None if it is not clear."""
        if self.is_person(noun):
            return None
        own = self.genders.get(noun)
        if own is not None and self.evidence.get(noun, Counter()).total() >= WELL_KNOWN:
            return own
        last = next((self.genders[head] for head in _heads(noun) if head != noun and head in self.genders), None)
        if own is not None:
            return own if last in (None, own) else None  # otherwise errors in the corpora, or a wrong last part
        return last

    def agrees(self, noun: str, genders: str) -> Gender | None:
        """Return the noun's gender if its determiner in a sentence allows it: "mn" for "ein".

        A noun that is too rare for the lexicon has the gender of a determiner that allows only one, unless the evidence
        contradicts it.
        """
        known = self.gender(noun)
        if known is not None or self.is_person(noun):
            return known if known is not None and known in genders else None
        if len(genders) > 1:
            return None
        counts = self.evidence.get(noun, Counter())
        support = counts[genders] + (counts["x"] if genders != "f" else 0)
        only: Gender | None = next((gender for gender in GENDERS if gender == genders), None)
        return only if 2 * support >= counts.total() else None


def has_slip(tokens: Tokenized, rules: Rules, lexicon: GenderLexicon) -> bool:
    """Return whether a sentence has a wrong article: "das Pelz", "das neues Haus", "die Die", "Suche die den"."""
    if tokens.source[-2:-1] and tokens.source[-2] in rules.source_indefinite:
        return True  # "I want a."
    kinds = {context: kind for kind, contexts in rules.gender_evidence.items() for context in contexts}
    for at, word in enumerate(tokens.lower[:-2]):
        kind = kinds.get(word)
        noun = tokens.target[at + 1]
        if word in rules.all_determiners and noun.lower() == word and noun != word:
            return True
        doubled = word in rules.demonstrative_articles and noun in rules.accusative
        if doubled and at and is_word(tokens.target[at - 1]) and tokens.lower[at - 1] not in rules.prepositions:
            return True
        ending = rules.strong_after_definite.get(word)
        if ending and noun.endswith(ending) and rules.is_adjective(noun) and tokens.target[at + 2][:1].isupper():
            return True
        known = lexicon.genders.get(noun)
        if kind is None or known is None or lexicon.evidence[noun].total() < 2 * LEAST_EVIDENCE:
            continue
        if known != kind and not (kind == "x" and known != "f"):
            return True
    return False


def _heads(noun: str) -> Iterator[str]:
    """Return the noun and the nouns that it may be a compound of, longest first: Preisliste, Isliste, …, Liste."""
    yield noun
    last = noun.rpartition("-")[2]
    start = LEAST_FIRST if last == noun else 0
    for cut in range(start, len(last) - LEAST_HEAD + 1):
        yield last[cut].upper() + last[cut + 1 :]

"""Construction of contrastive items from aligned documents, in which context decides the gender of a pronoun.

    genders = NounGenders(german).learn(sentences)
    items = make_pronouns(read_parallel("dev.en", "dev.de"), english, german, genders)

An item is a sentence with "it" or "its" and no other third person, after a sentence that names no person. Its
translation has one third-person pronoun, or as many as the sentence has "it" and "its", all of one gender: they are
exchanged together. The antecedent must be in an earlier sentence: no noun before the last pronoun in its own sentence
may have its gender, and one of the sentences just before must have such a noun. If it is a subject, the subject of
the sentence before may not have another gender. A neuter pronoun may be expletive or refer to an event, so it needs a
neuter noun with an article in the sentence before, and either that noun as its subject or a verb that takes things.
Sentences are left out if another gender would be correct as well ("it is a file") or if the verb gives the answer
away.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tram.data.corpus import ParallelDocument
from tram.evaluation.language import GENDERS, Gender, Language, PronounItemRules, Subject, tokens
from tram.evaluation.noun_genders import PLURAL, NounGenders
from tram.evaluation.suite import ContrastiveItem

BACK = 3  # maximum distance of the noun in sentences; for a neuter, 1
LONGEST = 300  # maximum characters of a source sentence
OPENING = 3  # maximum index of "it" or "its" at the start of a sentence
ARTICLE = 3  # maximum distance in words from a noun to its article


@dataclass(frozen=True)
class Pronoun:
    """A pronoun of the target: its token index, its case or "possessive", its forms by gender, and those after it."""

    place: int
    phenomenon: str
    genders: frozenset[Gender]
    forms: dict[Gender, str]
    others: "tuple[Pronoun, ...]" = ()


class PronounMaker:
    """The rules of a language pair, applied to sentence pairs."""

    def __init__(self, source: Language, target: Language, genders: NounGenders) -> None:
        self.source, self.target, self.genders = source, target, genders
        self.source_rules: PronounItemRules = source.need("pronoun_items")
        self.target_rules: PronounItemRules = target.need("pronoun_items")

    def items(self, document: ParallelDocument, name: str) -> Iterator[ContrastiveItem]:
        """Yield the items of one document, each with all earlier sentences as context."""
        for number in range(1, len(document.source)):
            english, german = document.source[number], document.target[number]
            pronoun = self.pronoun(english, german, document.target[number - 1])
            distance = None if pronoun is None else self.distance(document.target[:number], pronoun)
            before = document.source[number - 1], document.target[number - 1]
            if pronoun is None or distance is None or self._may_be_other(*before, pronoun):
                continue
            yield ContrastiveItem(
                source_context=tuple(document.source[:number]),
                target_context=tuple(document.target[:number]),
                source=english,
                reference=german,
                contrastive=self.variants(german, pronoun),
                phenomenon=pronoun.phenomenon,
                distance=distance,
                document=name,
            )

    def distance(self, context: Sequence[str], pronoun: Pronoun) -> int | None:
        """Return the distance in sentences to a noun of the pronoun's gender; None if there is none near enough.

        It is the subject of the nearest sentence with nouns, or the first of these, or that has the same pronoun.
        """
        neuter = pronoun.genders == {"n"}
        repeated = False
        for distance, sentence in enumerate(reversed(context[-(1 if neuter else BACK) :]), 1):
            subject = self.target.subject(sentence)
            genders = [gender for word in self.antecedents(sentence, neuter) if (gender := self.genders[word])]
            repeated = repeated or self._has_pronoun(sentence, pronoun.genders)
            if subject is not None and self._gender_of(subject) in pronoun.genders:
                return distance
            if genders and (genders[0] in pronoun.genders or (repeated and not pronoun.genders.isdisjoint(genders))):
                return distance
            if genders and not repeated:
                return None
        return None

    def _gender_of(self, subject: Subject) -> Gender | None:
        return subject.gender or self.genders[subject.noun]

    def _has_pronoun(self, sentence: str, genders: frozenset[Gender]) -> bool:
        """Return whether a sentence has a pronoun with one of the genders."""
        cases = (self.target.pronouns["nominative"], self.target.pronouns["accusative"])
        forms = {case[gender] for case in cases for gender in genders}
        words = tokens(sentence)
        return any(word in forms or (place == 0 and word.lower() in forms) for place, word in enumerate(words))

    def antecedents(self, sentence: str, neuter: bool = False) -> list[str]:
        """Return the nouns of a target sentence that a pronoun may refer to; a neuter, only with a neuter article."""
        words = tokens(sentence)
        places = [
            place
            for place, word in enumerate(words)
            if self._is_noun(word) and word not in self.target_rules.never_antecedents
        ]
        return [words[place] for place in places if not neuter or self._has_neuter_article(words[:place])]

    def _has_neuter_article(self, words: list[str]) -> bool:
        """Return whether a neuter article is among the last words before a noun."""
        return any("n" in self.genders.articles.get(word.lower(), "") for word in words[-ARTICLE:])

    def pronoun(self, english: str, german: str, before: str) -> Pronoun | None:
        """Return the pronoun of a sentence pair that can be an item. before: the target sentence before it."""
        words, translated = [_lower(word) for word in tokens(english)], tokens(german)
        if len(english) > LONGEST or len(words) < 4 or len(translated) < 4:
            return None
        if self.source_rules.third_person.intersection(words):
            return None
        places = [place for place, word in enumerate(translated) if self._is_third(place, word, words)]
        its = [place for place, word in enumerate(words) if word in self.source.group("neuter")]
        own = [place for place, word in enumerate(words) if word in self.source.group("neuter_possessive")]
        if not places or (len(places) > 1 and len(places) != len(its) + len(own)):
            return None
        if its:
            candidate = self._translation_of_it(english, german, places[0], its, before)
        else:
            candidate = self._translation_of_its(translated, places[0], own)
        if candidate is not None and len(places) > 1:
            candidate = self._with_others(candidate, places[1:], translated)
        if candidate is None or self._may_have_other_source(words, [*its, *own], candidate.place):
            return None
        return candidate if self._refers_back(translated, candidate) else None

    def _translation_of_it(self, english: str, german: str, place: int, its: list[int], before: str) -> Pronoun | None:
        """Return the personal pronoun at an index; its: the indices of "it"."""
        predicates = ((self.source_rules.predicate, english), (self.target_rules.predicate, german))
        if any(pattern is not None and pattern.search(text) for pattern, text in predicates):
            return None
        words, translated = [_lower(word) for word in tokens(english)], tokens(german)
        may_be_subject = any(self._is_subject(words, it) or not _ends_clause(words, it) for it in its)
        may_be_object = any(not self._is_subject(words, it) for it in its)
        found = self._personal(place, translated, may_be_subject, may_be_object)
        unsure = found is not None and found.genders == {"n"} and not self._is_thing(words, its, german, before, found)
        return None if unsure else found

    def _translation_of_its(self, translated: list[str], place: int, own: list[int]) -> Pronoun | None:
        """Return the possessive at an index; own: the indices of "its", which must open the sentence on one side."""
        opens = len(own) == 1 and own[0] <= OPENING and (own[0] == 0 or place == 0)
        return self._possessive(place, translated) if opens else None

    def _may_have_other_source(self, english: list[str], its: list[int], place: int) -> bool:
        """Return whether a pronoun that starts the translation is too far from "it" to be its translation."""
        return place == 0 and min(its) > OPENING and english[min(its) - 1] != ","

    def _personal(
        self, place: int, translated: list[str], may_be_subject: bool = True, may_be_object: bool = True
    ) -> Pronoun | None:
        subject = self._subject(translated, place) if may_be_subject else None
        return self._object(translated, place) if subject is None and may_be_object else subject

    def _with_others(self, first: Pronoun, places: list[int], translated: list[str]) -> Pronoun | None:
        """Return the first pronoun with those after it; None if they have another gender, or may be neuter."""
        found = [self._personal(place, translated) or self._possessive(place, translated) for place in places]
        others = tuple(each for each in found if each is not None)
        genders = first.genders.intersection(*(each.genders for each in others))
        if len(others) < len(places) or not genders or genders == {"n"}:
            return None
        return replace(first, genders=genders, others=others)

    def _is_subject(self, english: list[str], it: int) -> bool:
        """Return whether a verb is beside "it", which is therefore not an object."""
        before, after = english[max(it - 1, 0) : it], english[it + 1 : it + 2]
        verbs = self.source.group("singular_verbs")
        return not verbs.isdisjoint(before + after) or after in (["'"], ["’"])

    def _is_third(self, place: int, word: str, english: list[str]) -> bool:
        """Return whether a target word is a third person; at the start, also a polite form if no one is addressed."""
        if word.lower() not in self.target_rules.third_person:
            return False
        if word in self.target_rules.polite:
            return place == 0 and not self.source.group("second_person").intersection(english)
        return True

    def _may_be_other(self, before: str, translated: str, pronoun: Pronoun) -> bool:
        """Return whether a pronoun may refer to a person or to another thing in the sentence pair before."""
        persons = ((self.source_rules.person, before), (self.target_rules.person, translated))
        named = any(pattern is not None and pattern.search(text) for pattern, text in persons)
        return named or self._may_be_plural(before, pronoun) or self._has_other_subject(translated, pronoun)

    def _has_other_subject(self, before: str, pronoun: Pronoun) -> bool:
        """Return whether the sentence before has a subject of another gender; a possessive needs one of its own."""
        subject = self.target.subject(before) if pronoun.phenomenon != "object" else None
        if subject is None:
            return pronoun.phenomenon == "possessive"
        gender = self._gender_of(subject)
        return gender is not None and gender not in pronoun.genders

    def _may_be_plural(self, before: str, pronoun: Pronoun) -> bool:
        """Return whether an object may be plural: the source sentence before has a plural, and the form fits."""
        several = self.source.group("plural").intersection(tokens(before.lower()))
        return pronoun.phenomenon == "object" and bool(several) and "f" in pronoun.genders

    def _refers_back(self, words: list[str], pronoun: Pronoun) -> bool:
        """Return whether no noun before a pronoun (or after it, if it may be cataphoric) may have its gender."""
        start, end = _clause(words, pronoun.place)
        last = max(each.place for each in (pronoun, *pronoun.others))
        if "(" in words[1:last] and words[words.index("(", 1) + 1] == ")":
            return False  # what is called f() may have any gender
        if any(self._is_demonstrative(words, place) for place in range(last)):
            return False
        if pronoun.phenomenon == "object" and "f" in pronoun.genders and self._names_several(words[: pronoun.place]):
            return False
        named = [word for place, word in enumerate(words[:last]) if self._may_name(word, opens=place == 0)]
        if words[start].lower() in self.target_rules.subordinators:
            named += [word for word in words[end:] if self._may_name(word, opens=False)]
        return not any(self.genders.may_be(noun, pronoun.genders) for noun in named)

    def _is_demonstrative(self, words: list[str], place: int) -> bool:
        """Return whether a word refers to something without its noun, and so shows the gender."""
        rules = self.target_rules
        if words[place].lower() not in rules.demonstratives | rules.demonstrative_articles:
            return False
        if words[place].lower() in rules.demonstrative_articles:
            return words[place + 1] in self.target.singular_verbs
        return not any(map(self._is_noun, words[place + 1 :][:ARTICLE]))

    def _names_several(self, words: list[str]) -> bool:
        """Return whether words have a noun phrase that may be plural, whose pronoun is that of the feminine."""
        plural = {article for article, kinds in self.genders.articles.items() if set(kinds) == {"f", PLURAL}}
        return any(
            word.lower() in plural and any(map(self._is_noun, words[place + 1 :][:ARTICLE]))
            for place, word in enumerate(words)
        )

    def _may_name(self, word: str, opens: bool) -> bool:
        """Return whether a word may be a noun: it is capitalised, and not only because it starts the sentence."""
        if word in self.target_rules.never_antecedents:
            return False
        if opens:
            return self.genders[word] is not None or word[1:] != word[1:].lower()
        return word[0].isupper() and word not in self.target_rules.polite

    def _is_noun(self, word: str) -> bool:
        return self.target.need("noun").fullmatch(word) is not None and word not in self.target_rules.polite

    def _subject(self, translated: list[str], place: int) -> Pronoun | None:
        forms = self.target.pronouns["nominative"]
        gender = _gender(translated[place], forms)
        if self._follows_preposition(translated, place):
            return None
        if gender is None or self._has_subject(translated, place) or not self._is_singular(translated, place):
            return None
        return Pronoun(place, "subject", frozenset({gender}), forms)

    def _is_singular(self, words: list[str], place: int) -> bool:
        """Return whether a subject's verb is singular: after it if it comes first, else beside it or at the end."""
        beside = words[1:2] if place == 0 else [words[place - 1], *words[place + 1 : place + 2]]
        verbs = [verb.lower() for verb in (*beside, *([] if place == 0 else [words[_clause(words, place)[1] - 1]]))]
        if any(verb in self.target.singular_verbs for verb in verbs):
            return True
        ended = [verb for verb in verbs if verb.endswith(("t", "te")) and verb not in self.target.function_words]
        return bool(ended) and not self.target.plural_verbs.intersection(verbs)

    def _is_thing(self, english: list[str], its: list[int], german: str, before: str, pronoun: Pronoun) -> bool:
        """Return whether a neuter is a thing: it continues the subject before, or its verb takes things."""
        expletives = ((self.source.expletive, " ".join(english)), (self.target.expletive, german))
        if len(its) != 1 or any(pattern is not None and pattern.search(text) for pattern, text in expletives):
            return False
        it = its[0]
        if pronoun.phenomenon == "object":
            return bool(self.source_rules.object_verbs.intersection(english[max(it - 2, 0) : it]))
        if it > OPENING:
            return False
        subject = self.target.subject(before)
        if subject is not None and self.genders[subject.noun] == "n":
            return True
        return bool(self.source_rules.subject_verbs.intersection(english[it + 1 : it + 4]))

    def _object(self, translated: list[str], place: int) -> Pronoun | None:
        forms = self.target.pronouns["accusative"]
        gender = _gender(translated[place], forms)
        if gender is None or place == 0:
            return None
        if self._follows_preposition(translated, place):
            return Pronoun(place, "object", frozenset({gender}), forms)
        if translated[place] in self.target.pronouns["nominative"].values() and not self._has_subject(
            translated, place
        ):
            return None
        return Pronoun(place, "object", frozenset({gender}), forms)

    def _follows_preposition(self, translated: list[str], place: int) -> bool:
        return place > 0 and translated[place - 1].lower() in self.target_rules.prepositions

    def _has_subject(self, translated: list[str], place: int) -> bool:
        """Return whether the clause of a pronoun has another pronoun that can only be its subject."""
        start, end = _clause(translated, place)
        end = next((i for i in range(place, end) if translated[i].lower() in self.target_rules.conjunctions), end)
        others = [*translated[start:place], *translated[place + 1 : end]]
        first = [translated[start].lower()] if start < place else []
        return bool(
            self.target_rules.subjects.intersection(first + others) or self.target_rules.polite.intersection(others)
        )

    def _possessive(self, place: int, translated: list[str]) -> Pronoun | None:
        rules = self.target.need("possessives")
        word = translated[place].lower()
        if place + 1 >= len(translated):
            return None
        for gender, stem in rules.stems.items():
            ending = word.removeprefix(stem)
            if word.startswith(stem) and ending in rules.endings:
                if ending == "" and not self.target.need("noun").fullmatch(translated[place + 1]):
                    return None  # sein is a verb, too
                owners = frozenset(each for each in GENDERS if rules.stems[each] == stem)
                forms = {each: rules.stems[each] + ending for each in GENDERS}
                return Pronoun(place, "possessive", owners or frozenset({gender}), forms)
        return None

    def variants(self, german: str, pronoun: Pronoun) -> tuple[str, ...]:
        """Return the sentence with the forms of each other gender, each once and none equal to it."""
        others = [gender for gender in pronoun.forms if gender not in pronoun.genders]
        made = [_exchanged(german, (pronoun, *pronoun.others), gender) for gender in others]
        return tuple(variant for variant in dict.fromkeys(made) if variant != german)


def _exchanged(sentence: str, pronouns: Sequence[Pronoun], gender: Gender) -> str:
    """Return a sentence with its pronouns in another gender."""
    for pronoun in sorted(pronouns, key=lambda each: each.place, reverse=True):
        start, end = _span(sentence, pronoun.place)
        form = pronoun.forms[gender]
        form = form.capitalize() if sentence[start].isupper() else form
        sentence = sentence[:start] + form + sentence[end:]
    return sentence


def _gender(word: str, forms: dict[Gender, str]) -> Gender | None:
    return next((gender for gender, form in forms.items() if form == word.lower()), None)


def _ends_clause(words: list[str], place: int) -> bool:
    return place + 1 == len(words) or not words[place + 1][0].isalnum()


def _lower(word: str) -> str:
    """Return a word in lower case, unless all of it is in capitals: IT is not "it"."""
    return word if len(word) > 1 and word.isupper() else word.lower()


def _clause(words: list[str], place: int) -> tuple[int, int]:
    """Return start and end of the words around an index, up to the next punctuation on each side."""
    start = next((i + 1 for i in range(place, -1, -1) if not words[i][0].isalnum()), 0)
    end = next((i for i in range(place, len(words)) if not words[i][0].isalnum()), len(words))
    return start, end


def _span(sentence: str, place: int) -> tuple[int, int]:
    """Return start and end of a token in its sentence."""
    match = list(re.finditer(r"\w+|[^\w\s]", sentence))[place]
    return match.start(), match.end()


def make_pronouns(
    documents: Iterable[ParallelDocument], source: Language, target: Language, genders: NounGenders, name: str = ""
) -> list[ContrastiveItem]:
    """Make the items of all documents."""
    maker = PronounMaker(source, target, genders)
    return [
        item
        for number, document in enumerate(documents, 1)
        for item in maker.items(document, document.id or f"{name}{number}")
    ]

"""Language rules for the context measures, read from the data files in `languages/`.

    german = load_language("de")
    german.pronoun_gender("er")                 # "m"
    german.subject("Der kleine Schlüssel ist weg.")      # Subject(gender="m", noun="Schlüssel")

To add a language, add a file. If a measure needs a section that a file lacks, the error names the section.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from tram.errors import InputError

FOLDER = Path(__file__).parent / "languages"

Gender = Literal["m", "f", "n"]
GENDERS: tuple[Gender, ...] = ("m", "f", "n")


def _split(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


def _pattern(value: Any) -> Any:
    try:
        return re.compile(value, re.VERBOSE) if isinstance(value, str) else value
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from None


Words = Annotated[frozenset[str], BeforeValidator(_split)]
Pattern = Annotated[re.Pattern[str], BeforeValidator(_pattern)]
ByGender = dict[Gender, str]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Possessives(_Section):
    """Possessive pronouns: a stem for the possessor's gender, an ending for the possessed noun."""

    stems: ByGender
    endings: tuple[str, ...]


class AddressForm(_Section):
    """Patterns of a form of address: anywhere, inside a sentence, or if the source agrees; and its pronouns."""

    anywhere: Pattern | None = None
    inside: Pattern | None = None
    initial: Pattern | None = None
    addressed: Pattern | None = None
    words: Words = frozenset()


class AddressRules(_Section):
    """The forms of address of a language, by name."""

    ignore: Pattern | None = None
    sentence_start: Pattern
    forms: dict[str, AddressForm]

    def form_of_word(self, word: str) -> str | None:
        """Return the form that a pronoun belongs to, None if it is not a pronoun of address."""
        return next((name for name, form in self.forms.items() if word.lower() in form.words), None)


class PronounItemRules(_Section):
    """Rules of one side for making contrastive items with pronouns."""

    third_person: Words = frozenset()
    subjects: Words = frozenset()
    polite: Words = frozenset()
    subordinators: Words = frozenset()
    demonstratives: Words = frozenset()
    demonstrative_articles: Words = frozenset()
    prepositions: Words = frozenset()
    conjunctions: Words = frozenset()
    never_antecedents: Words = frozenset()
    person: Pattern | None = None
    predicate: Pattern | None = None
    subject_verbs: Words = frozenset()
    object_verbs: Words = frozenset()


@dataclass(frozen=True)
class Subject:
    """A noun phrase that starts a sentence. gender: None if its form shows none, or if it is plural."""

    noun: str
    gender: Gender | None


class Language(_Section):
    """The rules of one language; a source language needs only `words` and `expletive`."""

    name: str
    code: str = ""
    words: dict[str, Words] = {}
    expletive: Pattern | None = None
    pronouns: dict[str, ByGender] = {}
    possessives: Possessives | None = None
    determiners: dict[str, Gender] = {}
    bare_determiners: Words = frozenset()
    adjective_endings: dict[str, Gender] = {}
    most_adjectives: int = 3
    noun: Pattern | None = None
    singular_verbs: Words = frozenset()
    plural_verbs: Words = frozenset()
    address: AddressRules | None = None
    articles: dict[str, str] = {}
    pronoun_items: PronounItemRules | None = None
    function_words: Words = frozenset()
    endings: tuple[str, ...] = ()
    stem: int = 4

    def need(self, section: str) -> Any:
        """Return a section; raise InputError if the language's file does not have it."""
        value = getattr(self, section)
        if not value:
            raise InputError(
                f"{FOLDER.name}/{self.code}.yaml: has no {section!r}, which this measure needs; add the rules for "
                f"{self.name}, or measure another language"
            )
        return value

    def group(self, name: str) -> frozenset[str]:
        """Return a group of words of a source language; raise InputError if the file does not have it."""
        words: dict[str, frozenset[str]] = self.need("words")
        if name not in words:
            raise InputError(
                f"{FOLDER.name}/{self.code}.yaml: has no words {name!r}, which this measure needs; add them"
            )
        return words[name]

    def stem_of(self, word: str) -> str:
        """Return a rough stem of a word: lower case, without ending and diacritics, as in Bäume → baum."""
        lower = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(c))
        found: str | None = ""
        while found is not None:  # Systeme → system → syst, as System
            lower = lower.removesuffix(found)
            fits = (ending for ending in self.endings if lower.endswith(ending))
            found = next((ending for ending in fits if len(lower) - len(ending) >= self.stem), None)
        return lower

    @cached_property
    def _pronoun_genders(self) -> dict[str, Gender]:
        """The gender of every subject or object form that belongs to one gender only.

        The dative is left out: German "ihr" and "ihm" belong to two genders or are other words, too.
        """
        genders_of_form: dict[str, set[Gender]] = {}
        for forms in (forms for case, forms in self.need("pronouns").items() if case != "dative"):
            for gender, form in forms.items():
                genders_of_form.setdefault(form, set()).add(gender)
        return {form: next(iter(genders)) for form, genders in genders_of_form.items() if len(genders) == 1}

    def pronoun_gender(self, word: str) -> Gender | None:
        """Return the gender that a third-person pronoun shows; None for other words and forms shared by genders."""
        return self._pronoun_genders.get(word)

    def first_pronoun(self, sentence: str) -> Gender | None:
        """Return the gender of a sentence's first third-person pronoun, None without one.

        Capitalised pronouns count only at the start of the sentence: elsewhere they are other words (German Sie).
        """
        for number, token in enumerate(tokens(sentence, words_only=True)):
            gender = self.pronoun_gender(token.lower() if number == 0 else token)
            if gender is not None:
                return gender
        return None

    def subject(self, sentence: str) -> Subject | None:
        """Return the noun phrase with a determiner at the start of a sentence, None if there is none."""
        noun = self.need("noun")
        words = tokens(sentence)
        while words and not words[0][0].isalnum():
            words = words[1:]  # a quotation mark, a dash
        first = words[0].lower() if words else ""
        if first not in self.need("determiners") and first not in self.bare_determiners:
            return None
        for place in range(1, min(len(words), self.most_adjectives + 2)):
            if noun.fullmatch(words[place]):
                return Subject(words[place], self._gender(first, words[1:place], words[place + 1 :]))
            if not words[place].islower() or words[place] in self.singular_verbs | self.plural_verbs:
                return None  # "Das ist Peter." opens with a pronoun
        return None

    def _gender(self, determiner: str, adjectives: list[str], rest: list[str]) -> Gender | None:
        if rest and rest[0].lower() in self.plural_verbs:
            return None
        if determiner in self.determiners:
            return self.determiners[determiner]
        for ending in sorted(self.adjective_endings, key=len, reverse=True):
            if adjectives and adjectives[-1].endswith(ending):
                return self.adjective_endings[ending]
        return None


def tokens(sentence: str, words_only: bool = False) -> list[str]:
    """Split a sentence into words and single other characters."""
    return re.findall(r"\w+" if words_only else r"\w+|[^\w\s]", sentence)


def find_language(code: str) -> Language | None:
    """Read the rules of a language; None if there are none."""
    return load_language(code) if (FOLDER / f"{code}.yaml").is_file() else None


@cache
def load_language(code: str) -> Language:
    """Read the rules of a language by its code."""
    path = FOLDER / f"{code}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in FOLDER.glob("*.yaml")))
        raise InputError(
            f"there are no rules for the language {code!r}, only for {known}; add {FOLDER.name}/{code}.yaml"
        )
    try:
        return Language.model_validate({**yaml.safe_load(path.read_text("utf-8")), "code": code})
    except (yaml.YAMLError, ValidationError, TypeError) as error:
        raise InputError(f"{path}: is not a file of language rules ({error}); compare it with de.yaml") from None

"""The language rules of splicing: word lists and endings, read from the data file of a target language.

rules = load_rules("en", "de")

Pronouns and forms of address are those of `tram.evaluation.language`, which measures them.
"""

from functools import cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from tram.errors import InputError
from tram.evaluation.language import Gender, Language, load_language

Role = Literal["nominative", "accusative", "dative", "possessive"]


def _split(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


Words = Annotated[frozenset[str], BeforeValidator(_split)]


class Rules(BaseModel):
    """The rules for a pair of languages; `de.yaml` explains each key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Language
    target: Language

    gender_evidence: dict[Literal["m", "f", "n", "x"], Words]
    nominative: dict[str, Gender]
    accusative: dict[str, Gender]
    indefinite_stems: Words
    possessive_stems: Words
    nominative_endings: dict[str, str]
    accusative_endings: dict[str, str]
    negations: Words
    adjective_endings: Words
    strong_after_definite: dict[str, str]

    singular_verbs: Words
    plural_verbs: Words
    always_plural: Words
    not_verbs: Words
    copulas: Words
    to_be: Words
    sentence_verbs: Words
    infinitive: str

    other_subjects: Words
    anyone: str
    formal_subject: str
    unclear: Words
    agreeing: Words
    demonstratives: Words
    demonstrative_articles: Words
    before_stressed: Words
    prepositions: Words
    dative_prepositions: Words
    conjunctions: Words
    never_antecedents: Words
    set_phrases: Words

    feminine_endings: tuple[str, ...]
    persons: Words
    person_endings: tuple[str, ...]
    source_persons: Words

    source_definite: Words
    source_indefinite: Words
    source_pronoun: str
    source_possessive: str
    source_you: Words
    source_plural_demonstratives: Words
    source_other_pronouns: Words
    source_singular_verbs: Words
    source_plural_verbs: Words
    to_be_source: Words
    source_not_nouns: Words
    source_not_verbs: Words
    source_adverbs: Words
    source_clauses: Words
    source_ends: Words
    source_particles: Words
    presentations: dict[str, list[str]]
    expletive_openings: tuple[str, ...]
    source_expletive_openings: tuple[str, ...]
    source_expletive_followers: Words
    expletive_followers: Words

    source_before_verbs: Words
    source_your: Words
    plural_address: dict[str, Words]
    familiar_forms: tuple[str, ...]
    address_cues: dict[str, Words]
    titles: Words
    before_cues: Words

    @cached_property
    def determiners(self) -> dict[str, dict[str, str]]:
        """Determiners of a singular noun by case, and the genders they allow: "m" for "der", "mn" for "ein"."""
        stems = self.indefinite_stems | self.possessive_stems
        return {
            "nominative": self.nominative | _declined(stems, self.nominative_endings),
            "accusative": self.accusative | _declined(stems, self.accusative_endings),
        }

    @cached_property
    def all_determiners(self) -> frozenset[str]:
        """Every determiner, whatever its case."""
        return frozenset(word for case in self.determiners.values() for word in case) | self.negations

    @cached_property
    def indefinite(self) -> frozenset[str]:
        """Indefinite determiners: a noun phrase with one cannot be replaced by a pronoun."""
        endings = self.nominative_endings | self.accusative_endings
        return frozenset(_declined(self.indefinite_stems, endings))

    @cached_property
    def pronouns(self) -> dict[Role, dict[Gender, str]]:
        """The pronoun of each gender by role; a possessive's is its stem."""
        cases = self.target.need("pronouns")
        stems = self.target.need("possessives").stems
        return {
            "nominative": cases["nominative"],
            "accusative": cases["accusative"],
            "dative": cases["dative"],
            "possessive": stems,
        }

    @cached_property
    def personal(self) -> dict[str, Role]:
        """Personal pronouns and their role; one with two roles has the first."""
        roles: dict[str, Role] = {}
        for role in ("dative", "accusative", "nominative"):
            roles |= dict.fromkeys(self.pronouns[role].values(), role)
        return roles

    @cached_property
    def possessives(self) -> dict[str, str]:
        """Possessives of the third person and their endings."""
        rules = self.target.need("possessives")
        return {stem + ending: ending for stem in rules.stems.values() for ending in rules.endings}

    @cached_property
    def doubtful(self) -> frozenset[str]:
        """Pronouns that can be nominative and accusative: German "sie"."""
        return frozenset(self.pronouns["nominative"].values()) & frozenset(self.pronouns["accusative"].values())

    @cached_property
    def thirds(self) -> frozenset[str]:
        """Every pronoun of the third person in the target."""
        return frozenset(self.personal) | frozenset(self.possessives) | self.unclear

    @cached_property
    def familiar_words(self) -> dict[str, frozenset[str]]:
        """The pronouns of the forms of address that are not capitalised."""
        forms = self.target.need("address").forms
        return {form: forms[form].words for form in self.familiar_forms}

    @cached_property
    def polite_words(self) -> frozenset[str]:
        """The pronouns of the forms of address that are capitalised, in lower case."""
        forms = self.target.need("address").forms
        return frozenset(word for name, form in forms.items() if name not in self.familiar_forms for word in form.words)

    def is_adjective(self, word: str) -> bool:
        """Return whether a word in front of a noun looks like an adjective with an ending."""
        return (
            word.islower()
            and len(word) > 3
            and word.endswith(tuple(self.adjective_endings))
            and word not in self.all_determiners
            and word not in self.possessives
        )

    def is_singular_verb(self, word: str) -> bool:
        """Return whether a word can be a finite verb in the singular."""
        if word in self.singular_verbs:
            return True
        return len(word) > 2 and word.islower() and word.endswith(("t", "te")) and word not in self.not_verbs

    def is_plural_verb(self, word: str) -> bool:
        """Return whether a word can be a finite verb in the plural."""
        return word in self.plural_verbs or word.endswith("en")

    def is_plural_address(self, word: str) -> bool:
        """Return whether a word can be the verb of the familiar plural: "habt", "kommt"."""
        return len(word) > 3 and word.endswith("t") and word not in self.not_verbs

    def is_source_verb(self, word: str) -> bool:
        """Return whether a source word can be a finite verb of the third person singular."""
        if word in self.source_singular_verbs:
            return True
        if len(word) < 4 or word.endswith(("ss", "us", "is")) or word in self.source_not_verbs:
            return False
        return word.endswith(("s", "ed"))


def _declined(stems: frozenset[str], endings: dict[str, str]) -> dict[str, str]:
    return {stem + ending: genders for stem in stems for ending, genders in endings.items()}


def load_rules(source_language: str, target_language: str) -> Rules:
    """Return the rules of a pair of languages."""
    folder = files("tram.splice")
    path = folder / f"{target_language}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(each.name[:-5] for each in folder.iterdir() if each.name.endswith(".yaml")))
        raise InputError(f"--target-language {target_language}: there are no rules for it; choose one of: {known}")
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    return Rules.model_validate(
        {**values, "source": load_language(source_language), "target": load_language(target_language)}
    )

"""Filler sentences, which decide nothing: before, between and after those that do."""

from dataclasses import dataclass, field
from itertools import pairwise

from tram.splice.anaphors import noun_follows
from tram.splice.rules import Rules
from tram.splice.words import Pair, Tokenized, is_capitalized


@dataclass
class Bystanders:
    """Filler sentences by their use.

    openers: may name things and come before an antecedent
    neutral: name nothing and may come after it
    asides: may come after it; they name things, but as no subject and no object: "it" would be the piano after "I have
        the piano", whatever came before
    expletives: have an expletive "it", whose translation does not depend on the antecedent
    """

    openers: list[Pair] = field(default_factory=list)
    neutral: list[Pair] = field(default_factory=list)
    asides: list[Pair] = field(default_factory=list)
    expletives: list[Pair] = field(default_factory=list)

    def add(self, tokens: Tokenized, rules: Rules) -> None:
        """Add a pair to the lists that it is suitable for."""
        source, lower = tokens.source, tokens.lower
        if len(lower) < 4 or not rules.source_other_pronouns.isdisjoint(source) or rules.source_possessive in source:
            return
        pronouns = [at for at, word in enumerate(lower) if word in rules.thirds and word != rules.infinitive]
        opening, source_opening = " ".join(lower[:2]), " ".join(source[:2])
        if opening in rules.expletive_openings and source_opening in rules.source_expletive_openings:
            if pronouns == [0] and _has_clause(source, lower, rules):
                self.expletives.append(tokens.pair)
        elif pronouns or rules.source_pronoun in source:
            return
        elif not any(is_capitalized(word) for word in tokens.target[1:]):
            if lower[0] in rules.other_subjects:
                self.neutral.append(tokens.pair)
        else:
            self.openers.append(tokens.pair)
            if lower[0] in rules.other_subjects and not _names_object(tokens, rules):
                self.asides.append(tokens.pair)


def _names_object(tokens: Tokenized, rules: Rules) -> bool:
    """Return whether a noun phrase may be an object: it has a determiner and no preposition before it."""
    return any(
        word in rules.determiners["accusative"]
        and before not in rules.prepositions
        and noun_follows(tokens.target, at, rules)
        for at, (before, word) in enumerate(pairwise(tokens.lower), 1)
    )


def _has_clause(source: list[str], lower: list[str], rules: Rules) -> bool:
    """Return whether both sides continue with a clause: "It is … to …", but not "It is central to the …"."""
    behind = lower[lower.index(",") :] if "," in lower else []
    if rules.expletive_followers.isdisjoint(behind):
        return False
    determiners = rules.source_definite | rules.source_indefinite
    return any(
        word in rules.source_expletive_followers and after not in determiners for word, after in pairwise(source[3:8])
    )


def lacks_referent(tokens: Tokenized, rules: Rules) -> bool:
    """Return whether a demonstrative without a noun refers to something that the source does not have.

    "That should be done" may be "Diese sollte getan werden": what "diese" is was said in another sentence.
    """
    if not rules.source_plural_demonstratives.isdisjoint(tokens.source):
        return False
    lower = tokens.lower
    opens = lower[0] in rules.demonstrative_articles and (
        rules.is_singular_verb(tokens.target[1]) or lower[1] in rules.plural_verbs
    )
    return opens or any(
        word in rules.demonstratives and not noun_follows(tokens.target, at, rules) for at, word in enumerate(lower)
    )


def lacks_antecedent(tokens: Tokenized, rules: Rules) -> bool:
    """Return whether "it" was translated by a pronoun whose gender nothing in a spliced document would explain."""
    if not {rules.source_pronoun, rules.source_possessive} & set(tokens.source):
        return False
    neuter = rules.pronouns["nominative"]["n"]
    gendered = rules.thirds - {neuter, rules.infinitive}
    return neuter not in tokens.lower or not gendered.isdisjoint(tokens.target)

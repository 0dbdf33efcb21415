"""Sentences with an anaphoric "it", whose pronouns can be replaced by those of another gender.

They are real sentences in which "it" was translated by a masculine or feminine pronoun (a neuter one may be expletive),
and sentences with a definite noun phrase that is replaced by a pronoun.
"""

from dataclasses import dataclass

from tram.evaluation.language import GENDERS, Gender
from tram.splice.antecedents import Antecedent
from tram.splice.rules import Role, Rules
from tram.splice.words import Pair, Tokenized, clause, is_capitalized, is_word, spans, words

MOST_PRONOUNS = 2  # maximum number in one sentence
LEAST_DICE = 0.03  # minimum Dice coefficient of a replaced noun and its translation


@dataclass(frozen=True, slots=True)
class Slot:
    """A pronoun in a target sentence: its word index, its role, and its ending."""

    at: int
    role: Role
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Anaphor:
    """A sentence pair and its pronouns that agree with an antecedent; origin: the pair as it is in the corpora."""

    pair: Pair
    slots: tuple[Slot, ...]
    origin: Pair

    @property
    def names_another(self) -> bool:
        """Whether a subject before the pronoun, or a possessed noun, could be the antecedent of a later "it"."""
        before = words(self.pair.target)[1 : self.slots[0].at]
        return self.slots[0].role == "possessive" or any(map(is_capitalized, before))

    def target(self, gender: Gender, rules: Rules) -> str:
        """Return the target sentence with the pronouns of a gender."""
        text = self.pair.target
        where = spans(text)
        for slot in sorted(self.slots, key=lambda slot: -slot.at):
            start, end = where[slot.at]
            word = rules.pronouns[slot.role][gender] + slot.ending
            word = word.capitalize() if text[start].isupper() else word
            text = text[:start] + word + text[end:]
        return text


def find_anaphor(tokens: Tokenized, rules: Rules) -> Anaphor | None:
    """Return the pronouns of a pair that refer to something before it; None unless the rules cover all of them."""
    source = tokens.source
    pronouns, possessives = source.count(rules.source_pronoun), source.count(rules.source_possessive)
    if not 1 <= pronouns + possessives <= MOST_PRONOUNS:
        return None
    if not (rules.source_other_pronouns | rules.source_persons).isdisjoint(source):
        return None
    slots = _slots(tokens, rules)
    if slots is None or len(slots) != pronouns + possessives:
        return None
    sure = (
        sum(slot.role == "possessive" for slot in slots) == possessives
        and _one_gender(tokens, slots, rules)
        and all(_can_be_exchanged(slot, tokens, rules) and _refers_back(slot, tokens, rules) for slot in slots)
        and (pronouns > 0 or _possessive_opens(tokens, rules))
        and slots[-1].at - slots[0].at != 1  # "weil es es braucht"
    )
    return Anaphor(tokens.pair, tuple(slots), tokens.pair) if sure else None


def _slots(tokens: Tokenized, rules: Rules) -> list[Slot] | None:
    """Return all third-person singular pronouns; None if the role of one is not clear."""
    result: list[Slot] = []
    for at, word in enumerate(tokens.lower):
        if word in rules.unclear:
            return None
        if word not in rules.personal and word not in rules.possessives:
            continue
        if is_capitalized(tokens.target[at]) and _addresses(tokens, at, rules):
            continue
        if word in rules.possessives and noun_follows(tokens.target, at, rules):
            result.append(Slot(at, "possessive", rules.possessives[word]))
        elif word in rules.personal:
            role = _role(tokens, at, rules)
            if role is None:
                return None
            result.append(Slot(at, role))
        elif word != rules.infinitive:
            return None
    return result


def _addresses(tokens: Tokenized, at: int, rules: Rules) -> bool:
    """Return whether a capitalized pronoun is a form of address and not the first word of a sentence."""
    if at and is_word(tokens.target[at - 1]):
        return True
    after = tokens.lower[at + 1] if at + 1 < len(tokens.lower) else ""
    return rules.is_plural_verb(after) and not rules.source_you.isdisjoint(tokens.source)


def _role(tokens: Tokenized, at: int, rules: Rules) -> Role | None:
    """Return the role of a personal pronoun, None if it is not clear."""
    word = tokens.lower[at]
    if word in rules.doubtful:
        start, end = clause(tokens.target, at)
        others = rules.other_subjects.intersection(tokens.lower[start:end])
        formal = rules.formal_subject in tokens.target[start + 1 : end]
        return "accusative" if others or (formal and tokens.target[at] != rules.formal_subject) else "nominative"
    if word == rules.pronouns["dative"]["f"]:  # "ihr" is also the plural of "du"
        return "dative" if at and tokens.lower[at - 1] in rules.dative_prepositions else None
    return rules.personal[word]


def noun_follows(target: list[str], at: int, rules: Rules) -> bool:
    """Return whether a noun follows, with at most two adjectives before it."""
    for token in target[at + 1 : at + 4]:
        if is_capitalized(token):
            return True
        if not rules.is_adjective(token):
            return False
    return False


def _one_gender(tokens: Tokenized, slots: list[Slot], rules: Rules) -> bool:
    """Return whether all pronouns can have the same gender."""
    return any(
        all(tokens.lower[slot.at] == rules.pronouns[slot.role][gender] + slot.ending for slot in slots)
        for gender in GENDERS
    )


def _refers_back(slot: Slot, tokens: Tokenized, rules: Rules) -> bool:
    """Return whether no noun before the pronoun in its sentence can be its antecedent."""
    before = tokens.target[: slot.at]
    if before and before[-1] in rules.all_determiners:
        return False  # "die ihn umgebende Mauer"
    if tokens.lower[slot.at] == rules.pronouns["accusative"]["m"]:
        # An object is never the subject of its own clause: "Die Kommission unterstützt ihn".
        start = clause(tokens.target, slot.at)[0]
        if rules.conjunctions.isdisjoint(tokens.lower[start : slot.at]):
            before = before[:start]
    return not any(is_capitalized(token) and token not in rules.never_antecedents for token in before[1:])


def _can_be_exchanged(slot: Slot, tokens: Tokenized, rules: Rules) -> bool:
    """Return whether the pronoun is singular and nothing else in the sentence depends on its gender."""
    for at, word in enumerate(tokens.lower):
        if word in rules.agreeing and not noun_follows(tokens.target, at, rules):
            return False
    if slot.role == "accusative":
        stressed = slot.at == 0 or tokens.lower[slot.at - 1] in rules.before_stressed
        return not stressed and rules.sentence_verbs.isdisjoint(tokens.lower)
    return slot.role != "nominative" or _is_sure_subject(tokens, slot.at, rules)


def _is_sure_subject(tokens: Tokenized, at: int, rules: Rules) -> bool:
    """Return whether a pronoun is a singular subject that its sentence neither names nor explains."""
    if _names_something(tokens, at, rules) or _is_explained(tokens, at, rules):
        return False
    if at == 1 and rules.is_singular_verb(tokens.lower[0]) and tokens.target[-1] != "?":
        return False  # "Rutschte er durch den Halm.", the rest of a longer sentence
    if tokens.lower[at] not in rules.doubtful:
        return True
    return _is_source_subject(tokens.source, rules) and _is_singular(tokens, at, rules)


def _is_source_subject(source: list[str], rules: Rules) -> bool:
    """Return whether each "it" is a subject: it opens the sentence, or a verb is beside it."""
    return all(
        at == 0
        or source[at - 1] in rules.source_singular_verbs
        or rules.is_source_verb(source[at + 1])
        or source[at + 1] in rules.source_adverbs
        for at, word in enumerate(source[:-1])
        if word == rules.source_pronoun
    )


def _names_something(tokens: Tokenized, at: int, rules: Rules) -> bool:
    """Return whether the sentence says what the thing is ("er ist ein …"), which is wrong for most antecedents."""
    start, end = clause(tokens.target, at)
    if rules.copulas.isdisjoint(tokens.lower[start:end]):
        return False
    return any(
        (tokens.lower[number] in rules.determiners["nominative"] or tokens.lower[number] in rules.negations)
        and tokens.lower[number - 1] not in rules.prepositions
        for number in range(at + 1, end)
    )


def _is_explained(tokens: Tokenized, at: int, rules: Rules) -> bool:
    """Return whether the sentence names the referent later: "Er ist beschwerlich, mein Weg."."""
    end = clause(tokens.target, at)[1]
    return tokens.target[end : end + 1] in ([","], ["."]) and any(
        word in rules.determiners["nominative"] and noun_follows(tokens.target, end + 1, rules)
        for word in tokens.lower[end + 1 : end + 2]
    )


def _is_singular(tokens: Tokenized, at: int, rules: Rules) -> bool:
    """Return whether the verb of the pronoun's clause is singular; "sie" can be plural, too."""
    start, end = clause(tokens.target, at)
    inside = tokens.lower[start:end]
    near = [tokens.lower[end - 1], *tokens.lower[max(start, at - 1) : at], *tokens.lower[at + 1 : at + 2]]
    if not rules.always_plural.isdisjoint(inside):
        return False
    if not rules.singular_verbs.isdisjoint(near):
        return True
    return rules.plural_verbs.isdisjoint(inside) and any(rules.is_singular_verb(word) for word in near)


def _possessive_opens(tokens: Tokenized, rules: Rules) -> bool:
    """Return whether "its" cannot refer to something later in its own sentence: "In its report, the Council …"."""
    if tokens.source[0] == rules.source_possessive:
        return tokens.lower[0] in rules.possessives
    return tokens.lower[0] in rules.other_subjects


def replace_noun(antecedent: Antecedent, rules: Rules) -> Anaphor | None:
    """Return the sentence with a pronoun instead of its noun phrase, if both sides are still grammatical."""
    if antecedent.case is None or not antecedent.definite or antecedent.dice < LEAST_DICE:
        return None
    pair = antecedent.pair
    role: Role = antecedent.case
    if role == "accusative" and not _stands_alone(Tokenized(pair).source, antecedent.source_range, rules):
        return None
    source = _replaced(pair.source, antecedent.source_range, rules.source_pronoun)
    target = _replaced(pair.target, antecedent.target_range, rules.pronouns[role][antecedent.gender])
    tokens = Tokenized(Pair(source, target, pair.corpus))
    slot = Slot(antecedent.target_range[0], role)
    thirds = [at for at, word in enumerate(tokens.lower) if word in rules.thirds and word != rules.infinitive]
    address = [at for at in thirds if at != slot.at and is_capitalized(tokens.target[at]) and at > 0]
    if set(thirds) - set(address) != {slot.at} or not _can_be_exchanged(slot, tokens, rules):
        return None
    if role == "nominative" and tokens.lower[1] in rules.to_be and not tokens.target[2].islower():
        return None  # "Er ist Shell", "Er ist 916"
    return Anaphor(tokens.pair, (slot,), antecedent.pair)


def _stands_alone(source: list[str], range_: tuple[int, int], rules: Rules) -> bool:
    """Return whether "it" can replace the words: not in "the work you do" and not in "turn off the lamp"."""
    before, after = source[range_[0] - 1 : range_[0]], source[range_[1] : range_[1] + 1]
    if before and before[0] in rules.source_particles:
        return False
    return not after or not is_word(after[0]) or after[0] in rules.source_ends


def _replaced(text: str, range_: tuple[int, int], pronoun: str) -> str:
    where = spans(text)
    start, end = where[range_[0]][0], where[range_[1] - 1][1]
    pronoun = pronoun.capitalize() if text[start].isupper() and range_[0] == 0 else pronoun
    return text[:start] + pronoun + text[end:]

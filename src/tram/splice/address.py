"""Documents whose sentences all address someone in the same form: du or Sie, tu or vous."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.evaluation.address import form_of
from tram.splice.bystanders import Bystanders, lacks_antecedent
from tram.splice.odds import WeightedPairs, WordCounts
from tram.splice.rules import Rules
from tram.splice.words import Pair, Tokenized, is_capitalized, is_word, words

UNMARKED = "imperative"  # an imperative whose form the target shows only in its ending
LEAST_VERBS = 3  # minimum occurrences of a word as the base form of a verb
VERB_SHARE = 0.15  # minimum share of these among all its occurrences
SENTENCES = (3, 6)
CUES = 0.35  # share of the documents that open with a cue
BETWEEN = 0.15  # chance of a sentence without address between two others
PLURALS = 0.15  # share of the familiar documents that address several people
LEAST_PLURALS = 30
MOST_NAMES = 2  # maximum number of names after a title


class Forms:
    """Forms of address of sentence pairs; the verbs of imperatives are learnt from "to …" and "can …"."""

    def __init__(self, rules: Rules):
        self._rules = rules
        self._words: Counter[str] = Counter()
        self._verbs: Counter[str] = Counter()

    def learn(self, tokens: Tokenized) -> None:
        """Count the words of a source sentence, and those that are base forms of verbs."""
        self._words.update(tokens.source)
        self._verbs.update(
            word for before, word in pairwise(tokens.source) if before in self._rules.source_before_verbs
        )

    def of(self, pair: Pair) -> str | None:
        """Return the form that a pair shows; `UNMARKED` for an imperative without a pronoun; None without address."""
        form = form_of(pair.target, self._rules.target, pair.source, self._rules.source)
        return UNMARKED if form is None and self._is_imperative(pair) else form

    def _is_imperative(self, pair: Pair) -> bool:
        """Return whether a verb starts the source or follows a comma: "Here, take it."."""
        source = [",", *words(pair.source.lower()), "."]
        return any(
            not is_word(before)
            and self._verbs[word] >= max(LEAST_VERBS, VERB_SHARE * self._words[word])
            and after not in self._rules.source_singular_verbs
            for before, word, after in zip(source, source[1:], source[2:], strict=False)
        )


@dataclass
class AddressSentences:
    """Sentences that address someone, by form; cues also show the form by what they call the person."""

    by_form: dict[str, list[Pair]] = field(default_factory=dict)
    plural: dict[str, list[Pair]] = field(default_factory=dict)
    cues: dict[str, list[Pair]] = field(default_factory=dict)

    def add(self, tokens: Tokenized, form: str | None, rules: Rules) -> None:
        """Add a pair whose source has "you"; a cue need not have it."""
        if form == UNMARKED or _is_honorific(tokens, form, rules) or lacks_antecedent(tokens, rules):
            return
        if not _is_clear(tokens, form, rules):
            return
        if rules.source_your.isdisjoint(tokens.source) and not _has_pronoun(tokens, form, rules):
            return  # "Ihr Deppen!", taken for "your"
        called = {name for name in rules.address_cues if _calls(tokens, name, rules)}
        if len(called) == 1 and form in (None, *called):
            if form is not None and _is_plural(tokens, form, rules):
                return
            self.cues.setdefault(called.pop(), []).append(tokens.pair)
        elif form is not None and not called and not rules.source_you.isdisjoint(tokens.source):
            groups = self.plural if _is_plural(tokens, form, rules) else self.by_form
            groups.setdefault(form, []).append(tokens.pair)


def slips_case(tokens: Tokenized, rules: Rules) -> bool:
    """Return whether a polite pronoun seems to be in lower case: the source has "you" and nobody else."""
    if rules.source_you.isdisjoint(tokens.source) or not rules.source.group("like_polite").isdisjoint(tokens.source):
        return False
    return not rules.polite_words.isdisjoint(tokens.target)


def _has_pronoun(tokens: Tokenized, form: str | None, rules: Rules) -> bool:
    """Return whether the target has a personal pronoun of the form, properly capitalised; True without a form."""
    if form is None:
        return True
    pronouns = [word for word in tokens.target if word.lower() in rules.target.need("address").forms[form].words]
    return any(form in rules.familiar_forms or is_capitalized(word) for word in pronouns)


def _is_honorific(tokens: Tokenized, form: str | None, rules: Rules) -> bool:
    """Return whether a familiar form is capitalized inside a sentence, as in old letters and at court."""
    familiar = rules.familiar_words.get(form or "", frozenset())
    return any(
        is_capitalized(word) and word.lower() in familiar and (is_word(before) or before == ",")
        for before, word in pairwise(tokens.target)
    )


def _is_plural(tokens: Tokenized, form: str, rules: Rules) -> bool:
    """Return whether several people are addressed."""
    plural = rules.plural_address.get(form, frozenset())
    familiar = rules.familiar_words.get(form, frozenset())
    return not plural.isdisjoint(tokens.lower) and (familiar - plural).isdisjoint(tokens.lower)


def _is_clear(tokens: Tokenized, form: str | None, rules: Rules) -> bool:
    """Return whether a form is unambiguous: "ihr Helm" alone may also be "her helmet"."""
    pronouns = rules.familiar_words.get(form or "", frozenset()).intersection(tokens.lower)
    doubtful = frozenset(rules.possessives)
    if form is None or not pronouns or not pronouns <= doubtful:
        return True
    return any(
        {before, after} & doubtful and (rules.is_plural_address(before) or rules.is_plural_address(after))
        for before, after in pairwise(tokens.lower)
    )


def _calls(tokens: Tokenized, form: str, rules: Rules) -> bool:
    """Return whether the source has a vocative that goes with a form: "Mr Brown, …", "…, my friend."."""
    source = tokens.source
    for at, word in enumerate(source):
        if word not in rules.address_cues[form]:
            continue
        start, end = at, at + 1
        while start > 0 and source[start - 1] in rules.before_cues:
            start -= 1
        if word in rules.titles:
            while end < len(source) and end - at <= MOST_NAMES and is_word(source[end]):
                end += 1
        opens = start == 0 or not is_word(source[start - 1])
        if opens and end < len(source) and not is_word(source[end]):
            return True
    return False


class AddressDocuments:
    """A generator of documents with one form of address each."""

    def __init__(self, sentences: AddressSentences, bystanders: Bystanders):
        forms = sorted(sentences.by_form, key=lambda form: -len(sentences.by_form[form]))[:2]
        if len(forms) < 2 or min(len(sentences.by_form[form]) for form in forms) < SENTENCES[1]:
            found = ", ".join(f"{len(sentences.by_form[form])} {form}" for form in forms) or "none"
            raise InputError(
                f"--kinds address: the corpora have too few sentences with two forms of address ({found}); "
                "give more text"
            )
        self._forms = sorted(forms)
        self._bystanders = bystanders
        self._cues = sentences.cues
        both = {form: [*sentences.by_form[form], *sentences.plural.get(form, [])] for form in forms}
        counts = {form: WordCounts(pairs) for form, pairs in both.items()}
        other = dict(zip(forms, reversed(forms), strict=True))
        self._one = {form: WeightedPairs(sentences.by_form[form], counts[form], counts[other[form]]) for form in forms}
        self._several = {
            form: WeightedPairs(pairs, counts[form], counts[other[form]])
            for form, pairs in sentences.plural.items()
            if form in counts and len(pairs) > LEAST_PLURALS
        }

    def make(self, count: int, seed: int) -> Iterator[ParallelDocument]:
        """Yield `count` documents."""
        random = Random(f"address {seed}")
        for _ in range(count):
            form = random.choice(self._forms)
            plural = form in self._several and random.random() < PLURALS
            drawn = (self._several if plural else self._one)[form].sample(random, random.randint(*SENTENCES))
            pairs = []
            if not plural and self._cues.get(form) and random.random() < CUES:  # a cue calls one person
                pairs.append(random.choice(self._cues[form]))
                drawn = drawn[1:]
            for pair in drawn:
                if pairs and self._bystanders.neutral and random.random() < BETWEEN:
                    pairs.append(random.choice(self._bystanders.neutral))
                pairs.append(pair)
            yield ParallelDocument([pair.source for pair in pairs], [pair.target for pair in pairs])

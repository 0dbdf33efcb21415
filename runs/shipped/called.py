"""Documents that call somebody by a title, a name or a pet name, and address them in the form that goes with it.

Manuals, speeches, chats and games each have one form of address whoever is spoken to, so that a model learns it from
the style. Here the same sentence occurs in every form, and only who was called decides: *du* after "honey", *ihr* after
"guys", *Sie* after "sir", or, where nobody is called, the first sentence that shows a form. Words and sentences are in
called.yaml; others are real ones in two forms (exchange.py), and real sentences come between the call and the address.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml
from everyday import ACCUSATIVE, ENGLISH, Pair, capitalised, everyday_words, with_names

FORMS = ("T", "P", "V")  # du, ihr, Sie: the order in which called.yaml has them
WEIGHTS = (2, 1, 2)  # of the forms
BEFORE, BETWEEN = (0, 3), (0, 6)  # real sentences before the call, and after it before something is said
SAID = (1, 3)  # sentences that show the form
REAL = 0.6  # share of these that are real sentences, of du and Sie
THINGS = 0.3  # share of the others that are about an everyday thing
UNCALLED, SAID_UNCALLED = 0.35, (3, 6)  # share of the documents of du and Sie in which nobody is called
CALLED_INSIDE = 0.2  # share of these that call somebody themselves: "Where are you going, sir?"
CALLED_AGAIN = 0.3  # share of the documents in which the call is repeated


class Calls:
    """Sentences that call somebody, and sentences that address somebody, in each form."""

    def __init__(self, exchanged: Sequence[tuple[Pair, Pair]]) -> None:
        self._exchanged = exchanged
        self._everyday = everyday_words()
        self._words: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

    def vocative(self, form: str, random: Random) -> Pair:
        """Return what somebody is called: "sir", "mein Herr"."""
        return with_names(random.choice(list(self._words["vocatives"][form].items())), self._everyday, random)

    def call(self, who: Pair, random: Random) -> Pair:
        """Return a sentence that calls somebody and shows no form itself."""
        source, target = random.choice(list(self._words["calls"].items()))
        return capitalised((source.format(who=who[0]), target.format(who=who[1])))

    def request(self, form: str, who: Pair | None, random: Random) -> Pair:
        """Return a sentence in a form of address, which ends with what somebody is called if that is given."""
        if form != "P" and who is None and random.random() < REAL:
            return random.choice(self._exchanged)[form == "V"]
        about_thing = random.random() < THINGS
        source, targets = random.choice(list(self._words["things" if about_thing else "requests"].items()))
        target = targets.split(" | ")[FORMS.index(form)]
        if about_thing:
            words = self._thing(form, random)
            source, target = capitalised((source.format(**words), target.format(**words)))
        if who is None:
            return source, target
        return f"{source[:-1]}, {who[0]}{source[-1]}", f"{target[:-1]}, {who[1]}{target[-1]}"

    def _thing(self, form: str, random: Random) -> dict[str, str]:
        """Return an everyday noun, the words that agree with it, and what may be said of it."""
        gender = random.choice("mfn")
        noun, german = random.choice(list(self._everyday["nouns"][gender].items()))
        action, done = random.choice(list(self._everyday["actions"].items()))
        state, how = random.choice(list(self._everyday["states"].items()))
        your, number = self._words["your"][form], "mfn".index(gender)
        accusative = ACCUSATIVE[gender]
        return {
            **{"noun": noun, "German": german, "action": action, "done": done, "state": state, "how": how},
            **{"den": accusative[ENGLISH.index("the")], "meinen": accusative[ENGLISH.index("my")]},
            **{"dein": your[number], "deinen": your[-1] if gender == "m" else your[number]},
        }

    def documents(self, fillers: Sequence[Pair], random: Random) -> Iterator[list[Pair]]:
        """Yield documents without end, with `fillers`, which address nobody, between the sentences."""

        def some(least: int, most: int) -> list[Pair]:
            return random.sample(fillers, random.randint(least, most))

        while True:
            (form,) = random.choices(FORMS, WEIGHTS)
            called = form == "P" or random.random() >= UNCALLED
            who = self.vocative(form, random)
            pairs = some(*BEFORE)
            if called:
                pairs += [self.call(who, random), *some(*BETWEEN)]
            for number in range(random.randint(*(SAID if called else SAID_UNCALLED))):
                if number:
                    pairs += some(0, 1)
                inside = called and random.random() < CALLED_INSIDE
                pairs.append(self.request(form, who if inside else None, random))
            if called and random.random() < CALLED_AGAIN:
                pairs += [*some(0, 1), self.call(who, random), self.request(form, None, random)]
            yield pairs

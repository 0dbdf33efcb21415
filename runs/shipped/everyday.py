"""Sentence pairs with everyday words, which manuals and speeches lack, for the sentence model of the shipped model.

python runs/shipped/everyday.py OUT_SOURCE OUT_TARGET [DICTIONARY] [--examples]

Sentences made of the words of everyday.yaml, phrases of letters, and the example sentences of DICTIONARY: the file
`de-en` of Ding's dictionary (Debian: trans-de-en, GPL-2+), whose lines are "Wort {n} | Beispielsatz. :: word | Example
sentence." With --examples, only these.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tram.data.corpus import ParallelDocument, write_parallel

Pair = tuple[str, str]
SENTENCES = 30_000  # made of the words
PHRASES = 2_500  # of letters
REPEATED = 2  # times that an example sentence is seen
ENGLISH = ("the", "a", "my", "your", "your")  # with the articles of each gender beside them
NOMINATIVE = {
    "m": ("der", "ein", "mein", "Ihr", "dein"),
    "f": ("die", "eine", "meine", "Ihre", "deine"),
    "n": ("das", "ein", "mein", "Ihr", "dein"),
}
ACCUSATIVE = {
    "m": ("den", "einen", "meinen", "Ihren", "deinen"),
    "f": ("die", "eine", "meine", "Ihre", "deine"),
    "n": ("das", "ein", "mein", "Ihr", "dein"),
}
NOTE = re.compile(r"\s*(\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|<[^>]*>)")
SENTENCE = re.compile(r"[A-ZÄÖÜ][\w\s.,;:?!'’\"„“”%&€$°–-]*[.?!]")
PLACEHOLDER = re.compile(r"\b(jd[mns]?|etw|sb|sth)\.|\.\.\.")


def with_article(number: int, noun: str) -> str:
    """Return an English noun with the article of this number."""
    article = ENGLISH[number]
    return f"{'an' if article == 'a' and noun[0] in 'aeiou' else article} {noun}"


def is_formal(source: str, german: str, random: Random) -> bool:
    """Return whether "you" is *Sie*: as the German possessive shows, otherwise by chance."""
    return german[0] == "I" if source.startswith("your ") else random.random() < 0.5


def capitalised(pair: Pair) -> Pair:
    """Return both sides with a capital at their start."""
    source, target = (side[0].upper() + side[1:] for side in pair)
    return source, target


def made_of_words(words: dict[str, Any], random: Random) -> Pair:
    """Return a sentence with an everyday noun."""
    gender = random.choice("mfn")
    noun, german = random.choice(list(words["nouns"][gender].items()))
    article = random.randrange(len(ENGLISH))
    if ENGLISH[article] == "a" and noun in words["uncountable"]:
        article = ENGLISH.index("the")
    thing = with_article(article, noun)
    subject, object_ = NOMINATIVE[gender][article], ACCUSATIVE[gender][article]
    state, german_state = random.choice(list(words["states"].items()))
    place, german_place = random.choice(list(words["places"].items()))
    action, german_action = random.choice(list(words["actions"].items()))
    verb, german_verb = random.choice((("is", "ist"), ("was", "war")))
    see = "Sehen Sie" if is_formal(thing, object_, random) else "Siehst du"
    pair = random.choice(
        (
            (f"{thing} {verb} {state}.", f"{subject} {german} {german_verb} {german_state}."),
            (f"{thing} {verb} {place}.", f"{subject} {german} {german_verb} {german_place}."),
            (f"I have {action} {thing}.", f"Ich habe {object_} {german} {german_action}."),
            (f"We need {thing}.", f"Wir brauchen {object_} {german}."),
            (f"Where is {thing}?", f"Wo ist {subject} {german}?"),
            (f"Can you see {thing} {place}?", f"{see} {object_} {german} {german_place}?"),
        )
    )
    return capitalised(pair)


def with_names(pair: Pair, words: dict[str, Any], random: Random) -> Pair:
    """Return a pair with names for first names and surnames."""
    names = {kind: random.choice(found) for kind, found in words["names"].items()}
    source, target = pair
    return source.format(**names), target.format(**names)


def letter_part(words: dict[str, Any], form: str, part: str, random: Random) -> Pair:
    """Return a salutation, phrase or closing of a letter with a form of address (T or V)."""
    return with_names(random.choice(list(words["letters"][form][part].items())), words, random)


def letter_phrase(words: dict[str, Any], random: Random) -> Pair:
    """Return any part of a letter."""
    form = random.choice(list(words["letters"]))
    return letter_part(words, form, random.choice(list(words["letters"][form])), random)


def everyday_words() -> dict[str, Any]:
    """Return the words of everyday.yaml."""
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def without_notes(text: str) -> str:
    """Return an entry without its notes on grammar, field and style."""
    return re.sub(r" (?=[.,?!])", "", " ".join(NOTE.sub(" ", text).split()))


def entries(dictionary: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the English and German parts of each line that has as many of one as of the other."""
    for line in dictionary.read_text(encoding="utf-8").splitlines():
        german, _, english = line.partition(" :: ")
        sides = english.split(" | "), german.split(" | ")
        if len(sides[0]) == len(sides[1]):
            yield sides


def examples(dictionary: Path) -> Iterator[Pair]:
    """Yield the example sentences of a dictionary without notes, placeholders and alternatives."""
    for english, german in entries(dictionary):
        for left, right in zip(english, german, strict=True):
            source, target = (without_notes(side.split("; ")[0]) for side in (left, right))
            whole = SENTENCE.fullmatch(source) and SENTENCE.fullmatch(target) and " " in source and " " in target
            if whole and not PLACEHOLDER.search(source + target):
                yield source, target


def main() -> None:
    """Write the pairs, each a document of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_source")
    parser.add_argument("out_target")
    parser.add_argument("dictionary", nargs="?", type=Path)
    parser.add_argument("--examples", action="store_true")
    given = parser.parse_args()
    random = Random(4)
    words = everyday_words()
    pairs = [] if given.examples else list(dict.fromkeys(made_of_words(words, random) for _ in range(SENTENCES)))
    pairs += [] if given.examples else [letter_phrase(words, random) for _ in range(PHRASES)]
    if given.dictionary is not None:
        pairs += REPEATED * list(dict.fromkeys(examples(given.dictionary)))
    random.shuffle(pairs)
    write_parallel(
        given.out_source, given.out_target, (ParallelDocument([source], [target]) for source, target in pairs)
    )


if __name__ == "__main__":
    main()

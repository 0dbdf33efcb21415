"""Real sentences in the other form of address, for the documents of the shipped model."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAIRS = [
    ("You are right.", "Du hast recht.", "Sie haben recht."),
    ("Can you help me?", "Kannst du mir helfen?", "Können Sie mir helfen?"),
    ("You can go now, if you want to.", "Jetzt kannst du gehen, wenn du willst.", None),
    ("I saw your brothers with you.", "Ich sah deine Brüder bei dir.", "Ich sah Ihre Brüder bei Ihnen."),
    ("This is for you.", "Das ist für dich.", "Das ist für Sie."),
]
UNSUITABLE = [
    ("You were wrong.", "Du irrtest dich."),  # dich is sich there
    ("Take your coat.", "Nimm deinen Mantel."),  # a command
    ("Take your coat.", "Nehmen Sie Ihren Mantel."),
    ("They can see her.", "Sie können sie sehen."),  # no address
    ("You two are right.", "Ihr habt recht."),
    ("Can you hear it, kid?", "Kannst du es hören, Kleiner?"),  # says who is addressed
    ("I asked you.", "Ich habe Sie gefragt."),  # an object
    ("There you are!", "Da seid Ihr ja!"),
]


FOLDER = str(Path(__file__).parents[3] / "runs" / "shipped")


@pytest.fixture(scope="module")
def exchange() -> Iterator[Any]:
    sys.path.insert(0, FOLDER)
    from exchange import Exchange

    yield Exchange([])
    sys.path.remove(FOLDER)


@pytest.mark.parametrize(("source", "familiar", "polite"), PAIRS)
def test_familiar_and_polite_are_exchanged(exchange: Any, source: str, familiar: str, polite: str | None) -> None:
    if polite is None:
        assert exchange.to_polite((source, familiar)) == (source, "Jetzt können Sie gehen, wenn Sie wollen.")
    else:
        assert exchange.to_polite((source, familiar)) == (source, polite)


def test_polite_and_familiar_are_exchanged(exchange: Any) -> None:
    for source, familiar, polite in PAIRS:
        if polite is not None and "Ich sah" not in polite:
            assert exchange.to_familiar((source, polite)) == (source, familiar)


@pytest.mark.parametrize("pair", UNSUITABLE)
def test_what_is_not_known_is_left_out(exchange: Any, pair: tuple[str, str]) -> None:
    assert exchange.to_polite(pair) is None
    assert exchange.to_familiar(pair) is None


def test_a_verb_is_learnt_from_both_forms(exchange: Any) -> None:
    pair = ("You greet him.", "Du grüßt ihn."), ("You look for him.", "Du suchst ihn.")
    assert exchange.to_polite(pair[1]) is None
    learnt = type(exchange)(["Du suchst ihn.", "Was suchst du?", "Dort suchen Sie ihn.", "Was suchen Sie?"])
    assert learnt.to_polite(pair[1]) == ("You look for him.", "Sie suchen ihn.")

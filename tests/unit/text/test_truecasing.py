"""Truecasing: best forms and sentence starts are as in sacremoses, and capitals are restored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesTruecaser

from tram.text.truecasing import Truecaser, count_cases, detruecase


def words(text: str) -> list[str]:
    return text.split()


SENTENCES = [
    words("The old House stands near the House of Ms Iron ."),
    words('" The iron House " is what the people say : The house .'),
    words("IRON ! the Iron Man saw the iron house . iPhone is what an iPhone is ."),
    words("<b> People </b> call NATO and the people ."),
    words("( 3 ) Iron is found . where ? In Iron ."),
]


def test_the_best_forms_are_those_of_sacremoses() -> None:
    best = MosesTruecaser().train(SENTENCES)["best"].values()
    expected = sorted(form for form in best if form[0].islower())
    assert Truecaser.learn(count_cases(SENTENCES)).words == expected
    assert "the" in expected


@pytest.mark.parametrize("forms", ["say Iron or iron", "say iron or Iron"])
def test_the_first_of_equally_frequent_forms_is_best_as_in_sacremoses(forms: str) -> None:
    sentences = [words(f"We {forms}")]
    best = MosesTruecaser().train(sentences)["best"]["iron"]
    assert Truecaser.learn(count_cases(sentences)).truecase(["Iron"]) == [best]


@pytest.mark.parametrize(
    "sentence", ["The people of NATO .", '" House of Iron ?', "People say . The house !", "NATO is old ."]
)
def test_sentence_starts_are_truecased_as_by_sacremoses(sentence: str) -> None:
    theirs = MosesTruecaser()
    theirs.train(SENTENCES)
    ours = Truecaser.learn(count_cases(SENTENCES)).truecase(sentence.split())
    assert ours == theirs.truecase(sentence, use_known=True)


@given(
    st.lists(st.lists(st.sampled_from(words('The the THE house House . : ? " 3')))),
    st.integers(0, 9),
)
def test_counts_of_parts_add_up_to_the_count_of_the_whole(sentences: list[list[str]], cut: int) -> None:
    counts = count_cases(sentences[:cut])
    counts.update(count_cases(sentences[cut:]))
    whole = count_cases(sentences)
    assert counts == whole
    assert Truecaser.learn(counts).words == Truecaser.learn(whole).words


@given(st.lists(st.sampled_from(words('The THE House iPhone NATO . ! ? : " ( 3 exit_group <b> Ärger'))))
def test_detruecasing_restores_capitals(tokens: list[str]) -> None:
    truecaser = Truecaser(["the", "house", "ärger", "nATO"])
    capitals = detruecase(tokens)
    assert detruecase(truecaser.truecase(capitals)) == capitals


def test_only_the_start_of_a_sentence_changes() -> None:
    truecaser = Truecaser(["the"])
    assert truecaser.truecase(words("The man : The THE The . The")) == words("the man : The THE The . the")

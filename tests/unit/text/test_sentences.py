"""Sentence splitting: abbreviations do not end a sentence, and no text is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.text.sentences import split_sentences

SPLITS = [
    ("en", ["Install version 2.5.1.", "Send a mail."]),
    ("en", ["Dr. Smith met Mr. J. R. R. Jones at 3 p.m. in the U.S. embassy.", "It rained."]),
    ("en", ["It cost 3.14 dollars, e.g. No. 5, i.e. Fig. 3.", '"Really?!"', "He left..."]),
    ("en", ["She lives in the U.S.", "The house is big."]),
    ("en", ["(It was late.)", "They went home.", "“Good.”", "‘Yes!’ he said."]),
    ("en", ["He waited... and waited.", "Then nothing."]),
    ("de", ["Am 3. Mai kam Hr. Dr. Roth, z. B. mit dem Zug, d. h. Sie wissen es.", "Gut."]),
    ("de", ["Er ist 42.", "Sie ist 43.", "Das war 1999.", "Morgen ist Mai."]),
    ("de", ["Es gibt Birnen, Nr. 5 bzw. Äpfel usw.", "Dann kam Dipl.-Ing. Maier."]),
    ("de", ["„Wirklich?“", "Im 19. Jahrhundert sagte er: „Nein.“", "Aus."]),
    ("fi", ["Yksi lause.", "Toinen lause!", "Ja 3.14 on luku?"]),
    ("zh", ["第一句。", "第二句！"]),
    ("en", ["1. Introduction and aims"]),
]


@pytest.mark.parametrize(("language", "sentences"), SPLITS)
def test_sentences_are_found(language: str, sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences), language) == sentences


@given(st.text("aB.!?…\"') \n3z", max_size=60), st.sampled_from(["en", "de", "xx"]))
def test_splitting_loses_only_white_space(text: str, language: str) -> None:
    sentences = split_sentences(text, language)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_long_texts_are_split_whole() -> None:
    assert len(split_sentences("This is one. " * 50_000, "en")) == 50_000
    assert len(split_sentences("." * 200_000 + "x" * 200_000, "de")) == 1

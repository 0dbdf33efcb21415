"""Moses' scripts: protected words stay whole, everything else is as in sacremoses."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from tram.text.moses import moses

ROUND_TRIPS = [
    ("en", "Open https://example.org/a/b?q=1&r=2#top, then write to jo.doe+x@mail.example.org."),
    ("en", "Edit ~/.config/tool/rc.d or ../lib/x.so with --width=30 -v and press Ctrl+Shift+C."),
    ("en", "Choose File → Save as ▸ PDF -> Done > Close in version 2.3.1 (see page 4)."),
    ("en", "Replace %s, {name}, ${HOME}/bin and $VAR in argv[0]."),
    ("en", "It's the dogs' house, isn't it; we're 50% and/or R&D at 12:30."),
    ("en", 'She said: "Go (now)!", and he\'d gone.'),
    ("en", 'That was the end of a long speech."'),
    ("de", 'Er sagte "Ja", nahm das "Haupt"-Menü und zahlte 300 $ dafür.'),
    ("de", "Wie geht's dir, z. B. um 12:30 Uhr, und/oder morgen?"),
    ("de", "Drücken Sie Strg+C (oder Esc): Datei → Neu, 3,5 % bzw. 50%."),
    ("de", "Die Zeichen ꙮ und DOTDOTMULTI stehen so im Text."),
]


def words(text: str) -> list[str]:
    return text.split()


SIGNS = st.text("abÄß19 .,:;!?'\"()-–_/{}[]<>%$€ꙮ„“…»\u00a0", max_size=40)


@pytest.mark.parametrize(("language", "text"), ROUND_TRIPS)
def test_detokenising_restores_the_text(language: str, text: str) -> None:
    scripts = moses(language)
    normal = scripts.normalize(text)
    assert scripts.detokenize(scripts.tokenize(normal)) == normal


@pytest.mark.parametrize(
    "word", ["https://a.example/b", "x@y.example", "~/a/b", "Ctrl+C", "%s", "{name}", "$VAR", "and/or"]
)
def test_a_protected_word_is_one_token(word: str) -> None:
    assert word in moses("en").tokenize(f"The ({word}), it is.")


def test_quotes_and_prices_are_split_as_by_moses() -> None:
    assert moses("en").tokenize('"It costs $5 or 50%."') == words('" It costs $ 5 or 50 % . "')


@given(SIGNS)
def test_no_character_is_lost_or_moved(text: str) -> None:
    assert "".join(moses("en").tokenize(text)) == "".join(text.split())


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@given(text=SIGNS)
def test_normalisation_is_that_of_sacremoses(language: str, text: str) -> None:
    assert moses(language).normalize(text) == MosesPunctNormalizer(language).normalize(text)


@pytest.mark.parametrize("language", ["en", "de"])
@given(parts=st.lists(st.sampled_from(words('Der the etc. Dr. bzw. U.S. 3 5. No. no. house Haus , . ... ? " ( )'))))
def test_words_that_need_no_protection_are_split_as_by_sacremoses(language: str, parts: list[str]) -> None:
    text = " ".join(parts)
    assert moses(language).tokenize(text) == MosesTokenizer(language).tokenize(text, escape=False)


@pytest.mark.parametrize("text", ["a" * 50_000, "word " * 10_000, "." * 50_000, '."' * 25_000, "[" * 50_000])
def test_a_giant_line_is_tokenised(text: str) -> None:
    scripts = moses("de")
    tokens = scripts.tokenize(scripts.normalize(text))
    assert Counter("".join(tokens)) == Counter(text.replace(" ", ""))

"""Spans that must not change come out of a translation exactly once each."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.filetypes.base import placeholder
from tram.text.special_ids import SENTINELS
from tram.text.verbatim import VerbatimRules, find_spans, protect, translate_protected


def contents(text: str, rules: VerbatimRules | None = None) -> list[str]:
    return [span.content for span in find_spans(text, rules or VerbatimRules())]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://example.org/a_(b)?x=1, or www.x.org.", ["https://example.org/a_(b)?x=1", "www.x.org"]),
        ("Write to jane.doe@mail.example.org.", ["jane.doe@mail.example.org"]),
        ("Run `git push` or foo_bar() or std::vector.", ["`git push`", "foo_bar()", "std::vector"]),
        ("In ~/.config/app, C:\\Temp\\x.ini and README.md.", ["~/.config/app", "C:\\Temp\\x.ini", "README.md"]),
        ("Use --force or -f, not and/or.", ["--force", "-f"]),
        ("-I have a dog, she said. -A cat?", []),
        ("If a && b || c == d, it costs 5 € or $ and € :-)", ["&&", "||", "==", "5 €", "€", ":-)"]),
        ("Use -f or --level=3.", ["-f", "--level=3"]),
        ("It weighs 5 kg or 3.5 MB, 20 %, $5.50.", ["5 kg", "3.5 MB", "20 %", "$5.50"]),
        ("%s has %d%% of %(name)s at %1$s", ["%s", "%d", "%%", "%(name)s", "%1$s"]),
        ("{name} {0} {{ x }} ${VAR} $HOME {}", ["{name}", "{0}", "{{ x }}", "${VAR}", "$HOME", "{}"]),
        ("File → New 😀👍🏽 and 👩‍👩‍👧!", ["→", "😀👍🏽", "👩‍👩‍👧"]),
        ("Say 你好，世界 or Привет, мир!", ["你好，世界", "Привет, мир"]),
        ("<b>bold</b> &nbsp; text", ["<b>", "</b>", "&nbsp;"]),
        ("A plain sentence, i.e. one - with „quotes“, cafés and 42 words (e.g. 7).", []),
        (f"Type {placeholder(3)} now", [placeholder(3)]),
    ],
)
def test_spans_are_found(text: str, spans: list[str]) -> None:
    assert contents(text) == spans


def test_terms_are_kept_or_have_a_fixed_translation() -> None:
    rules = VerbatimRules(keep=("Tram", "dark mode"), glossary={"memory": "speicher", "memory cell": "speicherzelle"})
    found = contents("Memory and memory cell in Tram: Dark mode, not trams or memoryless.", rules)
    assert found == ["Speicher", "speicherzelle", "Tram", "Dark mode"]


def test_characters_that_a_vocabulary_does_not_know_are_kept() -> None:
    assert contents("Smørrebrød", VerbatimRules(known=lambda c: c != "ø")) == ["ø", "ø"]
    assert contents("Привет", VerbatimRules(scripts=("LATIN", "CYRILLIC"))) == []


TOKENS = [
    "word",
    "Haus,",
    "%s",
    "{x}",
    "https://a.b/c",
    "😀",
    "你好",
    "a_b",
    "5 kg",
    "(so)",
    "`x y`",
    "--all",
    "🇩🇪",
    "§",
    "½",
]
sentences = st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join)


def shuffled(texts: list[str]) -> list[str]:
    """A model that reorders words but copies sentinels."""
    rng = random.Random(0)
    return [" ".join(rng.sample(text.split(" "), len(text.split(" ")))) for text in texts]


@given(st.one_of(sentences, st.text(max_size=60)))
def test_protecting_and_restoring_changes_nothing(text: str) -> None:
    parts = protect(text)
    assert all(sum(c in SENTINELS for c in part.text) <= len(SENTINELS) for part in parts)
    if len(parts) == 1:
        assert parts[0].restore(parts[0].text).text == text


@given(st.lists(sentences, max_size=4))
def test_every_span_is_present_once_whatever_the_model_does_to_words(texts: list[str]) -> None:
    for text, result in zip(texts, translate_protected(texts, shuffled), strict=True):
        assert result.complete
        assert sorted(text.split()) == sorted(result.text.split())


def losing(texts: list[str]) -> list[str]:
    return [text.replace(SENTINELS[0], "").upper() for text in texts]


def doubling(texts: list[str]) -> list[str]:
    return [text.upper() + SENTINELS[0] * 2 for text in texts]


@given(sentences)
def test_a_lost_or_doubled_sentinel_is_reported_and_repaired(text: str) -> None:
    spans = contents(text)
    for translate in (losing, doubling):
        (result,) = translate_protected([text], translate)
        if any(part.contents and part.needs_translation for part in protect(text)):
            assert result.lost or result.doubled
        for span in spans:
            assert result.text.count(span) == text.count(span)


def test_a_text_without_words_is_not_translated() -> None:
    def refuse(texts: list[str]) -> list[str]:
        raise AssertionError(texts)

    assert [r.text for r in translate_protected(["😀 https://a.b", "5 kg", "— 42 —", ""], refuse)] == [
        "😀 https://a.b",
        "5 kg",
        "— 42 —",
        "",
    ]


def test_more_spans_than_sentinels_are_translated_in_parts() -> None:
    text = ", ".join(f"word{i} %({'abcdefghij'[i % 10]}{i})s" for i in range(40))
    parts = protect(text)
    assert len(parts) > 2
    (result,) = translate_protected([text], lambda texts: [t.upper() for t in texts])
    assert contents(result.text) == contents(text)
    assert "WORD39" in result.text


@pytest.mark.parametrize(
    "unit", ["a.", "a/", "a-", "www.(", "<a", "{{", "%(", "1.", "--a=", "a_", "a.b@c.", "😀 ", "/a."]
)
def test_long_runs_take_linear_time(unit: str) -> None:
    find_spans(unit * 20_000)  # a quadratic search would take minutes


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("☒ Measure the wind.", ["☒", "Measure the wind."]),
        ("Well done 🎉", ["Well done", "🎉"]),
        ("✅ Well done 🎉", ["✅", "Well done", "🎉"]),
        ("It is beautiful 🌻.", ["It is beautiful 🌻."]),
        ("你好 means hello.", ["你好 means hello."]),
        ("☒Measure", ["☒Measure"]),
        ("🎉", ["🎉"]),
    ],
)
def test_symbols_at_the_edges_are_kept_out_of_the_sentence(sentence: str, parts: list[str]) -> None:
    found = protect(sentence)
    assert [part.restore(part.text).text for part in found] == parts
    assert translate_protected([sentence], lambda texts: texts)[0].text == sentence


def test_a_code_of_an_emoji_is_a_span() -> None:
    assert [span.content for span in find_spans("Done :tada: at 10:30:45 with a::b.")][:1] == [":tada:"]

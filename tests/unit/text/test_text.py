"""Moses' scripts with protected words, truecasing, sentence splitting and the layout of plain text."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesPunctNormalizer, MosesTokenizer, MosesTruecaser

from tram.filetypes.plain_text import split_document
from tram.text.moses import moses
from tram.text.sentences import split_sentences
from tram.text.truecasing import Truecaser, count_cases, detruecase

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
def test_tokens_come_back_as_the_text(language: str, text: str) -> None:
    scripts = moses(language)
    normal = scripts.normalize(text)
    assert scripts.detokenize(scripts.tokenize(normal)) == normal


@pytest.mark.parametrize(
    "word", ["https://a.example/b", "x@y.example", "~/a/b", "Ctrl+C", "%s", "{name}", "$VAR", "and/or"]
)
def test_a_protected_word_is_one_token(word: str) -> None:
    assert word in moses("en").tokenize(f"The ({word}), it is.")


def test_quotes_and_prices_are_cut_as_moses_does() -> None:
    assert moses("en").tokenize('"It costs $5 or 50%."') == words('" It costs $ 5 or 50 % . "')


@given(SIGNS)
def test_no_sign_is_lost_or_moved(text: str) -> None:
    assert "".join(moses("en").tokenize(text)) == "".join(text.split())


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@given(text=SIGNS)
def test_normalisation_is_that_of_sacremoses(language: str, text: str) -> None:
    assert moses(language).normalize(text) == MosesPunctNormalizer(language).normalize(text)


@pytest.mark.parametrize("language", ["en", "de"])
@given(parts=st.lists(st.sampled_from(words('Der the etc. Dr. bzw. U.S. 3 5. No. no. house Haus , . ... ? " ( )'))))
def test_words_that_need_no_protection_are_cut_as_sacremoses_does(language: str, parts: list[str]) -> None:
    text = " ".join(parts)
    assert moses(language).tokenize(text) == MosesTokenizer(language).tokenize(text, escape=False)


@pytest.mark.parametrize("text", ["a" * 50_000, "word " * 10_000, "." * 50_000, '."' * 25_000, "[" * 50_000])
def test_a_giant_line_goes_through(text: str) -> None:
    scripts = moses("de")
    tokens = scripts.tokenize(scripts.normalize(text))
    assert Counter("".join(tokens)) == Counter(text.replace(" ", ""))


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
def test_of_equally_frequent_forms_the_first_is_best_as_by_sacremoses(forms: str) -> None:
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
def test_detruecasing_brings_capitals_back(tokens: list[str]) -> None:
    truecaser = Truecaser(["the", "house", "ärger", "nATO"])
    capitals = detruecase(tokens)
    assert detruecase(truecaser.truecase(capitals)) == capitals


def test_only_the_start_of_a_sentence_changes() -> None:
    truecaser = Truecaser(["the"])
    assert truecaser.truecase(words("The man : The THE The . The")) == words("the man : The THE The . the")


SPLITS = [
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
def test_splitting_loses_nothing_but_blanks(text: str, language: str) -> None:
    sentences = split_sentences(text, language)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_long_texts_are_split_whole() -> None:
    assert len(split_sentences("This is one. " * 50_000, "en")) == 50_000
    assert len(split_sentences("." * 200_000 + "x" * 200_000, "de")) == 1


WRAPPED = """\
  A Title

This paragraph is wrapped by hand after some seventy signs, and Dr.
Miller wrote it. It has a second sentence which goes over the end of
the line. A third.
 \t
1. First item. With two sentences.
2. Second item
- a dash
  that goes on
***
    deeper line

"""


def test_layout_stays_and_wrapped_sentences_are_whole() -> None:
    layout = split_document(WRAPPED, "en")
    assert layout.sentences == [
        "A Title",
        "This paragraph is wrapped by hand after some seventy signs, and Dr. Miller wrote it.",
        "It has a second sentence which goes over the end of the line.",
        "A third.",
        "First item.",
        "With two sentences.",
        "Second item",
        "a dash that goes on",
        "deeper line",
    ]
    numbers = [str(number) for number in range(9)]
    assert layout.join(numbers) == "  0\n\n1 2 3\n \t\n1. 4 5\n2. 6\n- 7\n***\n    8\n\n"


def test_short_lines_are_not_joined() -> None:
    poem = "Roses are red\nViolets are blue\n\n    and that\n    is it\n"
    assert split_document(poem, "en").sentences == ["Roses are red", "Violets are blue", "and that", "is it"]


def test_an_ordinal_at_the_start_of_a_wrapped_line_is_no_list_item() -> None:
    text = "Die Sitzung, von der hier in aller Ausführlichkeit die Rede ist, war am\n3. Mai des Jahres.\n"
    assert len(split_document(text, "de").sentences) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "  \t\r\n", "---\n"])
def test_text_without_words_has_no_sentences(text: str) -> None:
    layout = split_document(text, "en")
    assert layout.sentences == []
    assert layout.join([]) == text


def test_line_ends_of_windows_stay() -> None:
    layout = split_document("One. Two.\r\n\r\nThree.\r\n", "en")
    assert layout.join(["1", "2", "3"]) == "1 2\r\n\r\n3\r\n"


LINES = st.lists(st.text("aB.!? -*1\t\u2028", max_size=70).map(lambda line: line * 2), max_size=8)


@settings(max_examples=200)
@given(LINES, st.sampled_from(["", "\n"]))
def test_joining_the_sentences_gives_the_text_but_for_wrapping(lines: list[str], end: str) -> None:
    text = "\n".join(lines) + end
    layout = split_document(text, "en")
    joined = layout.join(layout.sentences)
    assert joined.split() == text.split()
    blank_lines = re.compile(r"^[^\S\n]*$", re.MULTILINE)
    assert len(blank_lines.findall(joined)) == len(blank_lines.findall(text))


def test_one_translation_for_each_sentence() -> None:
    with pytest.raises(ValueError, match="1 translations for 2 sentences"):
        split_document("One. Two.", "en").join(["eins"])

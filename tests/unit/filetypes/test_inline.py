"""Tags of a source sentence find their places in a translation, and the laws of inline markup always hold."""

import random

import pytest

from tram.filetypes.base import Tag, placeholder
from tram.filetypes.inline import place
from tram.filetypes.inline_laws import violations
from tram.filetypes.inline_tree import word_spans

Alignment = list[tuple[int, int]]


def parsed(marked: str) -> tuple[str, list[Tag]]:
    """`a {1 b 1} {2/}` → the plain text and its tags."""
    text, tags = "", []
    i = 0
    while i < len(marked):
        if marked[i] == "{":
            end = marked.index("/}", i) + 2
            tags.append(Tag("empty", int(marked[i + 1 : end - 2]), len(text)))
            i = end
        elif marked[i] in "<>":
            tags.append(Tag("open" if marked[i] == "<" else "close", int(marked[i + 1]), len(text)))
            i += 2
        else:
            text += marked[i]
            i += 1
    return text, tags


def marked(text: str, tags: tuple[Tag, ...]) -> str:
    form = {"open": "<{}", "close": ">{}", "empty": "{{{}/}}"}
    for tag in reversed(tags):
        text = text[: tag.position] + form[tag.kind].format(tag.key) + text[tag.position :]
    return text


def placed(source: str, target: str, alignment: Alignment | None) -> str:
    text, tags = parsed(source)
    result = place(text, tags, target, alignment)
    assert not violations(text, tags, target, result.tags)
    return marked(target, result.tags)


SWAP = [(0, 0), (1, 3), (2, 1), (3, 2)]  # a verb goes to the end


@pytest.mark.parametrize(
    ("source", "target", "alignment", "expected"),
    [
        ("I <1saw>1 the dog", "ich den Hund sah", SWAP, "ich den Hund <1sah>1"),
        ("I saw <1the dog>1", "ich den Hund sah", SWAP, "ich <1den Hund>1 sah"),
        ("<1I saw the dog>1", "ich den Hund sah", SWAP, "<1ich den Hund sah>1"),
        ("I <1saw>1 the <2dog>2", "ich den Hund sah", SWAP, "ich den <2Hund>2 <1sah>1"),
        ("I saw <1the <2dog>2>1", "ich den Hund sah", SWAP, "ich <1den <2Hund>2>1 sah"),
        ("I saw{1/} the dog", "ich den Hund sah", SWAP, "ich den Hund sah{1/}"),
        ("I saw {1/}the dog", "ich den Hund sah", SWAP, "ich {1/}den Hund sah"),
        ("I saw{1/} the dog", "ich sah, den Hund", [(1, 1)], "ich sah,{1/} den Hund"),
        ("I saw {1/}the dog", "ich sah (den Hund)", [(2, 3)], "ich sah {1/}(den Hund)"),
        ("I saw{1/}, the dog", "ich sah-te, den Hund", [(1, 1)], "ich sah-te{1/}, den Hund"),
        ("I saw{1/}-the dog", "ich sah-den Hund", [(1, 1)], "ich sah{1/}-den Hund"),
        ("two{1/} three", "<w:b/>", [(0, 1)], "<w:b/>{1/}"),
        ("I saw{1/} it", "我看见了它", [(1, 1)], "我看{1/}见了它"),
        ("I saw<1 the dog", "ich den Hund sah", [(0, 0), (1, 1), (2, 2), (3, 3)], "ich den <1Hund sah"),
        ("I saw>1 the dog", "ich sah den Hund", [(0, 0), (1, 1), (2, 2), (3, 3)], "ich sah>1 den Hund"),
        ("un<1believ>1able", "unglaublich", [(0, 0)], "<1unglaublich>1"),
        ("I see H<12>1O here", "hier sehe ich H2O", [(0, 2), (1, 1), (2, 3), (3, 0)], "hier sehe ich H<12>1O"),
        ("C<12>1H<25>2OH is H<32>3O", "H2O ist C2H5OH", None, "H<32>3O ist C<12>1H<25>2OH"),
        ("the <1H<22>2O molecule>1", "das H2O-Molekül", [(0, 0), (1, 1), (2, 3)], "das <1H<22>2O-Molekül>1"),
        ("I <1switch it on>1", "ich schalte es ein", [(0, 0), (1, 1), (2, 2), (3, 3)], "ich <1schalte es ein>1"),
    ],
)
def test_tags_follow_their_words(source: str, target: str, alignment: Alignment | None, expected: str) -> None:
    assert placed(source, target, alignment) == expected


def test_noise_in_an_alignment_does_not_stretch_a_tag_over_the_sentence() -> None:
    alignment = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (1, 4)]
    assert placed("a <1b>1 c d e", "v w x y z", alignment) == "v <1w>1 x y z"


def test_a_placeholder_is_aligned_to_itself_whatever_the_alignment_says() -> None:
    code = placeholder(0)
    source = f"Type <1{code}>1 now"
    assert placed(source, f"Jetzt {code} tippen", [(1, 0), (0, 1), (2, 2)]) == f"Jetzt <1{code}>1 tippen"


def test_words_without_links_are_aligned_to_themselves() -> None:
    source, target = "It costs € 25 today.", "Heute kostet es € 25."
    start, end = source.index("€"), source.index(" today")
    placed = place(source, (Tag("open", 0, start), Tag("close", 0, end)), target, [(0, 2), (1, 1), (4, 0)])
    first, last = (tag.position for tag in placed.tags)
    assert target[first:last] == "€ 25"


def test_without_an_alignment_tags_keep_their_relative_position_and_the_result_says_so() -> None:
    text, tags = parsed("one two <1three>1 four")
    result = place(text, tags, "eins zwei drei vier", None)
    assert marked("eins zwei drei vier", result.tags) == "eins zwei <1drei>1 vier"
    assert result.by_position
    assert not place(text, tags, "eins zwei drei vier", [(2, 2)]).by_position


def test_an_unchanged_sentence_keeps_its_tags_even_inside_a_word() -> None:
    text, tags = parsed("un<1believ>1a{2/}ble")
    assert place(text, tags, text, None).tags == tuple(tags)


def test_words_of_scripts_without_blanks_are_characters() -> None:
    assert word_spans("日本語 don't") == [(0, 1), (1, 2), (2, 3), (4, 9)]
    assert [end - start for start, end in word_spans("a-b c.")] == [1, 1, 1, 1, 1]


WORDS = ["a", "bb", "foo-bar", "don't", "x.", "(y)", "漢字", ",", placeholder(0), "z"]


def random_case(rng: random.Random) -> tuple[str, list[Tag], str, Alignment | None]:
    """A random tree of tags, sometimes crossing or open at an end, over random words, with a random alignment."""
    source = rng.choice(["", " "]) + rng.choice([" ", ""]).join(rng.choices(WORDS, k=rng.randint(0, 8)))
    target = rng.choice([" ", " ", ""]).join(rng.choices(WORDS, k=rng.randint(0, 8)))
    tags: list[Tag] = []
    stack: list[int] = []
    for key, position in enumerate(sorted(rng.randint(0, len(source)) for _ in range(rng.randint(0, 14)))):
        kind = rng.choices(["empty", "open", "close", "stray"], [6, 7, 6, 1])[0]
        if kind == "empty":
            tags.append(Tag("empty", key, position))
        elif kind == "open":
            tags.append(Tag("open", key, position))
            stack.append(key)
        elif kind == "close" and stack:
            tags.append(Tag("close", stack.pop(-1 if rng.random() < 0.9 else 0), position))
        else:
            tags.append(Tag("close", key, position))
    if rng.random() < 0.7:
        tags += [Tag("close", key, len(source)) for key in reversed(stack)]
    sizes = len(word_spans(source)), len(word_spans(target))
    links = [(rng.randint(0, sizes[0]), rng.randint(0, sizes[1])) for _ in range(rng.randint(0, 10))]
    return source, tags, target, None if rng.random() < 0.2 else links


def test_no_law_is_broken_by_10_000_random_trees() -> None:
    rng = random.Random(1)
    for _ in range(10_000):
        source, tags, target, alignment = random_case(rng)
        result = place(source, tags, target, alignment)
        assert not violations(source, tags, target, result.tags), (source, tags, target, alignment)


@pytest.mark.parametrize("count", [200, 5_000])
def test_masses_of_tags_keep_the_laws_in_reasonable_time(count: int) -> None:
    source, target = "word " * count + "end", "Wort " * count + "Ende"
    nested = [Tag("open", i, 0) for i in range(count)] + [Tag("close", i, len(source)) for i in reversed(range(count))]
    flat = [Tag(kind, i, 5 * i + 4 * (kind == "close")) for i in range(count) for kind in ("open", "close")]
    unopened = [Tag("close", i, 5 * i) for i in range(count)]
    for tags in (nested, flat, unopened):
        result = place(source, tags, target, None)  # type: ignore[arg-type]
        assert not violations(source, tags, target, result.tags)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "result", "problem"),
    [
        ("<1a>1 b", "a b", "lost"),
        ("<1a>1 b", "<1a>1 <1c>1", "lost or doubled"),
        ("a{1/} b{2/}", "c{2/} d{1/}", "order"),
        ("<1a <2b>2>1", "<1c <2d>1>2", "nested"),
        ("<1a>1 b", "c<1d>1e", "cut"),
        ("<1a b>1", "c <1d>1", "whole sentence"),
        ("a{1/} b", "c{1/}-d", "splits"),
        ("a{1/}. b", "c{1/}-d. e", "splits"),
    ],
)
def test_broken_laws_are_found(source: str, result: str, problem: str) -> None:
    text, tags = parsed(source)
    target, wrong = parsed(result)
    assert problem in " ".join(violations(text, tags, target, wrong))


def test_signs_beside_a_tagged_word_stay_with_it() -> None:
    assert placed("It costs <1$5.50>1 now, not <2$5.00>2.", "Nun $5.50, statt $5.00.", [(6, 0), (3, 2), (10, 6)]) == (
        "Nun <1$5.50>1, statt <2$5.00>2."
    )
    assert placed("Press <1“Save”>1 now.", "Jetzt „Sichern“ drücken.", [(4, 0), (2, 2), (0, 4)]) == (
        "Jetzt <1„Sichern“>1 drücken."
    )


def test_a_word_that_is_cut_may_get_a_capital() -> None:
    assert placed("x<1i>1 is it.", "Xi ist es.", [(0, 0)]) == "X<1i>1 ist es."

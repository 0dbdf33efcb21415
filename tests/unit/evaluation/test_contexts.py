"""Own, other and no context: how contexts are exchanged, and that nothing else is read."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_translator import FakeTranslator
from tram.errors import InputError
from tram.evaluation.contexts import others, translate_after_others, translate_contexts

places = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=25)


@given(places, st.integers(0, 5))
def test_no_item_gets_its_own_context_where_another_exists(drawn: list[tuple[int, int]], seed: int) -> None:
    contexts, cells = [context for context, _ in drawn], [cell for _, cell in drawn]
    for number, giver in enumerate(others(contexts, cells, seed)):
        if len(set(contexts)) > 1:
            assert contexts[giver] != contexts[number]
        else:
            assert contexts[giver] == contexts[number]


@given(places)
def test_the_context_comes_from_the_same_cell_if_that_has_another(drawn: list[tuple[int, int]]) -> None:
    contexts, cells = [context for context, _ in drawn], [cell for _, cell in drawn]
    for number, giver in enumerate(others(contexts, cells)):
        if len({context for context, cell in drawn if cell == cells[number]}) > 1:
            assert cells[giver] == cells[number]


@given(st.lists(st.integers(0, 9), max_size=25))
def test_every_context_is_used_once_if_none_has_the_majority(contexts: list[int]) -> None:
    if contexts and max(Counter(contexts).values()) <= len(contexts) / 2:
        assert sorted(others(contexts)) == list(range(len(contexts)))


def after(sentence: str, read: list[str]) -> str:
    return f"{sentence} after {' '.join(read) or 'nothing'}"


def test_sources_are_translated_after_own_other_and_no_context() -> None:
    translator = FakeTranslator(after)
    contexts = [("a", "b"), ("c",)]
    found, answers = translate_contexts(translator, contexts, ["x", "y"])
    assert found == [["a after nothing", "b after a"], ["c after nothing"]]
    assert answers == {
        "own": ["x after a b", "y after c"],
        "other": ["x after c", "y after a b"],
        "none": ["x after nothing", "y after nothing"],
    }


def test_a_context_is_translated_once_for_all_items_behind_it() -> None:
    translator = FakeTranslator(after)
    translate_contexts(translator, [("a", "b")] * 5 + [("c",)], list("uvwxyz"))
    assert Counter(sentence for sentence, _ in translator.seen)["a"] == 1


def test_a_model_without_memory_translates_a_source_once() -> None:
    translator = FakeTranslator(lambda sentence, _: sentence.upper(), has_context=False)
    _, answers = translate_contexts(translator, [("a",), ("b",)], ["x", "y"])
    assert answers == {"own": ["X", "Y"], "other": ["X", "Y"], "none": ["X", "Y"]}
    assert Counter(sentence for sentence, _ in translator.seen)["x"] == 1


def test_each_sentence_comes_after_as_many_sentences_of_other_documents() -> None:
    translator = FakeTranslator(after)
    found = translate_after_others(translator, [["a1", "a2", "a3"], ["b1"], ["c1", "c2"]])
    assert found == [
        ["a1 after nothing", "a2 after b1", "a3 after b1 c1"],
        ["b1 after nothing"],
        ["c1 after nothing", "c2 after a1"],
    ]


def test_with_gold_history_the_references_of_the_other_documents_are_read() -> None:
    translator = FakeTranslator(after)
    found = translate_after_others(translator, [["a1", "a2"], ["b1", "b2"]], gold=[["A1", "A2"], ["B1", "B2"]])
    assert found == [["a1 after nothing", "a2 after b1=B1"], ["b1 after nothing", "b2 after a1=A1"]]


def test_the_own_document_is_never_read_however_long_it_is() -> None:
    translator = FakeTranslator(lambda sentence, read: str(sum(sentence[0] == each[0] for each in read)))
    found = translate_after_others(translator, [["a1", "a2", "a3", "a4", "a5"], ["b1", "b2"]])
    assert found == [["0"] * 5, ["0"] * 2]


def test_one_document_alone_has_no_other() -> None:
    with pytest.raises(InputError, match="at least two documents"):
        translate_after_others(FakeTranslator(after), [["a1", "a2"]])

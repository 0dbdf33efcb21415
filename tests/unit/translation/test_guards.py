"""Translations that cannot be right are made again, marked if that does not help, and never read by the memory."""

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import TINY, made_up
from helpers import make_translator, tiny_config, tiny_model
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import SpecialIds
from tram.text.verbatim import VerbatimRules, find_spans
from tram.translation.documents import Remarks
from tram.translation.engines.torch import TorchEngine
from tram.translation.guards import DOUBTFUL, IN_PARTS, REPEATED, Guard, find_problem, split_clauses
from tram.translation.lockstep import Cursor, History, Lockstep
from tram.translation.search import Hypothesis
from tram.translation.translator import Translator

SOURCE = list(range(10, 22))
GOOD, LOOP = [30, 31, 32, 33, 34], [40, 41] * 8


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        (SOURCE, GOOD, None),
        (SOURCE, [], "empty"),
        (SOURCE, list(range(100, 135)), "too long"),
        (SOURCE, LOOP, "loop"),
        (SOURCE, [50] * 6, "loop"),
        (SOURCE, [1, 2, 3, 4, 5] * 3, "loop"),
        (SOURCE, [7, 50, 50, 50, 8], None),  # three subwords: no, no, no
        ([10, 11] * 5, LOOP[:10], None),  # the source repeats itself as well
        (SOURCE, [1, 2, 3, 4, 5, 9, 1, 2, 3, 4], None),  # a phrase twice
        (
            SOURCE,
            [n for i in range(5) for n in (1, 2, 3, 4, 50 + i)],
            "loop",
        ),  # the same words, each time a bit different
    ],
)
def test_what_cannot_be_right(source: list[int], target: list[int], problem: str | None) -> None:
    assert find_problem(source, target) == problem


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.data())
def test_clauses_are_the_sentence_again(ids: list[int], data: st.DataObject) -> None:
    pieces = [data.draw(st.sampled_from(["▁a", "b", ",", "▁."])) for _ in ids]
    clauses = split_clauses(ids, pieces)
    assert [number for clause in clauses for number in clause] == ids
    assert all(clauses)
    assert len(ids) < 8 or len(clauses) > 1 or "," in pieces or "▁." in pieces


class Searches:
    """A search without context that answers what it is told, and counts."""

    def __init__(self, *answers: list[list[int]]) -> None:
        self.answers = list(answers)
        self.calls: list[list[list[int]]] = []

    def __call__(self, sentences: list[list[int]]) -> list[list[Hypothesis]]:
        self.calls.append(sentences)
        answer = self.answers.pop(0)
        return [[Hypothesis(answer[i % len(answer)], -1.0)] for i in range(len(sentences))]


@pytest.fixture(scope="module")
def text(prepared: Path) -> TextPipeline:
    return TextPipeline.load(prepared)


def hypothesis(ids: list[int]) -> Hypothesis:
    return Hypothesis(ids, -1.0, {"memory": torch.zeros(len(ids) + 1, 2)})


def test_a_good_translation_is_returned_as_it_is_and_nothing_is_searched(text: TextPipeline) -> None:
    first = hypothesis(GOOD)
    assert Guard(text, Searches(), 30).choose(SOURCE, [first, hypothesis(LOOP)]) is first


def test_the_next_hypothesis_of_the_search_comes_first(text: TextPipeline) -> None:
    second = hypothesis(GOOD)
    assert Guard(text, Searches(), 30).choose(SOURCE, [hypothesis(LOOP), second]) is second


def test_then_a_translation_without_context_then_one_in_parts(text: TextPipeline) -> None:
    alone = Guard(text, Searches([GOOD]), 30).choose(SOURCE, [hypothesis(LOOP)])
    assert (alone.ids, alone.warnings, alone.update_inputs) == (GOOD, (REPEATED,), {})
    search = Searches([LOOP], [[30, 31], [32, 33]])
    parts = Guard(text, search, 30).choose(SOURCE, [hypothesis(LOOP)])
    assert (parts.ids, parts.warnings) == ([30, 31, 32, 33], (IN_PARTS,))
    assert [number for clause in search.calls[1] for number in clause] == SOURCE


def test_what_nothing_helps_is_doubtful_and_the_shortest_attempt(text: TextPipeline) -> None:
    found = Guard(text, Searches([LOOP[:12]], [[], []]), 30).choose(SOURCE, [hypothesis(LOOP)])
    assert (found.ids, found.warnings) == (LOOP[:12], (DOUBTFUL,))
    empty = Guard(text, Searches([[]]), 30).choose([5], [hypothesis([])])
    assert (empty.ids, empty.warnings) == ([], (DOUBTFUL,))


def test_a_model_without_context_is_not_asked_the_same_again(text: TextPipeline) -> None:
    search = Searches([[30, 31], [32, 33]])
    assert Guard(text, search, 30).choose(SOURCE, [hypothesis(LOOP)], in_context=False).warnings == (IN_PARTS,)


# In the lockstep.


@pytest.mark.parametrize("beam", [1, 3])
def test_the_memory_has_read_the_translation_that_was_chosen(beam: int) -> None:
    """Whatever the search found: the state is that of a document whose translation was given."""
    model = tiny_model(tiny_config(memory={"slots": 3}), seed=3)
    sentences, chosen = [[5, 6, 7], [8, 9], [10, 4, 5, 6]], [[11, 12], [13], [14, 15, 16]]

    def run(history: History, choose: Callable[[Cursor, list[Hypothesis]], Hypothesis] | None) -> Cursor:
        cursor = Cursor(0, sentences, model.initial_state(1), chosen)
        list(Lockstep(TorchEngine(model), SpecialIds(), beam, history=history, choose=choose).run([cursor]))
        return cursor

    guarded = run("generated", lambda cursor, _: Hypothesis(chosen[cursor.done], -1.0)).state.tensors()
    given = run("gold", None).state.tensors()
    plain = run("generated", None).state.tensors()
    assert all(torch.allclose(guarded[name], given[name]) for name in given)
    assert not all(torch.allclose(plain[name], given[name]) for name in given)


@pytest.mark.parametrize("memory", [True, False])
def test_a_model_that_loops_is_contained_counted_and_marked(prepared: Path, memory: bool) -> None:
    """Random weights loop on most sentences."""
    plain = make_translator(prepared)
    if not memory:
        plain = Translator(plain.model.without_context(), plain.text, guards=False)
    plain.beam = 1
    guarded = Translator(plain.model, plain.text, beam=1)
    document = made_up([3], seed=5)[0].source
    ids = plain.text.encode(document, "source")
    before = plain.translate(document)
    remarks = Remarks()
    (found,) = guarded.detailed([document], remarks=remarks)
    targets = plain.text.encode(before, "target")
    assert any(find_problem(*pair) for pair in zip(ids, targets, strict=True))
    assert sum(bool(each.warnings) for each in found)
    assert remarks.counts()[DOUBTFUL] == sum(DOUBTFUL in each.warnings for each in found)
    with pytest.warns(UserWarning, match="sentences (are doubtful|were translated)"):
        assert guarded.translate(document) == [each.text for each in found]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain.translate(document) == before


# Spans.

WORDS = ["the", "old", "miller", "reads", "a", "letter,", "(near", "it)", "and", "sings;", "Why?"]
SPANS = [
    "5 kg",
    "3.5 MB",
    "😀",
    "👩‍👩‍👧",
    "你好，世界",
    "https://a.b/c?d=1",
    "jane@mail.org",
    "`git push`",
    "foo_bar()",
    "%s",
    "%1$s",
]
SPANS += ["{name}", "{{x}}", "$HOME", "--force", "~/.config/app", "README.md", "→", "<b>", "&nbsp;", "2.5.35", "§"]


def sentences_with_spans(count: int) -> list[str]:
    rng = random.Random(7)
    found = []
    for _ in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(1, 12))]
        for span in rng.sample(SPANS, rng.choice([1, 1, 1, 2, 3, 5])):
            words.insert(rng.randint(0, len(words)), span)
        found.append(" ".join(words))
    return found


class Careless(Translator):
    """Copies its source but loses, doubles or garbles names and sentinels in most sentences."""

    def search(self, sentences: list[list[int]]) -> list[list[Hypothesis]]:
        """Return one hypothesis for each sentence."""
        texts = self.text.decode(sentences, "source")
        answers = self.text.encode([self.answer(text) for text in texts], "target")
        return [[Hypothesis(ids, -1.0)] for ids in answers]

    def answer(self, source: str) -> str:
        words = source.split(" ")
        marks = [i for i, word in enumerate(words) if any(c.isdigit() or not c.isascii() or c in "%{`@" for c in word)]
        if marks:
            kind, at = len(source) % 4, marks[len(source) % len(marks)]
            changed = {0: [], 1: [words[at], words[at]], 2: [words[at] + "s"], 3: [words[at]]}[kind]
            words[at : at + 1] = changed
        return " ".join(words)


@pytest.mark.parametrize("sentinels", [True, False])
def test_every_span_of_1000_sentences_is_there_once_whatever_the_model_does(
    prepared: Path, sentinels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TextPipeline.load(prepared)
    translator = Careless(Transformer(TINY, text.vocabulary), text)
    monkeypatch.setattr(Translator, "copies_sentinels", lambda self: sentinels)
    sentences = sentences_with_spans(1000)
    remarks = Remarks()
    (found,) = translator.detailed([sentences], alignment=True, verbatim=VerbatimRules(), remarks=remarks)
    for sentence, translation in zip(sentences, found, strict=True):
        for span in find_spans(sentence):
            assert translation.text.count(span.content) == sentence.count(span.content), (sentence, translation)
        assert translation.alignment is not None
        sizes = len(sentence.split()), len(translation.text.split())
        assert all(s < sizes[0] and t < sizes[1] for s, t in translation.alignment)
    assert remarks.counts()[IN_PARTS] > 50
    assert remarks.counts()[IN_PARTS] < 900


def test_a_glossary_and_its_alignment(prepared: Path) -> None:
    text = TextPipeline.load(prepared)

    class Copying(Careless):
        def answer(self, source: str) -> str:
            return source

    translator = Copying(Transformer(TINY, text.vocabulary), text)
    rules = VerbatimRules(("Tram",), {"green boat": "Boot", "fox": "kleiner Fuchs"})
    (found,) = translator.translate(["The fox in the green boat likes Tram"], alignment=True, verbatim=rules)
    assert found.text == "The kleiner Fuchs in the Boot likes Tram"
    assert all(word < 8 for pair in found.alignment or () for word in pair)

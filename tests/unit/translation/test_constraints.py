"""Constrained search: it finds what a slow search finds, and the number of sentences is always right."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers import END, FIRST_WORD, START, VOCABULARY, random_ids, tiny_config, tiny_model
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.constraints import Choice, Constraint, SentenceCount
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import Hypothesis, search

SPECIAL = SpecialIds()
SEPARATOR = VOCABULARY - 1
LENGTHS = [5, 3, 7]
few = settings(max_examples=25)


def lively_model(seed: int, end: float = 0.0, separator: float = 0.0) -> Transformer:
    """A random model with strong opinions, to whose logits of end and separator something is added."""
    model = tiny_model(tiny_config(output_bias=True, encoder_layers=1, decoder_layers=1), seed)
    with torch.no_grad():
        model.tokens.weight.mul_(2)
        model.decoder.embeddings.positions.mul_(4)
        assert model.bias is not None
        model.bias[END] += end
        model.bias[SEPARATOR] += separator
    return model


@dataclass(frozen=True)
class Anything(Constraint):
    """Allows everything."""

    def choice(self) -> Choice:
        return Choice()

    def after(self, token: int) -> "Anything":
        return self


@dataclass(frozen=True)
class Alternating(Constraint):
    """Odd ids at even places, and the other way round; the end everywhere after the first token."""

    place: int = 0

    def choice(self) -> Choice:
        fitting = tuple(number for number in range(FIRST_WORD, VOCABULARY) if number % 2 != self.place % 2)
        return Choice(only=(*fitting, END) if self.place else fitting)

    def after(self, token: int) -> "Alternating":
        return Alternating(self.place + 1)


@torch.no_grad()
def slow_search(
    model: Transformer,
    source: Tensor,
    limit: int,
    beam: int,
    constraint: Constraint,
    prefix: list[int],
) -> list[Hypothesis]:
    """Beam search for one sentence (1, 1, tokens) by teacher forcing from scratch, written for its rule."""
    alive: list[tuple[float, list[int], Constraint]] = [(0.0, [], constraint)]
    ended: list[Hypothesis] = []
    for length in range(1, limit + 1):
        candidates: list[tuple[float, list[int], Constraint]] = []
        for total, ids, own in alive:
            logits = model(source, torch.tensor([[[START, *prefix, *ids]]]))[0, 0, -1]
            logits[[PAD, START]] = -torch.inf
            choice = own.choice()
            allowed = choice.only or [number for number in range(VOCABULARY) if number not in choice.forbidden]
            for token in allowed:
                if token not in (PAD, START) and (length < limit or token == END):
                    value = float(logits.log_softmax(-1)[token])
                    candidates.append((total + value, [*ids, token], own))
        candidates = sorted(candidates, key=lambda each: -each[0])[: 2 * beam]
        ended += [Hypothesis(ids[:-1], total / length) for total, ids, _ in candidates[:beam] if ids[-1] == END]
        ended = sorted(ended, key=lambda hypothesis: -hypothesis.score)[:beam]
        alive = [(total, ids, own.after(ids[-1])) for total, ids, own in candidates if ids[-1] != END][:beam]
        if not alive or (len(ended) == beam and ended[-1].score >= alive[0][0] / length):
            break
    return ended


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [hypothesis.ids for hypothesis in found] == [hypothesis.ids for hypothesis in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-9)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("prefixes", [None, [[], [4, 9], [7, 7, SEPARATOR]]])
@pytest.mark.parametrize("kind", ["alternating", "count"])
def test_a_constrained_search_finds_what_the_slow_one_finds(
    beam: int, prefixes: list[list[int]] | None, kind: str
) -> None:
    for seed in (3, 5):
        model = lively_model(seed, end=1.5, separator=2.0)
        source = random_ids([LENGTHS], seed)
        constraints: list[Constraint] = [Alternating()] * 3
        limits = [9, 12, 7]
        if kind == "count":
            counts = [SentenceCount.of(each, 15, SEPARATOR, END) for each in ([2, 3], [3], [1, 4, 1])]
            constraints, limits = [*counts], [count.limit for count in counts]
        found = search(
            TorchEngine(model), model.encode(source), limits, SPECIAL, beam, constraints=constraints, given=prefixes
        )
        for row in range(3):
            ids = source[0, row][source[0, row] != PAD][None, None]
            prefix = prefixes[row] if prefixes else []
            assert_same(found[row], slow_search(model, ids, limits[row], beam, constraints[row], prefix))


@given(st.integers(0, 50), st.integers(1, 4))
@few
def test_a_constraint_that_allows_everything_changes_no_bit(seed: int, beam: int) -> None:
    model = lively_model(seed, end=2.0).float()
    encoded = model.encode(random_ids([LENGTHS], seed))
    plain = search(TorchEngine(model), encoded, [9, 12, 7], SPECIAL, beam)
    assert search(TorchEngine(model), encoded, [9, 12, 7], SPECIAL, beam, constraints=[Anything()] * 3) == plain
    assert search(TorchEngine(model), encoded, [9, 12, 7], SPECIAL, beam, given=[[], [], []]) == plain


@torch.no_grad()
def test_a_given_prefix_counts_in_neither_score_nor_ids() -> None:
    """What is found after a prefix is what its own tokens score, teacher-forced."""
    model = lively_model(4, end=2.0)
    source = random_ids([[5]], 4)
    prefix = [9, 12, SEPARATOR]
    (best, *_) = search(TorchEngine(model), model.encode(source), [10], SPECIAL, 3, given=[prefix])[0]
    logits = model(source, torch.tensor([[[START, *prefix, *best.ids]]]))[0, 0]
    logits[:, [PAD, START]] = -torch.inf
    labels = torch.tensor([*best.ids, END])
    scores = logits[len(prefix) :].log_softmax(-1).gather(1, labels[:, None])
    assert best.score == pytest.approx(float(scores.mean()), abs=1e-9)


@given(
    st.integers(0, 1000),
    st.integers(1, 4),
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=1, max_size=4),
    st.floats(-8, 8),
    st.floats(-8, 8),
    st.integers(0, 12),
)
@settings(max_examples=60)
def test_there_are_always_as_many_sentences_as_asked_for(
    seed: int, beam: int, documents: list[list[int]], end: float, separator: float, spare: int
) -> None:
    """Whatever the model would like to say, and however little room there is."""
    model = lively_model(seed, end, separator)
    source = random_ids([[sum(sources) for sources in documents]], seed)
    rooms = [2 * len(sources) + spare for sources in documents]
    counts = [SentenceCount.of(*pair, SEPARATOR, END) for pair in zip(documents, rooms, strict=True)]
    found = search(
        TorchEngine(model), model.encode(source), [count.limit for count in counts], SPECIAL, beam, constraints=counts
    )
    for sources, room, hypotheses in zip(documents, rooms, found, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.ids.count(SEPARATOR) == len(sources) - 1
            assert len(hypothesis.ids) + 1 <= room
            sentences = " ".join(map(str, hypothesis.ids)).split(str(SEPARATOR))
            assert all(sentence.strip() for sentence in sentences), "no sentence is empty"


@given(st.lists(st.integers(1, 200), min_size=1, max_size=20), st.integers(0, 2000))
def test_every_sentence_has_its_share_of_the_room(sources: list[int], spare: int) -> None:
    """Even if each sentence before it takes as much as it may."""
    room = sum(source + 2 for source in sources) + spare
    constraint = SentenceCount.of(sources, room, SEPARATOR, END)
    sizes: list[int] = []
    for number, source in enumerate(sources):
        size = 0
        while not (choice := constraint.choice()).only:
            assert END in choice.forbidden or number == len(sources) - 1
            constraint, size = constraint.after(FIRST_WORD), size + 1
        assert choice.only == (END if number == len(sources) - 1 else SEPARATOR,)
        constraint, size = constraint.after(choice.only[0]), size + 1
        assert size >= source + 2
        assert size <= 2 * source + 20
        sizes.append(size)
    assert sum(sizes) <= room


def test_more_sentences_than_room_is_refused() -> None:
    with pytest.raises(ValueError, match="3 sentences do not fit into 5 tokens"):
        SentenceCount.of([1, 1, 1], 5, SEPARATOR, END)

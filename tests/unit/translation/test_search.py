"""Search: the cached beam finds what a slow search without cache, batch and tricks finds."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import END, START, random_ids, tiny_config, tiny_model
from tram.model.packing import Layout
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.engines.base import Step
from tram.translation.engines.packed import PackedDecoding
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import Hypothesis, search

LENGTHS = [3, 11, 1, 6, 17]
SPECIAL = SpecialIds()
LIMITS = [14, 9, 12, 1, 13]

# Seeds whose models end some of these sentences early and others at their limit: a test below makes sure of it.
CASES = [(5, "post"), (8, "post"), (8, "pre"), (12, "pre")]
cases = pytest.mark.parametrize(("seed", "norm"), CASES)


def lively_model(seed: int = 8, norm: str = "post", eos: float = 2.5) -> Transformer:
    """A random model with strong opinions on words and places, to whose logit of eos `eos` is added."""
    model = tiny_model(tiny_config(output_bias=True, norm=norm), seed)
    with torch.no_grad():
        model.tokens.weight.mul_(2)
        model.decoder.embeddings.positions.mul_(5)
        model.bias[END] += eos  # type: ignore[index]
    return model


def source_ids(seed: int = 8) -> Tensor:
    return random_ids([LENGTHS], seed)


def log_probabilities(model: Transformer, source: Tensor, prefixes: list[list[int]]) -> list[list[float]]:
    """Of the next token after prefixes of one length, by teacher forcing from scratch; pad and bos are impossible."""
    decoder_input = torch.tensor([[[START, *prefix] for prefix in prefixes]])
    logits = model(source.expand(1, len(prefixes), -1), decoder_input)[0, :, -1]
    logits[:, [PAD, START]] = -torch.inf
    rows: list[list[float]] = logits.log_softmax(-1).tolist()
    return rows


@torch.no_grad()
def slow_beam_search(model: Transformer, source: Tensor, limit: int, beam: int, penalty: float) -> list[Hypothesis]:
    """Beam search for one sentence (1, 1, tokens), written for its rule and not for speed."""
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for length in range(1, limit + 1):
        rows = log_probabilities(model, source, [ids for _, ids in alive])
        candidates = [
            (total + value, [*ids, token])
            for (total, ids), row in zip(alive, rows, strict=True)
            for token, value in enumerate(row)
            if token not in (PAD, START) and (length < limit or token == END)
        ]
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * beam]
        ended += [Hypothesis(ids[:-1], total / length**penalty) for total, ids in candidates[:beam] if ids[-1] == END]
        ended = sorted(ended, key=lambda hypothesis: -hypothesis.score)[:beam]
        alive = [(total, ids) for total, ids in candidates if ids[-1] != END][:beam]
        if len(ended) == beam and alive and ended[-1].score >= alive[0][0] / length**penalty:
            break
    return ended


def found_alone(model: Transformer, ids: Tensor, limit: int, beam: int, penalty: float = 1.0) -> list[Hypothesis]:
    return search(TorchEngine(model), model.encode(ids[ids != PAD][None, None]), [limit], SPECIAL, beam, penalty)[0]


def assert_same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-10) -> None:
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@cases
def test_the_cached_search_finds_what_the_slow_search_finds(beam: int, penalty: float, seed: int, norm: str) -> None:
    model = lively_model(seed, norm)
    source = source_ids(seed)
    found = search(TorchEngine(model), model.encode(source), LIMITS, SPECIAL, beam, penalty)
    for row, hypotheses, limit in zip(source[0], found, LIMITS, strict=True):
        assert_same(hypotheses, slow_beam_search(model, row[row != PAD][None, None], limit, beam, penalty))


def test_endings_do_not_take_the_place_of_hypotheses_that_go_on() -> None:
    model = lively_model(16, "pre", eos=6)  # often several of the best candidates end at once
    source = source_ids(16)
    found = search(TorchEngine(model), model.encode(source), LIMITS, SPECIAL, beam=5)
    for row, hypotheses, limit in zip(source[0], found, LIMITS, strict=True):
        assert_same(hypotheses, slow_beam_search(model, row[row != PAD][None, None], limit, 5, 1.0))


@cases
@pytest.mark.parametrize("beam", [1, 5])
def test_the_cases_of_these_tests_end_at_different_lengths(beam: int, seed: int, norm: str) -> None:
    model = lively_model(seed, norm)
    found = search(TorchEngine(model), model.encode(source_ids(seed)), LIMITS, SPECIAL, beam)
    lengths = [len(hypotheses[0].ids) + 1 for hypotheses in found]
    assert len(set(lengths)) >= 4
    early = [length < limit for length, limit in zip(lengths, LIMITS, strict=True) if limit > 1]
    assert any(early)
    assert not all(early)


@torch.no_grad()
@cases
def test_beam_one_takes_the_likeliest_token_every_time(seed: int, norm: str) -> None:
    model = lively_model(seed, norm)
    source = source_ids(seed)
    found = search(TorchEngine(model), model.encode(source), LIMITS, SPECIAL, beam=1)
    for row, (hypothesis,), limit in zip(source[0], found, LIMITS, strict=True):
        ids: list[int] = []
        while len(ids) < limit - 1:
            (values,) = log_probabilities(model, row[row != PAD][None, None], [ids])
            best = max(range(len(values)), key=values.__getitem__)
            if best == END:
                break
            ids.append(best)
        assert hypothesis.ids == ids


@pytest.mark.parametrize("beam", [1, 4])
@cases
def test_neighbours_order_padding_and_shape_of_the_batch_change_nothing(beam: int, seed: int, norm: str) -> None:
    model = lively_model(seed, norm)
    source = source_ids(seed)
    expected = [found_alone(model, row, limit, beam) for row, limit in zip(source[0], LIMITS, strict=True)]
    order = [3, 0, 4, 2, 1]
    padded = torch.nn.functional.pad(source, (0, 3))[:, order]
    for batch in (padded, padded.transpose(0, 1)):
        found = search(TorchEngine(model), model.encode(batch), [LIMITS[i] for i in order], SPECIAL, beam)
        for i, hypotheses in zip(order, found, strict=True):
            assert_same(hypotheses, expected[i], 1e-12)


@cases
def test_in_single_precision_neighbours_change_a_score_by_rounding_only(seed: int, norm: str) -> None:
    model = lively_model(seed, norm).float()
    source = source_ids(seed)
    found = search(TorchEngine(model), model.encode(source), LIMITS, SPECIAL, beam=3)
    for row, limit, hypotheses in zip(source[0], LIMITS, found, strict=True):
        assert hypotheses[0].score == pytest.approx(found_alone(model, row, limit, 3)[0].score, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
def test_sentences_that_are_done_leave_the_batch(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = lively_model()
    rows = []
    step = PackedDecoding.step

    def spy(self: PackedDecoding, tokens: Sequence[Sequence[int]], parents: Any = None) -> Step:
        rows.append(len(tokens))
        return step(self, tokens, parents)

    monkeypatch.setattr(PackedDecoding, "step", spy)
    found = search(TorchEngine(model), model.encode(source_ids()), LIMITS, SPECIAL, beam)
    assert rows[0] == len(LIMITS)
    assert rows[1] < len(LIMITS), "at least the sentence with a limit of one token has left"
    assert rows == sorted(rows, reverse=True)
    assert len(set(rows)) >= 4
    if beam == 1:
        assert sum(rows) == sum(len(hypothesis.ids) + 1 for (hypothesis,) in found), "no step was in vain"


@cases
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_the_n_best_are_sorted_and_distinct(penalty: float, seed: int, norm: str) -> None:
    model = lively_model(seed, norm)
    found = search(TorchEngine(model), model.encode(source_ids(seed)), LIMITS, SPECIAL, 5, penalty)
    for hypotheses, limit in zip(found, LIMITS, strict=True):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.ids) for hypothesis in hypotheses}) == len(hypotheses)
        assert len(hypotheses) == (1 if limit == 1 else 5)


@pytest.mark.parametrize("beam", [1, 5])
def test_a_limit_counts_eos_and_is_kept_by_a_model_that_never_wants_to_end(beam: int) -> None:
    model = lively_model(eos=-1000)
    found = search(TorchEngine(model), model.encode(source_ids()), LIMITS, SPECIAL, beam)
    assert [{len(h.ids) for h in hypotheses} for hypotheses in found] == [{limit - 1} for limit in LIMITS]


def test_a_model_that_ends_at_once_returns_an_empty_translation() -> None:
    model = lively_model(eos=1000)
    found = search(TorchEngine(model), model.encode(source_ids()), LIMITS, SPECIAL, beam=1)
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[[]]] * len(LIMITS)


@pytest.mark.parametrize("token", [PAD, START])
def test_padding_and_bos_are_never_chosen(token: int) -> None:
    model = lively_model()
    with torch.no_grad():
        model.bias[token] += 100  # type: ignore[index]
    found = search(TorchEngine(model), model.encode(source_ids()), LIMITS, SPECIAL, beam=3)
    assert all(not {PAD, START, END} & set(h.ids) for hypotheses in found for h in hypotheses)


def test_the_score_is_the_log_probability_over_the_length_with_eos() -> None:
    model = lively_model()
    source = source_ids()
    with torch.no_grad():
        for row, limit in zip(source[0], LIMITS, strict=True):
            best = found_alone(model, row, limit, 4, penalty=0.6)[0]
            total = 0.0
            for n, token in enumerate([*best.ids, END]):
                total += log_probabilities(model, row[row != PAD][None, None], [best.ids[:n]])[0][token]
            assert best.score == pytest.approx(total / (len(best.ids) + 1) ** 0.6, rel=1e-10)


def test_a_search_leaves_the_model_and_its_encoding_as_they_were() -> None:
    model = lively_model()
    encoded = model.encode(source_ids())
    before = encoded.states.clone()
    first = search(TorchEngine(model), encoded, LIMITS, SPECIAL, beam=3)
    second = search(TorchEngine(model), encoded, LIMITS, SPECIAL, beam=3)
    assert torch.equal(encoded.states, before)
    assert first == second


# Templates: a forced prefix, another start and banned ids


PREFIXED = SpecialIds(start=4, end=END, target_prefix=(7, 5), banned=(PAD, 4, 6))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_forced_prefix_precedes_the_translation_and_is_no_part_of_it(beam: int) -> None:
    """Scores and states are those of a teacher-forced pass over start, prefix and translation."""
    model = tiny_model(tiny_config(output_bias=True, memory={"slots": 3, "side": "target"}), seed=5)
    with torch.no_grad():
        model.bias[END] += 2.5  # type: ignore[index]
        source = random_ids([[5], [3]], 2)
        state = model.initial_state(2)
        found = search(TorchEngine(model), model.encode(source), [9, 9], PREFIXED, beam, 1.0, state)
        for row, hypotheses in enumerate(found):
            best = hypotheses[0]
            assert 6 not in best.ids
            given = torch.tensor([[PREFIXED.decoder_input(best.ids)]])
            own = state.select(torch.tensor([row]))
            done = model.forced_decode(source[row : row + 1, :, : int((source[row] != PAD).sum())], given, own)
            logits = model.logits(done.states)[2:]
            logits[:, list(PREFIXED.banned)] = -torch.inf
            labels = torch.tensor([*best.ids, END])
            expected = float(logits.log_softmax(-1)[torch.arange(len(labels)), labels].sum()) / len(labels)
            assert best.score == pytest.approx(expected, abs=1e-9)
            after = model.advance(best.update_inputs, Layout(given), own)
            torch.testing.assert_close(after["decoder.1.self"]["M"], done.state["decoder.1.self"]["M"])


def test_greedy_search_after_a_prefix_takes_the_best_token_each_time() -> None:
    model = lively_model()
    source = random_ids([[6]], 3)
    (found,) = search(TorchEngine(model), model.encode(source), [8], PREFIXED, beam=1)
    ids: list[int] = []
    with torch.no_grad():
        while len(ids) < 7:
            logits = model(source, torch.tensor([[PREFIXED.decoder_input(ids)]]))[0, 0, -1]
            logits[list(PREFIXED.banned)] = -torch.inf
            best = int(logits.argmax())
            if best == END:
                break
            ids.append(best)
    assert found[0].ids == ids

"""What every context module must do: its two faces agree, and padding, neighbours, order and storage change nothing.

A new kind of context is added to `context_kinds`; all tests run over every member in double precision.
"""

import itertools

import pytest
import torch
from torch import Tensor

from context_kinds import CONTEXTS, edges, model_of, reads_ahead
from helpers import START, random_ids, tiny_config, tiny_model
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.evaluation.contrast import repeated
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD, SpecialIds
from tram.translation.engines.torch import TorchEngine
from tram.translation.first_pass import first_translations
from tram.translation.lockstep import Cursor, Lockstep

contexts = pytest.mark.parametrize("name", CONTEXTS)
SOURCE = [[4, 3, 6, 2, 5], [2, 5, 3, 0, 1], [3]]
TARGET = [[3, 5, 2, 4, 4], [1, 4, 7, 0, 2], [6]]


def batch() -> tuple[Tensor, Tensor]:
    return random_ids(SOURCE, 1), random_ids(TARGET, 2, first=START)


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def close_states(one: State, other: State) -> None:
    left, right = one.tensors(), other.tensors()
    assert left.keys() == right.keys()
    for name, value in left.items():
        close(value, right[name])


@contexts
@torch.no_grad()
def test_context_changes_the_logits(name: str) -> None:
    """Otherwise the tests below would show nothing."""
    model, (source, target) = model_of(name), batch()
    whole = model(source, target)[0]
    alone = model(source[0][:, None], target[0][:, None])[:, 0]  # every sentence is a document
    if not reads_ahead(name):
        close(whole[0], alone[0])
    assert (whole[1:] - alone[1:]).abs().amax((1, 2)).min() > 1e-3


@contexts
@torch.no_grad()
def test_sentences_beyond_the_reach_change_nothing(name: str) -> None:
    """Modules feed each other: what one reads has read as far back as the others reach."""
    model = model_of(name)
    reaches = [context.reach for context in model.contexts().values()]
    if None in reaches:
        pytest.skip("no bound in sentences, or segments")
    reach = sum(each for each in reaches if each is not None)
    lengths = [[3] * (reach + 2)]
    source, target = random_ids(lengths, 1), random_ids(lengths, 2, first=START)
    changed = source.clone()
    changed[0, 0, 1:] = source[0, 0, 1:] % 7 + 11
    difference = (model(source, target) - model(changed, target)).abs().amax((0, 2, 3))
    assert difference[1] > 1e-6
    assert difference[-1] == 0


@contexts
@torch.no_grad()
def test_segments_do_not_know_of_each_other(name: str) -> None:
    """And the source of a segment is known from its first sentence on."""
    rule = model_of(name).segment_rule
    if rule is None or rule.sentences is None or rule.sentences > 5:
        pytest.skip("no short segments")
    model, n = model_of(name), rule.sentences
    source, target = random_ids([[3] * (2 * n)], 1), random_ids([[4] * (2 * n)], 2, first=START)
    changed = source.clone()
    changed[0, n - 1, 1] = source[0, n - 1, 1] % 7 + 11
    difference = (model(source, target) - model(changed, target)).abs().amax((0, 2, 3))
    assert difference[:n].min() > 1e-6
    assert difference[n:].max() == 0


def test_a_document_that_must_not_be_cut_is_refused() -> None:
    model = tiny_model(tiny_config(context={"kind": "selective", "sentences": 2}))
    with pytest.raises(
        InputError, match="a document has 3 sentences, and the context reads whole documents of at most 2"
    ):
        model.encode(random_ids([[3, 2, 0, 4], [3]]))


@contexts
@torch.no_grad()
def test_a_call_sees_the_open_segment_as_it_was_read(name: str) -> None:
    """Sentences of earlier calls keep their states, those of later calls see them."""
    if not reads_ahead(name):
        pytest.skip("pieces of any size are the same as whole documents")
    model = model_of(name)
    source, target = random_ids([[4, 3, 5]], 1), random_ids([[5, 2, 4]], 2, first=START)
    first = model.forced_decode(source[:, :1], target[:, :1])
    alone, both = (model.forced_decode(source[:, 1:], target[:, 1:], state).states for state in (None, first.state))
    assert (alone - both).abs().max() > 1e-3
    # Sentence by sentence, what one call carries is what the next one sees, in any number of calls
    second = model.forced_decode(source[:, 1:2], target[:, 1:2], first.state)
    again = model.forced_decode(source[:, 1:2], target[:, 1:2], State.from_tensors(first.state.tensors()))
    close(second.states, again.states)
    assert [len(lengths) for lengths in (model.segment_lengths(second.state), model.segment_lengths(first.state))] == [
        2,
        1,
    ]


@contexts
def test_every_parameter_of_a_context_learns(name: str) -> None:
    model, (source, target) = tiny_model(tiny_config(**CONTEXTS[name]), seed=3), batch()
    done = model.forced_decode(source, target)
    extra = [loss.sum() for loss in (done.loss, done.source.loss) if loss is not None]
    torch.stack([model.logits(done.states).square().sum(), *extra]).sum().backward()
    for key, context in model.contexts().items():
        for parameter, value in context.named_parameters():
            assert value.grad is not None, f"{key}: {parameter}"
            assert value.grad.abs().max() > 0, f"{key}: {parameter}"


@contexts
@pytest.mark.parametrize("cuts", [(1, 2, 3, 4), (2,), (3, 4)])
@torch.no_grad()
def test_pieces_with_a_carried_state_equal_whole_documents(name: str, cuts: tuple[int, ...]) -> None:
    model, (source, target) = model_of(name), batch()
    cuts = tuple(cut for cut in cuts if cut in edges(model, source))
    if not cuts:
        pytest.skip("the whole source is one segment")
    whole = model.forced_decode(source, target)
    state, parts = State.empty(), []
    for start, stop in itertools.pairwise([0, *cuts, source.shape[1]]):
        done = model.forced_decode(source[:, start:stop], target[:, start:stop], state)
        parts.append(done.layout.grid(model.logits(done.states)))
        state = State.from_tensors(done.state.tensors())  # stored and loaded
    close(torch.cat(parts, 1), whole.layout.grid(model.logits(whole.states)))
    close_states(state, whole.state)


@contexts
@torch.no_grad()
def test_token_by_token_equals_whole_documents(name: str) -> None:
    model = model_of(name)
    source, target = random_ids([[4, 6, 3], [5, 2, 7]], 1), random_ids([[6] * 3] * 2, 2, first=START)
    expected = model(source, target)
    state = model.initial_state(2)
    for start, stop in itertools.pairwise([0, *edges(model, source), 3]):
        whole = model.encode(source[:, start:stop], state)
        state |= whole.state
        if model.makes_first_translations:
            state = model.with_first_translations(whole, target[:, start:stop], state)
        states = whole.layout.grid(whole.states)
        for t in range(start, stop):
            own = states[:, t - start][source[:, t] != PAD]
            encoded = model.encoded_before(own, source[:, t : t + 1], state)
            cache = model.start_decoding(encoded, state)
            for j in range(target.shape[2]):
                close(model.step(target[:, t, j : j + 1], cache)[:, 0], expected[:, t, j])
            inputs = {name: each[:, : cache.slots].flatten(0, 1) for name, each in cache.update_inputs.items()}
            after = model.advance(inputs, model.layout(target[:, t : t + 1]), state)
            state = model.forced_decode(encoded, target[:, t : t + 1], state).state
            close_states(after, state)
    close_states(state, model.forced_decode(source, target).state)


@contexts
@torch.no_grad()
def test_padding_neighbours_and_order_change_nothing(name: str) -> None:
    model, (source, target) = model_of(name), batch()
    whole = model.forced_decode(source, target)
    logits = whole.layout.grid(model.logits(whole.states))
    order = torch.tensor([2, 0, 1])
    padded = [torch.nn.functional.pad(ids, (0, 3, 0, 2)) for ids in (source[order], target[order])]
    again = model.forced_decode(*padded)
    found = again.layout.grid(model.logits(again.states))[:, : source.shape[1], : target.shape[2]]
    close(found, logits[order])
    close_states(again.state, whole.state.select(order))
    alone = model.forced_decode(source[1:2], target[1:2])
    close_states(alone.state, whole.state.select(torch.tensor([1])))


@contexts
@torch.no_grad()
def test_a_source_that_is_encoded_once_serves_several_targets(name: str) -> None:
    """In an open segment and at the start of the next one."""
    model = model_of(name)
    source, target = random_ids([[3] * 4, [5] * 4], 1), random_ids([[4] * 4] * 2, 2, first=START)
    for earlier in (2, 3):
        before = model.forced_decode(source[:, :earlier], target[:, :earlier]).state
        encoded = model.encode(source[:, 3:], before)
        expected = model.forced_decode(encoded, target[:, 3:], before)
        owners = torch.tensor([1, 0, 1])
        again = model.forced_decode(repeated(encoded, owners), target[owners, 3:], before.select(owners))
        grids = [done.layout.grid(done.states) for done in (again, expected)]
        close(grids[0], grids[1][owners])


@contexts
@torch.no_grad()
def test_an_empty_sentence_leaves_the_state_as_it_is(name: str) -> None:
    model, (source, target) = model_of(name), batch()
    before = model.forced_decode(source, target).state
    empty = torch.full((3, 2, 1), PAD)
    close_states(model.forced_decode(empty, empty, before).state, before)


@contexts
@pytest.mark.parametrize("beam", [1, 3])
def test_lockstep_carries_the_state_of_a_teacher_forced_pass(name: str, beam: int) -> None:
    """Of the sentences it found itself; several documents at once, blocks of any size."""
    model, special = model_of(name), SpecialIds()
    documents = [[[3, 9, 4], [20, 7], [5, 5, 11, 8]], [[6, 21], [17, 3, 12]]]
    with torch.inference_mode():
        cursors = [Cursor(i, document, model.initial_state(1)) for i, document in enumerate(documents)]
        found: list[list[list[int]]] = [[] for _ in documents]
        for cursor, hypotheses in Lockstep(TorchEngine(model), special, beam, documents=2, block=9).run(cursors):
            found[cursor.number].append(hypotheses[0].ids)
        for document, translations, cursor in zip(documents, found, cursors, strict=True):
            source = document_ids([[special.source(ids) for ids in document]])
            target = document_ids([[special.decoder_input(ids) for ids in translations]])
            close_states(cursor.state, forced_decode(model, source, target, State.empty()))


@contexts
def test_lockstep_continues_a_document_like_a_teacher_forced_pass(name: str) -> None:
    """Also in the middle of a segment."""
    model, special = model_of(name), SpecialIds()
    calls: list[list[list[int]]] = [[[3, 9, 4], [20, 7]], [[5, 5, 11, 8], [6, 21], [17, 3, 12]]]
    with torch.inference_mode():
        state, expected = model.initial_state(1), State.empty()
        for call in calls:
            cursor = Cursor(0, call, state)
            found = [
                hypotheses[0].ids
                for _, hypotheses in Lockstep(TorchEngine(model), special, beam=2, block=9).run([cursor])
            ]
            state = cursor.state
            source = document_ids([[special.source(ids) for ids in call]])
            target = document_ids([[special.decoder_input(ids) for ids in found]])
            expected = forced_decode(model, source, target, expected)
            close_states(state, expected)


@contexts
def test_a_lockstep_with_references_reads_them_and_one_without_history_reads_nothing(name: str) -> None:
    model, special = model_of(name), SpecialIds()
    document, gold = [[3, 9, 4], [20, 7], [5, 5, 11], [6, 21]], [[8, 8], [4, 19, 6], [5], [12, 3]]
    with torch.inference_mode():
        cursor = Cursor(0, document, model.initial_state(1), gold)
        for _ in Lockstep(TorchEngine(model), special, beam=1, history="gold").run([cursor]):
            pass
        source = document_ids([[special.source(ids) for ids in document]])
        target = document_ids([[special.decoder_input(ids) for ids in gold]])
        close_states(cursor.state, forced_decode(model, source, target, State.empty()))
        cursors = [Cursor(0, document, model.initial_state(1))]
        cursors += [Cursor(i, [ids], model.initial_state(1)) for i, ids in enumerate(document, start=1)]
        found: list[list[list[int]]] = [[] for _ in cursors]
        for cursor, hypotheses in Lockstep(TorchEngine(model), special, beam=2, history="none").run(cursors):
            found[cursor.number].append(hypotheses[0].ids)
        assert found[0] == [ids for (ids,) in found[1:]]


def forced_decode(model: Transformer, source: Tensor, target: Tensor, state: State) -> State:
    """The state after given sentences, with first translations where the context reads them."""
    if model.makes_first_translations:
        inputs = first_translations(model, SpecialIds(), source)
        prepared = model.with_first_translations(model.encode(source, state), inputs, state)
        state |= prepared.only(model.decoder.contexts())
    return model.forced_decode(source, target, state).state


@contexts
def test_a_fresh_module_with_zero_initialisation_is_the_sentence_model(name: str) -> None:
    """Where that is promised: by a memory that adds to the states."""
    config = tiny_config(**CONTEXTS[name])
    if config.memory is None or config.memory.read == "norm":
        pytest.skip("new layer norms, gates or positions do not start at the sentence model")
    torch.manual_seed(1)
    model = Transformer(config, 23).double().eval()
    source, target = batch()
    with torch.no_grad():
        close(model(source, target), model.without_context()(source, target))

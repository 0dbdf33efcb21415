"""The document stage: what an update is made of does not depend on how its window is cut into passes.

The measure of all things here is `model(source, decoder_input)` over whole documents; test_memory.py holds that one
against the paper's equations.
"""

import functools
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from document_stages import FIXED, Example, Gradients, Lengths, assert_same, example, stage_of, update_gradients
from helpers import tiny_config, tiny_model
from tram.config import Config
from tram.data.arrays import PreparedData
from tram.model.contexts.memory import Memory
from tram.model.transformer import Transformer
from tram.training.document_stage import DocumentStage
from tram.training.stages import Processes
from tram.training.trainer import Trainer

SIDES = ("source", "target", "both")

pairs = st.tuples(st.integers(0, 5), st.integers(0, 5))
lengths = st.lists(st.lists(pairs, min_size=1, max_size=6), min_size=1, max_size=3).filter(
    lambda documents: any(s and t for document in documents for s, t in document)
)
windows = st.tuples(st.integers(1, 3), st.integers(0, 3)).map(lambda drawn: (drawn[0], sum(drawn)))
few = settings(max_examples=12)
very_few = settings(max_examples=6)  # of tests that run for many kinds of model


@functools.cache
def model_of(side: str, depth: int | str = 1, memories: tuple[int, ...] = (-1,)) -> Transformer:
    """A model of two layers; memories: the layers that have one."""
    memory = {"slots": 3, "side": side, "depth": depth, "layers": memories}
    return tiny_model(tiny_config(memory=memory), seed=7)


def token_losses(model: Transformer, documents: Example, smoothing: float = 0.0) -> Tensor:
    """Loss of every token, (documents, sentences, tokens); 0 at the padding."""
    logits, labels = model(documents.source, documents.decoder_input).flatten(0, -2), documents.labels
    losses = F.cross_entropy(logits, labels.flatten(), ignore_index=0, reduction="none", label_smoothing=smoothing)
    return losses.view(labels.shape)


def gradients_of(loss: Tensor, model: Transformer) -> Gradients:
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


# The held-out loss.


@pytest.mark.parametrize("side", SIDES)
@given(documents=lengths, tokens=st.integers(1, 60), together=st.integers(1, 3))
@few
@torch.no_grad()
def test_the_held_loss_is_that_of_whole_documents_whatever_the_budget(
    side: str, documents: Lengths, tokens: int, together: int
) -> None:
    made = example(documents)
    stage = stage_of(model_of(side), made.split, tokens=tokens, documents=together)
    loss, count = stage.held_out_loss(made.split)
    assert count == int((made.labels != 0).sum())
    assert loss == pytest.approx(float(token_losses(stage.model, made).sum()), rel=1e-10)


@pytest.mark.parametrize("depth", [1, 3, "full"])
@torch.no_grad()
def test_the_memory_matters_to_the_held_loss_in_every_piece(depth: int | str) -> None:
    """Otherwise the law above would hold without any memory: every side's past changes the loss of many pieces."""
    made = example(FIXED)
    for side in SIDES:
        stage = stage_of(model_of(side, depth), made.split, tokens=1)
        sentences = Example(made.split, *(ids.flatten(0, 1)[:, None] for ids in made[1:]))
        alone = float(token_losses(stage.model, sentences).sum())
        assert abs(stage.held_out_loss(made.split)[0] - alone) > 1e-3


def test_a_look_at_the_held_out_documents_does_not_move_the_stage() -> None:
    made = example(FIXED)
    stage = stage_of(model_of("both"), made.split, window=(2, 2), tokens=8)
    undisturbed = stage_of(model_of("both"), made.split, window=(2, 2), tokens=8)
    for looked in (stage, undisturbed):
        update_gradients(looked)
    with torch.no_grad():
        stage.held_out_loss(made.split)
    assert stage.position() == undisturbed.position()
    assert_same(update_gradients(stage), update_gradients(undisturbed))


# Sentences that are only history.


def as_history(made: Example, chosen: Callable[[int], bool]) -> Example:
    """Return the same documents; sentences with a chosen number have no labels."""
    rows = [int(start) + j for start, stop in itertools.pairwise(made.split.documents) for j in range(stop - start)]
    history = np.array([chosen(row) for row in rows])
    given_labels = np.where(history, made.split.target.lengths + 1, 0)
    labels = made.labels.clone()
    for i, start in enumerate(made.split.documents[:-1]):
        for j in range(int(made.split.documents[i + 1] - start)):
            if history[start + j]:
                labels[i, j] = 0
    return Example(replace(made.split, given=given_labels), made.source, made.decoder_input, labels)


@pytest.mark.parametrize("tokens", [1, 9, 1000])
@pytest.mark.parametrize("depth", [1, "full"])
def test_history_is_read_and_has_no_loss(depth: int | str, tokens: int) -> None:
    made = as_history(example(FIXED), lambda row: row % 2 == 0)
    stage = stage_of(model_of("both", depth), made.split, tokens=tokens)
    with torch.no_grad():
        loss, count = stage.held_out_loss(made.split)
        assert count == int((made.labels != 0).sum())
        assert loss == pytest.approx(float(token_losses(stage.model, made).sum()), rel=1e-10)
    window = range(made.source.shape[1])
    assert_same(update_gradients(stage), expected_gradients(stage, made, window))


def test_an_update_of_history_alone_changes_nothing() -> None:
    made = as_history(example(FIXED), lambda row: True)
    gradients = update_gradients(stage_of(model_of("both"), made.split))
    assert not any(gradient.any() for gradient in gradients.values())


# The gradients of an update.


def window_loss(losses: Tensor, labels: Tensor, window: range, weighting: str) -> Tensor:
    """The loss of the sentences in a window: over all its tokens, or per step and then over the steps."""
    rows, real = losses[:, window.start : window.stop], labels[:, window.start : window.stop] != 0
    if weighting == "token":
        return rows.sum() / max(int(real.sum()), 1)
    steps = [rows[:, t].sum() / max(int(real[:, t].sum()), 1) for t in range(rows.shape[1])]
    return torch.stack(steps).sum() / len(steps)


def expected_gradients(stage: DocumentStage, made: Example, window: range, weighting: str = "token") -> Gradients:
    """Of the sentences in a window, by one pass over the whole documents."""
    return gradients_of(window_loss(token_losses(stage.model, made), made.labels, window, weighting), stage.model)


@pytest.mark.parametrize("memories", [(-1,), (0,), (0, 1)])
@pytest.mark.parametrize("side", SIDES)
@given(
    depth=st.integers(1, 3),
    documents=lengths,
    window=st.just("document") | windows,
    tokens=st.integers(1, 40),
    weighting=st.sampled_from(["token", "authors"]),
)
@very_few
def test_an_update_has_the_gradient_of_the_unbroken_document_for_the_sentences_of_its_window(
    side: str, memories: tuple[int, ...], depth: int, documents: Lengths, window: Any, tokens: int, weighting: str
) -> None:
    """So many sentences are read again that the edge of a piece or window is not felt, by a chain of memories too."""
    made = example(documents)
    stage = stage_of(model_of(side, depth, memories), made.split, window=window, tokens=tokens, weighting=weighting)
    start, longest = 0, made.labels.shape[1]
    while start < longest:
        found = update_gradients(stage)
        end = longest if stage.group_number else stage.step
        assert_same(found, expected_gradients(stage, made, range(start, end), weighting))
        start = end


@pytest.mark.parametrize("memories", [(-1,), (0, 1)])
@pytest.mark.parametrize("side", SIDES)
@given(documents=lengths, tokens=st.integers(1, 40), weighting=st.sampled_from(["token", "authors"]))
@very_few
def test_at_full_depth_gradients_go_through_all_pieces_of_a_window(
    side: str, memories: tuple[int, ...], documents: Lengths, tokens: int, weighting: str
) -> None:
    made = example(documents)
    stage = stage_of(model_of(side, "full", memories), made.split, tokens=tokens, weighting=weighting)
    found = update_gradients(stage)
    assert_same(found, expected_gradients(stage, made, range(made.labels.shape[1]), weighting))


@pytest.mark.parametrize("depth", [1, 2, "full"])
@pytest.mark.parametrize("tokens", [1, 9, 20])
def test_pieces_equal_whole_documents_with_memories_in_two_layers_of_both_sides(depth: int | str, tokens: int) -> None:
    """In float64; the longest chain of memories there is in a model of two layers."""
    split = example(FIXED).split
    pieces, whole = (stage_of(model_of("both", depth, (0, 1)), split, tokens=n) for n in (tokens, 10_000))
    found = update_gradients(pieces)
    assert {gradient.dtype for gradient in found.values()} == {torch.float64}
    assert_same(found, update_gradients(whole))


@pytest.mark.parametrize("side", SIDES)
@given(documents=lengths, window=windows, tokens=st.integers(1, 40))
@very_few
def test_at_full_depth_pieces_do_not_change_any_window_of_a_document(
    side: str, documents: Lengths, window: tuple[int, int], tokens: int
) -> None:
    """Neither its gradient, whose reach ends at what the window reads again, nor the state for the next window."""
    split = example(documents).split
    pieces, whole = (stage_of(model_of(side, "full"), split, window=window, tokens=n) for n in (tokens, 10_000))
    while not whole.group_number:
        assert_same(update_gradients(pieces), update_gradients(whole))
        assert pieces.position() == whole.position()
        assert_same(pieces.tensors(), whole.tensors())


def test_at_full_depth_dropout_is_the_same_when_a_piece_is_computed_again() -> None:
    """Otherwise the gradients would be of another function: a numerical derivative of the loss tells."""
    made = example(FIXED)
    model = tiny_model(tiny_config(memory={"slots": 3, "depth": "full"}), seed=7).train()
    model.set_dropout(0.3, 0.2, 0.1)
    parameter = model.get_parameter("encoder.layers.1.self_attention.context.update_norm.weight")

    def loss(change: float) -> float:
        with torch.no_grad():
            parameter[3] += change
        torch.manual_seed(5)
        stage = stage_of(model, made.split, tokens=9)
        sums = stage.run_update(0, Tensor.backward)
        with torch.no_grad():
            parameter[3] -= change
        return sums.loss / sums.tokens

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    model.zero_grad()
    loss(0.0)
    assert parameter.grad is not None
    assert float(parameter.grad[3]) == pytest.approx(slope, rel=1e-5)
    assert abs(slope) > 1e-5


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("depth", [1, 2, "full"])
def test_in_one_piece_an_update_has_the_gradient_of_the_model_whatever_its_memories(
    side: str, depth: int | str
) -> None:
    made = example(FIXED)
    stage = stage_of(model_of(side, depth), made.split, tokens=10_000)
    loss = window_loss(token_losses(stage.model, made), made.labels, range(made.labels.shape[1]), "token")
    assert_same(update_gradients(stage), gradients_of(loss, stage.model))


@pytest.mark.parametrize("depth", [1, "full"])
def test_a_window_of_one_sentence_trains_the_update_attention(depth: int | str) -> None:
    made = example([[(3, 2), (1, 4), (2, 3)], [(2, 2), (4, 1), (1, 3)]])
    stage = stage_of(model_of("both", depth), made.split, window=(1, 1))
    first, second = update_gradients(stage), update_gradients(stage)
    updates = [name for name in second if ".update_attention." in name and "weight" in name]
    assert len(updates) == 6, "three parameters on either side"
    for name in updates:
        assert first[name].norm() == 0, "the first sentence reads a memory that nothing has updated"
        assert second[name].norm() > 1e-6


def test_the_two_weightings_differ() -> None:
    made = example([[(3, 1), (2, 5)]])
    found = [update_gradients(stage_of(model_of("both"), made.split, weighting=kind)) for kind in ("token", "authors")]
    assert (found[0]["tokens.weight"] - found[1]["tokens.weight"]).norm() > 1e-3


def test_the_reported_loss_is_that_of_the_tokens_of_the_window() -> None:
    made = example(FIXED)
    stage = stage_of(model_of("both"), made.split, window=(2, 2), tokens=5, label_smoothing=0.1)
    plain, smoothed = (token_losses(stage.model, made, share)[:, :2].sum() for share in (0.0, 0.1))
    sums = stage.run_update(0, Tensor.backward)
    assert sums.tokens == int((made.labels[:, :2] != 0).sum())
    assert sums.plain == pytest.approx(plain.item(), rel=1e-10)
    assert sums.loss == pytest.approx(smoothed.item(), rel=1e-10)
    assert abs(sums.loss - sums.plain) > 1e-3


# Windows and groups.


class Walk(NamedTuple):
    """What a stage has gone through: of every update the group, the window and its pieces."""

    group: list[int]
    window: range
    pieces: list[range]


def note(pieces: list[range], group: Any, piece: range, weights: Any = None) -> tuple[None, float]:
    pieces.append(piece)
    return None, 0.0


def walk(stage: DocumentStage, epochs: int = 1) -> list[Walk]:
    """The plan of some epochs, without computing anything."""
    found = []
    while stage.group_number < epochs * stage.groups:
        pieces: list[range] = []
        stage.piece_loss = functools.partial(note, pieces)  # type: ignore[method-assign]
        group = stage.group()
        window = stage.window(group)
        stage.run_update(0, Tensor.backward)
        found.append(Walk(group.tolist(), window, pieces))
    return found


many = st.lists(st.integers(1, 30), min_size=1, max_size=20).map(lambda sizes: [[(2, 2)] * size for size in sizes])


@given(many, windows, st.integers(1, 5), st.none() | st.integers(0, 10), st.integers(0, 9))
@settings(max_examples=40)
def test_an_epoch_has_every_sentence_of_every_document_once(
    documents: Lengths, window: tuple[int, int], together: int, gap: int | None, seed: int
) -> None:
    split = example(documents).split
    stage = stage_of(model_of("both"), split, seed, window=window, documents=together, max_length_gap=gap, tokens=20)
    updates = walk(stage)
    seen = [(d, t) for each in updates for d in each.group for t in each.window if t < len(documents[d])]
    assert sorted(seen) == [(d, t) for d, document in enumerate(documents) for t in range(len(document))]
    for each in updates:
        sizes = [len(documents[document]) for document in each.group]
        assert len(sizes) <= together
        assert gap is None or max(sizes) - min(sizes) <= gap
        assert [t for piece in each.pieces for t in piece] == list(each.window)
        assert len(each.window) <= window[1]
        assert len(each.window) >= window[0] or each.window.stop == max(sizes), "shorter only where the document ends"


@given(many, windows, st.integers(0, 9))
@settings(max_examples=20)
def test_groups_and_windows_are_a_function_of_the_seed(documents: Lengths, window: tuple[int, int], seed: int) -> None:
    split = example(documents).split
    plans = [walk(stage_of(model_of("both"), split, seed, window=window, documents=3), epochs=2) for _ in range(2)]
    assert plans[0] == plans[1]


def test_seeds_and_epochs_differ_and_so_do_the_windows_of_one_document() -> None:
    split = example([[(1, 1)] * 40 for _ in range(6)]).split
    plans = [walk(stage_of(model_of("both"), split, seed, window=(1, 9), documents=2), epochs=2) for seed in (1, 2)]
    assert plans[0] != plans[1]
    groups = [list(dict.fromkeys(tuple(each.group) for each in plan)) for plan in plans]
    assert groups[0][:3] != groups[0][3:], "another epoch, other groups"
    drawn = {len(each.window) for each in plans[0]}
    assert drawn == set(range(1, 10)), "both ends of the range are drawn"


@given(lengths, st.integers(1, 40))
def test_a_piece_keeps_to_the_token_budget_unless_one_step_breaks_it(documents: Lengths, tokens: int) -> None:
    made = example(documents)
    (update,) = walk(stage_of(model_of("both"), made.split, tokens=tokens))
    sizes = torch.stack([(ids != 0).sum((0, 2)) for ids in (made.source, made.labels)])  # (sides, steps)
    for piece in update.pieces:
        assert len(piece) == 1 or int(sizes[:, piece.start : piece.stop].sum(1).max()) <= tokens


# Going on in the middle of a document, and the control run.


@given(documents=lengths, depth=st.integers(1, 3), after=st.integers(0, 5), window=windows)
@few
def test_a_stage_restored_goes_on_as_if_nothing_had_happened(
    documents: Lengths, depth: int, after: int, window: tuple[int, int]
) -> None:
    """With both memories, between any two windows. test_training.py does it with whole runs."""
    split = example(documents).split
    stage, restored = (stage_of(model_of("both", depth), split, window=window, tokens=12, documents=2) for _ in "ab")
    for _ in range(after):
        update_gradients(stage)
    position = json.loads(json.dumps(stage.position()))
    restored.restore(position, {name: value.clone() for name, value in stage.tensors().items()})
    for _ in range(2):
        expected, found = update_gradients(stage), update_gradients(restored)
        assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert restored.position() == stage.position()


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_both_memories_are_part_of_the_position(side: str) -> None:
    """One that is lost in the middle of a document changes the next update."""
    split = example(FIXED).split
    stage, forgetful = (stage_of(model_of("both"), split, window=(2, 2)) for _ in "ab")
    update_gradients(stage)
    update_gradients(stage)
    tensors = stage.tensors()
    assert {name.split(".")[0] for name in tensors} == {"encoder", "decoder"}
    with pytest.raises(ValueError, match="states are not those of this model"):
        forgetful.restore(stage.position(), {name: value for name, value in tensors.items() if side not in name})
    initial = stage.model.initial_state(len(FIXED)).tensors()
    forgetful.restore(stage.position(), {name: (initial if side in name else tensors)[name] for name in tensors})
    expected, found = update_gradients(stage), update_gradients(forgetful)
    assert (expected["tokens.weight"] - found["tokens.weight"]).norm() > 1e-6


@pytest.mark.parametrize("count", [2, 4])
def test_the_memories_of_all_processes_add_up_to_those_of_one(count: int) -> None:
    """So one checkpoint holds them all; a process may have no document."""
    split = example(FIXED).split
    stages = [stage_of(model_of("both"), split, window=(2, 2), tokens=8) for _ in range(count + 1)]
    for number, stage in enumerate(stages[1:]):
        stage.processes = Processes(number, count)
    for stage in stages:
        update_gradients(stage)
    whole, *parts = (stage.tensors() for stage in stages)
    joined = stages[0].join_tensors(parts)
    assert joined.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(joined[name], value, rtol=0, atol=1e-12)


def finetuner(config: Config) -> Trainer:
    assert config.finetune is not None
    return Trainer(config, config.finetune, PreparedData.open(config.data), config.output)


def test_the_control_run_goes_through_the_same_windows(configure: Callable[..., Config], tmp_path: Path) -> None:
    """With `memory: null` the sentence model trains on, on the same tokens in the same updates."""
    settings = {"start": "nothing", "window": (1, 3), "documents": 3, "tokens": 60, "warmup": 1}
    runs = [
        finetuner(configure(tmp_path / name, finetune=settings | more))
        for name, more in (("memory", {}), ("control", {"memory": None}))
    ]
    assert [run.model.has_context for run in runs] == [True, False]
    for _ in range(8):
        assert [run.next_update().rate for run in runs][1] > 0
        assert runs[0].standing.tokens == runs[1].standing.tokens
        assert runs[0].stage.position()["step"] == runs[1].stage.position()["step"]
    control = runs[1].model
    fresh = finetuner(configure(tmp_path / "fresh", finetune=settings | {"memory": None})).model
    assert not any(isinstance(module, Memory) for module in control.modules())
    for (name, trained), first in zip(control.named_parameters(), fresh.parameters(), strict=True):
        assert not torch.equal(trained, first), name


# Memory of the machine.

MEASURE = """
import sys
from pathlib import Path
import numpy as np, torch
from tram.data.arrays import Sentences, Split
from tram.config import FinetuneConfig, MemoryConfig, ModelConfig
from tram.training.document_stage import DocumentStage
from tram.training.stages import Processes
from tram.model.transformer import Transformer

depth = sys.argv.pop()
sentences, tokens, d_model, layers, vocabulary = map(int, sys.argv[1:])
torch.set_num_threads(1)
config = ModelConfig(d_model=d_model, heads=4, feed_forward=4 * d_model, encoder_layers=layers, decoder_layers=layers,
                     memory=MemoryConfig(depth=depth if depth == "full" else int(depth)))
model = Transformer(config, vocabulary).train()
draw = np.random.default_rng(1)
sides = [Sentences(draw.integers(3, vocabulary, 24 * sentences), np.arange(0, 24 * sentences + 1, 24)) for _ in "ab"]
split = Split(*sides, np.array([0, sentences]))
stage = DocumentStage(model, FinetuneConfig(tokens=tokens), 1, Processes(), split)
stage.run_update(0, torch.Tensor.backward)
# Not ru_maxrss: a child inherits that of the process that starts it
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def peak(sentences: int, tokens: int, depth: str, d_model: int = 64, layers: int = 2, vocabulary: int = 1000) -> int:
    """Kilobytes that a process needs at most for one update on a document of so many sentences of 24 subwords."""
    arguments = map(str, (sentences, tokens, d_model, layers, vocabulary, depth))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("depth", ["1", "full"])
def test_the_peak_memory_of_an_update_does_not_grow_with_the_document(depth: str) -> None:
    short, long = peak(50, 1024, depth), peak(500, 1024, depth)
    assert abs(long - short) < 0.15 * short
    assert peak(500, 1_000_000, depth) > 1.3 * long, "in one piece it would"

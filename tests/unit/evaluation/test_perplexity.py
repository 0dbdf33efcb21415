"""Perplexity by history, and the attention maps of the memory, both compared with a computation by hand."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from conftest import made_up
from helpers import START, pair_ids, random_ids, shake, tiny_config, tiny_model
from tram.data.batches import decoder_input
from tram.evaluation.perplexity import perplexities
from tram.model.contexts.memory import Maps, Memory
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.translator import Translator

TALKS = made_up([4, 2, 3, 1], seed=31)
SOURCES, GOLD = [talk.source for talk in TALKS], [talk.target for talk in TALKS]
OTHER = [talk.target for talk in made_up([4, 2, 3, 1], seed=32)]  # what a poor model might generate


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    """Return a translator with random weights and a memory on both sides."""
    return translator_with({"slots": 3}, prepared)


def translator_with(memory: dict[str, int] | None, prepared: Path) -> Translator:
    text = TextPipeline.load(prepared)
    torch.manual_seed(6)
    config = tiny_config(memory=memory, max_positions=64, max_length=64)
    model = Transformer(config, text.vocabulary).double().eval()
    shake(model, 6, size=0.1)
    return Translator(model, text)


@torch.no_grad()
def by_hand(translator: Translator, documents: list[tuple[list[str], list[str]]]) -> float:
    """Return exp of the teacher-forced loss per token; documents: sources and targets."""
    losses = []
    for source, target in documents:
        ids = pair_ids(translator, source, target)
        logits = translator.model(ids[0], decoder_input(ids[1]))
        labels = ids[1][..., 1:]
        losses.append(F.cross_entropy(logits[labels != 0], labels[labels != 0], reduction="none"))
    return math.exp(float(torch.cat(losses).mean()))


def test_with_gold_history_it_is_the_teacher_forced_loss_of_whole_documents(translator: Translator) -> None:
    found = perplexities(translator, SOURCES, GOLD, OTHER)
    assert list(found) == ["generated", "gold", "other", "none"]
    assert found["gold"] == pytest.approx(by_hand(translator, list(zip(SOURCES, GOLD, strict=True))), rel=1e-10)


def test_without_history_every_sentence_is_a_document(translator: Translator) -> None:
    pairs = [([s], [t]) for source, gold in zip(SOURCES, GOLD, strict=True) for s, t in zip(source, gold, strict=True)]
    found = perplexities(translator, SOURCES, GOLD, OTHER)
    assert found["none"] == pytest.approx(by_hand(translator, pairs), rel=1e-10)
    assert abs(found["none"] - found["gold"]) > 1e-6


def test_generated_history_that_equals_the_reference_is_gold_history(translator: Translator) -> None:
    found = perplexities(translator, SOURCES, GOLD, GOLD)
    assert found["generated"] == found["gold"]
    other = perplexities(translator, SOURCES, GOLD, OTHER)
    assert other["gold"] == found["gold"], "generated translations affect only the generated history"
    assert abs(other["generated"] - other["gold"]) > 1e-6


Read = list[list[tuple[str, str] | None]]  # what the memory reads after each sentence of each document


@torch.inference_mode()
def one_by_one(translator: Translator, read: Read) -> float:
    """Return exp of the loss per token, sentence by sentence; after each sentence the memory reads a pair of `read`."""
    losses, tokens = 0.0, 0
    for source, gold, pairs in zip(SOURCES, GOLD, read, strict=True):
        state = translator.start()
        for s, target, pair in zip(source, gold, pairs, strict=True):
            ids = pair_ids(translator, [s], [target])
            done = translator.model.forced_decode(ids[0], decoder_input(ids[1]), state.state)
            labels = ids[1][0, 0, 1:]
            losses += float(F.cross_entropy(translator.model.logits(done.states), labels, reduction="sum"))
            tokens += len(labels)
            if pair is not None:
                translator.read([pair[0]], [pair[1]], state)
    return math.exp(losses / tokens)


def test_with_generated_history_each_sentence_follows_the_generated_ones(translator: Translator) -> None:
    read: Read = [list(zip(*pair, strict=True)) for pair in zip(SOURCES, OTHER, strict=True)]
    found = perplexities(translator, SOURCES, GOLD, OTHER)
    assert found["generated"] == pytest.approx(one_by_one(translator, read), rel=1e-10)


def test_the_other_history_is_that_of_a_document_of_similar_length(translator: Translator) -> None:
    shorter = {1: 3, 2: 1, 0: 2, 3: 0}  # the next shorter one; for the shortest, the longest
    pairs = [list(zip(*pair, strict=True)) for pair in zip(SOURCES, GOLD, strict=True)]
    read: Read = [[*pairs[shorter[number]], *[None] * 4][: len(pairs[number])] for number in range(4)]
    found = perplexities(translator, SOURCES, GOLD, OTHER)
    assert found["other"] == pytest.approx(one_by_one(translator, read), rel=1e-10)
    assert len({round(value, 6) for value in found.values()}) == 4
    assert "other" not in perplexities(translator, SOURCES[:1], GOLD[:1], OTHER[:1]), "there is no other document"


def test_pairs_with_an_empty_side_do_not_count(translator: Translator) -> None:
    blank = ([["", *SOURCES[0][:2], "Alone.", *SOURCES[0][2:]]], [["Allein.", *GOLD[0][:2], "", *GOLD[0][2:]]])
    found = perplexities(translator, *blank, blank[1])
    assert found == pytest.approx(perplexities(translator, SOURCES[:1], GOLD[:1], GOLD[:1]), rel=1e-10)


def test_that_of_a_model_that_diverged_is_a_large_number(prepared: Path) -> None:
    diverged = translator_with(None, prepared)
    with torch.no_grad():
        diverged.model.tokens.weight.mul_(1e5)
    assert 1e300 < perplexities(diverged, SOURCES, GOLD, OTHER)["none"] < math.inf


def test_truncated_sentences_are_counted(translator: Translator) -> None:
    long = [" ".join(["Der alte Müller wartet."] * 20)]
    with pytest.warns(UserWarning, match="1 target sentences were truncated to 62 subwords"):
        perplexities(translator, [["The old miller waits."]], [long], [["Der Müller."]])


def test_a_sentence_model_has_one_perplexity(prepared: Path) -> None:
    translator = translator_with(None, prepared)
    found = perplexities(translator, SOURCES, GOLD, OTHER)
    assert list(found) == ["none"]
    assert found["none"] == pytest.approx(by_hand(translator, list(zip(SOURCES, GOLD, strict=True))), rel=1e-10)


# The maps.

LENGTHS = [[4, 3, 0, 2], [5, 1], [0, 6, 2]]
READS = (("post", "norm"), ("post", "add"), ("pre", "add"), ("pre", "scaled"))


def maps_of(
    norm: str, read: str, side: str = "both"
) -> tuple[Transformer, Tensor, Tensor, dict[str, list[list[Maps]]]]:
    model = tiny_model(
        tiny_config(norm=norm, memory={"slots": 3, "read": read, "side": side, "layers": (0, 1)}), seed=3
    )
    source, target = random_ids(LENGTHS, 1), random_ids([[n + bool(n) for n in d] for d in LENGTHS], 2, first=START)
    return model, source, target, model.memory_maps(source, target)


@pytest.mark.parametrize(
    ("side", "names"), [("source", ["encoder"]), ("target", ["decoder"]), ("both", ["encoder", "decoder"])]
)
def test_every_sentence_with_words_has_its_maps_in_every_memory(side: str, names: list[str]) -> None:
    _, source, target, found = maps_of("post", "norm", side)
    assert list(found) == [f"{name}.{layer}.self" for name in names for layer in (0, 1)]
    for name, documents in found.items():
        ids = source if name.startswith("encoder") else target
        assert len(documents) == len(ids)
        for row, maps in zip(ids, documents, strict=True):
            sizes = {t: int((sentence != 0).sum()) for t, sentence in enumerate(row)}
            assert [each.sentence for each in maps] == [t for t, n in sizes.items() if n]
            for each in maps:
                assert each.update.shape == (2, 3, sizes[each.sentence])
                assert each.output.shape == (2, sizes[each.sentence], 3)
                for weights in (each.update, each.output):
                    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
                    assert float(weights.min()) >= 0


def attended(attention: torch.nn.Module, weights: Tensor, keys: Tensor) -> Tensor:
    """Return W^o of the heads' weighted values. weights: (heads, queries, keys); keys: (keys, d_model)."""
    made: Any = attention
    d_model = keys.shape[-1]
    values = keys @ made.key_value.weight[d_model:].T + made.key_value.bias[d_model:]
    heads = values.unflatten(-1, (made.heads, -1)).transpose(0, 1)
    return made.output((weights @ heads).transpose(0, 1).flatten(-2))


@pytest.mark.parametrize(("norm", "read"), READS)
@torch.no_grad()
def test_the_maps_are_the_weights_that_the_unit_uses(norm: str, read: str) -> None:
    """Check that update map @ values is the next memory, and that output map @ values is the output of the unit."""
    model, source, target, found = maps_of(norm, read)
    seen: list[tuple[Memory, Any, Any]] = []  # arguments and result of each unit
    units = [m for m in model.modules() if isinstance(m, Memory)]
    for unit in units:
        unit.register_forward_hook(lambda memory, arguments, result: seen.append((memory, arguments, result)))
    model(source, target)
    assert [unit for unit, _, _ in seen] == units
    for (unit, (_, local, layout, state), (result, after, _)), documents in zip(seen, found.values(), strict=True):
        grids = layout.grid(local), layout.grid(result)
        for i, maps in enumerate(documents):
            M = state["M"][i]
            for each in maps:
                n = each.output.shape[1]
                states, expected = (grid[i, each.sentence, :n] for grid in grids)
                h = unit.input_norm(states)
                size = states.square().mean(-1, keepdim=True).sqrt() if read == "scaled" else 1
                found_result = unit.output_norm(states + size * attended(unit.output_attention, each.output, M))
                torch.testing.assert_close(found_result, expected, rtol=0, atol=1e-10)
                placed = unit.positions(M)
                M = unit.update_norm(placed + attended(unit.update_attention, each.update, h))
                M = unit.feed_forward_norm(M + unit.feed_forward(M))
            torch.testing.assert_close(M, after["M"][i], rtol=0, atol=1e-10)


def test_reading_the_maps_leaves_no_hooks_in_the_model() -> None:
    model, source, target, _ = maps_of("post", "norm")
    hooks = [module._forward_pre_hooks for module in model.modules() if isinstance(module, Memory)]
    assert len(hooks) == 4
    assert not any(hooks)
    assert model.memory_maps(source, target).keys() == maps_of("post", "norm")[3].keys()


def test_a_sentence_model_has_no_maps() -> None:
    assert tiny_model(tiny_config()).memory_maps(random_ids([[3]], 1), random_ids([[3]], 2, first=START)) == {}

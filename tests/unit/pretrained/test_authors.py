"""The paper authors' checkpoints: an imported model reproduces their numbers; a tensor that does not fit is named."""

import argparse
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tram.errors import InputError
from tram.model.folder import load_model, weights
from tram.pretrained.authors import authors_names, common_layer_numbers, import_authors
from tram.translation.translator import Translator

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = ("top_both_sinusoidal", "two_layers_both")
SHARED = "model.shared.weight"
COPIES = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
BIAS = "final_logits_bias"
UNIT = "model.encoder.layers.1.rnn."

State = dict[str, Tensor]
quick = settings(max_examples=20, deadline=None)


def golden(file: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / f"{file}.json").read_text()))


def value(name: str, shape: list[int]) -> Tensor:
    """Return the weight for a name, as it was when the golden numbers were computed."""
    name = SHARED if name in COPIES else name
    draw = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=np.float32)
    tensor = torch.from_numpy(draw * np.float32(0.05))
    if "norm" in name and name.endswith("weight"):
        tensor += 1
    return tensor * 0 if name == BIAS else tensor


def small_state(file: str = "top_both_sinusoidal") -> State:
    """Return a checkpoint with the authors' names and small sizes, all different."""
    sizes = {512: 8, 128: 12, 64: 20, 34: 11, 16: 3, 1: 1}
    return {name: value(name, [sizes[n] for n in shape]) for name, shape in golden(file)["parameters"].items()}


SMALL = small_state()
NAMES = sorted(SMALL)
DISPENSABLE = {*COPIES, BIAS, *(name for name in NAMES if ".ds_linear." in name)}
CHECKED = [name for name in NAMES if ".ds_linear." not in name]


def imported(folder: Path, content: Any, **options: Any) -> Path:
    """Import a checkpoint with this content and return the model folder."""
    folder.mkdir(exist_ok=True)
    torch.save(content, folder / "authors.pt")
    out = folder / "out"
    import_authors(folder / "authors.pt", out, **{"heads": 2, "side": "both", **options})
    return out


def refused(folder: Path, content: Any, **options: Any) -> str:
    """Return the error message for this content, which names the file; nothing may be left behind."""
    with pytest.raises(InputError) as caught:
        imported(folder, content, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["authors.pt"]
    sentence = str(caught.value)
    assert str(folder / "authors.pt") in sentence
    assert "\n" not in sentence
    return sentence


def same(one: Path, other: Path) -> bool:
    """Return whether two folders contain the same model."""
    first, second = load_model(one), load_model(other)
    ours, theirs = weights(first), weights(second)
    return first.config == second.config and all(torch.equal(ours[name], theirs[name]) for name in ours | theirs)


@pytest.mark.parametrize("file", FILES)
def test_the_authors_logits_losses_and_gradients(file: str, tmp_path: Path) -> None:
    expected = golden(file)
    state = {name: value(name, shape) for name, shape in expected["parameters"].items()}
    model = Translator.load(imported(tmp_path, state, heads=expected["heads"])).model
    numbers = np.load(GOLDEN / f"{file}.npz")
    source, target = (torch.from_numpy(numbers[side]).long().transpose(0, 1) for side in ("source", "target"))
    labels = target[..., 1:]
    real = labels != 0
    logits = model(source, target[..., :-1] * real)

    wanted = torch.from_numpy(numbers["logits"]).transpose(0, 1)
    torch.testing.assert_close(logits[real], wanted[real], rtol=0, atol=1e-4)
    steps = [(logits[:, t][real[:, t]], labels[:, t][real[:, t]]) for t in range(source.shape[1])]
    losses = torch.stack([F.cross_entropy(scores, ids) for scores, ids in steps])
    torch.testing.assert_close(losses, torch.tensor(expected["losses"]), rtol=0, atol=1e-5)

    losses.mean().backward()
    norms = {}
    for name, parameter in model.named_parameters():
        theirs = authors_names(name)
        assert parameter.grad is not None
        for part, gradient in zip(theirs, parameter.grad.chunk(len(theirs)), strict=True):
            norms[part] = gradient.norm().item()
    assert norms == pytest.approx(expected["grad_norms"], rel=1e-3, abs=1e-6)


def test_sizes_come_from_the_shapes(tmp_path: Path) -> None:
    model = load_model(imported(tmp_path, small_state("two_layers_both"), heads=4))
    config, memory = model.config, model.config.memory
    assert model.vocabulary == 20
    assert (config.d_model, config.heads, config.feed_forward) == (8, 4, 12)
    assert (config.encoder_layers, config.decoder_layers) == (3, 3)
    assert (config.position_offset, config.max_positions, config.max_length) == (2, 9, 9)
    assert memory is not None
    assert (memory.slots, memory.side, memory.layers, memory.positions) == (3, "both", (1, 2), "sinusoidal")


def test_a_long_position_table_leaves_sentences_at_128_tokens(tmp_path: Path) -> None:
    tables = {f"model.{side}.embed_positions.weight": torch.ones(202, 8) for side in ("encoder", "decoder")}
    config = load_model(imported(tmp_path, SMALL | tables)).config
    assert (config.max_positions, config.max_length) == (200, 128)


def test_the_model_card_names_the_file_but_no_path(tmp_path: Path) -> None:
    out = imported(tmp_path, SMALL)
    card = (out / "README.md").read_text()
    assert "authors.pt" in card
    assert str(tmp_path) not in card
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "config.yaml", "model.safetensors"]


@pytest.mark.parametrize(("side", "off"), [("source", "decoder"), ("target", "encoder")])
def test_the_memory_unit_of_the_other_side_is_ignored(side: str, off: str, tmp_path: Path) -> None:
    unit = f"model.{off}.layers.1.rnn"
    without = {name: tensor for name, tensor in SMALL.items() if not name.startswith(unit)}
    strange = SMALL | {f"{unit}.attn.q_proj.weight": torch.ones(1), f"{unit}.elsewhere": torch.ones(2)}
    one = imported(tmp_path / "one", SMALL, side=side)
    assert same(one, imported(tmp_path / "two", without, side=side))
    assert same(one, imported(tmp_path / "three", strange, side=side))
    assert [name for name in weights(load_model(one)) if ".context." in name and name.startswith(off)] == []


def wrapped(state: State) -> State:
    return {f"model.{name}": tensor for name, tensor in state.items()}


@pytest.mark.parametrize(
    "wrap",
    [
        wrapped,
        lambda state: {"state_dict": wrapped(state), "epoch": 3},
        lambda state: {"model": state, "optimizer": {"lr": 0.1}},
        lambda state: {name: tensor for name, tensor in state.items() if name.startswith("model.")},
        lambda state: {name: tensor.double() for name, tensor in state.items()},
    ],
    ids=["prefix", "state_dict", "model", "body alone", "double"],
)
def test_a_wrapped_checkpoint_is_the_same_model(wrap: Callable[[State], Any], tmp_path: Path) -> None:
    assert same(imported(tmp_path / "one", SMALL), imported(tmp_path / "two", wrap(SMALL)))


def test_a_prefix_on_some_names_only_is_refused(tmp_path: Path) -> None:
    state = wrapped(SMALL)
    state[BIAS] = state.pop(f"model.{BIAS}")
    assert "lacks the tensor `model.shared.weight`" in refused(tmp_path, state)


def test_an_output_bias_is_kept(tmp_path: Path) -> None:
    bias = torch.linspace(-1, 1, 20)
    plain, biased = (
        load_model(imported(tmp_path / name, state))
        for name, state in {"plain": SMALL, "biased": SMALL | {BIAS: bias[None]}}.items()
    )
    assert (plain.config.output_bias, biased.config.output_bias) == (False, True)
    ids = torch.tensor([[[1, 7, 5, 2]]])
    torch.testing.assert_close(biased(ids, ids), plain(ids, ids) + bias)


@given(name=st.sampled_from(NAMES))
@quick
def test_a_missing_tensor_is_named_unless_the_model_never_uses_it(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("missing")
    state = {other: tensor for other, tensor in SMALL.items() if other != name}
    if name in DISPENSABLE:
        assert same(imported(folder / "one", SMALL), imported(folder / "two", state))
    else:
        assert f"lacks the tensor `{name}`" in refused(folder, state)


@given(name=st.sampled_from(CHECKED), change=st.sampled_from(["row", "axis", "none"]))
@quick
def test_a_tensor_of_another_shape_is_refused(name: str, change: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tensor = SMALL[name]
    changed = {"row": torch.cat([tensor, tensor[:1]]), "axis": tensor[None], "none": tensor[:0]}[change]
    sentence = refused(tmp_path_factory.mktemp("shape"), SMALL | {name: changed})
    named = [other for other in NAMES if f"`{other}`" in sentence]
    assert named
    # The tensors that the sizes are read from may make another one look wrong.
    if change != "row":
        assert named == [name]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model.pooler.weight": torch.ones(8)}, "unknown tensor `model.pooler.weight`"),
        ({f"model.encoder.layers.{'9' * 5000}.fc1.bias": torch.ones(8)}, "unknown tensor `model.encoder.layers.999"),
        ({f"{UNIT}ds_positions.weight": torch.ones(3, 8)}, f"unknown tensor `{UNIT}ds_positions.weight`"),
        ({"lm_head.weight": torch.ones(20, 8)}, "`lm_head.weight` differs from `model.shared.weight`"),
        ({f"{UNIT}attn.q_proj.bias": torch.full((8,), torch.nan)}, f"`{UNIT}attn.q_proj.bias` contains values"),
        ({f"{UNIT}attn.q_proj.bias": torch.ones(8, dtype=torch.long)}, f"`{UNIT}attn.q_proj.bias` contains values"),
        ({"model.encoder.layers.3.fc1.bias": torch.ones(12)}, "lacks the layer `model.encoder.layers.2`"),
        ({"model.encoder.embed_positions.weight": torch.ones(4, 8)}, "`model.encoder.embed_positions.weight`"),
        ({"step": 12}, "`step` is not a tensor"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    assert fault in refused(tmp_path, SMALL | changes)


@pytest.mark.parametrize("heads", [0, -2, 3, 16])
def test_heads_must_divide_the_width(heads: int, tmp_path: Path) -> None:
    assert f"--heads {heads} does not divide the width 8" in refused(tmp_path, SMALL, heads=heads)


def test_a_side_without_a_memory_is_refused(tmp_path: Path) -> None:
    state = {name: tensor for name, tensor in SMALL.items() if not name.startswith("model.decoder.layers.1.rnn")}
    assert "no memory unit (`rnn`) in its decoder" in refused(tmp_path, state)


def test_units_in_different_layers_of_both_sides_are_refused(tmp_path: Path) -> None:
    moved = {name.replace("model.decoder.layers.1.rnn", "model.decoder.layers.0.rnn"): SMALL[name] for name in NAMES}
    assert "layers [1] of the encoder and [0] of the decoder" in refused(tmp_path, moved)


@given(st.integers(1, 5), st.integers(1, 5), st.data())
@quick
def test_common_layer_numbers_denote_the_layers_of_both_stacks(encoder: int, decoder: int, data: st.DataObject) -> None:
    least = min(encoder, decoder)
    numbers = data.draw(st.sets(st.integers(-least, least - 1), min_size=1))
    sides = [({n % layers for n in numbers}, layers) for layers in (encoder, decoder)]
    found = common_layer_numbers(sides)
    assert found is not None
    assert [({n % layers for n in found}, layers) for layers in (encoder, decoder)] == sides


def test_sizes_that_no_model_has_are_refused(tmp_path: Path) -> None:
    rows = {"shared": 12, "encoder.embed_positions": 20, "encoder.layers.0.fc1": 4, "decoder.layers.0.fc1": 4}
    state = {f"model.{name}.weight": torch.zeros(count, 9) for name, count in rows.items()}
    assert "must be even" in refused(tmp_path, state, heads=3)


def test_a_tensor_that_repeats_a_few_values_beyond_all_memory_is_refused(tmp_path: Path) -> None:
    """A few bytes of a file can describe a tensor of any size: its strides are zero."""
    state = SMALL | {"model.shared.weight": torch.zeros(1).expand(10**6, 10**6)}
    assert "`model.shared.weight` is not a tensor with values" in refused(tmp_path, state)


@pytest.mark.parametrize("content", [torch.ones(2), [1, 2], {}, {1: torch.ones(2)}, {"state_dict": {}}])
def test_a_file_without_a_state_dict_is_refused(content: Any, tmp_path: Path) -> None:
    assert "contains no state dict" in refused(tmp_path, content)


def test_a_file_with_other_objects_is_refused(tmp_path: Path) -> None:
    assert "could run code" in refused(tmp_path, {"state_dict": SMALL, "options": argparse.Namespace(lr=0.1)})


@pytest.mark.parametrize("zipped", [True, False])
@given(share=st.floats(0, 1, exclude_max=True))
@quick
def test_a_truncated_file_is_refused(zipped: bool, share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cut")
    file = folder / "authors.pt"
    torch.save(SMALL, file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"authors\.pt: is "):
        import_authors(file, folder / "out", heads=2, side="both")
    assert not (folder / "out").exists()


@given(content=st.binary(max_size=60))
@quick
def test_a_file_of_another_kind_is_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("other")
    (folder / "authors.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"authors\.pt: "):
        import_authors(folder / "authors.pt", folder / "out", heads=2, side="both")
    assert not (folder / "out").exists()


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nothing.pt", "cannot be read"), (tmp_path, "is a folder")):
        with pytest.raises(InputError, match=why):
            import_authors(place, tmp_path / "out", heads=2, side="both")
    assert not (tmp_path / "out").exists()


def test_existing_files_in_the_output_folder_stay(tmp_path: Path) -> None:
    letter = tmp_path / "out" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("dear")
    with pytest.raises(InputError, match="out: is not empty"):
        imported(tmp_path, SMALL)
    assert letter.read_text() == "dear"
    with pytest.raises(InputError, match=r"letter\.txt: cannot be used as a folder"):
        import_authors(tmp_path / "authors.pt", letter, heads=2, side="both")
    assert letter.read_text() == "dear"
    letter.unlink()
    assert load_model(imported(tmp_path, SMALL)).vocabulary == 20  # an empty folder may be filled


# Sentence models, and text ---------------------------------------------------------------------------

SENTENCE = {name: tensor for name, tensor in SMALL.items() if ".rnn" not in name}
LETTERS = [token for letter in "millerst" for token in (letter, f"{letter}@@")]
VOCABULARY = [*dict.fromkeys(LETTERS), "mill@@", "."]  # with 4 specials: the 20 rows of SMALL
CODES = "#version: 0.2\nm i\nl l\nmi ll\n"


def text_files(folder: Path, tokens: list[str] = VOCABULARY) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    (folder / "dict.txt").write_text("".join(f"{token} 1\n" for token in tokens))
    (folder / "codes").write_text(CODES)
    return {"vocab": folder / "dict.txt", "codes": folder / "codes"}


@pytest.mark.parametrize("side", ["source", "target", "both"])
def test_a_checkpoint_without_memory_becomes_a_sentence_model(side: str, tmp_path: Path) -> None:
    folder = imported(tmp_path, SENTENCE, side=side)
    model = load_model(folder)
    assert model.config.memory is None
    assert not model.has_context
    assert "memory: none" in (folder / "README.md").read_text()
    # The body is that of the whole checkpoint.
    body = weights(load_model(imported(tmp_path / "whole", SMALL)))
    assert all(torch.equal(tensor, body[name]) for name, tensor in weights(model).items())


def test_a_sentence_model_with_a_tensor_too_many_or_too_few_is_refused(tmp_path: Path) -> None:
    name = "model.decoder.layers.1.fc2.bias"
    more = SENTENCE | {"model.pooler.weight": torch.ones(8)}
    less = {other: tensor for other, tensor in SENTENCE.items() if other != name}
    assert "unknown tensor `model.pooler.weight`" in refused(tmp_path, more)
    assert f"lacks the tensor `{name}`" in refused(tmp_path, less)


@pytest.mark.parametrize("state", [SMALL, SENTENCE], ids=["memory", "sentence"])
def test_with_vocabulary_and_codes_the_folder_translates_text(state: State, tmp_path: Path) -> None:
    files = text_files(tmp_path / "text")
    folder = imported(tmp_path, state, **files)
    translator = Translator.load(folder, beam=2)
    miller, x = translator.text.encode(["miller mill.", "x"], "source")
    assert translator.text.bpe.pieces(miller) == ["▁mill", "e", "r", "▁m", "i", "l", "l", "▁."]
    assert x == [3]
    with pytest.warns(UserWarning, match="1 sentences were too long"):
        found = translator.translate(["tell me.", "", "mill " * 12])
    assert len(found) == 3
    assert found[1] == ""
    with_ids = Translator.load(imported(tmp_path / "ids", state), beam=2)
    ids = translator.text.encode(["tell me."], "source")
    assert with_ids.translate_ids(ids) == translator.translate_ids(ids)
    assert "tokenised with Moses but not truecased" in (folder / "README.md").read_text()


def test_a_changed_vocabulary_no_longer_fits_the_folder(tmp_path: Path) -> None:
    folder = imported(tmp_path, SMALL, **text_files(tmp_path / "text"))
    other = imported(tmp_path / "other", SMALL, **text_files(tmp_path / "swapped", VOCABULARY[::-1]))
    (folder / "text.json").write_bytes((other / "text.json").read_bytes())
    with pytest.raises(InputError, match=r"text\.json: is pipeline .*, the model was trained with"):
        Translator.load(folder)


@pytest.mark.parametrize(("option", "missing"), [("vocab", "--codes"), ("codes", "--vocab")])
def test_one_of_vocabulary_and_codes_alone_is_refused(option: str, missing: str, tmp_path: Path) -> None:
    file = text_files(tmp_path / "text")[option]
    with pytest.raises(InputError, match=f"{file.name}: .* belong together; give {missing}, too"):
        imported(tmp_path, SMALL, **{option: file})
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    files = text_files(tmp_path / "text", VOCABULARY[1:-1])
    with pytest.raises(InputError, match=r"dict\.txt: has 14 tokens, the model has 20,"):
        imported(tmp_path, SMALL, **files)
    assert not (tmp_path / "out").exists()


# Learned positions of the slots.

TABLE = "rnn.recurrent_layer.seg_embedding.emb.weight"


def with_learned_positions(norm: str | None = "layernorm") -> State:
    """A checkpoint whose memory units have tables of slot positions, and LayerNorms behind them unless norm is None."""
    state = dict(SMALL)
    for name in NAMES:
        if name.endswith(".rnn.ds_query_init"):
            unit = name.removesuffix("rnn.ds_query_init")
            _, slots, width = SMALL[name].shape
            state[unit + TABLE] = value(unit + TABLE, [slots, width])
            for part in ("weight", "bias") if norm else ():
                full = f"{unit}rnn.recurrent_layer.seg_embedding.{norm}.{part}"
                state[full] = value(full, [width])
    return state


@pytest.mark.parametrize("norm", ["layernorm", "LayerNorm", None])
def test_learned_positions_of_the_slots_are_imported(norm: str | None, tmp_path: Path) -> None:
    state = with_learned_positions(norm)
    model = load_model(imported(tmp_path, state))
    assert model.config.memory is not None
    assert model.config.memory.positions == "learned"
    memory = model.encoder.contexts()["encoder.1.self"]
    unit = "model.encoder.layers.1."
    table = state[unit + TABLE]
    seg = f"{unit}rnn.recurrent_layer.seg_embedding.{norm}"
    weight, bias = (state[f"{seg}.weight"], state[f"{seg}.bias"]) if norm else (None, None)
    M = torch.randn(2, *table.shape)
    expected = F.layer_norm(M + table, table.shape[-1:], weight, bias)
    torch.testing.assert_close(memory.positions(M), expected)


def test_a_unit_without_the_table_of_the_others_is_refused(tmp_path: Path) -> None:
    state = with_learned_positions()
    del state[f"model.encoder.layers.1.{TABLE}"]
    with pytest.raises(InputError, match="only some memory units"):
        imported(tmp_path, state)


@pytest.mark.parametrize(
    "strange", [torch.empty(3, 8, device="meta"), torch.eye(3).to_sparse(), torch.tensor(float("nan"))]
)
def test_a_tensor_without_values_is_refused(strange: Tensor, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        imported(tmp_path, SMALL | {NAMES[-1]: strange})

"""int8 folders: rounded weights that are stored, loaded and computed with as int8."""

from pathlib import Path

import pytest
import torch

from helpers import tiny_config, tiny_model
from tram.errors import InputError
from tram.model.folder import fingerprint, load_model, save_int8, save_model
from tram.model.quantised import Int8Matrix, is_quantised, matrices, quantise
from tram.model.tensors import load_tensors, save_tensors
from tram.translation.engines.native import NativeEngine, why_unavailable
from tram.translation.engines.torch import TorchEngine

IDS = torch.tensor([[[1, 5, 9, 2], [1, 7, 2, 0]]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = tiny_model(tiny_config(context={"kind": "memory", "slots": 3}), seed=3).float()
    save_int8(model, tmp_path / "int8")
    assert not is_quantised(model)
    return tmp_path / "int8"


def test_a_folder_holds_no_float_matrix(folder: Path) -> None:
    stored = load_tensors(folder / "model.safetensors")
    assert {value.dtype for name, value in stored.items() if name.endswith(".weight") and value.dim() == 2} == {
        torch.int8
    }
    model = load_model(folder)
    assert all(isinstance(module, Int8Matrix) for module in (model.tokens, model.decoder.layers[0].feed_forward.inner))
    assert model.encoder.embeddings.tokens is model.decoder.embeddings.tokens is model.tokens
    assert not any(name.endswith(".weight") and value.dim() == 2 for name, value in model.named_parameters())


def test_a_loaded_model_does_not_change_with_its_file(folder: Path) -> None:
    """As when another model is copied over the one that a service has loaded."""
    model = load_model(folder)
    before = fingerprint(model)
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-64] + bytes(byte ^ 1 for byte in content[-64:]))
    assert fingerprint(model) == before


def test_a_loaded_model_is_the_rounded_one(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder)
    rounded = tiny_model(tiny_config(context={"kind": "memory", "slots": 3}), seed=3).float()
    quantise(rounded)
    assert fingerprint(model) == fingerprint(rounded)
    assert torch.equal(model(IDS, IDS), rounded(IDS, IDS))
    save_model(model, tmp_path / "float")  # an ordinary folder with the rounded weights
    again = load_model(tmp_path / "float")
    assert not is_quantised(again)
    assert fingerprint(again) == fingerprint(model)
    torch.testing.assert_close(again(IDS, IDS), model(IDS, IDS))


@pytest.mark.skipif(why_unavailable() is not None, reason="no native engine")
def test_the_native_engine_multiplies_the_stored_numbers(folder: Path) -> None:
    model = load_model(folder)
    engine = NativeEngine(model, threads=1)
    assert engine.name == "native int8"
    found, exact = engine.encode(IDS).states, TorchEngine(model).encode(IDS).states
    assert 0 < (found - exact).abs().mean() < 0.1 * exact.abs().mean()  # activations are rounded, too


def test_a_damaged_folder_is_one_sentence(folder: Path) -> None:
    path = folder / "model.safetensors"
    tensors = load_tensors(path)
    name = next(iter(matrices(load_model(folder))))
    save_tensors(path, tensors | {name: tensors[name].float()})
    with pytest.raises(InputError, match=f"`{name}` does not contain int8 values"):
        load_model(folder)

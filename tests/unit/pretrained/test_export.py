"""Models come back from tram as transformers had them; tram's own models become models of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from helpers import VOCABULARY, random_ids, tiny_config
from pretrained_models import TARGETS, make
from tram.config import MemoryConfig, ModelConfig
from tram.errors import InputError
from tram.model.folder import load_model, save_int8, save_model, weights
from tram.model.tensors import load_tensors, save_tensors
from tram.model.transformer import Transformer
from tram.pretrained.export import export_hf
from tram.pretrained.hf import import_hf


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("marian", {}),
        ("marian", {"separate": True}),
        ("marian", {"separate": True, "tie_word_embeddings": False}),
        ("marian", {"share_encoder_decoder_embeddings": False, "encoder_layers": 1, "decoder_layers": 3}),
        ("bart", {}),
        ("bart", {"tie_word_embeddings": False}),
        ("mbart", {}),
        ("m2m100", {}),
        ("nllb", {}),
    ],
)
def test_import_and_export_keep_every_tensor(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    made = make(family, tmp_path / "foreign", **changes)
    import_hf(str(made.folder), tmp_path / "tram", target=TARGETS.get(family))
    export_hf(tmp_path / "tram", tmp_path / "back")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back")
    expected, found = made.model.state_dict(), again.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    sentence = "The old miller waits."
    assert AutoTokenizer.from_pretrained(tmp_path / "back")(sentence) == made.tokenizer(sentence)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "activation": "relu", "position_offset": 2},
        {"embedding_norm": False, "positions": "sinusoidal", "output_bias": True, "embedding_scale": True},
    ],
)
def test_a_model_of_tram_computes_the_same_in_transformers(changes: dict[str, Any], tmp_path: Path) -> None:
    from transformers import AutoModelForSeq2SeqLM

    torch.manual_seed(0)
    model = Transformer(tiny_config(**changes), VOCABULARY).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value), alpha=0.2)
    save_model(model, tmp_path / "tram")
    export_hf(tmp_path / "tram", tmp_path / "foreign")
    source, target = random_ids([[5, 3, 7]]), random_ids([[4, 6, 2]], seed=1, first=1)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "foreign").eval()
    with torch.no_grad():
        expected = model(source, target)[0]
        found = again(input_ids=source[0], attention_mask=(source[0] != 0).long(), decoder_input_ids=target[0]).logits
    real = target[0] != 0
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


def test_a_memory_is_left_out_only_on_request(tmp_path: Path) -> None:
    config = tiny_config(memory=MemoryConfig(slots=3))
    save_model(Transformer(config, VOCABULARY), tmp_path / "tram")
    with pytest.raises(InputError, match="--without-context"):
        export_hf(tmp_path / "tram", tmp_path / "foreign")
    assert not (tmp_path / "foreign").exists()
    export_hf(tmp_path / "tram", tmp_path / "foreign", without_context=True)
    assert (tmp_path / "foreign" / "config.json").exists()


def test_an_int8_model_is_exported_in_float32(tmp_path: Path) -> None:
    save_int8(Transformer(tiny_config(), VOCABULARY), tmp_path / "tram")
    export_hf(tmp_path / "tram", tmp_path / "foreign")
    found = load_tensors(tmp_path / "foreign" / "model.safetensors")
    assert {value.dtype for value in found.values()} == {torch.float32}
    assert torch.equal(found["model.shared.weight"], weights(load_model(tmp_path / "tram"))["tokens.weight"])


def test_weights_of_eight_bits_are_exported_in_float32_and_integers_refused(tmp_path: Path) -> None:
    save_model(Transformer(tiny_config(), VOCABULARY), tmp_path / "tram")
    path = tmp_path / "tram" / "model.safetensors"
    tensors = load_tensors(path)
    save_tensors(path, {name: value.to(torch.float8_e4m3fn) for name, value in tensors.items()})
    export_hf(tmp_path / "tram", tmp_path / "foreign")
    found = load_tensors(tmp_path / "foreign" / "model.safetensors")
    assert torch.equal(found["model.shared.weight"], tensors["tokens.weight"].to(torch.float8_e4m3fn).float())
    save_tensors(path, {name: value.int() for name, value in tensors.items()})
    with pytest.raises(InputError, match="does not contain floating-point values"):
        export_hf(tmp_path / "tram", tmp_path / "other")


@pytest.mark.parametrize("kind", ["transformer_xl", "compressive", "zheng"])
def test_a_context_in_the_place_of_positions_leaves_no_sentence_model(kind: str, tmp_path: Path) -> None:
    save_model(Transformer(tiny_config(context={"kind": kind}), VOCABULARY), tmp_path / "tram")
    with pytest.raises(InputError, match=r"no sentence model inside it, because its context replaces `.*positions`"):
        export_hf(tmp_path / "tram", tmp_path / "foreign", without_context=True)
    assert not (tmp_path / "foreign").exists()


def test_flat_layers_are_refused(tmp_path: Path) -> None:
    config = tiny_config(unit={"kind": "window", "source": 2, "target": 1, "flat_layers": 1}, max_length=20)
    save_model(Transformer(config, VOCABULARY), tmp_path / "tram")
    with pytest.raises(InputError, match=r"does not support .*flat_layers"):
        export_hf(tmp_path / "tram", tmp_path / "foreign")


def test_a_layout_of_no_family_is_refused(tmp_path: Path) -> None:
    config: ModelConfig = tiny_config(norm="pre", positions="sinusoidal")
    save_model(Transformer(config, VOCABULARY), tmp_path / "tram")
    with pytest.raises(InputError, match="no family of transformers"):
        export_hf(tmp_path / "tram", tmp_path / "foreign")

"""A memory on a frozen imported model: finetuning starts exactly at the model and leaves it as it is; adapters."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from conftest import Corpus, Done, contents, refused
from pretrained_models import TARGETS, make
from tram.config import Config, write_yaml
from tram.data.arrays import PreparedData
from tram.data.prepare import prepare
from tram.errors import InputError
from tram.model.folder import WEIGHTS, load_model, load_tensors, save_int8, save_model
from tram.model.transformer import Transformer
from tram.pretrained.adapters import export_adapter
from tram.pretrained.hf import import_hf
from tram.training.run import train
from tram.training.trainer import Trainer
from tram.translation.translator import Translator

Command = Callable[..., Done]
DOCUMENT = ["The old miller waits.", "A small fox sings on the bridge.", "My neighbour sleeps."]


@dataclass(frozen=True)
class Finetuned:
    """An imported base, and a run that finetuned a memory on it with the base frozen."""

    base: Path
    run: Path
    config: Config


def run_config(base: Path, data: Path, output: Path, read: str, **finetune: Any) -> Config:
    settings = {"updates": 3, "tokens": 512, "warmup": 1, "documents": 4, "evaluate_every": 3, "lr_new": 0.05}
    memory = {"slots": 4, "read": read}
    return Config.model_validate(
        {
            "data": str(data),
            "output": str(output),
            "train": None,
            "finetune": {"start": str(base), "freeze": "base", "memory": memory, **settings, **finetune},
        }
    )


@pytest.fixture(scope="module", params=["marian", "nllb"])
def finetuned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> Finetuned:
    family, folder = request.param, tmp_path_factory.mktemp("finetuned")
    changes = {"separate": True} if family == "marian" else {}
    made = make(family, folder / "foreign", **changes)
    import_hf(str(made.folder), folder / "base", target=TARGETS.get(family))
    prepare(folder / "data", [corpus.train], [corpus.dev], text=folder / "base", workers=1)
    read = "add" if family == "marian" else "scaled"
    config = run_config(folder / "base", folder / "data", folder / "run", read)
    train(config)
    return Finetuned(folder / "base", folder / "run", config)


def test_the_first_update_starts_exactly_at_the_pretrained_model(finetuned: Finetuned) -> None:
    base = Translator.load(finetuned.base)
    data = PreparedData.open(finetuned.config.data)
    assert finetuned.config.finetune is not None
    trainer = Trainer(finetuned.config, finetuned.config.finetune, data, finetuned.run / "other", finetuned.base)
    assert trainer.model.has_context
    assert Translator(trainer.model, base.text, base.beam).translate(DOCUMENT) == base.translate(DOCUMENT)
    split = data.split("train")
    source = [base.special.source(split.source[i].tolist()) for i in range(3)]
    target = [base.special.decoder_input(split.target[i].tolist()) for i in range(3)]
    from tram.data.batches import document_ids

    trainer.model.eval()
    with torch.no_grad():
        found = trainer.model(document_ids([source]), document_ids([target]))
        assert torch.equal(found, base.model(document_ids([source]), document_ids([target])))


def test_the_base_is_bit_equal_after_finetuning_and_the_memory_is_not(finetuned: Finetuned) -> None:
    before = load_tensors(finetuned.base / WEIGHTS)
    after = load_tensors(finetuned.run / "finetune" / "model" / WEIGHTS)
    assert before.keys() < after.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    fresh = Transformer(load_model(finetuned.run).config, before["tokens.weight"].shape[0])
    zero = {name for name, value in fresh.named_parameters() if "output_attention.output" in name and not value.any()}
    assert zero
    assert all(after[name].any() for name in zero)
    assert contents(finetuned.run / "finetune" / "model" / "origin") == contents(finetuned.base / "origin")


def test_an_adapter_on_its_base_is_the_finetuned_model(finetuned: Finetuned, tmp_path: Path, tram: Command) -> None:
    assert tram("export", "adapter", finetuned.run, tmp_path / "adapter", "--precision", "float32").code == 0
    assert set(contents(tmp_path / "adapter")) == {"memory_config.json", "memory.safetensors", "README.md"}
    assert (tmp_path / "adapter" / "README.md").read_text().startswith("---\nbase_model: foreign\n")
    whole = Translator.load(finetuned.run)
    adapted = Translator.load(finetuned.base, adapter=tmp_path / "adapter")
    assert adapted.fingerprint == whole.fingerprint
    assert adapted.translate(DOCUMENT) == whole.translate(DOCUMENT)
    assert tram("export", "tram", finetuned.base, tmp_path / "merged", "--adapter", tmp_path / "adapter").code == 0
    assert Translator.load(tmp_path / "merged").fingerprint == whole.fingerprint
    (tmp_path / "lines.txt").write_text("\n".join(DOCUMENT) + "\n")
    options = ["--lines", "--model", finetuned.base, "--adapter", tmp_path / "adapter"]
    done = tram("translate", tmp_path / "lines.txt", *options)
    assert done.out.splitlines() == whole.translate(DOCUMENT)


def test_an_adapter_can_be_analysed(finetuned: Finetuned, corpus: Corpus, tmp_path: Path, tram: Command) -> None:
    pytest.importorskip("matplotlib")
    export_adapter(finetuned.run, tmp_path / "adapter", dtype=torch.float32)
    adapted = ["--model", finetuned.base, "--adapter", tmp_path / "adapter"]
    found = {}
    for name, options in {"whole": ["--model", finetuned.run], "adapted": adapted}.items():
        done = tram("analyze", "attribution", *corpus.dev, *options, "--bin", 1, "--output", tmp_path / name)
        assert done.code == 0, done.err
        (found[name],) = json.loads((tmp_path / name / "attribution.json").read_text())["models"]
    assert found["adapted"]["model"] == f"{finetuned.base} + {tmp_path / 'adapter'}"
    assert found["adapted"]["scores"] == found["whole"]["scores"]
    refused(
        tram("analyze", "attribution", *corpus.dev, *adapted, "--model", finetuned.run, "--output", tmp_path / "two"),
        "is for one --model",
    )


def test_half_precision_halves_an_adapter(finetuned: Finetuned, tmp_path: Path) -> None:
    for name, dtype in (("half", torch.float16), ("full", torch.float32)):
        export_adapter(finetuned.run, tmp_path / name, dtype=dtype)
    half, full = (load_tensors(tmp_path / name / "memory.safetensors") for name in ("half", "full"))
    assert all(torch.equal(half[name], value.half()) for name, value in full.items())


def test_an_adapter_for_another_base_is_refused(finetuned: Finetuned, tmp_path: Path, tram: Command) -> None:
    export_adapter(finetuned.run, tmp_path / "adapter")
    other = load_model(finetuned.base)
    with torch.no_grad():
        other.tokens.weight[3] += 1
    save_model(other, tmp_path / "other", Translator.load(finetuned.base).text)
    with pytest.raises(InputError, match="is for the base foreign"):
        Translator.load(tmp_path / "other", adapter=tmp_path / "adapter")
    with pytest.raises(InputError, match="has a context module of its own"):
        Translator.load(finetuned.run, adapter=tmp_path / "adapter")
    refused(tram("translate", "--model", finetuned.base, "--adapter", tmp_path / "nothing"), "is not an adapter")
    (tmp_path / "adapter" / "memory.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"memory\.safetensors: is truncated"):
        Translator.load(finetuned.base, adapter=tmp_path / "adapter")


def test_an_int8_model_is_no_base_and_no_start(finetuned: Finetuned, tmp_path: Path, tram: Command) -> None:
    export_adapter(finetuned.run, tmp_path / "adapter")
    save_int8(load_model(finetuned.base), tmp_path / "rounded", Translator.load(finetuned.base).text)
    save_int8(load_model(finetuned.run), tmp_path / "whole", Translator.load(finetuned.run).text)
    problem = "rounded: has int8 weights"
    with pytest.raises(InputError, match=problem):
        Translator.load(tmp_path / "rounded", adapter=tmp_path / "adapter")
    refused(
        tram("export", "adapter", finetuned.run, tmp_path / "out", "--base", tmp_path / "rounded"), problem, "float32"
    )
    refused(tram("export", "adapter", tmp_path / "whole", tmp_path / "out"), "whole: has int8 weights")
    write_yaml(tmp_path / "config.yaml", finetuned.config)
    start = f"finetune.start={tmp_path / 'rounded'}"
    refused(tram("train", tmp_path / "config.yaml", f"output={tmp_path / 'run'}", start), problem)
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "out").exists()


def test_a_model_whose_base_was_trained_too_is_no_adapter(finetuned: Finetuned, tmp_path: Path) -> None:
    config = finetuned.config.model_copy(update={"output": tmp_path / "run"})
    assert config.finetune is not None
    config = config.model_copy(update={"finetune": config.finetune.model_copy(update={"freeze": "none"})})
    train(config)
    with pytest.raises(InputError, match=r"finetune\.freeze: base"):
        export_adapter(tmp_path / "run", tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()
    after, before = (load_tensors(folder / WEIGHTS) for folder in (tmp_path / "run/finetune/model", finetuned.base))
    assert torch.equal(after["bias"], before["bias"]), "a bias that was never trained is not trained here"
    assert not torch.equal(after["tokens.weight"], before["tokens.weight"])

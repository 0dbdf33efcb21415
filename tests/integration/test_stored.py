"""Files written by earlier versions keep loading, and give what they gave then.

tests/stored/VERSION holds a model folder, a document state, prepared data and an interrupted run, and `expected.json`
with what that version computed from them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tram import DocumentState, Translator
from tram.config import Config
from tram.data.arrays import PreparedData
from tram.model.folder import load_model, weights
from tram.training.run import train

STORED = Path(__file__).parents[1] / "stored"
versions = pytest.mark.parametrize("folder", sorted(STORED.iterdir()), ids=lambda folder: folder.name)


def expected(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "expected.json").read_text(encoding="utf-8")))


@versions
def test_a_stored_model_translates_as_it_did(folder: Path) -> None:
    wanted = expected(folder)
    translator = Translator.load(folder / "model", beam=3)
    assert translator.translate(wanted["document"][:3]) == wanted["first"]
    assert translator.fingerprint == wanted["fingerprint"]


@versions
def test_a_stored_model_computes_the_same_logits(folder: Path) -> None:
    wanted = expected(folder)
    model = load_model(folder / "model")
    with torch.no_grad():
        logits = model(torch.tensor(wanted["source"]), torch.tensor(wanted["target"]))
    assert logits.double().sum().item() == pytest.approx(wanted["logits_sum"], rel=1e-5)
    assert logits[0, 1, 3, :8].tolist() == pytest.approx(wanted["logits_head"], abs=1e-5)


@versions
def test_a_stored_state_continues_its_document(folder: Path) -> None:
    wanted = expected(folder)
    state = DocumentState.load(folder / "state.safetensors")
    assert Translator.load(folder / "model", beam=3).translate(wanted["document"][3:], state) == wanted["rest"]


@versions
def test_a_stored_run_is_resumed_to_the_same_weights(folder: Path, tmp_path: Path) -> None:
    """Interrupted after three of eight updates of the second stage, with Muon's momenta under way.

    The rest is without dropout: its random numbers may be drawn in another order.
    """
    run = tmp_path / "stored"
    shutil.copytree(folder, run)
    overrides = [f"data={run / 'prepared'}", f"output={run / 'run'}", "train.updates=10", "finetune.updates=8"]
    model = load_model(train(Config.load(run / "run" / "config.yaml", overrides)))
    found = {name: value.double().sum().item() for name, value in weights(model).items()}
    for name, value in expected(folder)["sums"].items():
        if name not in found:  # version 1 had one projection
            parts = [name.replace("projection", part) for part in ("query", "key_value")]
            found[name] = sum(found[part] for part in parts)
        assert found[name] == pytest.approx(value, abs=1e-3), name


@versions
def test_stored_prepared_data_is_read(folder: Path) -> None:
    data = PreparedData.open(folder / "prepared")
    train_split = data.split("train")
    assert data.vocabulary == expected(folder)["vocabulary"]
    assert train_split.usable.all()
    assert len(train_split.source) == data.splits["train"]["sentences"]

"""A context module of any kind has a place in an int8 folder, which computes what the rounded model computes."""

from pathlib import Path

import pytest
import torch

from context_kinds import CONTEXTS
from helpers import START, random_ids, tiny_config, tiny_model
from tram.model.folder import fingerprint, load_model, save_int8
from tram.model.quantised import is_quantised, quantise


@pytest.mark.parametrize("name", CONTEXTS)
@torch.no_grad()
def test_an_int8_folder_is_the_rounded_model(name: str, tmp_path: Path) -> None:
    rounded = tiny_model(tiny_config(**CONTEXTS[name])).float()
    save_int8(rounded, tmp_path / "int8")
    quantise(rounded)
    found = load_model(tmp_path / "int8")
    assert is_quantised(found)
    assert fingerprint(found) == fingerprint(rounded)
    source, target = random_ids([[4, 3, 6]], 1), random_ids([[3, 5, 2]], 2, first=START)
    assert torch.equal(found(source, target), rounded(source, target))

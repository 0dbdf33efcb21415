"""A context module of any kind is an adapter for the sentence model below it."""

from pathlib import Path

import pytest
import torch

from context_kinds import CONTEXTS
from helpers import START, VOCABULARY, random_ids, tiny_config, tiny_model
from tram.errors import InputError
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.pretrained.adapters import context_names, export_adapter, load_with_adapter


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_an_adapter_on_its_base_is_the_whole_model(name: str, positions: str, tmp_path: Path) -> None:
    settings = {"positions": positions, **CONTEXTS[name]}
    whole = tiny_model(tiny_config(**settings)).float()
    base = Transformer(whole.config.without_context(), VOCABULARY)
    missing = base.load_state_dict(whole.state_dict(), strict=False).missing_keys
    save_model(whole, tmp_path / "whole")
    save_model(base, tmp_path / "base")
    if missing:  # positions of tokens: this kind has positions of its own
        assert positions == "learned"
        with pytest.raises(InputError, match=r"replaces `.*positions` of the base"):
            export_adapter(tmp_path / "whole", tmp_path / "adapter", tmp_path / "base")
        return
    export_adapter(tmp_path / "whole", tmp_path / "adapter", tmp_path / "base", torch.float32)
    found = load_with_adapter(tmp_path / "base", tmp_path / "adapter")
    assert found.config == whole.config
    assert context_names(found)
    source, target = random_ids([[4, 3, 6]], 1), random_ids([[3, 5, 2]], 2, first=START)
    with torch.no_grad():
        assert torch.equal(found(source, target), whole.eval()(source, target))

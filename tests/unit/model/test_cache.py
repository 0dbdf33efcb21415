"""What decoding keeps: the input of the context modules grows without being copied at every token."""

import pytest
import torch

from tram.model.cache import DecodingCache
from tram.model.state import State


@pytest.mark.parametrize("beam", [1, 3])
def test_the_update_input_is_copied_only_when_its_room_doubles(beam: int) -> None:
    cache = DecodingCache([], [], State.empty(), {})
    places = set()
    steps = torch.randn(500, 2, beam, 4)
    for inputs in steps:
        cache.record("unit", inputs)
        cache.slots += beam
        places.add((cache.update_inputs["unit"].data_ptr(), cache.update_inputs["unit"].shape))
    assert torch.equal(cache.update_inputs["unit"][:, : cache.slots], torch.cat(list(steps), dim=1))
    assert len(places) < 15, "500 steps need as many copies as 500 can be halved"

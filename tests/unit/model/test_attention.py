"""Attention by plain products, which training in bfloat16 on a CPU uses, is attention by the fused kernel."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers import random_ids, tiny_config, tiny_model
from tram.model.attention import unfused_attention


def masks(kind: str, queries: int, keys: int) -> Tensor | None:
    """Return a mask in which every query sees a key."""
    seen = torch.rand(2, 1, queries, keys, generator=torch.Generator().manual_seed(1)) < 0.5
    seen[..., 0] = True
    return {"none": None, "boolean": seen, "bias": torch.where(seen, 0.3, -torch.inf)}[kind]


@pytest.mark.parametrize("kind", ["none", "boolean", "bias", "causal"])
def test_value_and_gradients_are_those_of_the_fused_kernel(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    keys = 5 if kind == "causal" else 7
    q, k, v = (torch.randn(2, 3, n, 4, generator=generator, requires_grad=True) for n in (5, keys, keys))
    arguments = {"is_causal": True} if kind == "causal" else {"attn_mask": masks(kind, 5, keys)}
    found = unfused_attention(q, k, v, **arguments)
    expected = F.scaled_dot_product_attention(q, k, v, **arguments)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, generator=generator)
    for one, other in zip(*(torch.autograd.grad(x, (q, k, v), weights) for x in (found, expected)), strict=True):
        torch.testing.assert_close(one, other)


def test_training_in_bfloat16_comes_near_float32() -> None:
    model = tiny_model(tiny_config(memory={"slots": 3, "side": "both"})).float()
    source, target = random_ids([[5, 3], [4, 6]]), random_ids([[4, 5], [2, 3]], seed=1)

    def gradients(half: bool) -> Tensor:
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            model(source, target).float().square().mean().backward()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    exact, near = gradients(False), gradients(True)
    assert not torch.equal(exact, near)
    assert F.cosine_similarity(exact, near, dim=0) > 0.99

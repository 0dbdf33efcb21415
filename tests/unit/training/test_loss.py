"""The chunked cross-entropy is PyTorch's own in value and gradients, without ever holding all logits."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import few
from tram.training.loss import _linear, cross_entropy

CHUNKS = [1, 7, 512]


def case(
    tokens: int, width: int = 5, vocabulary: int = 11, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, weight, bias and labels."""
    draw = torch.Generator().manual_seed(seed)
    states, weight, bias = (
        torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((tokens, width), (vocabulary, width), (vocabulary,))
    )
    return states, weight, bias, torch.randint(vocabulary, (tokens,), generator=draw)


def expected(states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(F.linear(states, weight, bias), labels, reduction="sum", label_smoothing=smoothing)


def close(one: Tensor | None, other: Tensor | None, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("biased", [True, False])
def test_value_and_gradients_are_those_of_pytorch(chunk: int, smoothing: float, biased: bool) -> None:
    states, weight, bias, labels = case(20)
    inputs = (states, weight, bias) if biased else (states, weight)
    loss, plain = cross_entropy(states, weight, bias if biased else None, labels, smoothing, chunk)
    reference = expected(states, weight, bias if biased else None, labels, smoothing)
    close(loss, reference)
    close(plain, expected(states, weight, bias if biased else None, labels, 0.0))
    found = torch.autograd.grad(loss / 3, inputs)  # a factor, as gradient accumulation has it
    for one, other in zip(found, torch.autograd.grad(reference / 3, inputs), strict=True):
        close(one, other)


@given(tokens=st.integers(0, 40), chunk=st.integers(1, 50), smoothing=st.floats(0, 0.9), seed=st.integers(0, 999))
@few
def test_the_chunk_changes_nothing(tokens: int, chunk: int, smoothing: float, seed: int) -> None:
    states, weight, bias, labels = case(tokens, seed=seed)
    results = []
    for size in (chunk, 512):
        loss, plain = cross_entropy(states, weight, bias, labels, smoothing, size)
        results.append([loss, plain, *torch.autograd.grad(loss, (states, weight, bias))])
    for one, other in zip(*results, strict=True):
        close(one, other, 1e-10)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_of_tokens_weigh_the_loss_and_its_gradients_but_not_the_plain_loss(
    chunk: int, smoothing: float
) -> None:
    states, weight, bias, labels = case(20)
    shares = torch.rand(20, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    loss, plain = cross_entropy(states, weight, bias, labels, smoothing, chunk, shares)
    single = F.cross_entropy(F.linear(states, weight, bias), labels, reduction="none", label_smoothing=smoothing)
    reference = (single * shares).sum()
    close(loss, reference)
    close(plain, expected(states, weight, bias, labels, 0.0))
    inputs = (states, weight, bias)
    for one, other in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(reference, inputs), strict=True):
        close(one, other)


def test_labels_that_no_logit_favours_cost_the_logarithm_of_the_vocabulary() -> None:
    states, weight, _, labels = case(6)
    loss, plain = cross_entropy(torch.zeros_like(states), weight, None, labels, smoothing=0.3, chunk=4)
    close(plain, 6 * torch.tensor(11.0, dtype=torch.float64).log())
    close(loss, plain)


def test_large_logits_give_no_infinities() -> None:
    states, weight, bias, labels = case(9)
    loss, plain = cross_entropy(states * 1e6, weight, bias, labels, 0.1, 4)
    assert loss.isfinite()
    assert plain.isfinite()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, (states, weight, bias)))


def test_without_gradients_the_values_are_the_same() -> None:
    states, weight, bias, labels = case(20)
    with_gradients = cross_entropy(states, weight, bias, labels, 0.1, 7)
    with torch.no_grad():
        without = cross_entropy(states, weight, bias, labels, 0.1, 7)
    for one, other in zip(without, with_gradients, strict=True):
        close(one, other.detach())
        assert not one.requires_grad


def test_the_plain_loss_carries_no_gradient() -> None:
    loss, plain = cross_entropy(*case(4), 0.1)
    assert loss.requires_grad
    assert not plain.requires_grad


@pytest.mark.parametrize("frozen", [0, 1])
def test_a_frozen_input_gets_no_gradient_and_the_others_theirs(frozen: int) -> None:
    states, weight, bias, labels = case(20)
    (states, weight)[frozen].requires_grad_(False)
    cross_entropy(states, weight, bias, labels, 0.1, 7)[0].backward()
    found = [states.grad, weight.grad, bias.grad]
    assert found[frozen] is None
    trained = [tensor for i, tensor in enumerate((states, weight, bias)) if i != frozen]
    reference = torch.autograd.grad(expected(states, weight, bias, labels, 0.1), trained)
    for one, other in zip([gradient for i, gradient in enumerate(found) if i != frozen], reference, strict=True):
        close(one, other)


def test_half_precision_states_with_full_precision_weights_come_near() -> None:
    states, weight, bias, labels = case(60, width=16, dtype=torch.float32)
    reference = expected(states, weight, bias, labels, 0.1)
    exact = torch.autograd.grad(reference, (states, weight, bias))
    half = states.detach().bfloat16().requires_grad_()
    loss, plain = cross_entropy(half, weight, bias, labels, 0.1, 7)
    assert loss.dtype == plain.dtype == torch.float32
    torch.testing.assert_close(loss, reference, rtol=0.02, atol=0)
    found = torch.autograd.grad(loss, (half, weight, bias))
    assert [gradient.dtype for gradient in found] == [torch.bfloat16, torch.float32, torch.float32]
    for one, other in zip(found, exact, strict=True):
        assert (one.float() - other).norm() < 0.03 * other.norm()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_no_more_logits_than_a_chunk_stand_in_memory(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    rooms: set[int] = set()

    def spy(states: Tensor, *others: Any) -> Tensor:
        rows.append(len(states))
        rooms.add(others[-1].untyped_storage().data_ptr())
        return _linear(states, *others)

    monkeypatch.setattr("tram.training.loss._linear", spy)
    states, weight, bias, labels = case(20)
    loss, _ = cross_entropy(states, weight, bias, labels, 0.1, chunk)
    loss.backward()
    assert sum(rows) == 20, "every token's logits are formed once"
    assert max(rows) <= chunk
    assert len(rooms) == 1, "all chunks use the same memory"


class Products(TorchDispatchMode):
    """The dtypes of the operands of all matrix products inside the block."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(name in str(function) for name in ("aten.mm", "aten.addmm", "aten.linear", "aten.matmul")):
            self.dtypes |= {argument.dtype for argument in args[-2:]}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shares", [None, 1e-6])
def test_under_autocast_all_products_are_in_half_precision_and_come_near(
    dtype: torch.dtype, shares: float | None
) -> None:
    """Gradients too, and with token weights so small that float16 alone would lose them."""
    states, weight, bias, labels = case(600, width=16, vocabulary=900, dtype=torch.float32)
    share = None if shares is None else torch.full((600,), shares)
    factor = 1.0 if shares is None else shares
    exact = torch.autograd.grad(expected(states, weight, bias, labels, 0.1) * factor, (states, weight, bias))
    with Products() as products, torch.autocast("cpu", dtype):
        loss, _ = cross_entropy(states, weight, bias, labels, 0.1, 512, share)
    loss.backward()
    assert products.dtypes == {dtype}
    for one, other in zip((states.grad, weight.grad, bias.grad), exact, strict=True):
        assert one is not None
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


def test_the_gradient_of_half_precision_states_survives_a_loss_scaler() -> None:
    """The scale of a loss scaler is beyond the range of float16."""
    states, weight, bias, labels = case(20, dtype=torch.float32)
    half = states.detach().half().requires_grad_()
    share = torch.full((20,), 1e-5)
    loss, _ = cross_entropy(half, weight, bias, labels, 0.0, 512, share)
    (loss * 2.0**17).backward()
    (exact,) = torch.autograd.grad(expected(states, weight, bias, labels, 0.0) * 1e-5 * 2**17, (states,))
    assert half.grad is not None
    assert (half.grad.float() - exact).norm() < 0.02 * exact.norm()

"""Cross-entropy of a tied output layer in chunks, so that the logits of a large batch are never in memory at once.

Gradients are computed in the same pass as the loss, chunk by chunk, so that nothing is computed twice: only one state
gradient (tokens, d_model) and one weight gradient (vocabulary, d_model) are stored.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.model.tensors import product_dtype

ALIGNMENT = 16  # float32 numbers in a cache line


def cross_entropy(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    smoothing: float = 0.0,
    chunk: int = 512,
    token_weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss summed over all tokens: smoothed and weighted (to optimise), and plain (to report).

    states: (tokens, d_model); weight: (vocabulary, d_model); bias: (vocabulary) or None; labels: (tokens);
    token_weights: (tokens) or None for 1. Only the first of the two sums carries gradients.
    """
    learn = torch.is_grad_enabled()
    loss, plain = _ChunkedCrossEntropy.apply(states, weight, bias, labels, smoothing, chunk, token_weights, learn)
    return loss, plain


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        chunk: int,
        token_weights: Tensor | None,
        learn: bool,
    ) -> tuple[Tensor, Tensor]:
        needs_states, needs_weight, needs_bias = (learn and needed for needed in ctx.needs_input_grad[:3])
        accurate = torch.promote_types(states.dtype, torch.float32)
        product = product_dtype(states)
        loss = states.new_zeros((), dtype=accurate)
        plain = states.new_zeros((), dtype=accurate)
        d_states = torch.empty_like(states, dtype=accurate) if needs_states else None
        new_weight = torch.empty_like if weight.dtype == product and len(states) else torch.zeros_like
        d_weight = new_weight(weight) if needs_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and needs_bias else None
        weight_now = weight.to(product)
        wide_weight = _aligned(weight_now)
        wide_bias = None if bias is None else _aligned(bias.to(product))
        boost = _boost(product, token_weights)
        # One buffer for the logits of all chunks: allocating it takes as long as filling it
        buffer = states.new_empty((min(chunk, len(states)), len(wide_weight)), dtype=product)
        with torch.autocast(states.device.type, enabled=False):  # `product` is the dtype that autocast would choose
            for start in range(0, len(states), chunk):
                part, gold = states[start : start + chunk].to(product), labels[start : start + chunk, None]
                share = None if token_weights is None else token_weights[start : start + chunk].to(accurate)
                logits = _linear(part, wide_weight, wide_bias, buffer[: len(part)])[:, : len(weight)].to(accurate)
                right, mean, largest = logits.gather(-1, gold).squeeze(-1), logits.mean(-1), logits.amax(-1)
                probabilities = torch.softmax(logits, -1, out=logits)
                # The largest logit has the probability exp(0) / Σ exp(logit − largest)
                normaliser = largest - probabilities.amax(-1).log()
                negative = normaliser - right
                plain += negative.sum()
                if smoothing:
                    negative = (1 - smoothing) * negative + smoothing * (normaliser - mean)
                loss += negative.sum() if share is None else (negative * share).sum()
                if not (needs_states or needs_weight or needs_bias):
                    continue
                gradient = _logit_gradient(probabilities, gold, smoothing)
                if share is not None:
                    gradient *= share[:, None]
                if d_bias is not None:
                    d_bias += gradient.sum(0).to(d_bias.dtype)
                gradient = (gradient if boost == 1 else gradient.mul_(boost)).to(product)
                if d_states is not None:
                    d_states[start : start + chunk] = gradient @ weight_now
                if d_weight is not None and d_weight.dtype == product:
                    d_weight.addmm_(gradient.T, part, beta=1 if start else 0, alpha=1 / boost)
                elif d_weight is not None:
                    d_weight.add_((gradient.T @ part).to(d_weight.dtype), alpha=1 / boost)
        ctx.gradients = (None if d_states is None else d_states.div_(boost), d_weight, d_bias)
        ctx.dtype = states.dtype
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx: Any, *outer: Tensor | None) -> Any:
        scale = outer[0]
        assert scale is not None
        d_states, d_weight, d_bias = (
            None if gradient is None else gradient.mul_(scale.to(gradient.dtype)) for gradient in ctx.gradients
        )
        ctx.gradients = None  # the buffers are passed on, so there can be no second backward pass
        return None if d_states is None else d_states.to(ctx.dtype), d_weight, d_bias, None, None, None, None, None


def _aligned(rows: Tensor) -> Tensor:
    """Pad the weight or bias of an output layer with rows, so that rows of logits are aligned with cache lines.

    With 8,577 words the product takes 1.6 times as long as with 8,592.
    """
    missing = -len(rows) % ALIGNMENT
    return F.pad(rows, (0, 0) * (rows.ndim - 1) + (0, missing)) if missing else rows


def _boost(product: torch.dtype, token_weights: Tensor | None) -> float:
    """Return a factor that keeps the gradients of logits inside the narrow range of float16; 1 for other dtypes.

    The loss scaler does not help here, because these gradients are computed before it multiplies the loss. With a
    factor of 16, products over a chunk of 512 tokens do not overflow, and probabilities below 1e-8 underflow.
    """
    if product != torch.float16:
        return 1.0
    largest = 1.0 if token_weights is None or not len(token_weights) else float(token_weights.abs().max())
    return 16 / max(largest, torch.finfo(torch.float32).tiny)


def _linear(states: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Return the logits of some states, written into `out`: (tokens, vocabulary)."""
    if bias is None:
        return torch.mm(states, weight.T, out=out)
    return torch.addmm(bias, states, weight.T, out=out)


def _logit_gradient(probabilities: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Return d loss / d logits = softmax − (1 − ε) one-hot − ε / vocabulary, computed in place.

    probabilities: (tokens, vocabulary); gold: (tokens, 1).
    """
    if smoothing:
        probabilities -= smoothing / probabilities.shape[-1]
    return probabilities.scatter_add_(-1, gold, torch.full_like(gold, smoothing - 1, dtype=probabilities.dtype))

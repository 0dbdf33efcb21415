"""Cross-entropy of a tied output layer, in chunks: the logits of a large batch are never in memory at once.

Gradients are computed in the same pass as the loss, chunk by chunk, so that nothing is stored or computed twice: what
is saved is one state gradient (tokens, d_model) and one weight gradient (vocabulary, d_model).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


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
        vocabulary = weight.shape[0]
        needs_states, needs_weight, needs_bias = (learn and needed for needed in ctx.needs_input_grad[:3])
        accurate = torch.promote_types(states.dtype, torch.float32)
        loss = states.new_zeros((), dtype=accurate)
        plain = states.new_zeros((), dtype=accurate)
        d_states = torch.empty_like(states) if needs_states else None
        d_weight = torch.zeros_like(weight) if needs_weight else None
        d_bias = torch.zeros_like(bias) if bias is not None and needs_bias else None
        weight_now = weight.to(states.dtype)
        bias_now = None if bias is None else bias.to(states.dtype)
        for start in range(0, len(states), chunk):
            part, gold = states[start : start + chunk], labels[start : start + chunk, None]
            logits = F.linear(part, weight_now, bias_now).to(accurate)
            normaliser = logits.logsumexp(-1)
            negative = normaliser - logits.gather(-1, gold).squeeze(-1)
            plain += negative.sum()
            if smoothing:
                negative = (1 - smoothing) * negative + smoothing * (normaliser - logits.mean(-1))
            share = None if token_weights is None else token_weights[start : start + chunk].to(accurate)
            # Not `negative @ share`: autocast would compute that in half precision
            loss += negative.sum() if share is None else (negative * share).sum()
            if not (needs_states or needs_weight or needs_bias):
                continue
            # d loss / d logits = softmax − (1 − ε) one-hot − ε / vocabulary
            gradient = logits.sub_(normaliser[:, None]).exp_()
            if smoothing:
                gradient -= smoothing / vocabulary
            gradient.scatter_add_(-1, gold, torch.full_like(gold, 1, dtype=accurate) * (smoothing - 1))
            if share is not None:
                gradient *= share[:, None]
            gradient = gradient.to(states.dtype)
            if d_states is not None:
                torch.mm(gradient, weight_now, out=d_states[start : start + chunk])
            if d_weight is not None:
                if d_weight.dtype == gradient.dtype:
                    d_weight.addmm_(gradient.T, part)
                else:
                    d_weight += (gradient.T @ part).to(d_weight.dtype)
            if d_bias is not None:
                d_bias += gradient.sum(0).to(d_bias.dtype)
        ctx.gradients = (d_states, d_weight, d_bias)
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx: Any, *outer: Tensor | None) -> Any:
        scale = outer[0]
        assert scale is not None
        d_states, d_weight, d_bias = (
            None if gradient is None else gradient.mul_(scale.to(gradient.dtype)) for gradient in ctx.gradients
        )
        ctx.gradients = None  # the buffers are handed over: a second backward pass would find nothing
        return d_states, d_weight, d_bias, None, None, None, None, None

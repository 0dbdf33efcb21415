"""The optimiser: the schedule of the learning rate, and Muon's orthogonal steps beside AdamW's."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tram.config import FinetuneConfig, ModelConfig, TrainConfig
from tram.model.transformer import Transformer
from tram.training.optimizers import (
    Muon,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
    orthogonal,
    rate_factor,
    set_rate,
)

# The learning rate.


@given(st.integers(1, 1000), st.integers(1, 10_000))
def test_the_rate_rises_in_a_line_and_falls_with_the_inverse_square_root(warmup: int, update: int) -> None:
    config = TrainConfig(warmup=warmup)
    expected = update / warmup if update <= warmup else (warmup / update) ** 0.5
    assert rate_factor(update, config) == pytest.approx(expected, rel=1e-12)
    assert rate_factor(warmup, config) == 1.0
    assert rate_factor(4 * warmup, config) == 0.5


def test_without_warm_up_the_first_update_has_the_peak() -> None:
    assert rate_factor(1, TrainConfig(warmup=0)) == 1.0
    assert rate_factor(4, TrainConfig(warmup=0)) == 0.5


def test_a_constant_rate_stays_until_the_cooldown_takes_it_down_in_a_line() -> None:
    config = TrainConfig(warmup=2, schedule="constant", updates=10, cooldown=3)
    rates = [rate_factor(update, config) for update in range(1, 11)]
    assert rates == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 80), st.sampled_from(["constant", "inverse-sqrt"]))
def test_every_update_has_some_rate_and_none_is_above_the_peak(
    updates: int, warmup: int, cooldown: int, schedule: str
) -> None:
    config = TrainConfig.model_validate(
        {"warmup": warmup, "schedule": schedule, "updates": updates, "cooldown": cooldown}
    )
    assert all(0 < rate_factor(update, config) <= 1 for update in range(1, updates + 1))


def test_every_group_follows_the_schedule_from_its_own_peak() -> None:
    groups = [{"params": [torch.nn.Parameter(torch.ones(2))], "peak": peak} for peak in (0.5, 2.0)]
    optimizer = torch.optim.AdamW(groups)
    assert set_rate(optimizer, 5, TrainConfig(warmup=10)) == pytest.approx(0.25)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.25, 1.0])


# Muon.


def small_model() -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "heads": 2, "feed_forward": 32, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig.model_validate(sizes)
    return Transformer(config, 30)


def with_gradients(model: Transformer) -> dict[str, Tensor]:
    """Give every parameter a random gradient; the values before the step."""
    torch.manual_seed(2)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def steps(optimizer: str, **settings: float) -> dict[str, Tensor]:
    """How far the first update moves every parameter."""
    model = small_model()
    before = with_gradients(model)
    make_optimizer(model, TrainConfig.model_validate({"optimizer": optimizer, "lr": 0.01, **settings})).step()
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("shape", [(8, 8), (5, 20), (20, 5)])
def test_orthogonal_keeps_the_directions_and_levels_the_singular_values(shape: tuple[int, int]) -> None:
    torch.manual_seed(3)
    U, _ = torch.linalg.qr(torch.randn(3, shape[0], min(shape)))
    V, _ = torch.linalg.qr(torch.randn(3, shape[1], min(shape)))
    S = torch.linspace(1.0, 0.2, min(shape)).expand(3, -1)
    levelled = U.mT @ orthogonal(U * S[:, None] @ V.mT) @ V
    diagonal = levelled.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(levelled, torch.diag_embed(diagonal), atol=1e-4, rtol=0)
    assert ((diagonal > 0.6) & (diagonal < 1.3)).all()


def test_a_gradient_of_zero_moves_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 4, 6)).any()


@pytest.mark.parametrize("shape", [(3, 6, 6), (2, 5, 8), (2, 4, 16), (3, 16, 4), (1, 1, 9)])
def test_orthogonal_is_five_steps_of_newton_and_schulz(shape: tuple[int, int, int]) -> None:
    """Whatever order its products are computed in; the sum below is the definition."""
    given = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for matrix, found in zip(given, orthogonal(given), strict=True):
        X = matrix / matrix.norm()
        for _ in range(5):
            X = 3.4445 * X - 4.7750 * X @ X.T @ X + 2.0315 * X @ X.T @ X @ X.T @ X
        torch.testing.assert_close(found, X, rtol=1e-9, atol=1e-9)


def test_matrices_inside_the_layers_take_orthogonal_steps_as_long_as_adamw_would() -> None:
    moved = steps("muon")
    for name in (
        "encoder.layers.0.feed_forward.inner.weight",
        "decoder.layers.0.cross_attention.attention.output.weight",
    ):
        values = torch.linalg.svdvals(moved[name]) / (0.2 * max(moved[name].shape) ** 0.5 * 0.01)
        assert ((values > 0.5) & (values < 1.4)).all()
        assert 0.1 < moved[name].square().mean().sqrt() / 0.01 < 0.4  # AdamW's updates usually have 0.2 to 0.4


def test_query_key_and_value_are_matrices_of_their_own() -> None:
    moved, attention = steps("muon"), "encoder.layers.0.self_attention.attention"
    for part in (moved[f"{attention}.query.weight"], *moved[f"{attention}.key_value.weight"].chunk(2)):
        values = torch.linalg.svdvals(part) / (0.2 * 16**0.5 * 0.01)
        assert ((values > 0.5) & (values < 1.4)).all()


def test_embeddings_norms_and_biases_take_adamw_steps() -> None:
    muon, adamw = steps("muon"), steps("adamw")
    others = [name for name in muon if not ("layers." in name and name.endswith(".weight") and muon[name].ndim == 2)]
    assert {"tokens.weight", "encoder.embeddings.positions", "decoder.layers.0.residual.norm.weight"} <= set(others)
    assert all(torch.equal(muon[name], adamw[name]) for name in others)


def test_weight_decay_pulls_every_matrix_towards_zero() -> None:
    name = "encoder.layers.0.feed_forward.outer.weight"
    before = small_model().get_parameter(name).detach()
    pulled = steps("muon", weight_decay=0.5)[name] - steps("muon")[name]
    torch.testing.assert_close(pulled, -0.01 * 0.5 * before, atol=1e-7, rtol=1e-4)


def test_new_matrices_step_at_their_own_rate() -> None:
    model = small_model()
    name = "encoder.layers.0.feed_forward.inner.weight"
    before = with_gradients(model)[name]
    config = FinetuneConfig(optimizer="muon", lr=0.01, lr_new=0.03, warmup=0)
    optimizer = make_optimizer(model, config, {name})
    set_rate(optimizer, 1, config)
    optimizer.step()
    torch.testing.assert_close(model.get_parameter(name).detach() - before, 3 * steps("muon")[name])


def test_muon_goes_on_from_its_saved_state_as_if_never_stopped() -> None:
    models = small_model(), small_model()
    optimizers = [make_optimizer(model, TrainConfig(optimizer="muon")) for model in models]
    for model, optimizer in zip(models, optimizers, strict=True):
        with_gradients(model)
        optimizer.step()
    fresh = make_optimizer(models[1], TrainConfig(optimizer="muon"))
    assert isinstance(fresh, Muon)
    load_optimizer_tensors(fresh, {name: value.clone() for name, value in optimizer_tensors(optimizers[1]).items()})
    for model, optimizer in zip(models, (optimizers[0], fresh), strict=True):
        with_gradients(model)
        optimizer.step()
    for left, right in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("key", ["step", "exp_avg_sq"])
def test_a_negative_count_or_mean_of_squares_is_no_state(kind: str, key: str) -> None:
    """The next step would make the weights NaN, and the training would be called diverged."""
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig.model_validate({"optimizer": kind}))
    with_gradients(model)
    optimizer.step()
    state = {name: value.clone() for name, value in optimizer_tensors(optimizer).items()}
    next(value for name, value in state.items() if name.endswith(f"/{key}")).view(-1)[0] = -1.0
    with pytest.raises(ValueError, match=f"/{key}` is negative"):
        load_optimizer_tensors(optimizer, state)


def scaled_step(model: Transformer, optimizer: torch.optim.Optimizer, overflow: bool, unscale: bool) -> None:
    """Make an update with a gradient scaler, as float16 needs it; `overflow` makes one gradient infinite."""
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    torch.manual_seed(2)
    loss = sum((parameter * torch.randn_like(parameter)).sum() for parameter in model.parameters())
    scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
    if overflow:
        model.get_parameter("encoder.layers.0.feed_forward.inner.weight").grad[1, 2] = torch.inf  # type: ignore[index]
    if unscale:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)


@pytest.mark.parametrize("unscale", [True, False])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_overflowed_step_is_skipped(kind: str, unscale: bool) -> None:
    """Weights, momenta and counts stay as they were."""
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig.model_validate({"optimizer": kind, "weight_decay": 0.1}))
    with_gradients(model)
    optimizer.step()
    optimizer.zero_grad()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = {name: value.clone() for name, value in optimizer_tensors(optimizer).items()}
    scaled_step(model, optimizer, overflow=True, unscale=unscale)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(value, state[name]) for name, value in optimizer_tensors(optimizer).items())


@pytest.mark.parametrize("unscale", [True, False])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_scaled_step_is_the_plain_one(kind: str, unscale: bool) -> None:
    """Whether the gradients were divided by the scale before, or the step has to do it."""
    moved, settings = steps(kind), TrainConfig.model_validate({"optimizer": kind, "lr": 0.01})
    model = small_model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, settings)
    scaled_step(model, optimizer, overflow=False, unscale=unscale)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach() - before[name], moved[name])

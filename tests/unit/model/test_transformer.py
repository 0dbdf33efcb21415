"""The Transformer: a sentence's logits are its own, and they are those of BART, Marian and mBART in `transformers`."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers import START, VOCABULARY, random_ids, shake, tiny_config, tiny_model
from tram.model.layers import Residual
from tram.model.positions import sinusoids
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD

# Sentences long and short, so that several blocks are needed, and an empty one.
SOURCE = [[5, 21, 0], [14, 1, 3]]
TARGET = [[20, 7, 0], [2, 1, 13]]

SETTINGS = [
    {"norm": norm, "positions": positions, "activation": activation, **embedding, **depth}
    for norm, positions, activation, (embedding, depth) in itertools.product(
        ("post", "pre"),
        ("learned", "sinusoidal"),
        ("relu", "gelu", "swish"),
        (
            ({"embedding_norm": True, "embedding_scale": False}, {"encoder_layers": 1, "decoder_layers": 3}),
            ({"embedding_norm": False, "embedding_scale": True}, {"encoder_layers": 3, "decoder_layers": 1}),
            ({"embedding_norm": True, "embedding_scale": True}, {"position_offset": 2, "output_bias": True}),
            ({"embedding_norm": False, "embedding_scale": False}, {}),
        ),
    )
]
SOME = [SETTINGS[i] for i in (0, 7, 18, 31, 41)]


def name(settings: dict[str, Any]) -> str:
    return "-".join(key if value is True else str(value) for key, value in settings.items() if value is not False)


def batch(padding: int = 0) -> tuple[Tensor, Tensor]:
    return random_ids(SOURCE, 1, padding=padding), random_ids(TARGET, 2, first=START, padding=padding)


def alone(ids: Tensor, document: int, sentence: int) -> Tensor:
    """One sentence as a batch of its own, without padding."""
    row = ids[document, sentence]
    return row[row != PAD][None, None]


def places() -> list[tuple[int, int]]:
    """Documents and numbers of the sentences that have tokens."""
    return [(i, j) for i, document in enumerate(TARGET) for j, n in enumerate(document) if n]


def close(one: Tensor, other: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@torch.no_grad()
@pytest.mark.parametrize("settings", SETTINGS, ids=name)
def test_padding_neighbours_and_place_do_not_change_a_sentence(settings: dict[str, Any]) -> None:
    model = tiny_model(tiny_config(**settings))
    source, target = batch(padding=2)
    logits = model(source, target)
    assert logits.shape == (*target.shape, VOCABULARY)
    assert not logits[target == PAD].any()
    for i, j in places():
        own = model(alone(source, i, j), alone(target, i, j))[0, 0]
        close(logits[i, j, : len(own)], own)
    # The same sentences as one document, and in another order
    order = torch.tensor([4, 0, 2, 5, 1, 3])
    moved = model(source.flatten(0, 1)[order][None], target.flatten(0, 1)[order][None])
    close(moved[0], logits.flatten(0, 1)[order])


@torch.no_grad()
@pytest.mark.parametrize("settings", SOME, ids=name)
def test_a_target_token_changes_no_logits_before_it(settings: dict[str, Any]) -> None:
    model = tiny_model(tiny_config(**settings))
    source, target = batch()
    logits = model(source, target)
    for j in (0, 1, 6, 12, 19):
        changed = target.clone()
        changed[:, :, j] = torch.where(target[:, :, j] == PAD, PAD, target[:, :, j] % (VOCABULARY - 1) + 1)
        after = model(source, changed)
        close(after[:, :, :j], logits[:, :, :j])
        for i, k in places():
            for t in range(j, TARGET[i][k]):
                assert (after[i, k, t] - logits[i, k, t]).abs().max() > 1e-6, "every token sees all before it"


@torch.no_grad()
def test_every_source_token_reaches_every_target_token_of_its_sentence_and_no_other() -> None:
    model = tiny_model(tiny_config())
    source, target = batch()
    logits = model(source, target)
    for place in (0, 4, 13):
        changed = source.clone()
        changed[1, 0, place] = source[1, 0, place] % (VOCABULARY - 1) + 1
        differs = (model(changed, target) - logits).abs().amax(-1) > 1e-9
        assert differs[1, 0, : TARGET[1][0]].all()
        differs[1, 0] = False
        assert not differs.any()


@pytest.mark.parametrize("settings", SOME, ids=name)
def test_gradients_of_a_padded_batch_are_the_sum_of_its_sentences(settings: dict[str, Any]) -> None:
    model = tiny_model(tiny_config(**settings))
    source, target = batch(padding=1)
    weights = torch.randn(*target.shape, VOCABULARY, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (model(source, target) * weights).sum().backward()
    together = gradients(model)
    model.zero_grad()
    for i, j in places():
        own = alone(target, i, j)
        (model(alone(source, i, j), own)[0, 0] * weights[i, j, : own.shape[-1]]).sum().backward()
    for key, gradient in gradients(model).items():
        close(together[key], gradient, 1e-10)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    found = {}
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{key} gets no gradient"
        found[key] = parameter.grad.clone()
    return found


@torch.no_grad()
@pytest.mark.parametrize("settings", SOME, ids=name)
@pytest.mark.parametrize("by_document", [True, False])
def test_decoding_token_by_token_has_the_logits_of_teacher_forcing(settings: dict[str, Any], by_document: bool) -> None:
    model = tiny_model(tiny_config(**settings))
    source, target = random_ids([[4, 17, 1, 9]], 1), random_ids([[12, 12, 12, 12]], 2, first=START)
    if by_document:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    expected = model(source, target).flatten(0, 1)
    decoding = model.start_decoding(model.encode(source))
    for t, ids in enumerate(target.flatten(0, 1).unbind(1)):
        close(model.step(ids[:, None], decoding)[:, 0], expected[:, t])


@torch.no_grad()
def test_source_and_target_must_hold_the_same_sentences() -> None:
    model = tiny_model(tiny_config())
    target = random_ids([[3, 2], [4, 1]], first=START)
    for lengths in ([[3, 2]], [[3, 2, 1], [4, 1, 1]], [[3, 2, 4, 1]], [[3, 2], [4, 0]]):
        with pytest.raises(ValueError, match=r"documents × sentences|without any"):
            model(random_ids(lengths), target)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["residual", "attention", "activation"])
def test_each_dropout_acts_in_training_and_only_there(kind: str) -> None:
    model = tiny_model(tiny_config())
    source, target = batch()
    expected = model(source, target)
    model.set_dropout(**{"residual": 0.0, kind: 0.5})
    close(model(source, target), expected)
    model.train()
    assert (model(source, target) - expected).abs().max() > 1e-3
    model.set_dropout(0.0)
    close(model(source, target), expected)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_sublayer_that_is_dropped_leaves_the_way_around_it(norm: str) -> None:
    residual = Residual(tiny_config(norm=norm)).train()
    residual.dropout.p = 1.0
    states = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    close(residual(states, lambda x: 7 * x.exp()), states if norm == "pre" else residual.norm(states))


# Equality with `transformers`: the same weights in both, every one of them random, give the same logits and gradients.

BART = tiny_config(position_offset=2, encoder_layers=2, decoder_layers=1)
MARIAN = tiny_config(
    positions="sinusoidal",
    activation="swish",
    embedding_norm=False,
    embedding_scale=True,
    output_bias=True,
    encoder_layers=1,
    decoder_layers=2,
)
MBART = tiny_config(norm="pre", activation="relu", position_offset=2)
MBART_SCALED = tiny_config(norm="pre", position_offset=2, embedding_scale=True)

COMPARED = [("Bart", BART), ("Marian", MARIAN), ("MBart", MBART), ("MBart", MBART_SCALED)]
NAMES = [
    "BART: post-norm, learned",
    "Marian: post-norm, sinusoidal, bias",
    "mBART: pre-norm",
    "mBART: pre-norm, scaled",
]
compared = pytest.mark.parametrize(("family", "config"), COMPARED, ids=NAMES)


def theirs_and_ours(family: str, config: Any) -> tuple[Any, Transformer]:
    """A random model of `transformers` in float64, and ours with its weights."""
    transformers = pytest.importorskip("transformers")
    model_name = f"{family}MTModel" if family == "Marian" else f"{family}ForConditionalGeneration"
    settings = getattr(transformers, f"{family}Config")(
        vocab_size=VOCABULARY,
        d_model=config.d_model,
        max_position_embeddings=config.max_positions,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        encoder_ffn_dim=config.feed_forward,
        decoder_ffn_dim=config.feed_forward,
        activation_function=config.activation,
        scale_embedding=config.embedding_scale,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        theirs = getattr(transformers, model_name)(settings).double().eval()
        if config.output_bias:
            theirs.final_logits_bias.normal_()
    shake(theirs, seed=6)
    ours = Transformer(config, VOCABULARY).double().eval()
    weights = {**dict(theirs.named_parameters()), "final_logits_bias": theirs.final_logits_bias}
    ours.load_state_dict(in_our_names(weights, ours), strict=True)
    return theirs, ours


def in_our_names(theirs: dict[str, Any], ours: Transformer) -> dict[str, Tensor]:
    """Tensors of a model of `transformers` (weights or gradients) under the names of the same parameters here."""
    attentions = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    parts = {"feed_forward.inner": "fc1", "feed_forward.outer": "fc2", "residual.norm": "final_layer_norm"}
    found = {}
    for key in ours.state_dict():
        side, _, rest = key.partition(".")
        head, _, kind = key.rpartition(".")
        if "tokens" in key:
            found[key] = theirs["model.shared.weight"]
        elif key == "bias":
            found[key] = theirs["final_logits_bias"][0]
        elif rest == "embeddings.positions":
            found[key] = theirs[f"model.{side}.embed_positions.weight"]
        elif rest.startswith("embeddings.norm"):
            found[key] = theirs[f"model.{side}.layernorm_embedding.{kind}"]
        elif rest.startswith("norm"):
            found[key] = theirs[f"model.{side}.layer_norm.{kind}"]
        else:
            _, _, number, *words = head.split(".")
            layer, part = f"model.{side}.layers.{number}", ".".join(words)
            if words[0] not in attentions:
                found[key] = theirs[f"{layer}.{parts[part]}.{kind}"]
            elif words[1] == "residual":
                found[key] = theirs[f"{layer}.{attentions[words[0]]}_layer_norm.{kind}"]
            elif words[2] == "output":
                found[key] = theirs[f"{layer}.{attentions[words[0]]}.out_proj.{kind}"]
            else:
                letters = {"query": "q", "key_value": "kv"}[words[2]]
                found[key] = torch.cat([theirs[f"{layer}.{attentions[words[0]]}.{x}_proj.{kind}"] for x in letters])
    return found


def logits_of_theirs(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Their logits for rows of sentences (sentences, tokens)."""
    return model(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, use_cache=False
    ).logits


def documents() -> tuple[Tensor, Tensor]:
    """Two documents without empty sentences, padded."""
    return random_ids([[5, 18], [11, 1]], 7, padding=1), random_ids([[16, 3], [1, 9]], 8, first=START, padding=1)


@torch.no_grad()
@compared
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_logits_equal_those_of_transformers(family: str, config: Any, dtype: torch.dtype, tolerance: float) -> None:
    theirs, ours = theirs_and_ours(family, config)
    if family == "Marian":  # both tables are rounded to float32 and may differ there in the last bit
        copy_positions(theirs, ours)
    theirs, ours = theirs.to(dtype), ours.to(dtype)
    source, target = documents()
    expected = logits_of_theirs(theirs, source.flatten(0, 1), target.flatten(0, 1)).view(*target.shape, -1)
    real = target != PAD
    assert expected[real].std() > 0.5
    close(ours(source, target)[real], expected[real], tolerance)


def copy_positions(theirs: Any, ours: Transformer) -> None:
    table = theirs.model.encoder.embed_positions.weight
    close(ours.encoder.embeddings.positions, table, 1e-6)
    for side in (ours.encoder, ours.decoder):
        side.embeddings.positions.copy_(table)


@compared
def test_gradients_equal_those_of_transformers(family: str, config: Any) -> None:
    theirs, ours = theirs_and_ours(family, config)
    with torch.no_grad():
        if family == "Marian":
            copy_positions(theirs, ours)
    source, target = documents()
    draw = torch.Generator().manual_seed(9)
    weights = torch.randn(int((target != PAD).sum()), VOCABULARY, generator=draw, dtype=torch.float64)
    rows = logits_of_theirs(theirs, source.flatten(0, 1), target.flatten(0, 1))
    (rows[target.flatten(0, 1) != PAD] * weights).sum().backward()
    (ours(source, target)[target != PAD] * weights).sum().backward()
    bias = weights.sum(0, keepdim=True)  # of the logits; theirs is a constant
    expected = in_our_names({key: p.grad for key, p in theirs.named_parameters()} | {"final_logits_bias": bias}, ours)
    for key, gradient in gradients(ours).items():
        close(gradient, expected[key], 1e-9 * max(1.0, float(expected[key].abs().max())))


def test_sinusoids_have_sines_before_cosines_and_start_at_zero() -> None:
    table = sinusoids(torch.arange(30), 8)
    assert table.shape == (30, 8)
    close(table[0], torch.tensor([0.0, 0, 0, 0, 1, 1, 1, 1], dtype=torch.float64))
    close(table[:, 0], torch.arange(30).double().sin(), 1e-6)
    close(table[:, 7], (torch.arange(30).double() / 1000).cos(), 1e-6)


FLAT = {"kind": "window", "source": 2, "target": 1, "flat_layers": 1}


def flat_model(flat_layers: int = 1) -> Transformer:
    return tiny_model(tiny_config(unit=FLAT | {"flat_layers": flat_layers}, max_length=24), seed=3)


@torch.no_grad()
def test_the_top_layers_of_a_flat_transformer_see_the_current_sentence_only() -> None:
    """The same states as with a mask over the keys, written out for one sequence."""
    model = flat_model()
    source, context = random_ids([[9]], 1), 4
    encoder, attention = model.encoder, model.encoder.layers[1].self_attention
    assert encoder.segments is not None
    ids = source.flatten()
    segments = encoder.segments[[0] * context + [1] * (9 - context)]
    embedded = encoder.embeddings(ids, torch.arange(9), segments)
    layout = model.layout(source)
    states = encoder.layers[0](embedded, layout.own_blocks, layout, {})
    rows = []
    for query in states:
        keys = states[context:]
        weights = attention.attention.weights(query[None], keys)  # (heads, 1, keys)
        values = attention.attention.key_value(keys).chunk(2, -1)[1].unflatten(-1, (2, -1))
        attended = torch.einsum("hqk,khe->qhe", weights, values).flatten(1)
        rows.append(attention.residual.norm(query + attention.attention.output(attended)[0]))
    expected = encoder.layers[1].residual(torch.stack(rows), encoder.layers[1].feed_forward)[context:]
    found = model.encode(source, context=torch.tensor([[context]]))
    torch.testing.assert_close(found.states, expected, rtol=0, atol=1e-12)
    assert found.layout.lengths.tolist() == [[9 - context]]
    assert found.layout.ids.tolist() == ids[context:].tolist()


@torch.no_grad()
def test_padding_and_neighbours_do_not_change_a_flat_transformer() -> None:
    model = flat_model()
    source, target = random_ids([[9, 5], [3, 0]], 1, padding=2), random_ids([[4, 6], [2, 0]], 2, first=START)
    context = torch.tensor([[4, 0], [1, 0]])
    encoded = model.encode(source, context=context)
    done = model.forced_decode(encoded, target)
    logits = done.layout.grid(model.logits(done.states))
    for document, sentence in ((0, 0), (0, 1), (1, 0)):
        own = source[document, sentence][source[document, sentence] != 0][None, None]
        words = target[document, sentence][target[document, sentence] != 0][None, None]
        alone = model.encode(own, context=context[document, sentence][None, None])
        found = model.logits(model.forced_decode(alone, words).states)
        torch.testing.assert_close(logits[document, sentence, : words.shape[-1]], found, rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_flat_transformer_without_context_is_the_sentence_model() -> None:
    """Once its segment embeddings are zero, as they are at the start."""
    model, source = flat_model(2), random_ids([[9, 5]], 1)
    assert model.encoder.segments is not None
    model.encoder.segments.zero_()
    plain = Transformer(tiny_config(), model.vocabulary).double().eval()
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if "segments" not in name})
    torch.testing.assert_close(model.encode(source).states, plain.encode(source).states, rtol=0, atol=0)

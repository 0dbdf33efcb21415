"""The systems behind the seam compute what their authors' own code does: golden numbers, see `golden_rivals`.

Each test puts the project's context module into a host with the original's layer norms, biases and residuals.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from golden_rivals import Golden, Names, close, golden_files
from tram.config import ModelConfig
from tram.config.contexts import CompressiveConfig
from tram.data.batches import decoder_input
from tram.model.contexts.base import Passage
from tram.model.contexts.compressive import Compressive, DistanceTable
from tram.model.contexts.relative import QueryBiases
from tram.model.contexts.transformer_xl import TransformerXL
from tram.model.layers import AttentionSublayer, FeedForward, Residual
from tram.model.packing import Layout
from tram.model.state import State, ragged
from tram.model.transformer import Transformer


class LanguageModel(nn.Module):
    """Self-attention and feed-forward layers with an output of their own: the host of Transformer-XL."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.scale = config.d_model**0.5 if config.embedding_scale else 1.0
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        self.attention = nn.ModuleList(AttentionSublayer(config, f"{i}") for i in range(config.decoder_layers))
        shape = config.d_model, config.feed_forward, config.activation
        self.feed_forward = nn.ModuleList(FeedForward(*shape) for _ in self.attention)
        self.residual = nn.ModuleList(Residual(config) for _ in self.attention)
        self.output = nn.Linear(config.d_model, vocabulary)

    def forward(self, ids: Tensor, state: State) -> tuple[Tensor, Passage, list[tuple[Tensor, Tensor]]]:
        """Logits, the pass with the state after it, and what enters and leaves the attention sublayer of each layer."""
        layout = Layout(ids)
        passage = Passage(state, len(ids))
        states = self.tokens(layout.ids) * self.scale
        seen = []
        for attention, feed_forward, residual in zip(self.attention, self.feed_forward, self.residual, strict=True):
            inputs = states
            states = attention(inputs, None, layout.own_blocks, layout, True, passage)
            seen.append((layout.grid(inputs), layout.grid(states)))
            states = residual(states, feed_forward)
        return layout.grid(self.output(states)), passage, seen


def transformer_xl(golden: Golden, norm: str) -> tuple[LanguageModel, Names]:
    sizes = golden.config
    config = ModelConfig.model_validate(
        {
            "d_model": sizes["d_model"],
            "heads": sizes["heads"],
            "feed_forward": sizes["feed_forward"],
            "decoder_layers": sizes["layers"],
            "activation": sizes["activation"],
            "embedding_scale": True,
            "norm": norm,
        }
    )
    model = LanguageModel(config, sizes["vocabulary"])
    biases = QueryBiases(config.d_model, config.heads)
    names = Names(golden)
    names.add("r_w_bias", biases.content)
    names.add("r_r_bias", biases.distance)
    names.add("word_emb.emb_layers.0.weight", model.tokens.weight)
    model.output.weight = model.tokens.weight
    names.add("crit.out_layers.0.bias", model.output.bias)
    for i, sublayer in enumerate(model.attention):
        assert isinstance(sublayer, AttentionSublayer)
        context = TransformerXL(config, sizes["mem_len"], biases)
        sublayer.context = context
        attention, feed_forward, residual = sublayer.attention, model.feed_forward[i], model.residual[i]
        name = f"layers.{i}.dec_attn"
        names.add(f"{name}.qkv_net.weight", attention.query.weight, attention.key_value.weight)
        names.linear(f"{name}.o_net", attention.output)
        names.linear(f"{name}.r_net", context.distance)
        names.norm(f"{name}.layer_norm", sublayer.residual.norm)
        names.linear(f"layers.{i}.pos_ff.CoreNet.0", feed_forward.inner)  # type: ignore[arg-type]
        names.linear(f"layers.{i}.pos_ff.CoreNet.3", feed_forward.outer)  # type: ignore[arg-type]
        names.norm(f"layers.{i}.pos_ff.layer_norm", residual.norm)  # type: ignore[arg-type]
    return model, names


@golden_files("transformer_xl")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_transformer_xl(norm: str, file: str) -> None:
    golden = Golden(file)
    model, names = transformer_xl(golden, norm)
    ids = golden.ids("ids")
    inputs, labels = decoder_input(ids), ids[..., 1:]
    logits, _, seen = model(inputs, State.empty())
    close(logits, golden.arrays[f"{norm}_logits"])
    close(seen[1][0], golden.arrays[f"{norm}_attention_in"])
    close(seen[1][1], golden.arrays[f"{norm}_attention_out"])
    real = labels != 0
    loss = F.cross_entropy(logits[real], labels[real])
    loss.backward()
    expected = golden.about["variants"][norm]
    assert float(loss.detach()) == pytest.approx(expected["loss"], abs=1e-5)
    names.check_gradients(expected["gradient_norms"])


@golden_files("transformer_xl")
@pytest.mark.parametrize("norm", ["post", "pre"])
@torch.no_grad()
def test_the_memory_of_transformer_xl_after_each_sentence(norm: str, file: str) -> None:
    golden = Golden(file)
    model, _ = transformer_xl(golden, norm)
    inputs, state = decoder_input(golden.ids("ids")), State.empty()
    for t in range(inputs.shape[1]):
        logits, passage, _ = model(inputs[:, t : t + 1], state)
        state = passage.state()
        close(logits[:, 0], golden.arrays[f"{norm}_logits"][:, t])
        for layer in range(len(model.attention)):
            for document, rows in enumerate(ragged(state[f"{layer}"]["inputs"]).documents()):
                if not inputs[document, t].any():
                    continue  # the document has ended
                assert len(rows) == golden.arrays["memory_length"][document, t]
                close(rows, golden.arrays[f"{norm}_memory"][document, t, layer, : len(rows)])


class PortTable(nn.Module):
    """The positions of the port: the vector of a distance depends on how full the memories are."""

    def __init__(self, shape: list[int], segment: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(shape))
        self.last = segment - 1  # index of distance 0
        self.filled = 0

    def forward(self, distances: Tensor) -> Tensor:
        places = (self.filled + self.last - distances).clamp(max=self.table.shape[1] - 1)  # beyond: the future, hidden
        return self.table.index_select(1, places).transpose(0, 1)


def compressive(golden: Golden) -> tuple[LanguageModel, Names, PortTable]:
    sizes = golden.config
    config = ModelConfig.model_validate(
        {
            "d_model": sizes["d_model"],
            "heads": sizes["heads"],
            "feed_forward": sizes["feed_forward"],
            "decoder_layers": sizes["depth"],
            "activation": sizes["activation"],
            "norm": sizes["norm"],
        }
    )
    settings = CompressiveConfig(
        memory_length=sizes["mem_len"], compressed_length=sizes["cmem_len"], ratio=sizes["cmem_ratio"]
    )
    model, names = LanguageModel(config, sizes["vocabulary"] + 1), Names(golden)  # id 0 is padding here
    model.output = nn.Linear(config.d_model, sizes["vocabulary"])
    table = PortTable(golden.about["parameters"]["pos_emb"], sizes["seq_len"])
    names.add("pos_emb", table.table)
    names.add("token_emb.weight", (model.tokens.weight, slice(1, None)))
    names.linear("to_logits.1", model.output)
    for i, sublayer in enumerate(model.attention):
        assert isinstance(sublayer, AttentionSublayer)
        context = Compressive(config, settings, DistanceTable(config, settings), len(model.attention))
        context.table = table  # type: ignore[assignment]
        sublayer.context = context
        attention, feed_forward = sublayer.attention, model.feed_forward[i]
        names.norm(f"attn_layers.{i}.fn.norm", sublayer.residual.norm)
        names.linear(f"attn_layers.{i}.fn.fn.compress_mem_fn.conv", context.compress)
        names.linear(f"attn_layers.{i}.fn.fn.to_q", attention.query)
        names.linear(f"attn_layers.{i}.fn.fn.to_kv", attention.key_value)
        names.linear(f"attn_layers.{i}.fn.fn.to_out", attention.output)
        names.norm(f"ff_layers.{i}.fn.norm", model.residual[i].norm)  # type: ignore[arg-type]
        names.linear(f"ff_layers.{i}.fn.fn.w1", feed_forward.inner)  # type: ignore[arg-type]
        names.linear(f"ff_layers.{i}.fn.fn.w2", feed_forward.outer)  # type: ignore[arg-type]
    return model, names, table


@golden_files("compressive")
def test_compressive_transformer(file: str) -> None:
    """Segment by segment, each with its backward pass; the projections of keys and values learn."""
    golden = Golden(file)
    model, names, table = compressive(golden)
    expected = golden.about["variants"]["plain_unfrozen"]
    ids, state = golden.ids("ids"), State.empty()
    segments = ids.shape[1]
    for t in range(segments):
        logits, passage, _ = model(ids[:, t : t + 1, :-1] + 1, state)
        close(logits[:, 0], golden.arrays["plain_logits"][:, t])
        loss = F.cross_entropy(logits.flatten(0, -2), ids[:, t, 1:].flatten())
        assert float(loss.detach()) == pytest.approx(expected["cross_entropy"][t], abs=1e-5)
        auxiliary = torch.zeros(()) if passage.loss is None else passage.loss.mean()
        assert float(auxiliary.detach()) == pytest.approx(expected["auxiliary"][t], abs=1e-5)
        ((loss + auxiliary) / segments).backward()
        state = passage.state()
        table.filled = sum(int(ragged(value).lengths[0]) for value in state["0"].values())
        for layer in range(len(model.attention)):
            for key, array in (("memory", "plain_memory"), ("compressed", "plain_compressed")):
                for document, rows in enumerate(ragged(state[f"{layer}"][key]).documents()):
                    close(rows, golden.arrays[array][document, t, layer, : len(rows)])
    names.check_gradients(expected["gradient_norms"])


class UnbiasedNorm(nn.Module):
    """OpenNMT's layer norm: unbiased standard deviation, ε added to it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, states: Tensor) -> Tensor:
        centred = states - states.mean(-1, keepdim=True)
        return self.weight * centred / (states.std(-1, keepdim=True) + 1e-6) + self.bias


def with_unbiased_norms(module: nn.Module) -> None:
    """Replace every layer norm below a module."""
    for name, child in module.named_children():
        if isinstance(child, nn.LayerNorm):
            setattr(module, name, UnbiasedNorm(child.normalized_shape[0]))
        else:
            with_unbiased_norms(child)


class HANHost:
    """OpenNMT's Transformer: ours with its layer norms, interleaved sinusoids, and nothing shared."""

    def __init__(self, golden: Golden) -> None:
        sizes = golden.config
        self.swap = torch.arange(sizes["vocabulary"])  # the original's padding is 1, ours 0
        self.swap[[0, 1]] = self.swap[[1, 0]]
        special = [int(self.swap[sizes[name]]) for name in ("unk", "bos", "eos")]
        side = {"HAN_enc": "source", "HAN_dec": "target"}.get(sizes["context_type"], "both")
        self.model = Transformer(
            ModelConfig.model_validate(
                {
                    "d_model": sizes["d_model"],
                    "heads": sizes["heads"],
                    "feed_forward": sizes["feed_forward"],
                    "encoder_layers": sizes["layers"],
                    "decoder_layers": sizes["layers"],
                    "norm": "pre",
                    "activation": "relu",
                    "positions": "sinusoidal",
                    "embedding_norm": False,
                    "embedding_scale": True,
                    "context": {
                        "kind": "han",
                        "side": side,
                        "sentences": sizes["context_size"],
                        "special": special,
                    },
                }
            ),
            sizes["vocabulary"],
        )
        with_unbiased_norms(self.model)
        self.output = nn.Linear(sizes["d_model"], sizes["vocabulary"])
        self.names = Names(golden)
        self.names.linear("generator.0", self.output)
        self.load_side("encoder", "transformer", ("layer_norm",))
        self.load_side("decoder", "transformer_layers", ("layer_norm_1", "layer_norm_2"))

    def load_side(self, side: str, layers: str, norms: tuple[str, ...]) -> None:
        stack: Any = getattr(self.model, side)
        names, name = self.names, f"{side}.embeddings.make_embedding.emb_luts.0.weight"
        embeddings = stack.embeddings
        embeddings.tokens = nn.Embedding(*self.names.golden.about["parameters"][name])
        sines, cosines = embeddings.positions.chunk(2, -1)
        embeddings.positions = torch.stack([sines, cosines], dim=-1).flatten(-2)
        names.add(name, embeddings.tokens.weight)
        with torch.no_grad():
            embeddings.tokens.weight[1] = 0
            embeddings.tokens.weight.copy_(embeddings.tokens.weight[self.swap])
        for i, layer in enumerate(stack.layers):
            sublayers = [("self_attn", layer.self_attention)]
            if side == "decoder":
                sublayers.append(("context_attn", layer.cross_attention))
            for (attention, sublayer), norm in zip(sublayers, norms, strict=True):
                self.load_attention(f"{side}.{layers}.{i}.{attention}", sublayer.attention)
                names.norm(f"{side}.{layers}.{i}.{norm}", sublayer.residual.norm, "a_2", "b_2")
            self.load_feed_forward(f"{side}.{layers}.{i}.feed_forward", layer.feed_forward, layer.residual.norm)
        names.norm(f"{side}.layer_norm", stack.norm, "a_2", "b_2")
        if stack.context is not None:
            join = self.names.golden.config["context_type"] == "HAN_join"
            number = f".{('encoder', 'decoder').index(side)}" if join else ""
            self.load_context(f"doc_context{number}", stack.context)

    def load_attention(self, name: str, attention: Any) -> None:
        width = attention.output.out_features
        self.names.linear(f"{name}.linear_query", attention.query)
        self.names.linear(f"{name}.linear_keys", attention.key_value, slice(0, width))
        self.names.linear(f"{name}.linear_values", attention.key_value, slice(width, None))
        self.names.linear(f"{name}.final_linear", attention.output)

    def load_feed_forward(self, name: str, feed_forward: Any, norm: nn.Module) -> None:
        self.names.linear(f"{name}.w_1", feed_forward.inner)
        self.names.linear(f"{name}.w_2", feed_forward.outer)
        self.names.norm(f"{name}.layer_norm", norm, "a_2", "b_2")

    def load_context(self, name: str, han: Any) -> None:
        self.load_attention(f"{name}.word_attn", han.word_attention)
        self.load_attention(f"{name}.sent_attn", han.sentence_attention)
        self.load_feed_forward(f"{name}.feed_forward", han.feed_forward, han.feed_forward_norm)
        self.names.linear(f"{name}.linear", han.gate)
        norms = {
            "query_word": han.word_query_norm,
            "query_sent": han.sentence_query_norm,
            "word": han.word_norm,
            "sent": han.output_norm,
        }
        for each, norm in norms.items():
            self.names.norm(f"{name}.layer_norm_{each}", norm, "a_2", "b_2")


@golden_files("han")
def test_hierarchical_attention(file: str) -> None:
    """Against the arrays with the rule for first sentences; outputs of the modules where there is a predecessor."""
    golden = Golden(file)
    host = HANHost(golden)
    target = host.swap[golden.ids("target")]
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    for side in ("encoder", "decoder"):
        if (context := getattr(host.model, side).context) is not None:

            def look(_: nn.Module, given: Any, result: Any, side: str = side) -> None:
                states, layout, _ = given
                seen[side[:3]] = layout.grid(states), layout.grid(result.states)

            context.register_forward_hook(look)
    done = host.model.forced_decode(host.swap[golden.ids("source")], decoder_input(target))
    logprobs = host.output(done.states).log_softmax(-1)
    # The original also reads the end of all but the longest sentences, which predicts nothing
    close(logprobs, golden.arrays["clean_logprobs"][decoder_input(target) != 0])
    for side, (_, after) in seen.items():
        if side == "enc":  # the decoder's inputs differ: they saw the encoder's first sentences
            close(seen[side][0], golden.arrays[f"{side}_query"])
            close(after[:, 1:], golden.arrays[f"{side}_out"][:, 1:])
    labels = host.swap[done.layout.pack(target[..., 1:])]
    loss = F.nll_loss(logprobs, labels)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(golden.about["clean_loss"], abs=1e-5)
    host.names.check_gradients(golden.about["clean_gradient_norms"])

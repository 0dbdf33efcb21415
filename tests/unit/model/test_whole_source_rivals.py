"""The systems that read the whole source compute what their authors' own code does: golden numbers, `golden_rivals`.

Each test puts the project's context modules into a host with the original's quirks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from golden_rivals import Golden, Names, close, golden_files
from tram.config import ModelConfig
from tram.config.contexts import SelectiveConfig
from tram.data.batches import decoder_input
from tram.model.contexts.base import InnerContext
from tram.model.contexts.selective import Selective
from tram.model.document_rows import SourceRows
from tram.model.layers import Residual
from tram.model.packing import Layout
from tram.model.segments import OpenSegment
from tram.model.stacks import Encoded
from tram.model.state import ragged
from tram.model.transformer import Transformer


def as_sentences(ids: Tensor, groups: Tensor) -> Tensor:
    """Flat documents as (documents, sentences, tokens), 0 = padding; group 0 is a sentence, too."""
    sentences = [
        [row[numbers == number] for number in range(int(groups.max()) + 1) if bool((numbers == number).any())]
        for row, numbers in ((row[row != 0], numbers[row != 0]) for row, numbers in zip(ids, groups, strict=True))
    ]
    shape = len(ids), max(map(len, sentences)), max(len(each) for document in sentences for each in document)
    found = torch.zeros(shape, dtype=torch.long)
    for place, document in zip(found, sentences, strict=True):
        for number, sentence in enumerate(document):
            place[number, : len(sentence)] = sentence
    return found


class GTransformerHost:
    """fairseq's Transformer: ours, with a target that is one sequence with a tag in front, which sees all groups."""

    def __init__(self, golden: Golden) -> None:
        sizes = golden.config
        self.golden = golden
        self.swap = torch.arange(sizes["vocabulary"])  # the original's padding is 1, ours 0
        self.swap[[0, 1]] = self.swap[[1, 0]]
        self.model = Transformer(
            ModelConfig.model_validate(
                {
                    "d_model": sizes["encoder_embed_dim"],
                    "heads": sizes["encoder_attention_heads"],
                    "feed_forward": sizes["encoder_ffn_embed_dim"],
                    "encoder_layers": sizes["encoder_layers"],
                    "decoder_layers": sizes["decoder_layers"],
                    "norm": sizes["norm"],
                    "activation": sizes["activation"],
                    "positions": "sinusoidal-fairseq",
                    "position_offset": sizes["pad"] + 1,
                    "embedding_norm": False,
                    "embedding_scale": True,
                    "context": {
                        "kind": "g_transformer",
                        "encoder": sizes["encoder_ctxlayers"],
                        "decoder": sizes["decoder_ctxlayers"],
                        "cross": sizes["cross_ctxlayers"],
                    },
                }
            ),
            sizes["vocabulary"],
        )
        self.names = Names(golden)
        table = self.model.tokens.weight
        self.names.add("encoder.embed_tokens.weight", table)
        with torch.no_grad():
            table[sizes["pad"]] = 0
            table.copy_(table[self.swap])
        for side in ("encoder", "decoder"):
            for i, layer in enumerate(getattr(self.model, side).layers):
                self.load_layer(f"{side}.layers.{i}", layer)

    def load_layer(self, name: str, layer: Any) -> None:
        self.load_attention(f"{name}.self_attn", layer.self_attention)
        if hasattr(layer, "cross_attention"):
            self.load_attention(f"{name}.encoder_attn", layer.cross_attention)
        self.names.linear(f"{name}.fc1", layer.feed_forward.inner)
        self.names.linear(f"{name}.fc2", layer.feed_forward.outer)
        self.names.norm(f"{name}.final_layer_norm", layer.residual.norm)

    def load_attention(self, name: str, sublayer: Any) -> None:
        attentions = {"local": sublayer.attention}
        if sublayer.context is not None:
            attentions["global"] = sublayer.context.attention
            self.names.linear(f"{name}_gate.0", sublayer.context.gate)
        for kind, attention in attentions.items():
            width = attention.output.out_features
            self.names.linear(f"{name}_{kind}.q_proj", attention.query)
            self.names.linear(f"{name}_{kind}.k_proj", attention.key_value, slice(0, width))
            self.names.linear(f"{name}_{kind}.v_proj", attention.key_value, slice(width, None))
            self.names.linear(f"{name}_{kind}.out_proj", attention.output)
        self.names.norm(f"{name}_layer_norm", sublayer.residual.norm)

    def decode(self, encoded: Encoded, ids: Tensor, groups: Tensor) -> tuple[Tensor, Layout]:
        """Logits of all tokens. ids, groups: (documents, tokens), 0 = padding."""
        layout = Layout(as_sentences(ids, groups))
        opened = OpenSegment()
        numbers = np.zeros(len(layout.counts), dtype=np.int64)
        layout.segments, _ = opened.follow(layout, opened.initial_state(len(ids)), numbers)
        self.source = self.source_of(encoded, layout)
        own, own_document = groups[ids != 0], Layout(ids[:, None]).rows // ids.shape[1]
        source = encoded.layout
        theirs = source.rows % (source.shape[1] * source.shape[2]) // source.shape[2] + 1
        document = source.rows // (source.shape[1] * source.shape[2])
        order = torch.arange(len(own))
        local = ((own[:, None] == own) | (own[:, None] == 0)) & (own_document[:, None] == own_document)
        local &= order[:, None] >= order
        cross = ((own[:, None] == theirs) | (own[:, None] == 0)) & (own_document[:, None] == document)
        model = self.model
        states = model.decoder.embeddings(layout.ids, layout.segment_positions)
        self.inputs = []
        for layer in model.decoder.layers:
            self.inputs.append(states)
            states = self.sublayer(layer.self_attention, states, states, local, layout)
            states = self.sublayer(layer.cross_attention, states, encoded.states, cross, layout)
            states = layer.residual(states, layer.feed_forward)
        return model.logits(states), layout

    @staticmethod
    def source_of(encoded: Encoded, layout: Layout) -> SourceRows:
        """All of the source, for each of our sentences, which are one more than those of the source."""
        rows, sentences = encoded.source_rows(), encoded.layout.shape[1]
        first, stop = (np.repeat(each[::sentences], layout.shape[1]) for each in (rows.first, rows.stop))
        return SourceRows(rows.states, first, stop)

    def sublayer(self, sublayer: Any, states: Tensor, keys: Tensor, mask: Tensor, layout: Layout) -> Tensor:
        attention, context = sublayer.attention, sublayer.context
        k, v = (attention.split(part) for part in attention.key_value(keys).chunk(2, -1))
        q = attention.split(attention.query(states))
        attended = attention.output(attention.attend(q[None], k[None], v[None], mask)[0])
        if context is not None:
            state = context.initial_state(layout.shape[0])
            attended = context(states, attended, layout, state, self.source).states
        return sublayer.residual.add(states, attended)  # type: ignore[no-any-return]


@golden_files("g_transformer")
def test_g_transformer(file: str) -> None:
    golden = Golden(file)
    host = GTransformerHost(golden)
    parts = look_inside(host.model)
    ids = {name: host.swap[golden.ids(name)] for name in ("source", "decoder_input", "target")}
    encoded = host.model.encode(as_sentences(ids["source"], golden.ids("source_groups")))
    real, written = ids["source"] != 0, ids["decoder_input"] != 0
    close(encoded.states, golden.arrays["encoder_out"][real])
    logits, _ = host.decode(encoded, ids["decoder_input"], golden.ids("target_groups"))
    close(logits[:, host.swap], golden.arrays["logits"][written])
    last = {"encoder": len(host.model.encoder.layers) - 1, "decoder": len(host.model.decoder.layers) - 1}
    for seat, name, rows in (
        (f"encoder.{last['encoder']}.self", f"enc{last['encoder']}_self", real),
        (f"decoder.{last['decoder']}.self", f"dec{last['decoder']}_self", written),
        (f"decoder.{last['decoder']}.cross", f"dec{last['decoder']}_cross", written),
    ):
        for part, found in parts.get(seat, {}).items():
            close(found, golden.arrays[f"{name}_{part}"][rows])
    close(host.inputs[-1], golden.arrays[f"dec{last['decoder']}_in"][written])
    logprobs, labels = logits.log_softmax(-1), ids["target"][written]
    nll = F.nll_loss(logprobs, labels)
    smoothing = golden.about["label_smoothing"]
    loss = (1 - smoothing) * nll - smoothing * logprobs.mean()
    loss.backward()
    assert float(nll.detach()) == pytest.approx(golden.about["nll"], abs=1e-5)
    assert float(loss.detach()) == pytest.approx(golden.about["loss"], abs=1e-5)
    host.names.check_gradients(golden.about["gradient_norms"])


@golden_files("g_transformer")
@torch.no_grad()
def test_g_transformer_as_its_search_calls_it(file: str) -> None:
    """Without the first token: all positions are one lower."""
    golden = Golden(file)
    host = GTransformerHost(golden)
    encoded = host.model.encode(as_sentences(host.swap[golden.ids("source")], golden.ids("source_groups")))
    ids, groups = host.swap[golden.ids("decoder_input")][:, 1:], golden.ids("target_groups")[:, 1:]
    logits, _ = host.decode(encoded, ids, groups)
    close(logits[:, host.swap], golden.arrays["decoding_logits"][ids != 0])


def look_inside(model: Transformer) -> dict[str, dict[str, Tensor]]:
    """L, G and g of every module between an attention and its residual connection, filled in when the model runs."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, context in model.contexts().items():
        if isinstance(context, InnerContext):

            def gate(_: nn.Module, given: Any, result: Tensor, name: str = name) -> None:
                local, other = given[0].chunk(2, -1)
                found[name] = {"local": local, "global": other, "gate": torch.sigmoid(result)}

            context.gate.register_forward_hook(gate)
    return found


class NormedResidual(Residual):
    """The residual connection of Zheng's attention to the source: it continues from the normalised state."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        normed = self.norm(states)
        return normed + sublayer(normed)  # type: ignore[no-any-return]


class ZhengHost:
    """Zheng's Transformer: ours with a table for each side, no norm on top of the decoder, and its cross residuals."""

    def __init__(self, golden: Golden) -> None:
        sizes = golden.config
        config = ModelConfig.model_validate(
            {
                "d_model": sizes["d_model"],
                "heads": sizes["n_head"],
                "feed_forward": sizes["d_inner_hid"],
                "encoder_layers": sizes["n_layers"],
                "decoder_layers": sizes["n_layers"],
                "norm": sizes["norm"],
                "activation": sizes["activation"],
                "positions": "sinusoidal",
                "embedding_norm": False,
                "embedding_scale": True,
                "source_vocabulary": sizes["vocabulary"],
                "context": {"kind": "zheng", "sentences": sizes["max_encoder_segment_embedding"]},
            }
        )
        self.model = model = Transformer(config, sizes["vocabulary"])
        model.decoder.norm = nn.Identity()
        self.names = names = Names(golden)
        assert model.source_tokens is not None
        names.add("encoder.embeddings.embeddings.weight", model.source_tokens.weight)
        with torch.no_grad():
            model.source_tokens.weight[sizes["pad"]] = 0
        names.add("decoder.word_emb.emb_layers.0.weight", model.tokens.weight)
        names.norm("encoder.layer_norm", model.encoder.norm)
        for i, layer in enumerate(model.encoder.layers):
            self.load_encoder_layer(
                f"encoder.block_stack.{i}",
                layer.self_attention.attention,
                layer.self_attention.residual.norm,
                layer.feed_forward,
                layer.residual.norm,
            )
        top: Any = model.encoder.context
        parts = top.attention, top.norm, top.feed_forward, top.feed_forward_norm
        self.load_encoder_layer("encoder.global_encoder_layer", *parts)
        names.add("encoder.segment_embed.embed.weight", top.sentence_embeddings)
        names.add("encoder.global_rel_seg_k.embeddings.weight", top.relative_keys)
        names.add("encoder.global_rel_seg_v.embeddings.weight", top.relative_values)
        names.linear("encoder.glb_gate.w", top.gate)
        for i, decoder_layer in enumerate(model.decoder.layers):
            decoder_layer.cross_attention.residual = NormedResidual(config)
            self.load_decoder_layer(f"decoder.layers.{i}", decoder_layer)

    def load_encoder_layer(
        self, name: str, attention: Any, norm: nn.Module, feed_forward: Any, feed_forward_norm: nn.Module
    ) -> None:
        names, width = self.names, attention.output.out_features
        names.linear(f"{name}.slf_attn.linear_query", attention.query)
        names.linear(f"{name}.slf_attn.linear_keys", attention.key_value, slice(0, width))
        names.linear(f"{name}.slf_attn.linear_values", attention.key_value, slice(width, None))
        names.linear(f"{name}.slf_attn.final_linear", attention.output)
        names.norm(f"{name}.layer_norm", norm)
        names.linear(f"{name}.pos_ffn.w_1", feed_forward.inner)
        names.linear(f"{name}.pos_ffn.w_2", feed_forward.outer)
        names.norm(f"{name}.pos_ffn.layer_norm", feed_forward_norm)

    def load_decoder_layer(self, name: str, layer: Any) -> None:
        names, own, cross = self.names, layer.self_attention, layer.cross_attention
        names.add(f"{name}.dec_attn.qkv_net.weight", own.attention.query.weight, own.attention.key_value.weight)
        names.linear(f"{name}.dec_attn.o_net", own.attention.output)
        names.linear(f"{name}.dec_attn.r_net", own.context.distance)
        names.norm(f"{name}.dec_attn.layer_norm", own.residual.norm)
        names.add("decoder.r_w_bias", own.context.biases.content)
        names.add("decoder.r_r_bias", own.context.biases.distance)
        names.linear(f"{name}.ctx_attn.q_net", cross.attention.query)
        names.linear(f"{name}.ctx_attn.kv_net", cross.attention.key_value)
        names.linear(f"{name}.ctx_attn.o_net", cross.attention.output)
        names.norm(f"{name}.ctx_attn.layer_norm", cross.residual.norm)
        names.linear(f"{name}.pos_ff.CoreNet.0", layer.feed_forward.inner)
        names.linear(f"{name}.pos_ff.CoreNet.3", layer.feed_forward.outer)
        names.norm(f"{name}.pos_ff.layer_norm", layer.residual.norm)


@golden_files("zheng")
def test_zheng(file: str) -> None:
    """Both documents side by side, against the numbers of each on its own: padding changes nothing here."""
    golden = Golden(file)
    host = ZhengHost(golden)
    source, target = golden.ids("source"), golden.ids("target")
    inputs, real = decoder_input(target), decoder_input(target) != 0
    seen = {}

    def look(_: nn.Module, given: Any, result: Any) -> None:
        seen["local"], seen["gated"] = given[0], result.states

    assert host.model.encoder.context is not None
    host.model.encoder.context.register_forward_hook(look)
    done = host.model.forced_decode(source, inputs)
    for name, found in (*seen.items(), ("out", done.source.states)):
        close(found, golden.arrays[f"encoder_{name}"][source != 0])
    hidden = torch.zeros(golden.config["vocabulary"])
    hidden[golden.config["pad"]] = -torch.inf
    logprobs = (host.model.logits(done.states) + hidden).log_softmax(-1)
    close(logprobs.masked_fill(logprobs == -torch.inf, 0), golden.arrays["logprobs"][real])
    loss = F.nll_loss(logprobs, target[..., 1:][real])
    assert float(loss.detach()) == pytest.approx(golden.about["loss"], abs=1e-5)
    loss.backward()
    host.names.check_gradients(golden.about["gradient_norms"])


@golden_files("zheng")
@torch.no_grad()
def test_what_a_sentence_of_zheng_leaves_for_the_next(file: str) -> None:
    golden = Golden(file)
    host = ZhengHost(golden)
    source, inputs = golden.ids("source"), decoder_input(golden.ids("target"))
    model = host.model
    whole = model.encode(source)
    state, states = whole.state, whole.layout.grid(whole.states)
    for t in range(source.shape[1]):
        real = source[:, t] != 0
        encoded = model.encoded_before(states[:, t][real], source[:, t : t + 1], state)
        state = model.forced_decode(encoded, inputs[:, t : t + 1], state).state
        for layer in range(len(model.decoder.layers)):
            for document, rows in enumerate(ragged(state[f"decoder.{layer}.self"]["inputs"]).documents()):
                if inputs[document, t].any():
                    assert len(rows) == int((inputs[document, t] != 0).sum())
                    close(rows, golden.arrays[f"memory_{layer}"][document, t, : len(rows)])


class DynetNorm(nn.Module):
    """The layer norm of the original of selective attention: ε is added to the standard deviation."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, states: Tensor) -> Tensor:
        centred = states - states.mean(-1, keepdim=True)
        return self.weight * centred / (states.std(-1, unbiased=False, keepdim=True) + 1e-8) + self.bias


def selective(golden: Golden, **settings: Any) -> Selective:
    sizes = golden.config
    config = ModelConfig(
        d_model=sizes["d_model"],
        heads=sizes["heads"],
        feed_forward=sizes["feed_forward"],
        activation=sizes["activation"],
    )
    module, names = Selective(config, SelectiveConfig(**settings)), Names(golden)
    linears = {
        "W_Qs": module.sentence_query,
        "W_Ks": module.sentence_key,
        "W_Qw": module.word_query,
        "W_Kw": module.word_key,
        "W_V": module.value,
        "W_O": module.output,
        "Cs": module.base_gate,
        "Csc": module.context_gate,
        "ff_inner": module.feed_forward.inner,
        "ff_outer": module.feed_forward.outer,
    }
    for name, linear in linears.items():
        names.linear(f"context.{name}", linear)
    names.norm("context.norm1", module.attention_norm)
    names.norm("context.norm2", module.feed_forward_norm)
    module.attention_norm, module.feed_forward_norm = (  # type: ignore[assignment]
        DynetNorm(norm) for norm in (module.attention_norm, module.feed_forward_norm)
    )
    return module


@golden_files("selective")
@pytest.mark.parametrize(
    ("variant", "settings"),
    [
        ("source_offline", {}),
        ("source_online", {"online": True}),
        ("source_sparse_words", {"words": "sparsemax"}),
        ("target_offline", {"side": "target"}),
    ],
)
@torch.no_grad()
def test_selective_attention(variant: str, settings: dict[str, Any], file: str) -> None:
    golden = Golden(file)
    module = selective(golden, **settings)
    lengths, target = golden.arrays["lengths"].long(), settings.get("side") == "target"
    ids = (torch.arange(golden.arrays["states"].shape[2]) < lengths[..., None]).long() * 7
    ids[..., 0] = torch.where(lengths > 0, 1, 0)
    ids.scatter_(-1, (lengths - 1).clamp(min=0)[..., None], torch.where(lengths > 0, 2, 0)[..., None])
    contexts: list[Tensor] = []
    module.feed_forward_norm.register_forward_hook(lambda *call: contexts.append(call[2][0]))
    if target:  # the end of a sentence is no input of the decoder
        ids = ids.masked_fill(ids == 2, 0)
    layout, real = Layout(ids), ids != 0
    base = golden.arrays["top" if target else "states"][real]
    middle = golden.arrays["mid"][real] if target else None
    found = module(base, layout, module.initial_state(len(ids)), middle).states
    if module.online:  # the first sentence reads nothing
        real[:, 0] = False
    counted = real[ids != 0]
    close(found[counted], golden.arrays[f"{variant}_out"][real])
    close(torch.cat(contexts)[counted], golden.arrays[f"{variant}_context"][real])

"""The equations of the systems behind the seam, written out token by token, in settings that no golden file has.

Each test runs a whole model over documents of different lengths side by side, and computes what every context module
made of its inputs a second time: with loops over documents, sentences, tokens and heads, from the module's parameters.
Gradients are compared, too, so that what is detached in one writing is detached in the other.
"""

import copy
import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers import START, random_ids, tiny_config, tiny_model
from tram.model.contexts.base import Context
from tram.model.transformer import Transformer

# Tokens of the sentences of each document: single tokens, one sentence, more than most memories hold
SOURCE = [[3, 1, 5, 2, 4], [6], [2, 2, 1]]
TARGET = [[2, 4, 1, 5, 2], [3], [1, 6, 2]]
SIZES: list[dict[str, Any]] = [
    {"d_model": 12, "heads": 1, "norm": "post"},
    {"d_model": 18, "heads": 3, "norm": "pre", "encoder_layers": 1, "decoder_layers": 3},
]
Lengths = list[list[int]]
Rows = list[Tensor]  # (d_model) each
sizes = pytest.mark.parametrize("size", SIZES, ids=["one head, post-norm", "three heads, pre-norm, other depths"])


@dataclass
class Call:
    """What a context module was given and returned: packed, (real tokens, d_model)."""

    module: Any
    given: dict[str, Any]
    states: Tensor
    loss: Tensor | None

    def documents(self, name: str) -> list[list[Tensor]]:
        return as_documents(self.given[name], self.given["layout"])


def as_documents(packed: Tensor, layout: Any) -> list[list[Tensor]]:
    """Packed rows by document and sentence; documents without the empty sentences at their end."""
    parts = packed.split(layout.counts.tolist())
    sentences = layout.shape[1]
    documents = [parts[i : i + sentences] for i in range(0, len(parts), sentences)]
    return [[part for part in document if len(part)] for document in documents]


def run(
    size: dict[str, Any], context: dict[str, Any], source: Lengths = SOURCE, target: Lengths = TARGET
) -> tuple[dict[str, Call], Transformer]:
    """Run a model with random weights over documents; return the calls of its context modules by their seats."""
    model = tiny_model(tiny_config(**{"max_positions": 96, **size, "context": context}))
    calls = {}
    for name, module in model.contexts().items():

        def look(module: nn.Module, given: Any, named: Any, result: Any, name: str = name) -> None:
            bound = inspect.signature(module.forward).bind(*given, **named).arguments  # type: ignore[arg-type]
            calls[name] = Call(module, bound, result.states, result.loss)

        if type(module).forward is not Context.forward:
            module.register_forward_hook(look, with_kwargs=True)
    model.forced_decode(random_ids(source, 1, padding=2), random_ids(target, 2, first=START, padding=2))
    return calls, model


def check(call: Call, expected: Callable[[int, int, int], Tensor]) -> None:
    """Compare every token with what `expected` says of a document, a sentence and a token; and all gradients."""
    documents = enumerate(as_documents(call.states, call.given["layout"]))
    rows = [expected(d, s, t) for d, document in documents for s, part in enumerate(document) for t in range(len(part))]
    check_rows(call, call.states, torch.stack(rows))


def check_rows(call: Call, found: Tensor, expected: Tensor) -> None:
    """Compare rows, and their gradients into the inputs and parameters of a module and of its host."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(3), dtype=found.dtype)
    parts: list[Any] = [call.given[name] for name in ("inputs", "local", "states", "middle") if name in call.given]
    parts += call.module.parameters()
    if (host := call.given.get("host")) is not None:
        parts += [*host.attention.parameters(), *host.norm.parameters()]
    if (source := call.given.get("source")) is not None:
        parts.append(source.states)
    gradients = [
        torch.autograd.grad((rows * weights).sum(), parts, retain_graph=True, allow_unused=True, materialize_grads=True)
        for rows in (found, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-8)


def detached(rows: Iterable[Tensor]) -> Rows:
    """Rows that no gradient goes through."""
    return [row.detach() for row in rows]


def attended(query: Tensor, keys: Tensor, values: Tensor, heads: int, bias: Tensor | None = None) -> Tensor:
    """Attention of one token, (d_model), before its output projection.

    keys, values: (keys, d_model); bias: (keys, heads), added to the products.
    """
    e = len(query) // heads
    found = []
    for h in range(heads):
        part = slice(h * e, (h + 1) * e)
        scores = keys[:, part] @ query[part] if bias is None else keys[:, part] @ query[part] + bias[:, h]
        weights = torch.exp(scores / math.sqrt(e))
        found.append(weights / weights.sum() @ values[:, part])
    return torch.cat(found)


def keys_and_values(attention: Any, rows: Rows) -> tuple[Tensor, Tensor]:
    """The projections of rows."""
    keys, values = attention.key_value(torch.stack(rows)).chunk(2, -1)
    return keys, values


def attention_to(attention: Any, query: Tensor, rows: Rows) -> Tensor:
    """MHA of one token."""
    keys, values = keys_and_values(attention, rows)
    found: Tensor = attention.output(attended(attention.query(query), keys, values, attention.heads))
    return found


def sinus(distance: int, width: int) -> Tensor:
    """All sines, then all cosines."""
    angles = [distance * 10000 ** (-2 * i / width) for i in range(width // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def transformer_xl_attention(call: Call, own: Rows, memory: Rows, place: int) -> Tensor:
    """Equation of Transformer-XL for one token: behind the memory, at this place of its sentence."""
    module, host = call.module, call.given["host"]
    attention, heads = host.attention, host.attention.heads
    rows = memory + (own[: place + 1] if host.causal else own)
    query = attention.query(host.norm(own[place]))
    content, distance = module.biases.content.flatten(), module.biases.distance.flatten()
    r = module.distance(torch.stack([sinus(len(memory) + place - b, len(query)) for b in range(len(rows))]))
    bias = ((query + distance) * r).unflatten(-1, (heads, -1)).sum(-1)
    keys, values = keys_and_values(attention, list(host.norm(torch.stack(rows))))
    found: Tensor = attention.output(attended(query + content, keys, values, heads, bias))
    return found


@sizes
@pytest.mark.parametrize("memory_length", [1, 4, 50])
def test_transformer_xl(size: dict[str, Any], memory_length: int) -> None:
    calls, _ = run(size, {"kind": "transformer_xl", "memory_length": memory_length})
    assert len(calls) == size.get("encoder_layers", 2) + size.get("decoder_layers", 2)
    for call in calls.values():
        documents = call.documents("inputs")

        def expected(d: int, s: int, t: int, call: Call = call, documents: Any = documents) -> Tensor:
            before = [row for sentence in documents[d][:s] for row in sentence]
            return transformer_xl_attention(call, list(documents[d][s]), detached(before[-memory_length:]), t)

        check(call, expected)


@sizes
@pytest.mark.parametrize(("memory_length", "compressed_length", "ratio"), [(1, 1, 1), (3, 2, 2), (4, 1, 3), (2, 9, 4)])
def test_compressive(size: dict[str, Any], memory_length: int, compressed_length: int, ratio: int) -> None:
    settings = {"memory_length": memory_length, "compressed_length": compressed_length, "ratio": ratio}
    calls, _ = run(size, {"kind": "compressive", **settings, "reconstruction": 0.7})
    for name, call in calls.items():
        module, host = call.module, call.given["host"]
        attention, heads = host.attention, host.attention.heads
        layers = size.get(f"{name.split('.')[0]}_layers", 2)
        frozen = copy.deepcopy(attention).requires_grad_(False)  # only the convolution learns from the loss
        states: dict[tuple[int, int, int], Tensor] = {}
        losses: Rows = []
        for d, document in enumerate(call.documents("inputs")):
            memory: Rows = []
            compressed: Rows = []
            for s, sentence in enumerate(document):
                own = [host.norm(row) for row in sentence]
                past = compressed + memory
                for t, row in enumerate(own):
                    rows = past + (own[: t + 1] if host.causal else own)
                    query = attention.query(row)
                    parts = query.unflatten(0, (heads, -1))
                    distances = [len(past) + t - b for b in range(len(rows))]
                    vectors = [module.table.table[:, n + module.table.future] for n in distances]
                    bias = torch.stack([(parts * vector).sum(1) for vector in vectors])
                    keys, values = keys_and_values(attention, rows)
                    states[d, s, t] = attention.output(attended(query, keys, values, heads, bias))
                memory = memory + detached(own)
                old: Rows = []
                new: Rows = []
                while len(memory) - memory_length >= ratio:
                    group, memory = memory[:ratio], memory[ratio:]
                    kernel = module.compress.weight  # (d_model, d_model, ratio)
                    old += group
                    new.append(sum(kernel[:, :, i] @ each for i, each in enumerate(group)) + module.compress.bias)
                compressed = (compressed + detached(new))[-compressed_length:]
                for row in own:
                    loss = torch.zeros((), dtype=torch.float64)
                    if new:
                        query = frozen.query(row.detach())
                        was, is_now = (attended(query, *keys_and_values(frozen, each), heads) for each in (old, new))
                        loss = 0.7 / layers * ((was - is_now) ** 2).mean()
                    losses.append(loss)
        check(call, lambda d, s, t, states=states: states[d, s, t])  # type: ignore[misc]
        assert call.loss is not None
        check_rows(call, call.loss, torch.stack(losses))


@sizes
@pytest.mark.parametrize(("sentences", "special"), [(1, (1,)), (2, (5, 7, 9, 11)), (5, ())])
def test_hierarchical_attention(size: dict[str, Any], sentences: int, special: tuple[int, ...]) -> None:
    """Sentences without any word, fewer predecessors than k, and none."""
    calls, _ = run(size, {"kind": "han", "sentences": sentences, "special": special})
    assert len(calls) == 2
    for call in calls.values():
        module, documents = call.module, call.documents("states")
        ids = as_documents(call.given["layout"].ids[:, None], call.given["layout"])

        def expected(d: int, s: int, t: int, call: Call = call, documents: Any = documents, ids: Any = ids) -> Tensor:
            module = call.module
            own = documents[d][s][t]
            q = own.detach()
            read = []
            for before in range(s - 1, max(s - sentences, 0) - 1, -1):
                pairs = zip(detached(documents[d][before]), ids[d][before][:, 0].tolist(), strict=True)
                words = [row for row, id in pairs if id not in special]
                if words:
                    found = attention_to(module.word_attention, module.word_query_norm(q), words)
                    read.append(module.word_norm(found))
            if not read:
                return module.output_norm(own)  # type: ignore[no-any-return]
            context = attention_to(module.sentence_attention, module.sentence_query_norm(q), read)
            context = context + module.feed_forward(module.feed_forward_norm(context))
            gate = torch.sigmoid(module.gate(torch.cat([own, context])))
            return module.output_norm((1 - gate) * own + gate * context)  # type: ignore[no-any-return]

        check(call, expected)
        assert module.reach == sentences


def projection(scores: Tensor) -> Tensor:
    """The nearest probabilities to scores: the threshold is found by bisection."""
    values = scores.tolist()
    low, high = max(values) - 1, max(values)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(value - middle, 0) for value in values) > 1 else (low, middle)
    inside = [value > low + 1e-12 for value in values]
    threshold = (scores[inside].sum() - 1) / sum(inside)  # the same, with a gradient
    return torch.where(torch.tensor(inside), scores - threshold, 0)


@sizes
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("words", ["softmax", "sparsemax"])
def test_selective_attention(size: dict[str, Any], side: str, online: bool, words: str) -> None:
    settings = {"side": side, "online": online, "words": words, "special": (5, 7)}
    calls, _ = run(size, {"kind": "selective", **settings})
    (call,) = calls.values()
    module, heads = call.module, size["heads"]
    base, layout = call.documents("states"), call.given["layout"]
    query = call.documents("middle") if side == "target" else base
    ids = as_documents(layout.ids[:, None], layout)
    e = size["d_model"] // heads

    def is_word(id: int) -> bool:
        return side == "target" or id not in (5, 7)

    def expected(d: int, s: int, t: int) -> Tensor:
        others = [n for n in range(len(base[d])) if (n < s if online else n != s)]
        places = {n: [i for i, id in enumerate(ids[d][n][:, 0].tolist()) if is_word(id)] for n in others}
        others = [n for n in others if places[n]]
        if not others:
            return base[d][s][t]
        x, found = query[d][s][t], []
        for h in range(heads):
            part = slice(h * e, (h + 1) * e)
            means = torch.stack([query[d][n][places[n]].detach().mean(0) for n in others])
            scores = module.sentence_key(means)[:, part] @ module.sentence_query(x)[part]
            chosen = projection(scores / math.sqrt(e))
            total = torch.zeros(e, dtype=torch.float64)
            for weight, n in zip(chosen, others, strict=True):
                by_word = module.word_key(query[d][n][places[n]].detach())[:, part] @ module.word_query(x)[part]
                inside = by_word / math.sqrt(e)
                inside = projection(inside) if words == "sparsemax" else inside.exp() / inside.exp().sum()
                total = total + weight * inside @ module.value(base[d][n][places[n]].detach())[:, part]
            found.append(total)
        context = module.output(torch.cat(found))
        context = module.feed_forward_norm(module.feed_forward(module.attention_norm(context)))
        gate = torch.sigmoid(module.base_gate(base[d][s][t]) + module.context_gate(context))
        return gate * base[d][s][t] + (1 - gate) * context

    check(call, expected)


def segments(lengths: list[int], sentences: int, tokens: int | None = None) -> list[int]:
    """Where the segment of each sentence begins, by the greedy rule."""
    starts: list[int] = []
    for n in range(len(lengths)):
        start = starts[-1] if starts else 0
        full = n - start >= sentences or (tokens is not None and sum(lengths[start : n + 1]) >= tokens)
        starts.append(n if full and n > 0 else start)
    return starts


def segment_of(starts: list[int], s: int) -> list[int]:
    """The sentences of the segment that a sentence is in."""
    return [n for n, start in enumerate(starts) if start == starts[s]]


@sizes
@pytest.mark.parametrize("sentences", [1, 2, 4])
def test_zheng(size: dict[str, Any], sentences: int) -> None:
    calls, model = run(size, {"kind": "zheng", "sentences": sentences})
    heads = size["heads"]
    cut = [segments(document, sentences) for document in SOURCE]
    top = calls.pop(next(name for name in calls if name.startswith("encoder")))
    module, documents = top.module, top.documents("states")

    def whole_segment(d: int, s: int, t: int) -> Tensor:
        h = documents[d][s][t]
        query = module.attention.query(module.norm(h))
        keys, values = [], []
        for n in segment_of(cut[d], s):
            distance = max(-sentences, min(sentences, n - s)) + sentences
            own_keys, own_values = keys_and_values(module.attention, list(module.norm(documents[d][n])))
            keys.append(own_keys + module.relative_keys[distance].repeat(heads))
            values.append(own_values + module.relative_values[distance].repeat(heads))
        u = h + module.attention.output(attended(query, torch.cat(keys), torch.cat(values), heads))
        z = u + module.feed_forward(module.feed_forward_norm(u))
        gate = torch.sigmoid(module.gate(torch.cat([h, z])))
        return gate * h + (1 - gate) * z

    check(top, whole_segment)
    numbers = [[s - start for s, start in enumerate(starts)] for starts in cut]
    added = as_documents(module.embedding(top.given["layout"]), top.given["layout"])
    for d, document in enumerate(added):
        for s, sentence in enumerate(document):
            torch.testing.assert_close(sentence, module.sentence_embeddings[[numbers[d][s]] * len(sentence)])
    assert len(calls) == model.config.decoder_layers
    for call in calls.values():
        inputs = call.documents("inputs")

        def with_the_sentence_before(d: int, s: int, t: int, call: Call = call, inputs: Any = inputs) -> Tensor:
            memory = detached(inputs[d][s - 1]) if s - 1 in segment_of(cut[d], s) else []
            return transformer_xl_attention(call, list(inputs[d][s]), memory, t)

        check(call, with_the_sentence_before)


@sizes
@pytest.mark.parametrize(("sentences", "tokens"), [(2, 80), (1000, 33), (1000, 80)])
def test_g_transformer(size: dict[str, Any], sentences: int, tokens: int) -> None:
    source, target = [[9, 11, 12, 2, 20], [30], [2, 2, 7, 1, 5]], [[2, 4, 1, 5, 3], [3], [1, 6, 2, 4, 2]]
    layers = {"encoder": 1, "decoder": size.get("decoder_layers", 2) - 1, "cross": size.get("decoder_layers", 2)}
    settings = {"kind": "g_transformer", "hidden": 0, **layers, "tokens": tokens, "sentences": sentences}
    calls, _ = run(size, settings, source, target)
    assert len(calls) == sum(layers.values())
    cut = [segments(document, sentences, tokens) for document in source]
    counts = [n for document in source for n in document]
    for name, call in calls.items():
        inputs, local = call.documents("inputs"), call.documents("local")
        rows = [] if call.given["source"] is None else call.given["source"].states.split(counts)
        read = [rows[sum(map(len, source[:d])) :][: len(document)] for d, document in enumerate(source)]

        def expected(
            d: int, s: int, t: int, name: str = name, call: Call = call, given: Any = (inputs, local, read)
        ) -> Tensor:
            inputs, local, read = given
            seen: Rows = []
            for n in segment_of(cut[d], s):
                if name.endswith("cross"):
                    seen += list(read[d][n])
                elif name.startswith("encoder") or n < s:
                    seen += list(inputs[d][n])
                elif n == s:
                    seen += list(inputs[d][n][: t + 1])
            found = attention_to(call.module.attention, inputs[d][s][t], seen)
            gate = torch.sigmoid(call.module.gate(torch.cat([local[d][s][t], found])))
            return gate * local[d][s][t] + (1 - gate) * found

        check(call, expected)


@sizes
@pytest.mark.parametrize("flat_layers", [1, 2])
@torch.no_grad()
def test_flat_transformer(size: dict[str, Any], flat_layers: int) -> None:
    """The top layers and the decoder see the current sentence only; positions run over both parts."""
    unit = {"kind": "window", "source": 2, "target": 1, "flat_layers": flat_layers}
    model = tiny_model(tiny_config(**{**size, "encoder_layers": 2, "max_positions": 96, "unit": unit}))
    ids = random_ids([[7], [3], [9]], 1, padding=1)
    context = [4, 0, 8]  # tokens of each sequence before the current sentence
    encoder: Any = model.encoder
    found = encoder(model.layout(ids, 0), model.initial_state(3), torch.tensor(context)[:, None])
    for d, part in enumerate(as_documents(found.states, found.layout)):
        tokens = ids[d, 0][ids[d, 0] != 0].tolist()
        places = range(len(tokens))
        rows = [
            encoder.embeddings.norm(
                model.tokens.weight[tokens[i]]
                + encoder.segments[1 if i >= context[d] else 0]
                + encoder.embeddings.positions[i]
            )
            for i in places
        ]
        for number, layer in enumerate(encoder.layers):
            attention, residual = layer.self_attention.attention, layer.self_attention.residual
            pre = size["norm"] == "pre"
            top = number >= 2 - flat_layers
            rows = rows[context[d] :] if number == 2 - flat_layers else rows
            assert len(rows) == (len(tokens) - context[d] if top else len(tokens))
            keys = [residual.norm(row) for row in rows] if pre else rows
            read = [attention_to(attention, key, keys) for key in keys]
            sums = [row + each for row, each in zip(rows, read, strict=True)]
            rows = sums if pre else [residual.norm(row) for row in sums]
            norm, inner = layer.residual.norm, layer.feed_forward
            rows = [row + inner(norm(row)) if pre else norm(row + inner(row)) for row in rows]
        torch.testing.assert_close(part[0], torch.stack([encoder.norm(row) for row in rows]), rtol=0, atol=1e-9)

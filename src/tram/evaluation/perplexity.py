"""How well a model predicts the right translations, with different histories in its memory.

    perplexities(translator, sources, gold, generated)     # {"generated": …, "gold": …, "other": …, "none": …}

The tokens predicted are always the right ones. What differs is what the memory has taken in before: the document with
the model's own translations, with the right ones, as much of another document, or nothing. The first two far apart
show what its own mistakes cost. What the memory knows of a document is the distance from `gold` to `other`, not to
`none`: a model that has hardly ever met an empty memory does badly with one, whether it remembers anything or not.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from tram.data.batches import decoder_input
from tram.model.state import Carried, select_documents
from tram.text.pipeline import Side
from tram.training.loss import cross_entropy
from tram.translation.lockstep import document_ids
from tram.translation.translator import Translator

Documents = Sequence[Sequence[str]]
Ids = list[list[list[int]]]
TOGETHER = 16  # documents that go through time together


def perplexities(
    translator: Translator,
    sources: Documents,
    gold: Documents,
    generated: Documents,
    advance: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Perplexity a subword (eos counted) for every kind of history.

    A sentence model has only one, none; for `other` there must be two documents. advance: told of sentences that are
    done, `walks(translator)` times for each.
    """
    source, right = _encoded(translator, sources, "source"), _encoded(translator, gold, "target")
    found = {}
    if translator.model.has_context:
        said = _encoded(translator, generated, "target")
        found["generated"], _ = _walk(translator, source, right, said, advance)
        found["gold"], other = _walk(translator, source, right, right, advance, exchanged=len(source) > 1)
        found |= {} if other is None else {"other": other}
    return found | {"none": _walk(translator, source, right, None, advance)[0]}


def walks(translator: Translator) -> int:
    """How often `perplexities` goes through the documents."""
    return 3 if translator.model.has_context else 1


def _encoded(translator: Translator, documents: Documents, side: Side) -> Ids:
    longest = translator.model.config.max_length - 2
    return [[ids[:longest] for ids in translator.text.encode(list(document), side)] for document in documents]


@torch.inference_mode()
def _walk(
    translator: Translator,
    sources: Ids,
    gold: Ids,
    history: Ids | None,
    advance: Callable[[int], None] | None,
    exchanged: bool = False,
) -> tuple[float, float | None]:
    """Perplexity with this history; exchanged: also with that of the document before, which is about as long."""
    own, other, tokens = 0.0, 0.0, 0
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for group in np.array_split(order, math.ceil(len(order) / TOGETHER)) if order else []:
        carried: Carried = {}
        before = torch.arange(len(group), device=translator.model.tokens.weight.device).roll(1)
        for t in range(max(len(sources[i]) for i in group)):
            pairs = [(_at(sources[i], t), _at(gold[i], t)) for i in group]
            whole = [bool(source and target) for source, target in pairs]
            now, asked = (
                [pair[side] if both else [] for pair, both in zip(pairs, whole, strict=True)] for side in (0, 1)
            )
            taken = None
            if history is not None:
                taken = [_at(history[i], t) if both else [] for i, both in zip(group, whole, strict=True)]
            if exchanged:
                other += _step(translator, now, asked, None, select_documents(carried, before))[0]
            loss, count, carried = _step(translator, now, asked, taken, carried)
            own, tokens = own + loss, tokens + count
            if advance is not None:
                advance(sum(t < len(sources[i]) for i in group))
    found = [math.exp(total / max(tokens, 1)) for total in (own, other)]
    return found[0], found[1] if exchanged else None


def _step(
    translator: Translator,
    source: list[list[int]],
    gold: list[list[int]],
    taken: list[list[int]] | None,
    carried: Carried,
) -> tuple[float, int, Carried]:
    """Loss of one sentence of every document, and what is carried on after `taken`."""
    model = translator.model
    device = model.tokens.weight.device

    def ids(sentences: list[list[int]]) -> torch.Tensor:
        padded = document_ids([[sentence] for sentence in sentences])
        padded[[not sentence for sentence in sentences]] = 0
        return padded.to(device)

    target = ids(gold)
    encoded = model.encode(ids(source), carried)
    decoded = model.decode(decoder_input(target), encoded, carried)
    labels = target[..., 1:].flatten().index_select(0, decoded.layout.rows)
    loss, _ = cross_entropy(decoded.states, model.tokens.weight, model.bias, labels)
    if taken is None:
        return float(loss), len(labels), {}
    after = decoded if taken == gold else model.decode(decoder_input(ids(taken)), encoded, carried)
    return float(loss), len(labels), encoded.carried | after.carried


def _at(sentences: list[list[int]], t: int) -> list[int]:
    return sentences[t] if t < len(sentences) else []

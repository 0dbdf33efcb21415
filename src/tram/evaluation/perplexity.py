"""Perplexity of the reference translations, with different histories in the memory.

    perplexities(translator, sources, gold, generated)     # {"generated": …, "gold": …, "other": …, "none": …}

The predicted tokens are always those of the reference. What differs is what the memory has read before: the document
with the model's own translations, with the reference translations, as much of another document, or nothing. The gap
between the first two is the cost of the model's own mistakes. The gap between `gold` and `other` measures what the
memory contributes; the gap to `none` does not, because a model that has rarely seen an empty memory performs poorly
with one in any case.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from tram.data.batches import document_ids
from tram.model.state import State
from tram.text.pipeline import Side
from tram.translation.translator import Translator

Documents = Sequence[Sequence[str]]
DocumentIds = list[list[list[int]]]  # documents of sentences of ids
DOCUMENTS_PER_BATCH = 16
MOST = 700.0  # nats per subword of a model that diverged; the exponential of more is no number


def perplexities(
    translator: Translator,
    sources: Documents,
    gold: Documents,
    generated: Documents,
    advance: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Return the perplexity per subword (including eos) for every kind of history.

    A sentence model has only `none`; `other` needs at least two documents. advance: called with the number of finished
    sentences, `count_passes(translator)` times for each sentence.
    """
    source, target = _encoded(translator, sources, "source"), _encoded(translator, gold, "target")
    result = {}
    if translator.model.has_context:
        own_history = _encoded(translator, generated, "target")
        result["generated"], _ = _perplexity(translator, source, target, own_history, advance)
        result["gold"], other = _perplexity(translator, source, target, target, advance, exchanged=len(source) > 1)
        result |= {} if other is None else {"other": other}
    return result | {"none": _perplexity(translator, source, target, None, advance)[0]}


def count_passes(translator: Translator) -> int:
    """Return the number of passes over the documents that `perplexities` makes."""
    return 3 if translator.model.has_context else 1


def _encoded(translator: Translator, documents: Documents, side: Side) -> DocumentIds:
    encoded, longest = [translator.text.encode(list(document), side) for document in documents], translator.longest
    if truncated := sum(len(ids) > longest for document in encoded for ids in document):
        warnings.warn(f"perplexity: {truncated} {side} sentences were truncated to {longest} subwords", stacklevel=3)
    return [[ids[:longest] for ids in document] for document in encoded]


@torch.inference_mode()
def _perplexity(
    translator: Translator,
    sources: DocumentIds,
    gold: DocumentIds,
    history: DocumentIds | None,
    advance: Callable[[int], None] | None,
    exchanged: bool = False,
) -> tuple[float, float | None]:
    """Return the perplexity with this history and, if `exchanged`, with that of another document of similar length."""
    own, other, tokens = 0.0, 0.0, 0
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for group in np.array_split(order, math.ceil(len(order) / DOCUMENTS_PER_BATCH)) if order else []:
        state = State.empty()
        shorter = torch.arange(len(group), device=translator.model.device).roll(1)
        for t in range(max(len(sources[i]) for i in group)):
            pairs = [(_sentence(sources[i], t), _sentence(gold[i], t)) for i in group]
            complete = [bool(source and target) for source, target in pairs]
            source, target = (
                [pair[side] if both else [] for pair, both in zip(pairs, complete, strict=True)] for side in (0, 1)
            )
            read = None
            if history is not None:
                read = [_sentence(history[i], t) if both else [] for i, both in zip(group, complete, strict=True)]
            if exchanged:
                other += _step(translator, source, target, None, state.select(shorter))[0]
            loss, count, state = _step(translator, source, target, read, state)
            own, tokens = own + loss, tokens + count
            if advance is not None:
                advance(sum(t < len(sources[i]) for i in group))
    values = [math.exp(min(total / max(tokens, 1), MOST)) for total in (own, other)]
    return values[0], values[1] if exchanged else None


def _step(
    translator: Translator,
    source: list[list[int]],
    gold: list[list[int]],
    read: list[list[int]] | None,
    state: State,
) -> tuple[float, int, State]:
    """Return the loss of one sentence of every document, the number of tokens, and the state after reading `read`."""
    model, special = translator.model, translator.special

    def ids(sentences: Iterable[list[int]]) -> torch.Tensor:
        return document_ids([[sentence] for sentence in sentences]).to(model.device)

    def decoder_input(sentences: list[list[int]]) -> torch.Tensor:
        return ids(special.target(sentence)[:-1] for sentence in sentences)

    decoded = model.forced_decode(ids(map(special.source, source)), decoder_input(gold), state)
    labels = decoded.layout.pack(ids(special.target(sentence)[1:] for sentence in gold))
    loss = -model.token_log_probs(decoded.states, labels).sum()
    if read is None:
        return float(loss), len(labels), State.empty()
    after = decoded if read == gold else model.forced_decode(decoded.source, decoder_input(read), state)
    return float(loss), len(labels), after.state


def _sentence(sentences: list[list[int]], t: int) -> list[int]:
    """Return sentence t, or an empty one after the last."""
    return sentences[t] if t < len(sentences) else []

"""How well a model predicts the right translations, with different histories in its memory.

    perplexities(translator, sources, gold, generated)     # {"generated": …, "gold": …, "other": …, "none": …}

The tokens predicted are always the right ones. What differs is what the memory has taken in before: the document with
the model's own translations, with the right ones, as much of another document, or nothing. The first two far apart
show what its own mistakes cost. What the memory knows of a document is the distance from `gold` to `other`, not to
`none`: a model that has hardly ever met an empty memory does badly with one, whether it remembers anything or not.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from tram.data.batches import document_ids
from tram.model.state import State
from tram.text.pipeline import Side
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
    return [
        [ids[: translator.longest] for ids in translator.text.encode(list(document), side)] for document in documents
    ]


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
        state = State.empty()
        before = torch.arange(len(group), device=translator.model.device).roll(1)
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
                other += _step(translator, now, asked, None, state.select(before))[0]
            loss, count, state = _step(translator, now, asked, taken, state)
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
    state: State,
) -> tuple[float, int, State]:
    """Return the loss of one sentence of every document, its tokens, and the state after `taken`."""
    model, special = translator.model, translator.special

    def ids(sentences: Iterable[list[int]]) -> torch.Tensor:
        return document_ids([[sentence] for sentence in sentences]).to(model.device)

    def decoder_input(sentences: list[list[int]]) -> torch.Tensor:
        return ids(special.target(sentence)[:-1] for sentence in sentences)

    done = model.forced_decode(ids(map(special.source, source)), decoder_input(gold), state)
    labels = done.layout.pack(ids(special.target(sentence)[1:] for sentence in gold))
    loss = -model.token_log_probs(done.states, labels).sum()
    if taken is None:
        return float(loss), len(labels), State.empty()
    after = done if taken == gold else model.forced_decode(done.source, decoder_input(taken), state)
    return float(loss), len(labels), after.state


def _at(sentences: list[list[int]], t: int) -> list[int]:
    return sentences[t] if t < len(sentences) else []

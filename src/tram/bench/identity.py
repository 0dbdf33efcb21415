"""Whether engines translate alike: `tram bench identity`.

The translations of whole documents by every engine are compared with those of torch. Logits are compared with the
words of torch's translations given, while each engine carries a memory of its own from sentence to sentence.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tram.bench.documents import engines
from tram.bench.peers import Row
from tram.data.batches import document_ids
from tram.model.packing import Layout
from tram.model.state import State
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Engine
from tram.translation.engines.native import NativeEngine
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.translator import Translator

Ids = list[int]


def identity(translator: Translator, documents: Sequence[Sequence[str]], logits: int = 100) -> list[Row]:
    """Return how many sentences each engine translates as torch does, and the largest difference of logits.

    logits: sentences whose logits are compared; whole documents until there are so many.
    """
    given = [translator.split([line for line in document if line.strip()]).ids for document in documents]
    known = engines(translator.model)
    if "tram native float32" in known:
        plain = NativeEngine(translator.model, threads=1, rescoring=False)
        known["tram native float32, without rescoring"] = plain
    reference, *others = known
    expected = translated(known[reference], translator, given)
    sentences = sum(map(len, given))
    rows: list[Row] = []
    for name in others:
        found = translated(known[name], translator, given)
        same = sum(one == other for a, b in zip(found, expected, strict=True) for one, other in zip(a, b, strict=True))
        largest, compared = 0.0, 0
        for source, target in zip(given, expected, strict=True):
            if compared < logits:
                part = slice(logits - compared)
                pair = (known[reference], known[name])
                largest = max(largest, logit_difference(*pair, translator.special, source[part], target[part]))
                compared += len(source[part])
        rows.append(
            {
                "what": name,
                "sentences": sentences,
                "as torch": same,
                "share": same / max(sentences, 1),
                "logits of sentences": compared,
                "largest difference": f"{largest:.1e}",
            }
        )
    return rows


def translated(engine: Engine, translator: Translator, documents: Sequence[Sequence[Ids]]) -> list[list[Ids]]:
    """Return the ids of the translations of documents, each sentence in the context of those before it."""
    found: list[list[Ids]] = [[] for _ in documents]
    with torch.inference_mode():
        cursors = [Cursor(i, ids, translator.model.initial_state(1)) for i, ids in enumerate(documents)]
    lockstep = Lockstep(engine, translator.special, translator.beam, translator.length_penalty)
    for cursor, hypotheses in lockstep.run(cursors):
        found[cursor.number].append(hypotheses[0].ids)
    return found


@torch.inference_mode()
def logit_difference(
    one: Engine, other: Engine, special: SpecialIds, source: Sequence[Ids], target: Sequence[Ids]
) -> float:
    """Return the largest difference of two engines' logits over a document with given translations."""
    states = [engine.model.initial_state(1) for engine in (one, other)]
    largest = 0.0
    for ids, words in zip(source, target, strict=True):
        both = [_forced(engine, special, ids, words, state) for engine, state in zip((one, other), states, strict=True)]
        (logits, _), (others, _) = both
        largest = max(largest, float((logits - others).abs().max()))
        states = [state for _, state in both]
    return largest


def _forced(engine: Engine, special: SpecialIds, source: Ids, target: Ids, state: State) -> tuple[Tensor, State]:
    """Return the logits of all steps of a sentence with given words, (steps, vocabulary), and the state after it."""
    encoded = engine.encode(document_ids([[special.source(source)]]), state)
    state = state | encoded.state
    decoding = engine.start(encoded, state, special, 1)
    logits = []
    for token in [*special.target_start, *target]:
        logits.append(decoding.step([[token]]).logits()[0])
    layout = Layout(document_ids([[special.decoder_input(target)]]))
    return torch.cat(logits), engine.advance(decoding.update_inputs(0, 0), layout, state)

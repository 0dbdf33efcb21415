"""Speed of training and decoding as a ratio to a peer: `tram bench train` and `tram bench decode`."""

import importlib.util
import itertools
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.bench.ctranslate2 import CTranslate2
from tram.bench.documents import engines
from tram.bench.peers import (
    FIRST_WORD,
    SIZES,
    SPECIAL,
    Row,
    Work,
    alternately,
    bart,
    compared,
    in_turn,
    random_ids,
    ratios,
)
from tram.config import MemoryConfig, ModelConfig
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.training.loss import cross_entropy
from tram.translation.engines.base import Engine
from tram.translation.search import search


def training(rounds: int = 7) -> list[Row]:
    """Measure forward, backward and AdamW step: against BART on sentences, and documents against sentences."""
    return [row for name in SIZES for row in (training_sentences(name, rounds), *training_documents(name, rounds))]


def training_sentences(name: str, rounds: int) -> Row:
    """Measure sentences of similar length, as in a sorted batch."""
    config, vocabulary = SIZES[name]
    torch.manual_seed(1)
    sentences = 16 if config.d_model > 256 else 40
    source, target = (random_ids(sentences, 23, 27, vocabulary) for _ in range(2))
    ours, peer = Transformer(config, vocabulary), bart(config, vocabulary)
    work = {"tram": _step(ours, source[None], target[None]), "transformers": _peer_step(peer, source, target)}
    return compared(f"{name}, sentences", alternately(work, rounds), int((target != PAD).sum()), "transformers")[0]


def training_documents(name: str, rounds: int, documents: int = 2, sentences: int = 32, length: int = 25) -> list[Row]:
    """Measure documents in parallel, at depth 1 and at full depth, against sentences without memory and one by one."""
    config, vocabulary = SIZES[name]
    torch.manual_seed(1)
    source, target = (torch.randint(FIRST_WORD, vocabulary, (documents, sentences, length)) for _ in range(2))

    def with_memory(depth: Any) -> Transformer:
        return Transformer(ModelConfig(**config.model_dump() | {"context": MemoryConfig(depth=depth)}), vocabulary)

    one = with_memory(1)
    work = {
        "documents, depth 1": _step(one, source, target),
        "documents, full depth": _step(with_memory("full"), source, target),
        "sentences": _step(Transformer(config, vocabulary), source, target),
    }
    rows = compared(name, alternately(work, rounds), target.numel(), "sentences")
    alone = {
        "one document": _step(one, source[:1], target[:1]),
        "sentence by sentence": _stepwise(one, source[:1], target[:1]),
    }
    return rows + compared(name, alternately(alone, max(rounds // 2, 1)), target[:1].numel(), "sentence by sentence")


def decoding(
    rounds: int = 5,
    batches: Sequence[int] = (16,),
    beams: Sequence[int] = (5,),
    sizes: Sequence[str] = tuple(SIZES),
    quick: bool = False,
) -> list[Row]:
    """Measure searches over one batch with every engine, with a memory, beside peers without one.

    Every hypothesis is made to run to the same length. quick: without the slow ones, the torch engine and transformers.
    """
    cases = itertools.product(sizes, batches, beams)
    return [row for name, batch, beam in cases for row in _searches(name, rounds, batch, beam, quick)]


def _searches(name: str, rounds: int, batch: int, beam: int, quick: bool, length: int = 25) -> list[Row]:
    config, vocabulary = SIZES[name]
    torch.manual_seed(1)
    source = random_ids(batch, 20, 30, vocabulary)
    settings = config.model_dump() | {"context": MemoryConfig()}
    model = peaked(Transformer(ModelConfig(**settings), vocabulary).eval())
    work: Work = {}
    for kind, engine in engines(model).items():
        if not (quick and kind.startswith("tram torch")):
            work[kind] = partial(_search, engine, source, beam, length)
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("ctranslate2") is not None:
            peer = CTranslate2(model, SPECIAL, Path(folder))
            sentences = [[id for id in row if id != PAD] for row in source.tolist()]
            for precision in ("float32", "int8"):
                work[f"CTranslate2 {precision}"] = peer.work([sentences], beam, precision, length)
        if not quick:
            work["transformers"] = partial(_generate, bart(config, vocabulary).eval(), source, beam, length)
        times = in_turn(work, rounds)
    what = f"{name}, beam {beam}, batch {batch}"
    tokens = batch * length
    return [
        {"model": what, "what": kind, "tokens/s": tokens / statistics.median(taken), **ratios(kind, times)}
        for kind, taken in times.items()
    ]


@torch.no_grad()
def peaked(model: Transformer, factor: float = 20.0) -> Transformer:
    """Scale the token table of a model with random weights so that few words have most of the probability.

    As in a trained model: without it all hypotheses of a beam are about equally good, and int8 chooses among them at
    random. The end has no weight, so that it is chosen at the limit alone.
    """
    model.tokens.weight *= factor
    model.tokens.weight[SPECIAL.end] = 0
    return model


@torch.inference_mode()
def _search(engine: Engine, ids: Tensor, beam: int, length: int) -> None:
    """Search in every sentence of a batch, each the first one of a document. ids: (sentences, tokens)."""
    state = engine.model.initial_state(len(ids))
    encoded = engine.encode(ids[:, None], state)
    search(engine, encoded, [length] * len(ids), SPECIAL, beam, state=state | encoded.state)


@torch.inference_mode()
def _generate(model: Any, ids: Tensor, beam: int, length: int) -> None:
    """Let a model of `transformers` produce so many tokens for every sentence."""
    model.generate(
        input_ids=ids,
        attention_mask=(ids != PAD).long(),
        num_beams=beam,
        do_sample=False,
        min_new_tokens=length,
        max_new_tokens=length,
    )


def _step(model: Transformer, source: Tensor, target: Tensor) -> Callable[[], None]:
    """Return one update on whole documents. source, target: (documents, sentences, tokens)."""

    def loss() -> Tensor:
        done = model.forced_decode(source, target)
        return _loss(model, done.states, done.layout.ids)

    return _optimised(model, loss)


def _stepwise(model: Transformer, source: Tensor, target: Tensor) -> Callable[[], None]:
    """Return the same update, sentence by sentence: the straightforward implementation."""

    def loss() -> Tensor:
        total, state = torch.zeros(()), State.empty()
        for t in range(source.shape[1]):
            done = model.forced_decode(source[:, t : t + 1], target[:, t : t + 1], state)
            total = total + _loss(model, done.states, done.layout.ids)
            state = done.state
        return total / source.shape[1]

    return _optimised(model, loss)


def _loss(model: Transformer, states: Tensor, ids: Tensor) -> Tensor:
    return cross_entropy(states, model.tokens.weight, None, ids.roll(-1), 0.1)[0] / len(ids)


def _peer_step(model: Any, source: Tensor, target: Tensor) -> Callable[[], None]:
    labels = target.roll(-1, 1).masked_fill(target == PAD, -100)

    def loss() -> Tensor:
        output = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target)
        return F.cross_entropy(output.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)

    return _optimised(model, loss)


def _optimised(model: Any, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step

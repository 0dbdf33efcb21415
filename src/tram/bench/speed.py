"""Speed of training and decoding as a ratio to a peer: `tram bench train` and `tram bench decode`."""

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.bench.ctranslate2 import CTranslate2
from tram.bench.peers import FIRST_WORD, SIZES, SPECIAL, Row, Work, alternately, bart, compared, random_ids
from tram.config import MemoryConfig, ModelConfig
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.training.loss import cross_entropy
from tram.translation.engines.torch import TorchEngine
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


def decoding(rounds: int = 5, batch: int = 16, beam: int = 5, length: int = 25) -> list[Row]:
    """Measure beam search over one batch; every hypothesis is made to run to the same length."""
    rows = []
    for name, (config, vocabulary) in SIZES.items():
        torch.manual_seed(1)
        source = random_ids(batch, 20, 30, vocabulary)
        ours, peer = Transformer(config, vocabulary).eval(), bart(config, vocabulary).eval()

        def we(model: Transformer = ours, ids: Tensor = source) -> None:
            with torch.inference_mode():
                # Random weights hardly ever choose the end: the limit ends the search, for both alike.
                search(TorchEngine(model), model.encode(ids[None]), [length] * batch, SPECIAL, beam)

        def they(model: Any = peer, ids: Tensor = source) -> None:
            with torch.inference_mode():
                model.generate(
                    input_ids=ids,
                    attention_mask=(ids != PAD).long(),
                    num_beams=beam,
                    do_sample=False,
                    min_new_tokens=length,
                    max_new_tokens=length,
                )

        with tempfile.TemporaryDirectory() as folder:
            work: Work = {"tram": we, "transformers": they}
            if importlib.util.find_spec("ctranslate2") is not None:
                third = CTranslate2(ours, SPECIAL, Path(folder))
                sentences = [[id for id in row if id != PAD] for row in source.tolist()]
                for precision in ("float32", "int8"):
                    work[f"CTranslate2 {precision}"] = third.work([sentences], beam, precision, length)
            seconds = alternately(work, rounds)
        rows += compared(f"{name}, beam {beam}, batch {batch}", seconds, batch * length, "transformers")
    return rows


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

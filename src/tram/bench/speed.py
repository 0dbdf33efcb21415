"""Speed as a ratio to a peer, both measured in turn in one run on one thread: `tram bench {train,decode,memory}`.

The peers are a BART of `transformers` of the same size, and for documents our own sentence-level training. Weights
are random and dropout is 0; both get the same batch. Times are taken alternately and their medians compared, so that
a busy machine slows both down. Memory is the peak of a process of its own.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.bench.peers import SIZES, Row, _rows, alternately, bart, random_ids
from tram.config import MemoryConfig, ModelConfig
from tram.model.state import Carried
from tram.model.transformer import Transformer
from tram.text.special_ids import EOS, PAD
from tram.training.loss import cross_entropy
from tram.translation.search import search


def training(rounds: int = 7) -> list[Row]:
    """Forward, backward and AdamW step: against BART on sentences, and documents against sentences."""
    return [row for name in SIZES for row in (training_sentences(name, rounds), *training_documents(name, rounds))]


def training_sentences(name: str, rounds: int) -> Row:
    """Sentences of like length, as a sorted batch has them."""
    config, vocabulary = SIZES[name]
    torch.manual_seed(1)
    sentences = 16 if config.d_model > 256 else 40
    source, target = (random_ids(sentences, 23, 27, vocabulary) for _ in range(2))
    ours, peer = Transformer(config, vocabulary), bart(config, vocabulary)
    work = {"tram": _step(ours, source[None], target[None]), "transformers": _peer_step(peer, source, target)}
    return _rows(f"{name}, sentences", alternately(work, rounds), int((target != PAD).sum()), "transformers")[0]


def training_documents(name: str, rounds: int, documents: int = 2, sentences: int = 32, length: int = 25) -> list[Row]:
    """Documents in parallel, at depth 1 and at full depth, against sentences without memory and one by one."""
    config, vocabulary = SIZES[name]
    torch.manual_seed(1)
    source, target = (torch.randint(EOS + 1, vocabulary, (documents, sentences, length)) for _ in range(2))

    def with_memory(depth: Any) -> Transformer:
        return Transformer(ModelConfig(**config.model_dump() | {"memory": MemoryConfig(depth=depth)}), vocabulary)

    one = with_memory(1)
    work = {
        "documents, depth 1": _step(one, source, target),
        "documents, full depth": _step(with_memory("full"), source, target),
        "sentences": _step(Transformer(config, vocabulary), source, target),
    }
    rows = _rows(name, alternately(work, rounds), target.numel(), "sentences")
    alone = {
        "one document": _step(one, source[:1], target[:1]),
        "sentence by sentence": _stepwise(one, source[:1], target[:1]),
    }
    return rows + _rows(name, alternately(alone, max(rounds // 2, 1)), target[:1].numel(), "sentence by sentence")


def decoding(rounds: int = 5, batch: int = 16, beam: int = 5, length: int = 25) -> list[Row]:
    """Beam search over one batch; every hypothesis is made to run to the same length."""
    rows = []
    for name, (config, vocabulary) in SIZES.items():
        torch.manual_seed(1)
        source = random_ids(batch, 20, 30, vocabulary)
        ours, peer = Transformer(config, vocabulary).eval(), bart(config, vocabulary).eval()

        def we(model: Transformer = ours, ids: Tensor = source) -> None:
            with torch.inference_mode():
                # Random weights hardly ever choose eos: the limit ends the search, for both alike.
                search(model, model.encode(ids[None]), [length] * batch, beam)

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

        seconds = alternately({"tram": we, "transformers": they}, rounds)
        rows += _rows(f"{name}, beam {beam}, batch {batch}", seconds, batch * length, "transformers")
    return rows


def _step(model: Transformer, source: Tensor, target: Tensor) -> Callable[[], None]:
    """One update on documents at once. source, target: (documents, sentences, tokens)."""

    def loss() -> Tensor:
        decoded = model.decode(target, model.encode(source))
        return _loss(model, decoded.states, decoded.layout.ids)

    return _optimised(model, loss)


def _stepwise(model: Transformer, source: Tensor, target: Tensor) -> Callable[[], None]:
    """The same update, sentence after sentence, as one would write it down first."""

    def loss() -> Tensor:
        total, carried = torch.zeros(()), Carried()
        for t in range(source.shape[1]):
            encoded = model.encode(source[:, t : t + 1], carried)
            decoded = model.decode(target[:, t : t + 1], encoded, carried)
            total = total + _loss(model, decoded.states, decoded.layout.ids)
            carried = encoded.carried | decoded.carried
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

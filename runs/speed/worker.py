"""One side of `checkouts.py`: measures pieces of work with the tram that PYTHONPATH names, on request.

Reads one JSON object per line, `{"work": NAME, "argument": …}`, and answers with one: CPU seconds and what came out.
Knows the module names of 596f58d and the present ones. All sides get the same weights, ids and text.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

try:  # the present names
    from tram.bench.speed import _loss
    from tram.config import MemoryConfig, ModelConfig, TrainConfig
    from tram.model.transformer import Transformer
    from tram.training.optimizers import make_optimizer
    from tram.training.processes import keep_freed_memory
    from tram.translation.lockstep import Cursor, Lockstep
    from tram.translation.translator import Translator

    KEY, NEW = "context", True
except ImportError:  # those of 596f58d
    from tram.lockstep import Cursor, Lockstep  # type: ignore[import-not-found,no-redef]
    from tram.optim import make_optimizer  # type: ignore[import-not-found,no-redef]
    from tram.transformer import Transformer  # type: ignore[import-not-found,no-redef]
    from tram.translator import Translator  # type: ignore[import-not-found,no-redef]

    from tram.bench import _loss  # type: ignore[attr-defined,no-redef]
    from tram.config import MemoryConfig, ModelConfig, TrainConfig

    KEY, NEW = "memory", False

SIZES = {
    "base": (ModelConfig(), 30_000, MemoryConfig(depth=1)),
    "shipped": (
        ModelConfig(
            d_model=256,
            heads=4,
            feed_forward=1024,
            encoder_layers=4,
            decoder_layers=2,
            norm="pre",
            activation="relu",
        ),
        8_577,
        MemoryConfig(depth=1, read="add"),
    ),
}
Work = Callable[[], Any]


def training(size: str, ragged: bool, optimizer: str) -> Work:
    """Return an update on two documents of 32 sentences at gradient depth 1."""
    config, vocabulary, memory = SIZES[size]
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**config.model_dump() | {KEY: memory}), vocabulary)
    source, target = (torch.randint(4, vocabulary, (2, 32, 25)) for _ in range(2))
    if ragged:
        absent = torch.arange(25) >= torch.randint(5, 26, (2, 32, 1))
        source, target = source.masked_fill(absent, 0), target.masked_fill(absent, 0)
    steps = make_optimizer(model, TrainConfig(optimizer=optimizer))
    for group in steps.param_groups:
        group["lr"] = 1e-6

    def update() -> None:
        done = model.forced_decode(source, target) if NEW else model.decode(target, model.encode(source))
        loss = _loss(model, done.states, done.layout.ids)
        loss.backward()
        steps.step()
        steps.zero_grad()

    return update


def muon(size: str) -> Work:
    """Return a step of Muon alone, on gradients that stay the same."""
    config, vocabulary, memory = SIZES[size]
    model = Transformer(ModelConfig(**config.model_dump() | {KEY: memory}), vocabulary)
    steps = make_optimizer(model, TrainConfig(optimizer="muon"))
    torch.manual_seed(1)
    gradients = [torch.randn_like(parameter) for parameter in model.parameters()]

    def step() -> None:
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        steps.step()

    return step


def decoding(folder: str, text: str, sentences: int, documents: int, beam: int) -> Work:
    """Return the search in the first sentences of a text with torch; its result is a checksum of all ids."""
    settings: dict[str, Any] = {"engine": "torch"} if NEW else {}
    translator = Translator.load(folder, **settings)
    lines = [line for line in Path(text).read_text(encoding="utf-8").splitlines() if line.strip()][:sentences]
    ids = translator.split(lines).ids if NEW else translator._parts([lines])[0].ids
    length = len(ids) // documents
    given = [ids[i * length : (i + 1) * length] for i in range(documents)]
    model = translator.model

    def translate() -> str:
        if NEW:
            lockstep = Lockstep(translator.engine, translator.special, beam, 1.0, documents)
        else:
            lockstep = Lockstep(model, beam, 1.0, documents)
        with torch.inference_mode():
            start = model.initial_state if NEW else lambda number: model.complete(None, number)
            cursors = [Cursor(i, each, start(1)) for i, each in enumerate(given)]
        found = [(cursor.number, hypotheses[0].ids) for cursor, hypotheses in lockstep.run(cursors)]
        return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]

    return translate


def main() -> None:
    """Answer requests until the input ends."""
    torch.set_num_threads(1)
    if NEW and "decoding" not in sys.argv:
        keep_freed_memory()  # as `tram train` does
    known: dict[str, Callable[..., Work]] = {"training": training, "muon": muon, "decoding": decoding}
    made: dict[str, Work] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = json.dumps(request, sort_keys=True)
        if key not in made:
            made[key] = known[request["work"]](**request["arguments"])
        start = time.process_time()  # on one thread: wall time without the share of other programs
        result = made[key]()
        print(json.dumps({"seconds": time.process_time() - start, "result": result}), flush=True)


if __name__ == "__main__":
    main()

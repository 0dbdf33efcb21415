"""What speculative decoding gains: greedy search in one document, native engine, against one sentence at a time.

    python runs/speed/speculation.py TEXT --json docs/speed/speculation.json

With the shipped model and real text; and with a transformer-base of random weights, whose drafts are kept as often as
those of the shipped model were, by a draw: random weights say nothing about that. CPU time, in turn.
"""

import argparse
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from tram.bench.peers import FIRST_WORD, SIZES, SPECIAL, Row, in_turn
from tram.bench.speed import peaked
from tram.config import MemoryConfig, ModelConfig
from tram.measuring import median_interval
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Engine, Forced
from tram.translation.engines.choice import load_engine
from tram.translation.lockstep import Cursor, Ids, Lockstep
from tram.translation.speculation import SpeculativeLockstep
from tram.translation.translator import Translator

AHEAD = (1, 3, 4, 6)  # sentences at once
LENGTH = 25  # tokens of a random sentence


@dataclass(frozen=True, kw_only=True)
class Counting(SpeculativeLockstep):
    """Counts the drafts that were kept."""

    kept: list[bool] = field(default_factory=list)

    def _is_exact(self, draft: Ids, forced: Forced) -> bool:
        self.kept.append(super()._is_exact(draft, forced))
        return self.kept[-1]


@dataclass(frozen=True, kw_only=True)
class Drawing(SpeculativeLockstep):
    """Keeps a share of the drafts, whatever they are."""

    share: float
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def _is_exact(self, draft: Ids, forced: Forced) -> bool:
        return self.draw.random() < self.share


def translate(lockstep: Lockstep, model: Transformer, sentences: Sequence[Ids]) -> list[Ids]:
    """Translate one document."""
    with torch.inference_mode():
        cursor = Cursor(0, sentences, model.initial_state(1))
    return [hypotheses[0].ids for _, hypotheses in lockstep.run([cursor])]


def shipped(engine: Engine, special: SpecialIds, sentences: Sequence[Ids], ahead: int) -> list[Ids]:
    """Translate with the shipped model."""
    lockstep = SpeculativeLockstep(engine, special, 1, sentences=ahead) if ahead > 1 else Lockstep(engine, special, 1)
    return translate(lockstep, engine.model, sentences)


def drawn(engine: Engine, sentences: Sequence[Ids], share: float, ahead: int) -> list[Ids]:
    """Translate with random weights."""
    lockstep = Drawing(engine, SPECIAL, 1, sentences=ahead, share=share) if ahead > 1 else Lockstep(engine, SPECIAL, 1)
    return translate(lockstep, engine.model, sentences)


def rows(model: str, sentences: int, times: dict[str, list[float]], shares: dict[str, float]) -> list[Row]:
    """Return the time of each number of sentences at once, and its ratio to one."""
    found = []
    for name, taken in times.items():
        precision, ahead = name.split()
        each = [alone / own for alone, own in zip(times[f"{precision} 1"], taken, strict=True)]
        found.append(
            {
                "model": model,
                "precision": precision,
                "at once": int(ahead),
                "ms/sentence": 1000 * statistics.median(taken) / sentences,
                "ratio": statistics.median(each),
                "interval": list(median_interval(each)),
                "drafts kept": shares.get(name),
            }
        )
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="one sentence per line")
    parser.add_argument("--sentences", type=int, default=60, help="of the text")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    translator = Translator.load(beam=1)
    lines = [line for line in arguments.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    real = translator.split(lines[: arguments.sentences]).ids
    work, shares = {}, {}
    for precision in ("float32", "int8"):
        engine = load_engine(translator.model, "native", precision, threads=1)
        for ahead in AHEAD:
            work[f"{precision} {ahead}"] = partial(shipped, engine, translator.special, real, ahead)
            counting = Counting(engine, translator.special, 1, sentences=ahead)
            if translate(counting, translator.model, real) != shipped(engine, translator.special, real, 1):
                raise SystemExit(f"{precision}, {ahead} at once: other translations")
            if counting.kept:
                shares[f"{precision} {ahead}"] = sum(counting.kept) / len(counting.kept)
    found = rows("shipped, real text", len(real), in_turn(work, arguments.rounds), shares)

    torch.manual_seed(1)
    config, vocabulary = SIZES["transformer-base"]
    sizes = {"context": MemoryConfig(), "max_positions": LENGTH, "max_length": LENGTH - 1}
    base = Transformer(ModelConfig(**config.model_dump() | sizes), vocabulary).eval()
    with torch.no_grad():
        peaked(base)
    sentences = [torch.randint(FIRST_WORD, vocabulary, (LENGTH - 2,)).tolist() for _ in range(24)]
    work = {}
    for precision in ("float32", "int8"):
        engine = load_engine(base, "native", precision, threads=1)
        for ahead in AHEAD:
            share = shares.get(f"{precision} {ahead}", 1.0)
            work[f"{precision} {ahead}"] = partial(drawn, engine, sentences, share, ahead)
    found += rows("transformer-base, random weights", len(sentences), in_turn(work, arguments.rounds), shares)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in found:
        print(row)


if __name__ == "__main__":
    main()

"""The peers of the benchmarks, and how two sides are measured in turn in one run on one thread.

The peer is a BART of `transformers` of the same size, for decoding also CTranslate2 (`ctranslate2`), and for training
on documents tram's own sentence-level training. Weights are random and dropout is 0 unless a module says otherwise;
both get the same batch. Processor times are taken alternately and their medians compared, so that a busy machine slows
both down.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tram.config import ModelConfig
from tram.errors import InputError
from tram.measuring import median_interval
from tram.text.special_ids import PAD, SpecialIds

SPECIAL = SpecialIds()
FIRST_WORD = 3  # ids below are special
PEERS = ("CTranslate2 float32", "CTranslate2 int8", "transformers")
Row = dict[str, Any]
Work = dict[str, Callable[[], object]]


SIZES = {
    "transformer-base": (ModelConfig(), 30_000),
    "256-wide 3+3": (
        ModelConfig(d_model=256, heads=4, feed_forward=1024, encoder_layers=3, decoder_layers=3),
        8_000,
    ),
}


def bart(config: ModelConfig, vocabulary: int) -> Any:
    """Return a BART of `transformers` with the same sizes, random weights, no dropout."""
    try:
        import transformers
    except ImportError:
        raise InputError("the benchmarks need a peer: pip install 'tram-mt[pretrained]'") from None
    transformers.logging.set_verbosity_error()
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=vocabulary,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.heads,
            decoder_attention_heads=config.heads,
            encoder_ffn_dim=config.feed_forward,
            decoder_ffn_dim=config.feed_forward,
            max_position_embeddings=config.max_positions,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            pad_token_id=PAD,
            bos_token_id=SPECIAL.start,
            eos_token_id=SPECIAL.end,
            decoder_start_token_id=SPECIAL.start,
            forced_eos_token_id=None,
        )
    )


def random_ids(sentences: int, shortest: int, longest: int, vocabulary: int) -> Tensor:
    """Return (sentences, tokens) of random ids, with padding behind the shorter ones."""
    ids = torch.randint(FIRST_WORD, vocabulary, (sentences, longest))
    lengths = torch.randint(shortest, longest + 1, (sentences,))
    return ids.masked_fill(torch.arange(longest) >= lengths[:, None], PAD)


def alternately(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median processor seconds of each piece of work, measured in turn after one warm-up."""
    return {name: statistics.median(taken) for name, taken in in_turn(work, rounds).items()}


def in_turn(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of each piece of work in each round, measured in turn after one warm-up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in work}
    try:
        for round in range(rounds + 1):
            for name, run in work.items():
                start = time.process_time()  # on one thread: wall time without the share of other programs
                run()
                if round:
                    times[name].append(time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    return times


def ratios(name: str, times: Mapping[str, list[float]]) -> Row:
    """Return how many times as fast something is as each peer that was measured with it: the median over the rounds.

    `interval` has the 95% interval of the ratio to the peer of the same precision.
    """
    row: Row = {}
    interval = None
    for peer in PEERS:
        if peer in times:
            each = [theirs / own for theirs, own in zip(times[peer], times[name], strict=True)]
            row[f"ratio to {peer}"] = statistics.median(each)
            if peer == nearest_peer(name) and peer != name:
                interval = list(median_interval(each))
    return {**row, "interval": interval}


def nearest_peer(name: str) -> str:
    """Return the peer that has the precision of an engine."""
    return f"CTranslate2 {'int8' if 'int8' in name else 'float32'}"


def compared(model: str, seconds: dict[str, float], tokens: int, peer: str) -> list[Row]:
    """Return a row for everything that is compared with the peer."""
    return [
        {
            "model": model,
            "what": name,
            "tokens/s": tokens / taken,
            "peer": peer,
            "its tokens/s": tokens / seconds[peer],
            "ratio": seconds[peer] / taken,
        }
        for name, taken in seconds.items()
        if name != peer
    ]


def table(rows: list[Row]) -> str:
    """Return rows as a small text table."""
    header = list(rows[0])
    cells = [[_cell(name, value) for name, value in row.items()] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in [header, *cells]]
    return "\n".join("  ".join(line) for line in lines)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return f"[{', '.join(_cell(name, each) for each in value)}]"
    if name == "share":
        return f"{value:.2%}"
    if isinstance(value, float):
        digits = 2 if name.startswith(("ratio", "interval")) else int(value < 100)
        return f"{value:,.{digits}f}"
    return str(value)

"""Speed as a ratio to a peer, both measured in turn in one run on one thread: `tram bench train`, `tram bench decode`.

The peer is a BART of `transformers` of the same size. Weights are random and dropout is 0; the batch is the same for
both. Times of the two are taken alternately and their medians compared, so that a busy machine slows both down.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.config import ModelConfig
from tram.errors import InputError
from tram.loss import cross_entropy
from tram.search import search
from tram.subwords import BOS, EOS, PAD
from tram.transformer import Transformer

Row = dict[str, Any]
SIZES = {
    "transformer-base": (ModelConfig(), 30_000),
    "256-wide 3+3": (
        ModelConfig(d_model=256, heads=4, feed_forward=1024, encoder_layers=3, decoder_layers=3),
        8_000,
    ),
}


def training(rounds: int = 7) -> list[Row]:
    """Forward, backward and AdamW step on sentences of like length, as a sorted batch has them."""
    rows = []
    for name, (config, vocabulary) in SIZES.items():
        torch.manual_seed(1)
        sentences = 16 if config.d_model > 256 else 40
        source, target = (random_ids(sentences, 23, 27, vocabulary) for _ in range(2))
        tokens = int((target != PAD).sum())
        ours, peer = Transformer(config, vocabulary), bart(config, vocabulary)
        steps = {"tram": _our_step(ours, source, target), "transformers": _peer_step(peer, source, target)}
        rows.append(_row(name, alternately(steps, rounds), tokens))
    return rows


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
                model.generate(input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beam, do_sample=False,
                               min_new_tokens=length, max_new_tokens=length)  # fmt: skip

        rows.append(_row(name, alternately({"tram": we, "transformers": they}, rounds), batch * length))
    return rows


def _our_step(model: Transformer, source: Tensor, target: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        decoded = model.decode(target[None], model.encode(source[None]))
        labels = decoded.layout.ids.roll(-1)
        loss, _ = cross_entropy(decoded.states, model.tokens.weight, None, labels, 0.1)
        (loss / len(labels)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _peer_step(model: Any, source: Tensor, target: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    labels = target.roll(-1, 1).masked_fill(target == PAD, -100)

    def step() -> None:
        output = model(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target)
        F.cross_entropy(output.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def bart(config: ModelConfig, vocabulary: int) -> Any:
    """A BART of `transformers` with the same sizes, random weights, no dropout."""
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
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )


def random_ids(sentences: int, shortest: int, longest: int, vocabulary: int) -> Tensor:
    """(sentences, tokens) of random ids, with padding behind the shorter ones."""
    ids = torch.randint(EOS + 1, vocabulary, (sentences, longest))
    lengths = torch.randint(shortest, longest + 1, (sentences,))
    return ids.masked_fill(torch.arange(longest) >= lengths[:, None], PAD)


def alternately(work: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median seconds of each piece of work, taken in turn after one warm-up."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in work}
    try:
        for round in range(rounds + 1):
            for name, run in work.items():
                start = time.perf_counter()
                run()
                if round:
                    times[name].append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _row(name: str, seconds: dict[str, float], tokens: int) -> Row:
    ours, peer = seconds["tram"], seconds["transformers"]
    return {
        "model": name,
        "tram tokens/s": tokens / ours,
        "transformers tokens/s": tokens / peer,
        "ratio": peer / ours,
    }


def table(rows: list[Row]) -> str:
    """Rows as a small text table."""
    header = list(rows[0])
    cells = [[f"{v:,.2f}" if k == "ratio" else f"{v:,.0f}" if isinstance(v, float) else str(v) for k, v in row.items()]
             for row in rows]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in [header, *cells]
    )

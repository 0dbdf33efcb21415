"""Speed as a ratio to a peer, both measured in turn in one run on one thread: `tram bench {train,decode,memory}`.

The peers are a BART of `transformers` of the same size, and for documents our own sentence-level training. Weights
are random and dropout is 0; both get the same batch. Times are taken alternately and their medians compared, so that
a busy machine slows both down. Memory is the peak of a process of its own.
"""

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tram.config import MemoryConfig, ModelConfig
from tram.errors import InputError
from tram.lockstep import Cursor, Lockstep
from tram.loss import cross_entropy
from tram.search import search
from tram.subwords import BOS, EOS, PAD
from tram.transformer import Carried, Transformer

Row = dict[str, Any]
Work = dict[str, Callable[[], None]]
SIZES = {
    "transformer-base": (ModelConfig(), 30_000),
    "256-wide 3+3": (
        ModelConfig(d_model=256, heads=4, feed_forward=1024, encoder_layers=3, decoder_layers=3),
        8_000,
    ),
}


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


def memory(sizes: tuple[int, ...] = (10, 100, 1000), longest_sequence: int = 100) -> list[Row]:
    """Greedy decoding of one document of so many sentences of 25 tokens, each in a process of its own.

    Beside it the same tokens as one long sequence through the sentence model, up to `longest_sequence` sentences.
    """
    rows = []
    for sentences in sizes:
        row: Row = {"sentences": sentences}
        for kind in ("memory", "one sequence"):
            if kind == "memory" or sentences <= longest_sequence:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    seconds, peak = pool.apply(_decode_document, (sentences, kind == "memory"))
                row |= {f"{kind}: ms/sentence": 1000 * seconds, f"{kind}: peak MB": peak}
            else:
                row |= {f"{kind}: ms/sentence": None, f"{kind}: peak MB": None}
        rows.append(row)
    return rows


def _decode_document(sentences: int, with_memory: bool, length: int = 25) -> tuple[float, float]:
    """Seconds a sentence, and peak megabytes of this process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config, vocabulary = SIZES["256-wide 3+3"]
    positions = length + 2 if with_memory else sentences * length + 2
    settings = {"memory": MemoryConfig()} if with_memory else {}
    config = ModelConfig(**config.model_dump() | settings | {"max_positions": positions, "max_length": positions})
    model = Transformer(config, vocabulary).eval()
    ids = torch.randint(EOS + 1, vocabulary, (sentences, length)).tolist()
    document = ids if with_memory else [[token for sentence in ids for token in sentence]]

    def decode(part: list[list[int]]) -> list[float]:
        """Seconds of every ten sentences, or of the one sequence."""
        cursor = Cursor(0, part, model.complete(None, 1))
        marks = [time.process_time()]  # on one thread time on the clock, without the share of other programs
        for number, _ in enumerate(Lockstep(model, beam=1, documents=1).run([cursor]), 1):
            if number % 10 == 0 or len(part) == 1:
                marks.append(time.process_time())
        return [end - start for start, end in pairwise(marks)]

    decode([document[0][:length]])  # the first steps of a process are slow
    times = [taken for _ in range(max(100 // sentences, 1)) for taken in decode(document)]
    return middle_mean(times) / (10 if with_memory else sentences), peak_megabytes()


def middle_mean(values: list[float]) -> float:
    """The mean without the smallest and the largest quarter: other programs on the machine do not move it."""
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def peak_megabytes() -> float:
    """The most memory this process has held so far.

    Not `ru_maxrss` where Linux has something better: a new process inherits its parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


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


def alternately(work: Work, rounds: int) -> dict[str, float]:
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


def _rows(model: str, seconds: dict[str, float], tokens: int, peer: str) -> list[Row]:
    """A row for everything that is compared with the peer."""
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
    """Rows as a small text table."""
    header = list(rows[0])
    cells = [[_cell(name, value) for name, value in row.items()] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in [header, *cells]]
    return "\n".join("  ".join(line) for line in lines)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.2f}" if name == "ratio" else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
    return str(value)

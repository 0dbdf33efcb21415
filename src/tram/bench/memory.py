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
from itertools import pairwise
from pathlib import Path

import torch

from tram.bench.peers import SIZES, Row
from tram.config import MemoryConfig, ModelConfig
from tram.model.transformer import Transformer
from tram.text.special_ids import EOS
from tram.translation.lockstep import Cursor, Lockstep


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

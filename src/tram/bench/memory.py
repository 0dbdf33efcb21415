"""Time per sentence and peak memory of decoding documents of growing length: `tram bench memory`."""

import time
from itertools import pairwise

import torch

from tram.bench.peers import FIRST_WORD, SIZES, SPECIAL, Row
from tram.config import MemoryConfig, ModelConfig
from tram.data.workers import in_new_process
from tram.measuring import middle_mean, peak_megabytes
from tram.model.transformer import Transformer
from tram.translation.engines.torch import TorchEngine
from tram.translation.lockstep import Cursor, Lockstep


def memory(sizes: tuple[int, ...] = (10, 100, 1000), longest_sequence: int = 100) -> list[Row]:
    """Decode one document of each size greedily, sentences of 25 tokens, each document in a process of its own.

    Beside it the same tokens as one long sequence through the sentence model, up to `longest_sequence` sentences.
    """
    rows = []
    for sentences in sizes:
        row: Row = {"sentences": sentences}
        for kind in ("memory", "one sequence"):
            if kind == "memory" or sentences <= longest_sequence:
                seconds, peak = in_new_process(_decode_document, sentences, kind == "memory")
                row |= {f"{kind}: ms/sentence": 1000 * seconds, f"{kind}: peak MB": peak}
            else:
                row |= {f"{kind}: ms/sentence": None, f"{kind}: peak MB": None}
        rows.append(row)
    return rows


def _decode_document(sentences: int, with_memory: bool, length: int = 25) -> tuple[float, float]:
    """Return the seconds per sentence, and the peak megabytes of this process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config, vocabulary = SIZES["256-wide 3+3"]
    positions = length + 2 if with_memory else sentences * length + 2
    settings = {"context": MemoryConfig()} if with_memory else {}
    config = ModelConfig(**config.model_dump() | settings | {"max_positions": positions, "max_length": positions})
    model = Transformer(config, vocabulary).eval()
    ids = torch.randint(FIRST_WORD, vocabulary, (sentences, length)).tolist()
    document = ids if with_memory else [[token for sentence in ids for token in sentence]]

    def decode(part: list[list[int]]) -> list[float]:
        """Return the seconds of every ten sentences, or of the one sequence."""
        cursor = Cursor(0, part, model.initial_state(1))
        marks = [time.process_time()]  # on one thread: wall time without the share of other programs
        for number, _ in enumerate(Lockstep(TorchEngine(model), SPECIAL, beam=1, documents=1).run([cursor]), 1):
            if number % 10 == 0 or len(part) == 1:
                marks.append(time.process_time())
        return [end - start for start, end in pairwise(marks)]

    decode([document[0][:length]])  # the first steps of a process are slow
    times = [taken for _ in range(max(100 // sentences, 1)) for taken in decode(document)]
    return middle_mean(times) / (10 if with_memory else sentences), peak_megabytes()

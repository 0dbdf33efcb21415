"""Documents of real text, translated with the memory by every engine, beside peers without one: `tram bench document`.

All sides get the same ids, and search alone is measured. A memory needs the sentences of a document one after the
other, so the peers get one sentence of each document per call. CTranslate2 is also measured with all sentences in one
call, which it may because it has no memory. The BART of `transformers` has the sizes of the model and random weights,
and is made to produce as many tokens as tram did.
"""

import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tram.bench.ctranslate2 import CTranslate2
from tram.bench.peers import Row, Work, bart, in_turn, ratios
from tram.data.batches import document_ids
from tram.errors import InputError
from tram.model.transformer import Transformer
from tram.text.special_ids import PAD
from tram.translation.engines.base import Engine
from tram.translation.engines.choice import load_engine
from tram.translation.lockstep import Cursor, Lockstep
from tram.translation.translator import Translator

Ids = list[int]


def documents(
    translator: Translator, lines: Sequence[str], number: int = 1, rounds: int = 9, quick: bool = False
) -> list[Row]:
    """Translate lines, one sentence each, as `number` documents of equal length; return CPU time and its ratios.

    quick: without the slow ones, the torch engine and transformers.
    """
    ids = translator.split([line for line in lines if line.strip()]).ids
    length = len(ids) // number
    if not length:
        raise InputError(f"{len(ids)} sentences are too few for {number} documents; give a longer text")
    given = [ids[i * length : (i + 1) * length] for i in range(number)]
    work: Work = {}
    for name, engine in engines(translator.model).items():
        if quick and name.startswith("tram torch"):
            continue
        work[name] = partial(_translate, engine, translator, given)
    lengths = _translate(translator.engine, translator, given)
    calls = [list(step) for step in zip(*given, strict=True)]  # the sentences that are translated together
    every = [sentence for call in calls for sentence in call]
    with tempfile.TemporaryDirectory() as folder:
        model = translator.model
        peer = CTranslate2(model, translator.special, Path(folder))
        for precision in ("float32", "int8"):
            work[f"CTranslate2 {precision}"] = peer.work(calls, translator.beam, precision)
            work[f"CTranslate2 {precision}, all at once"] = peer.work([every], translator.beam, precision)
        if not quick:
            their_model = bart(model.config, model.vocabulary).eval()
            work["transformers"] = partial(_generate, their_model, translator, calls, [max(step) for step in lengths])
        times = in_turn(work, rounds)
    return [_row(name, times, number * length) for name in work]


def engines(model: Transformer) -> dict[str, Engine]:
    """Return every engine that this installation has for the model."""
    found: dict[str, Engine] = {}
    for engine, precision in (("torch", "float32"), ("native", "float32"), ("native", "int8")):
        try:
            found[f"tram {engine} {precision}"] = load_engine(model, engine, precision, threads=1)
        except InputError:
            continue  # left out of this installation
    return found


def _row(name: str, times: dict[str, list[float]], sentences: int) -> Row:
    each = 1000 * statistics.median(times[name]) / sentences
    return {"what": name, "ms/sentence": each, **ratios(name, times)}


def _translate(engine: Engine, translator: Translator, given: Sequence[Sequence[Ids]]) -> list[list[int]]:
    """Translate documents in lockstep; return how many tokens each sentence has, step by step."""
    with torch.inference_mode():
        cursors = [Cursor(i, ids, translator.model.initial_state(1)) for i, ids in enumerate(given)]
    lockstep = Lockstep(engine, translator.special, translator.beam, translator.length_penalty, documents=len(given))
    lengths = [len(found[0].ids) + 1 for _, found in lockstep.run(cursors)]
    return [lengths[start : start + len(given)] for start in range(0, len(lengths), len(given))]


@torch.inference_mode()
def _generate(model: Any, translator: Translator, calls: Sequence[Sequence[Ids]], lengths: Sequence[int]) -> None:
    """Let a model of `transformers` produce so many tokens in each call."""
    for call, length in zip(calls, lengths, strict=True):
        ids: Tensor = document_ids([[translator.special.source(each) for each in call]])[0]
        model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD).long(),
            num_beams=translator.beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )

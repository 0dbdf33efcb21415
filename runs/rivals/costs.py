"""Measure what training and decoding cost, side by side in one run: one JSON file per system.

python runs/rivals/costs.py RECIPE FOLDER docs/rivals/costs [SYSTEM ...]     # by default those without a file

Training: a system takes some updates from the sentence model; target tokens per second of processor time, as a ratio to
the control's. Decoding: the models after these updates translate one document of 10, 100 and 1,000 sentences, greedily,
one sequence at a time; seconds of processor time per sentence, as a ratio to the sentence model's, and the bytes of the
state that the document carries after its last sentence. Systems take turns, so that whatever else the machine does
affects all of them. No finished training is needed.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load
from systems import CONTROL, SENTENCE, SYSTEMS
from train import system_config

from tram.data.arrays import PreparedData
from tram.errors import InputError
from tram.files import write_json
from tram.model.folder import find_model
from tram.synthetic.documents import generate
from tram.training.trainer import Trainer
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

SENTENCES = {10: 3, 100: 1, 1000: 1}  # sentences of a document, and how often it is decoded
UPDATES = 40  # whose speed is measured, after one that is not


def make_trainer(recipe: Path, name: str, folder: Path, unused: Path) -> Trainer:
    """Return a system's training before its first update."""
    config = system_config(recipe, name, folder, [])
    assert config.finetune is not None
    data = PreparedData.open(config.data)
    return Trainer(config, config.finetune, data, unused / name, find_model(folder / SENTENCE))


def training_costs(trainers: dict[str, Trainer], updates: int = UPDATES) -> dict[str, dict[str, float]]:
    """Train all systems for some updates, in turns; return their target tokens per second."""
    seconds = dict.fromkeys(trainers, 0.0)
    for number in range(updates + 1):
        for name, trainer in trainers.items():
            start = time.process_time()
            trainer.next_update()
            if number == 0:  # the first update of a process is slow
                trainer.standing.tokens = 0
            else:
                seconds[name] += time.process_time() - start
    speeds = {name: trainer.standing.tokens / seconds[name] for name, trainer in trainers.items()}
    return {
        name: {"updates": updates, "tokens_per_second": speed, "ratio_to_control": speed / speeds[CONTROL]}
        for name, speed in speeds.items()
    }


def decoding_costs(
    translators: dict[str, Translator], sizes: dict[int, int] | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return time per sentence and bytes carried of every system, by the number of sentences of the document."""
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in translators}
    for sentences, rounds in (sizes or SENTENCES).items():
        (document,) = generate(seed=1, documents=1, sentences=(sentences, sentences), split="test")
        times: dict[str, list[float]] = {name: [] for name in translators}
        for _ in range(rounds):
            for name, translator in translators.items():
                try:
                    seconds, cell = decode(translator, document.source)
                except InputError as error:
                    found[name][str(sentences)] = {"refused": str(error)}
                    continue
                times[name].append(seconds / sentences)
                found[name][str(sentences)] = cell
        base = statistics.median(times[SENTENCE])
        for name, taken in times.items():
            if taken:
                own = statistics.median(taken)
                cost = {"seconds_per_sentence": own, "ratio_to_sentence": own / base, "rounds": rounds}
                found[name][str(sentences)] |= cost
    return found


def decode(translator: Translator, document: list[str]) -> tuple[float, dict[str, Any]]:
    """Translate a document; return the seconds of processor time, what it carries at the end, and its length."""
    state = translator.start()
    start = time.process_time()
    translations = translator.translate(document, state=state)
    seconds = time.process_time() - start
    words = sum(len(translation.split()) for translation in translations)
    return seconds, {"bytes": carried_bytes(state), "words_per_sentence": words / len(document)}


def carried_bytes(state: DocumentState) -> int:
    """Return the bytes of the numbers in a document's state, without the names and the header of its file."""
    return sum(value.nbytes for value in load(state.to_bytes()).values())


def greedy(translator: Translator) -> Translator:
    """Return a translator that searches greedily, one sequence at a time, and is warm."""
    translator.beam, translator.batch, translator.guards = 1, 1, False
    (document,) = generate(seed=2, documents=1, sentences=(4, 4), split="test")
    decode(translator, document.source)
    return translator


def measure(recipe: Path, folder: Path, output: Path, names: list[str]) -> None:
    """Measure some systems and write a file for each."""
    torch.set_num_threads(1)
    trained = [name for name in dict.fromkeys([CONTROL, *names]) if name != SENTENCE]
    with tempfile.TemporaryDirectory() as unused:
        trainers = {name: make_trainer(recipe, name, folder, Path(unused)) for name in trained}
        training = training_costs(trainers)
    translators = {SENTENCE: greedy(Translator.load(folder / SENTENCE))}
    for name in names:
        if name != SENTENCE:
            translators[name] = greedy(Translator(trainers[name].model, trainers[name].data.text()))
    decoding = decoding_costs(translators)
    for name in names:
        write_json(output / f"{name}.json", {"training": training.get(name), "decoding": decoding[name]})


if __name__ == "__main__":
    recipe, folder, output = map(Path, sys.argv[1:4])
    missing = [each.name for each in SYSTEMS if each.available and not (output / f"{each.name}.json").exists()]
    if names := sys.argv[4:] or missing:
        measure(recipe, folder, output, names)

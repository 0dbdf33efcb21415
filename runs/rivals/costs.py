"""Measure what training and decoding cost, side by side in one run, and add it to the systems' JSON files.

python runs/rivals/costs.py RECIPE FOLDER docs/rivals [SYSTEM ...]     # by default those without costs

Training: target tokens per second of processor time, as a ratio to the control's. Decoding: one document of 10, 100 and
1,000 sentences, greedily, one sequence at a time; seconds of processor time per sentence, as a ratio to the sentence
model's, and the bytes of the state that a document carries after its last sentence. Systems take turns, so that
whatever else the machine does affects all of them.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from result import stage_folder
from safetensors.torch import load
from systems import CONTROL, SENTENCE, SYSTEMS
from train import system_config

from tram.data.arrays import PreparedData
from tram.errors import InputError
from tram.files import read_json, write_json
from tram.model.folder import find_model
from tram.synthetic.documents import generate
from tram.training.trainer import Trainer
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

SENTENCES = {10: 5, 100: 2, 1000: 1}  # sentences of a document, and how often it is decoded
UPDATES = 8  # whose speed is measured, after one that is not


def training_costs(names: list[str], recipe: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Return the target tokens per second of every system and of the control."""
    with tempfile.TemporaryDirectory() as unused:
        trainers = {
            name: make_trainer(recipe, name, folder, Path(unused)) for name in {CONTROL: 0} | dict.fromkeys(names)
        }
        seconds = dict.fromkeys(trainers, 0.0)
        for number in range(UPDATES + 1):
            for name, trainer in trainers.items():
                start = time.process_time()
                trainer.next_update()
                seconds[name] += (time.process_time() - start) * (number > 0)
                if number == 0:
                    trainer.standing.tokens = 0
        speeds = {name: trainer.standing.tokens / seconds[name] for name, trainer in trainers.items()}
    return {
        name: {"tokens_per_second": speeds[name], "ratio_to_control": speeds[name] / speeds[CONTROL]} for name in names
    }


def make_trainer(recipe: Path, name: str, folder: Path, unused: Path) -> Trainer:
    """Return a system's training before its first update."""
    config = system_config(recipe, name, folder, [])
    assert config.finetune is not None
    data = PreparedData.open(config.data)
    return Trainer(config, config.finetune, data, unused / name, find_model(folder / SENTENCE))


def decoding_costs(names: list[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Return time per sentence and bytes carried of every system, by the number of sentences."""
    translators = {name: make_translator(name, folder) for name in dict.fromkeys([SENTENCE, *names])}
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for sentences, rounds in SENTENCES.items():
        (document,) = generate(seed=1, documents=1, sentences=(sentences, sentences), split="test")
        times: dict[str, list[float]] = {name: [] for name in translators}
        cells: dict[str, dict[str, Any]] = {name: {} for name in translators}
        for _ in range(rounds):
            for name, translator in translators.items():
                if "refused" in cells[name]:
                    continue
                try:
                    seconds, carried = decode(translator, document.source)
                except InputError as error:
                    cells[name] = {"refused": str(error)}
                    continue
                times[name].append(seconds / sentences)
                cells[name] = {"bytes": carried}
        base = statistics.median(times[SENTENCE])
        for name in names:
            if times[name]:
                own = statistics.median(times[name])
                cells[name] |= {"seconds_per_sentence": own, "ratio_to_sentence": own / base, "rounds": rounds}
            found[name][str(sentences)] = cells[name]
    return found


def make_translator(name: str, folder: Path) -> Translator:
    """Return a system that searches greedily, one sequence at a time, and is warm."""
    translator = Translator.load(stage_folder(name, folder) / "model", beam=1)
    translator.batch, translator.guards = 1, False
    (document,) = generate(seed=2, documents=1, sentences=(4, 4), split="test")
    decode(translator, document.source)
    return translator


def decode(translator: Translator, document: list[str]) -> tuple[float, int]:
    """Translate a document; return the seconds of processor time and the bytes that it carries at the end."""
    state = translator.start()
    start = time.process_time()
    translator.translate(document, state=state)
    return time.process_time() - start, carried_bytes(state)


def carried_bytes(state: DocumentState) -> int:
    """Return the bytes of the numbers in a document's state, without the names and the header of its file."""
    return sum(value.nbytes for value in load(state.to_bytes()).values())


def measure(recipe: Path, folder: Path, results: Path, names: list[str]) -> None:
    """Measure some systems and add the numbers to their files."""
    torch.set_num_threads(1)
    trained = training_costs([name for name in names if name != SENTENCE], recipe, folder)
    decoded = decoding_costs(names, folder)
    for name in names:
        path = results / f"{name}.json"
        costs = {"training": trained.get(name), "decoding": decoded[name]}
        write_json(path, read_json(path) | {"costs": costs})


if __name__ == "__main__":
    recipe, folder, results = map(Path, sys.argv[1:4])
    done = [system.name for system in SYSTEMS if (results / f"{system.name}.json").exists()]
    names = sys.argv[4:] or [name for name in done if "costs" not in read_json(results / f"{name}.json")]
    if names:
        measure(recipe, folder, results, names)

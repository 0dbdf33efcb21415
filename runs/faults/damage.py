"""Faults 23 and 24: damaged files and wrong arguments."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import (
    ARRAYS,
    FOLDER,
    STATES,
    TINY,
    TRAINING,
    TRANSLATOR,
    config,
    fault,
    named,
    prepared,
    raised,
    tensors,
    trained,
    trained_until,
    tram,
    translator,
)

FUZZ = "fuzz/test_fuzz.py::test_damaged_input_is_refused_in_one_sentence"

# Damaged files.

NAME = "decoder.1.self/M"


def with_state(change: Callable[[dict[str, Any]], object]) -> str:
    """Save a state, change its tensors, load it and translate with it."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    this = translator()
    this.start().save("state")
    with safe_open("state", "pt") as file:
        about = file.metadata()
    values = {name: value.clone() for name, value in tensors(Path("state")).items()}
    change(values)
    save_file(values, "state", metadata=about)

    def use() -> str:
        state = named("DocumentState").load("state")
        return f"accepted: {this.translate(['A small fox sings.'], state=state)}"[:40]

    return raised(use)


def nan(value: Any) -> Any:
    """Put NaN into a tensor."""
    value[0, 0] = float("nan")
    return value


STATE_DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "fewer slots": lambda values: values.update({NAME: values[NAME][:, :2].contiguous()}),
    "another width": lambda values: values.update({NAME: values[NAME][:, :, :8].contiguous()}),
    "two documents": lambda values: values.update({NAME: values[NAME].repeat(2, 1, 1)}),
    "a missing unit": lambda values: values.pop(NAME),
    "NaN": lambda values: nan(values[NAME]),
}


@fault(23, f"{STATES}::test_a_damaged_state_is_refused_before_it_is_used", values=list(STATE_DAMAGES))
def state(damage: str) -> str:
    """A state with {}."""
    return with_state(STATE_DAMAGES[damage])


def array_damages(damage: str, folder: Path) -> None:
    """Damage an array of a prepared folder."""
    import numpy as np

    ids = folder / "train.source.ids.npy"
    if damage == "ids beyond the vocabulary":
        np.save(ids, np.full_like(np.load(ids), 60_000))
    elif damage == "a matrix of offsets":
        np.save(folder / "train.documents.npy", np.zeros((2, 2), np.int64))
    else:
        np.save(folder / "train.documents.npy", np.zeros(0, np.int64))


@fault(
    23,
    f"{ARRAYS}::test_arrays_that_do_not_fit_together_are_refused",
    FUZZ,
    values=["ids beyond the vocabulary", "a matrix of offsets", "no offsets"],
)
def arrays(damage: str) -> str:
    """Training on prepared data with {}."""
    folder = Path("damaged")
    shutil.copytree(prepared(), folder)
    array_damages(damage, folder)
    return tram("train", config(updates=2, data=folder.resolve())).outcome


@fault(
    23,
    f"{TRAINING}::test_nonsense_in_progress_is_damage",
    values=["`{}`", '`{"update": 4, "tokens": -1}`', "a wrong position", "50,000 brackets"],
)
def progress(value: str) -> str:
    """A run goes on, progress.json of its last checkpoint: {}."""
    trained_until(config(updates=6, checkpoint_every=2), 4)
    path = Path("run/train/checkpoints/00000004/progress.json")
    about = json.loads(path.read_text())
    text = {"50,000 brackets": "[" * 50_000, "a wrong position": json.dumps(about | {"position": [1], "update": "x"})}
    path.write_text(text.get(value, value.strip("`")))
    done = tram("train", Path("run.yaml"))
    lines = [line for line in done.err.splitlines() if line.startswith(("continuing", "going on"))]
    return done.outcome if done.code or not lines else f"{lines[0]}, {done.outcome}"


@fault(
    23,
    f"{TRAINING}::test_nonsense_in_progress_is_damage",
    f"{TRAINING}::test_a_finished_run_with_damaged_progress_is_continued_before_it",
)
def ended() -> str:
    """A finished run is called again, progress.json of its last checkpoint: `{}`."""
    tram("train", config(updates=4, checkpoint_every=2))
    Path("run/train/checkpoints/00000004/progress.json").write_text("{}")
    return tram("train", config(updates=6, checkpoint_every=2)).outcome


@fault(
    23,
    f"{FOLDER}::test_sizes_of_a_damaged_config_are_compared_before_memory_is_allocated",
    f"{FOLDER}::test_a_config_that_does_not_fit_is_refused",
    values=["d_model: 100000", "encoder_layers: 100000"],
)
def sizes(line: str) -> str:
    """A model folder whose config.yaml says `{}`."""
    path = trained() / "config.yaml"
    key = line.partition(":")[0]
    path.write_text(re.sub(rf"(?m)^  {key}: .*$", f"  {line}", path.read_text()))
    return tram("translate", "--lines", "--model", "model", stdin=b"A fox.\n", limit=40).outcome


@fault(23, f"{TRANSLATOR}::test_tables_of_other_sizes_than_the_text_pipeline_are_refused", values=[-20, 5])
def vocabulary(rows: int) -> str:
    """A model folder whose tables have {} rows where text.json has 355."""
    import torch

    text = named("TextPipeline").load(prepared())
    size = rows if rows > 0 else text.vocabulary + rows
    torch.manual_seed(1)
    named("save_model")(named("Transformer")(named("ModelConfig")(**TINY), size), "small", text)
    line = "Ein kleiner Fuchs ÄÖ xyz. The old miller reads Q W 7 8 9 %.\n"
    return tram("translate", "--lines", "--model", "small", stdin=line.encode()).outcome


# The API.


@fault(24, f"{TRANSLATOR}::test_wrong_arguments_are_one_sentence", values=["A house.", 7])
def one_string(value: Any) -> str:
    """`translate({!r})`."""
    this = translator()
    return raised(lambda: f"{len(this.translate(value))} translations")


@fault(24, f"{TRANSLATOR}::test_sizes_of_the_search_have_bounds", values=["beam", "batch"])
def size_zero(name: str) -> str:
    """`{}=0`."""
    this = translator()
    setattr(this, name, 0)

    def use() -> str:
        return f"translated: {this.translate(['A small fox sings.'])}"

    signal.alarm(60)
    return raised(use)[:100]


@fault(24, f"{TRANSLATOR}::test_wrong_arguments_are_one_sentence")
def history() -> str:
    """`history="gol"`."""
    this = translator()
    return raised(lambda: list(this.translate_documents([["A small fox sings."]], history="gol")))


@fault(24, f"{TRANSLATOR}::test_a_length_penalty_is_a_small_number")
def penalty() -> str:
    """`length_penalty=nan`."""
    this = translator()
    kind = named("Translator")

    def use() -> str:
        other = kind(this.model, this.text, length_penalty=float("nan"))
        return f"translation of {len(other.translate(['A small fox sings.'])[0])} characters"

    return raised(use)


@fault(24, f"{TRANSLATOR}::test_weights_that_change_change_the_fingerprint")
def changed_weights() -> str:
    """A weight changes after the first fingerprint."""
    import torch

    this = translator()
    before = this.fingerprint
    with torch.no_grad():
        this.model.tokens.weight[0, 0] += 1
    return "the same fingerprint" if this.fingerprint == before else "another fingerprint"

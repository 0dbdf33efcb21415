"""What all kinds of damaged inputs share: good files made once, and a damaged copy of some of them for each case."""

import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from conftest import TINY, made_up, write_pair
from fuzz.arrays import damaged_npy, damaged_safetensors, damaged_state_dict
from fuzz.mutations import (
    STRANGE_NAMES,
    cluttered,
    damaged_bytes,
    damaged_json,
    damaged_text,
    misplaced,
    misplaced_folder,
    re_encoded,
)
from fuzz.yaml_text import damaged_yaml
from tram.config import MemoryConfig, ModelConfig
from tram.data.prepare import PrepareSettings, prepare
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline

SENTENCE = "A small fox sings."
STORED = Path(__file__).parents[1] / "stored" / "596f58d"
TEXTS = {".yaml", ".yml", ".json", ".jsonl", ".tsv"}
SMALL = TINY.model_copy(update={"context": MemoryConfig(slots=2)})


def damaged_file(draw: random.Random, path: Path) -> None:
    """Damage a file in the way that suits its name."""
    data = path.read_bytes()
    ways: dict[str, Callable[[random.Random, bytes], bytes]] = {
        ".safetensors": damaged_safetensors,
        ".json": damaged_json,
        ".npy": damaged_npy,
        ".pt": damaged_state_dict,
        ".bin": damaged_state_dict,
    }
    if path.suffix in TEXTS and draw.random() < 0.03:
        path.write_bytes(re_encoded(draw, data))
    elif path.suffix in {".yaml", ".yml"} and draw.random() < 0.5:
        path.write_bytes(damaged_yaml(draw, data.decode()))
    elif path.suffix in {".yaml", ".yml"} and draw.random() < 0.7:
        path.write_bytes(damaged_text(draw, data.decode()).encode("utf-8", "surrogatepass"))
    elif path.suffix == ".jsonl" and draw.random() < 0.7:
        lines = data.splitlines()
        at = draw.randrange(len(lines))
        lines[at] = damaged_json(draw, lines[at])
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(ways.get(path.suffix, damaged_bytes)(draw, data))


class Kind:
    """Folders of good files, of one of which each case gets a damaged copy."""

    endless: tuple[str, ...] = ("pipe", "huge")  # damage here, but not to a corpus, which may be a pipe and of any size
    folders = True  # whether whole folders are damaged too
    renamed = True  # whether the folder gets strange names
    growth = 1 << 30  # bytes that one input may add to the memory in use

    def __init__(self, folder: Path) -> None:
        """Make the good files in folders in `folder`/good."""
        self.good, self.bad = folder / "good", folder / "bad"
        self.good.mkdir(parents=True)
        self.make()

    def make(self) -> None:
        """Make the good files."""
        raise NotImplementedError

    def use(self, draw: random.Random) -> None:
        """Do with the files in `bad` what a user would."""
        raise NotImplementedError

    def variant(self, name: str) -> Path:
        """Return a new folder of good files."""
        folder = self.good / name
        folder.mkdir()
        return folder

    def case(self, seed: int) -> None:
        """Damage a copy and use it."""
        draw = random.Random(seed)
        _remove(self.bad)
        if self.renamed:
            self.bad = self.bad.with_name(draw.choice(STRANGE_NAMES) if draw.random() < 0.1 else "bad")
        self.chosen = draw.choice(sorted(os.listdir(self.good)))
        shutil.copytree(self.good / self.chosen, self.bad)
        files = [path for path in sorted(self.bad.rglob("*")) if path.is_file()]
        kind = draw.random() if self.folders else 1.0
        if kind < 0.02:
            misplaced_folder(draw, draw.choice(sorted({self.bad, *(path.parent for path in files)})))
        elif kind < 0.04:
            cluttered(draw, draw.choice(sorted({path.parent for path in files})), files)
        elif kind < 0.08:
            self.exchange(draw, draw.choice(files))
        else:
            for path in draw.sample(files, min(draw.choice([1, 1, 1, 2]), len(files))):
                if draw.random() < 0.1:
                    misplaced(draw, path, files, self.endless)
                else:
                    damaged_file(draw, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.use(draw)

    def exchange(self, draw: random.Random, path: Path) -> None:
        """Put a good file of the same kind, but of another folder, in the place of one."""
        others = [each for each in self.good.rglob(f"*{path.suffix}") if each.is_file()]
        path.write_bytes(draw.choice([each for each in others if each.name == path.name] or others).read_bytes())


def is_small(path: Path) -> bool:
    """Return whether there is a file that the harness itself can read: not a pipe, and not a huge one."""
    return path.is_file() and path.stat().st_size < 1 << 20


def _remove(path: Path) -> None:
    """Remove whatever is at a path, also folders that nobody may read."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for each in (os.path.join(folder, name) for name in names):
            if not os.path.islink(each):
                os.chmod(each, 0o700)
    shutil.rmtree(path)


# What the next sentence may see, in every way there is: settings of models beside `TINY` and `SMALL`
SYSTEMS: dict[str, dict[str, Any]] = {
    "both, two layers": {"encoder_layers": 2, "context": {"kind": "memory", "slots": 2, "layers": [0, -1]}},
    "transformer_xl": {"context": {"kind": "transformer_xl", "memory_length": 9}},
    "compressive": {"context": {"kind": "compressive", "memory_length": 5, "compressed_length": 2, "ratio": 2}},
    "han": {"context": {"kind": "han", "sentences": 2}},
    "g_transformer": {
        "context": {"kind": "g_transformer", "hidden": 0, "encoder": 1, "decoder": 1, "cross": 1, "tokens": 64}
    },
    "zheng": {"context": {"kind": "zheng", "sentences": 3}},
    "selective": {"context": {"kind": "selective"}},
    "selective target": {"context": {"kind": "selective", "side": "target", "online": True}},
    "window": {"max_length": 30, "unit": {"kind": "window", "source": 2, "target": 2}},
    "block": {"unit": {"kind": "block", "sentences": 2, "tokens": 60}},
}


def system(name: str) -> ModelConfig:
    """Return the settings of one of the `SYSTEMS`."""
    return ModelConfig.model_validate(TINY.model_dump() | SYSTEMS[name])


class WithText(Kind):
    """Kinds that need prepared data and a text pipeline."""

    def prepare(self, out: Path, reserved: bool = True) -> None:
        corpus = self.good.parent / "corpus"
        corpus.mkdir(exist_ok=True)
        pair = write_pair(corpus, "train", made_up([3, 4, 2, 3], seed=1))
        settings = PrepareSettings(merges=20, held_out=0.3, reserved=reserved)
        prepare(out, [pair], [pair], settings, workers=1)

    def model(self, data: Path, config: ModelConfig = SMALL) -> tuple[Transformer, TextPipeline]:
        text = TextPipeline.load(data)
        torch.manual_seed(1)
        return Transformer(config, text.vocabulary), text

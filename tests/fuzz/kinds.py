"""What is damaged, and how it is used afterwards: configs, states, model folders, prepared folders, checkpoints, …

Each kind makes good files once; `use` does with damaged ones what a user would. Only `InputError` and `RunError` may
come of it.
"""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from conftest import TINY, made_up, write_pair
from fuzz.mutations import damaged_bytes, damaged_json, damaged_npy, damaged_safetensors, damaged_text
from tram.config import Config, FinetuneConfig, MemoryConfig, write_yaml
from tram.data.arrays import PreparedData
from tram.data.batches import document_ids
from tram.data.corpus import FORMATS, read_documents, read_parallel, write_parallel
from tram.data.prepare import PrepareSettings, prepare
from tram.evaluation.suite import read_items
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.pretrained.authors import authors_names, build_model, read_state_dict
from tram.pretrained.subword_files import read_text_pipeline
from tram.text.pipeline import TextPipeline
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

SENTENCE = "A small fox sings."
SMALL = TINY.model_copy(update={"context": MemoryConfig(slots=2)})


def damaged_file(draw: random.Random, path: Path) -> None:
    """Damage a file in the way that suits its name."""
    data = path.read_bytes()
    ways: dict[str, Callable[[random.Random, bytes], bytes]] = {
        ".safetensors": damaged_safetensors,
        ".json": damaged_json,
        ".npy": damaged_npy,
    }
    if path.suffix in {".yaml", ".yml"} and draw.random() < 0.7:
        path.write_bytes(damaged_text(draw, data.decode()).encode("utf-8", "surrogatepass"))
    elif path.suffix == ".jsonl" and draw.random() < 0.7:
        lines = data.splitlines()
        at = draw.randrange(len(lines))
        lines[at] = damaged_json(draw, lines[at])
        path.write_bytes(b"\n".join(lines))
    else:
        path.write_bytes(ways.get(path.suffix, damaged_bytes)(draw, data))


class Kind:
    """A folder of good files, of which each case gets a damaged copy."""

    def __init__(self, folder: Path) -> None:
        """Make the good files in `folder`/good."""
        self.good, self.bad = folder / "good", folder / "bad"
        self.good.mkdir(parents=True)
        self.make()

    def make(self) -> None:
        """Make the good files."""
        raise NotImplementedError

    def use(self, draw: random.Random) -> None:
        """Do with the files in `bad` what a user would."""
        raise NotImplementedError

    def case(self, seed: int) -> None:
        """Damage a copy and use it."""
        draw = random.Random(seed)
        shutil.rmtree(self.bad, ignore_errors=True)
        shutil.copytree(self.good, self.bad)
        files = [path for path in sorted(self.bad.rglob("*")) if path.is_file()]
        chosen = draw.choice(files)
        if draw.random() < 0.02:
            chosen.unlink()
        else:
            damaged_file(draw, chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.use(draw)


class Configs(Kind):
    """A config that extends another one, and overrides."""

    def make(self) -> None:
        base = Config(data=Path("prepared"), output=Path("run"), model=TINY, finetune=FinetuneConfig())
        write_yaml(self.good / "base.yaml", base)
        (self.good / "config.yaml").write_text(
            "extends: base.yaml\nseed: 7\ntrain:\n  lr: 1.0e-3\n  betas: [0.9, 0.99]\n"
        )

    def use(self, draw: random.Random) -> None:
        overrides = []
        if draw.random() < 0.5:
            key = draw.choice(
                ["train.lr", "output", "model.d_model", "finetune.memory.layers", "finetune.window", "x.y"]
            )
            overrides = [damaged_text(draw, f"{key}={draw.choice(['1', '[1, 2]', 'a', '{b: 1}'])}").replace("\n", " ")]
        config = Config.load(self.bad / "config.yaml", overrides)
        write_yaml(self.bad / "again.yaml", config)
        assert Config.load(self.bad / "again.yaml") == config


class WithText(Kind):
    """Kinds that need prepared data and a text pipeline."""

    def prepare(self, out: Path) -> None:
        corpus = self.good.parent / "corpus"
        corpus.mkdir(exist_ok=True)
        pair = write_pair(corpus, "train", made_up([3, 4, 2, 3], seed=1))
        settings = PrepareSettings(merges=20, held_out=0.3)
        prepare(out, [pair], [pair], settings, workers=1)

    def model(self, data: Path) -> tuple[Transformer, TextPipeline]:
        text = TextPipeline.load(data)
        torch.manual_seed(1)
        return Transformer(SMALL, text.vocabulary), text


class Models(WithText):
    """A model folder, loaded and used."""

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        model, text = self.model(data)
        save_model(model, self.good, text)
        (self.good / "README.md").unlink()

    def use(self, draw: random.Random) -> None:
        translator = Translator.load(self.bad, beam=2)
        assert len(translator.translate([SENTENCE])) == 1


class States(WithText):
    """A document state, loaded and continued."""

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        self.translator = Translator(*self.model(data), beam=1)
        state = self.translator.start()
        self.translator.translate([SENTENCE], state=state)
        state.save(self.good / "state.safetensors")

    def use(self, draw: random.Random) -> None:
        state = DocumentState.load(self.bad / "state.safetensors")
        self.translator.translate(["Why?"], state=state)
        assert DocumentState.from_bytes(state.to_bytes()).sentences == state.sentences


class Prepared(WithText):
    """A prepared folder, whose splits are read by a model."""

    def make(self) -> None:
        self.good.rmdir()
        self.prepare(self.good)
        self.network, _ = self.model(self.good)

    def use(self, draw: random.Random) -> None:
        data = PreparedData.open(self.bad)
        data.text()
        for name in data.splits:
            split = data.split(name)
            split.template_lengths(32), split.longer_than(32)
            rows = [i for i in range(len(split.source)) if split.usable[i]]
            if rows and data.vocabulary <= self.network.vocabulary:
                source = document_ids([[split.special.source(split.source[i].tolist())[:32] for i in rows[:4]]])
                target = document_ids([[split.special.decoder_input(split.target[i].tolist())[:32] for i in rows[:4]]])
                with torch.inference_mode():
                    self.network(source, target)


class Checkpoints(WithText):
    """The checkpoints of a run, which is continued."""

    def make(self) -> None:
        from tram.training.run import train

        data = self.good.parent / "data"
        self.prepare(data)
        stage = {"updates": 4, "tokens": 64, "checkpoint_every": 2, "evaluate_every": 2, "patience": 0, "warmup": 1}
        values = {
            "data": str(data),
            "output": str(self.good.parent / "run"),
            "model": TINY.model_dump(),
            "train": None,
            "finetune": stage | {"start": "nothing", "memory": {"slots": 2}, "window": [1, 2], "documents": 2},
        }
        self.config = Config.model_validate(values)
        train(self.config)
        shutil.copytree(self.good.parent / "run" / "finetune" / "checkpoints", self.good / "checkpoints")
        self.data = PreparedData.open(data)
        self.trainer: Any = None

    def use(self, draw: random.Random) -> None:
        from tram.training.trainer import Trainer

        assert self.config.finetune is not None
        if self.trainer is None or draw.random() < 0.02:
            self.trainer = Trainer(self.config, self.config.finetune, self.data, self.bad)
        if draw.random() < 0.5:  # nothing to fall back on
            shutil.rmtree(min(self.bad.glob("checkpoints/*")))
        self.trainer.resume()
        self.trainer.next_update()


class Suites(Kind):
    """A contrastive suite."""

    def make(self) -> None:
        item = {"source_context": ["A."], "target_context": ["B."], "source": "C.", "reference": "D."}
        item |= {"contrastive": ["E.", "F."], "phenomenon": "it", "distance": 1}
        other = {key: value for key, value in item.items() if key != "distance"}
        (self.good / "suite.jsonl").write_text(f"{json.dumps(item)}\n{json.dumps(other)}\n")

    def use(self, draw: random.Random) -> None:
        read_items(self.bad / "suite.jsonl")


class Corpora(Kind):
    """A parallel corpus in every format."""

    def make(self) -> None:
        documents = made_up([2, 3], seed=2)
        for name in FORMATS:
            folder = self.good / name
            folder.mkdir()
            two = (folder / "text.en", folder / "text.de")
            one_file = name in {"tsv", "bars", "jsonl", "wmtxml"}
            write_parallel(two[0], None if one_file else two[1], documents, format=name)

    def use(self, draw: random.Random) -> None:
        for folder in sorted(self.bad.iterdir()):
            files = sorted(path for path in folder.iterdir() if path.suffix != ".doc")
            name = draw.choice([None, folder.name, draw.choice(FORMATS)])
            if files and folder.stat().st_mtime_ns and self.changed(folder):
                list(read_parallel(files[-1], files[0] if len(files) > 1 else None, name))
                list(read_documents(files[0], name))

    def changed(self, folder: Path) -> bool:
        before = self.good / folder.name
        return any(
            not (folder / path.name).exists() or (folder / path.name).read_bytes() != path.read_bytes()
            for path in before.iterdir()
        )


class Imports(Kind):
    """A checkpoint of the paper's authors with their vocabulary."""

    def make(self) -> None:
        config = SMALL.model_copy(update={"position_offset": 2})
        torch.manual_seed(1)
        model = Transformer(config, 12)
        state: dict[str, torch.Tensor] = {}
        for name, value in model.named_parameters():
            names = authors_names(name)
            for theirs, part in zip(names, value.detach().chunk(len(names)), strict=True):
                state[theirs] = (part[None] if theirs.endswith("ds_query_init") else part).clone()
        torch.save(state, self.good / "model.pt")
        words = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab</w>", "a</w>", "b</w>", "c", "c</w>", "abc</w>"]
        (self.good / "vocab").write_text("".join(f"{word}\n" for word in words))
        (self.good / "codes").write_text("#version: 0.2\na b</w>\nab</w> c\n")

    def use(self, draw: random.Random) -> None:
        state = read_state_dict(self.bad / "model.pt")
        build_model(state, 2, draw.choice(["source", "target", "both"]))
        read_text_pipeline(self.bad / "vocab", self.bad / "codes", 12, "en", "de")


KINDS: dict[str, type[Kind]] = {
    "configs": Configs,
    "states": States,
    "models": Models,
    "prepared": Prepared,
    "checkpoints": Checkpoints,
    "suites": Suites,
    "corpora": Corpora,
    "imports": Imports,
}

"""What is damaged, and how it is used afterwards: configs, states, model folders, prepared folders, checkpoints, …

Each kind makes good files once; `use` does with damaged ones what a user would. Only `InputError` and `RunError` may
come of it.
"""

import gzip
import json
import lzma
import random
import shutil
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conftest import TINY, made_up
from fuzz.base import SENTENCE, SMALL, STORED, SYSTEMS, Kind, WithText, is_small, system
from fuzz.model_folders import Models
from fuzz.mutations import damaged_bytes, damaged_text
from fuzz.translating import Adapters, Files, Foreign, Glossaries
from tram.config import Config, FinetuneConfig, write_yaml
from tram.data.arrays import PreparedData
from tram.data.batches import document_ids
from tram.data.corpus import FORMATS, read_documents, read_parallel, write_parallel
from tram.errors import InputError
from tram.evaluation.suite import SHIPPED, read_items
from tram.files import remove
from tram.model.folder import WEIGHTS, load_tensors, save_model, weights
from tram.model.transformer import Transformer
from tram.pretrained.authors import authors_names, build_model, read_state_dict
from tram.pretrained.subword_files import read_text_pipeline
from tram.text.pipeline import TextPipeline
from tram.training.checkpoints import CHECKSUMS
from tram.translation.document_state import DocumentState
from tram.translation.translator import Translator

PACKERS = {".gz": (gzip.decompress, gzip.compress), ".xz": (lzma.decompress, lzma.compress)}


class Configs(Kind):
    """A config that extends another one, and overrides."""

    def make(self) -> None:
        folder = self.variant("extended")
        base = Config(data=Path("prepared"), output=Path("run"), model=TINY, finetune=FinetuneConfig())
        write_yaml(folder / "base.yaml", base)
        (folder / "config.yaml").write_text("extends: base.yaml\nseed: 7\ntrain:\n  lr: 1.0e-3\n  betas: [0.9, 0.99]\n")
        write_yaml(self.variant("whole") / "config.yaml", base)
        chain = self.variant("chain")
        names = ["config.yaml", "ünï ✓.yaml", "b.yaml", "c.yaml"]
        for name, base_name in zip(names, [*names[1:], None], strict=True):
            extends = f"extends: {base_name}" if base_name else "data: d\noutput: o\nmodel: {d_model: 16, heads: 2}"
            (chain / name).write_text(f"{extends}\nseed: 3\nfinetune:\n  window: [1, 2]\n  memory:\n    depth: full\n")

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


class States(WithText):
    """A document state, loaded and continued."""

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        configs = {"continued": SMALL, "fresh": SMALL} | {name: system(name) for name in SYSTEMS}
        self.translators = {name: Translator(*self.model(data, config), beam=1) for name, config in configs.items()}
        folder = self.good.parent / "model"
        save_model(*self.model(data)[:1], folder, TextPipeline.load(data))
        self.translators["native"] = Translator.load(folder, beam=2)
        self.translators["native int8"] = Translator.load(folder, beam=2, precision="int8")
        for name, translator in self.translators.items():
            state = translator.start()
            if name != "fresh":
                translator.translate([SENTENCE, "No."], state=state)
            state.save(self.variant(name) / "state.safetensors")

    def use(self, draw: random.Random) -> None:
        if draw.random() < 0.8:
            with suppress(Exception):
                self.refit()
        state = DocumentState.load(self.bad / "state.safetensors")
        translator = self.translators[self.chosen if draw.random() < 0.98 else "fresh"]
        translator.translate(["Why?"], state=state)
        translator.read(["No."], ["Nein."], state=state)
        assert DocumentState.from_bytes(state.to_bytes()).sentences == state.sentences

    def refit(self) -> None:
        """Remove the checksum, without which the values themselves must be checked."""
        path = self.bad / "state.safetensors"
        assert is_small(path)
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        del header["__metadata__"]["checksum"]
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


class Prepared(WithText):
    """A prepared folder, whose splits are read by a model."""

    def make(self) -> None:
        self.prepare(self.good / "new")
        self.network, _ = self.model(self.good / "new")
        shutil.copytree(STORED / "prepared", self.good / "stored")

    def use(self, draw: random.Random) -> None:
        if draw.random() < 0.02:  # made again, with what can be used again
            self.prepare(self.bad)
        with suppress(Exception):
            if draw.random() < 0.5:
                self.refit()
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

    def refit(self) -> None:
        """Let prepared.json describe the damaged arrays and the damaged text.json."""

        def small(name: str) -> Path:  # not a pipe, for example, which the harness itself would wait for
            path = self.bad / name
            assert is_small(path)
            return path

        path = small("prepared.json")
        about = json.loads(path.read_text())
        for key in ("files", "checksum"):  # without the checksums, the values themselves must be checked
            about.pop(key, None)
        small("text.json")
        about["text"] = TextPipeline.load(self.bad).fingerprint
        for name, sizes in about["splits"].items():

            def length(part: str, name: str = name) -> int:
                return len(np.load(small(f"{name}.{part}.npy"), mmap_mode="r"))

            sizes |= {"documents": length("documents") - 1, "sentences": length("source.offsets") - 1}
            sizes |= {f"{side}_tokens": length(f"{side}.ids") for side in ("source", "target")}
        path.write_text(json.dumps(about))


class Checkpoints(WithText):
    """The checkpoints of a run, which is continued."""

    renamed = False

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
        first = stage | {"optimizer": "muon", "precision": "float16"}
        self.config = Config.model_validate(values)
        train(self.config)
        self.configs = {
            "finetune": self.config,
            "train": Config.model_validate(values | {"finetune": None, "train": first}),
        }
        for name in ("both, two layers", "transformer_xl", "g_transformer", "window"):
            changes: dict[str, Any] = {"model": TINY.model_dump() | SYSTEMS[name] | {"context": None}}
            window = {"window": "document" if name == "g_transformer" else [1, 2]}
            changes["finetune"] = (
                values["finetune"] | window | {"memory": None, "context": SYSTEMS[name].get("context")}
            )
            if changes["finetune"]["context"] is not None:
                del changes["finetune"]["memory"]
            self.configs[name] = Config.model_validate(values | changes)
        for name, config in self.configs.items():
            output = self.good.parent / name
            if name != "finetune":
                train(config.model_copy(update={"output": output}))
            source = (self.good.parent / "run" if name == "finetune" else output) / (
                "train" if name == "train" else "finetune"
            )
            shutil.copytree(source / "checkpoints", self.variant(name) / "checkpoints")
        self.data = PreparedData.open(data)
        self.trainers: dict[str, Any] = {}
        self.checked_weights = {
            each.read_bytes(): load_tensors(each.with_name(WEIGHTS)) for each in self.good.glob(f"**/{CHECKSUMS}")
        }

    def use(self, draw: random.Random) -> None:
        from tram.training.trainer import Trainer

        config = self.configs[self.chosen]
        if self.chosen not in self.trainers or draw.random() < 0.02:
            stage = config.train or config.finetune
            assert stage is not None
            self.trainers[self.chosen] = Trainer(config, stage, self.data, self.bad)
        trainer = self.trainers[self.chosen]  # whatever is left in it of another case must not matter
        if draw.random() < 0.5:  # nothing to fall back on
            for oldest in sorted(self.bad.glob("checkpoints/*"))[:1]:
                remove(oldest)  # a folder, or a pipe in its place
        if draw.random() < 0.5:  # as earlier versions wrote them: the values themselves must be checked
            for checksums in self.bad.glob(f"checkpoints/*/{CHECKSUMS}"):
                remove(checksums)
        trainer.resume()
        checksums = trainer.checkpoints.at(trainer.standing.update).folder / CHECKSUMS
        written = self.checked_weights.get(checksums.read_bytes(), {}) if is_small(checksums) else {}
        if any(not torch.equal(weights(trainer.model)[name], value) for name, value in written.items()):
            raise AssertionError("damaged weights were taken without a word")
        if draw.random() < 0.2:  # dearer than all the rest
            trainer.next_update()


class Runs(WithText):
    """The whole folder of a run, which is continued for one more update."""

    renamed = False

    def make(self) -> None:
        from tram.training.run import train

        data = self.good.parent / "data"
        self.prepare(data)
        stage = {"updates": 2, "tokens": 64, "checkpoint_every": 1, "evaluate_every": 1, "patience": 0, "warmup": 1}
        finetune = stage | {"memory": {"slots": 2}, "window": [1, 2], "documents": 2, "average": 3}
        values = {"data": str(data), "model": TINY.model_dump(), "train": stage, "finetune": finetune}
        train(Config.model_validate(values | {"output": str(self.good / "run")}))
        more = values | {"finetune": finetune | {"updates": 3}, "output": str(self.bad)}
        self.config = Config.model_validate(more)

    def use(self, draw: random.Random) -> None:
        from tram.training.run import train

        train(self.config)


class Sessions(WithText):
    """A stored session of the service, which is corrected and continued."""

    def make(self) -> None:
        from tram.service.scheduler import Scheduler
        from tram.service.sessions import Session, correct, translate
        from tram.service.shared import SharedTranslator
        from tram.service.store import SessionStore

        data = self.good.parent / "data"
        self.prepare(data)
        self.scheduler = Scheduler(Translator(*self.model(data), beam=2, guards=False))
        self.translator = SharedTranslator(self.scheduler)
        self.initial = self.scheduler.translator.start()
        store = SessionStore(self.initial, self.variant("one"))
        session = Session.new("anonymous", self.initial)
        self.id = session.id
        store.add(session, 0)
        with store.opened(self.id, "anonymous") as opened:
            list(translate(opened, self.translator, f"{SENTENCE} No.\n\nWhy?", 2, 100))
            list(correct(opened, self.translator, 1, "Nein.", 2))

    def use(self, draw: random.Random) -> None:
        from tram.service.errors import Problem
        from tram.service.session_api import SentenceModel
        from tram.service.sessions import correct, state_of, translate
        from tram.service.store import SessionStore

        try:
            store = SessionStore(self.initial, self.bad)
            with store.opened(self.id, "anonymous") as session:
                assert isinstance(session.text, str)
                [SentenceModel.of(sentence) for sentence in session.sentences]
                list(translate(session, self.translator, "No.", 2, 100))
                list(correct(session, self.translator, 0, "Nein.", 2))
                state_of(session, self.translator)
        except Problem as refusal:
            raise InputError(refusal.message) from None


class KeyFiles(Kind):
    """A file of keys."""

    def make(self) -> None:
        key, digest = "0123456789abcdef" * 2, "9f86d081884c7d659a2feaa0c55ad015" * 2
        text = f"keys:\n  - {{name: one, key: {key}, requests_per_minute: 300}}\n  - name: two\n    sha256: {digest}\n"
        (self.variant("two") / "keys.yaml").write_text(text)

    def use(self, draw: random.Random) -> None:
        from tram.service.keys import Keys, Limits

        keys = Keys.load(self.bad / "keys.yaml", Limits())
        assert keys.required
        assert keys.largest_file > 0


class Suites(Kind):
    """Suites of every kind."""

    endless = ()

    def make(self) -> None:
        item = {"source_context": ["A."], "target_context": ["B."], "source": "C.", "reference": "D."}
        item |= {"contrastive": ["E.", "F."], "phenomenon": "it", "distance": 1}
        other = {key: value for key, value in item.items() if key != "distance"}
        agreement = (SHIPPED / "agreement.jsonl").read_text().splitlines()[:3]
        expected = {"source_context": ["A."], "source": "You go.", "expected": "du", "rule": "address"}
        suites = {"contrastive": [item, other], "expected": [expected, expected]}
        for name, items in suites.items():
            self.write_suite(name, [json.dumps(each) for each in items])
        self.write_suite("agreement", agreement)

    def write_suite(self, name: str, lines: list[str]) -> None:
        (self.variant(name) / "suite.jsonl").write_text("".join(f"{line}\n" for line in lines))

    def use(self, draw: random.Random) -> None:
        read_items(self.bad / "suite.jsonl")


class Corpora(Kind):
    """A parallel corpus in every format."""

    endless = ()
    folders = False

    def make(self) -> None:
        documents = made_up([2, 3], seed=2)
        for name in FORMATS:
            for suffix in ("", ".gz", ".xz"):
                folder = self.variant(f"{name}{suffix}")
                two = (folder / f"text.en{suffix}", folder / f"text.de{suffix}")
                one_file = name in {"tsv", "bars", "jsonl", "wmtxml"}
                write_parallel(two[0], None if one_file else two[1], documents, format=name)

    def use(self, draw: random.Random) -> None:
        files = sorted(path for path in self.bad.iterdir() if not path.name.endswith((".doc", ".doc.gz", ".doc.xz")))
        if not files:
            return
        for path in files:
            if path.suffix in PACKERS and is_small(path) and draw.random() < 0.5:
                unpack, pack = PACKERS[path.suffix]
                with suppress(OSError, EOFError, lzma.LZMAError, zlib.error):  # damaged outside already
                    path.write_bytes(pack(damaged_bytes(draw, unpack(path.read_bytes()))))
        name = draw.choice([None, self.chosen.split(".")[0], draw.choice(FORMATS)])
        list(read_parallel(files[-1], files[0] if len(files) > 1 else None, name))
        list(read_documents(files[0], name))


class Imports(Kind):
    """A checkpoint of the paper's authors with their vocabulary."""

    endless = ()

    def make(self) -> None:
        config = SMALL.model_copy(update={"position_offset": 2})
        torch.manual_seed(1)
        model = Transformer(config, 12)
        state: dict[str, torch.Tensor] = {}
        for name, value in model.named_parameters():
            names = authors_names(name)
            for theirs, part in zip(names, value.detach().chunk(len(names)), strict=True):
                state[theirs] = (part[None] if theirs.endswith("ds_query_init") else part).clone()
        folder = self.variant("new")
        torch.save(state, folder / "model.pt")
        words = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab</w>", "a</w>", "b</w>", "c", "c</w>", "abc</w>"]
        (folder / "vocab").write_text("".join(f"{word}\n" for word in words))
        (folder / "codes").write_text("#version: 0.2\na b</w>\nab</w> c\n")
        shutil.copytree(folder, self.good / "old")
        torch.save(state, self.good / "old" / "model.pt", _use_new_zipfile_serialization=False)

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
    "runs": Runs,
    "sessions": Sessions,
    "keys": KeyFiles,
    "suites": Suites,
    "corpora": Corpora,
    "imports": Imports,
    "adapters": Adapters,
    "foreign": Foreign,
    "files": Files,
    "glossaries": Glossaries,
}

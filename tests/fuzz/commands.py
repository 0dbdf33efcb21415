"""Commands with damaged inputs of every kind: exit code 0, 1 or 2, at most one sentence, nothing half-written."""

import contextlib
import io
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from conftest import TINY, Done, contents, kept_signals, made_up, write_pair
from fuzz.base import SENTENCE, SYSTEMS, Kind, WithText
from fuzz.kinds import Corpora, Imports, Models, Prepared, Runs, Sessions, Suites
from fuzz.translating import Adapters, Files, Foreign, Glossaries
from fuzz.yaml_text import damaged_yaml
from tram.config import Config, write_yaml
from tram.errors import InputError, RunError
from tram.model.folder import save_model
from tram.translation.translator import Translator

SUITE = json.dumps(
    {"source_context": ["A."], "target_context": ["B."], "source": "C.", "reference": "D.", "contrastive": ["E."]}
)
STAGE = {"updates": 2, "tokens": 64, "checkpoint_every": 1, "evaluate_every": 2, "patience": 0, "warmup": 1}


class WrongEnd(Exception):
    """A command that did not end as every command must."""


def call(*arguments: object) -> Done:
    """Run the command in this process."""
    from tram.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["tram", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(SENTENCE.encode()))),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        kept_signals(),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    for stream in (out, err):
        stream.flush()
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]  # type: ignore[attr-defined]
    return Done(code, *texts)


class Command(Kind):
    """What all commands are checked for."""

    def tram(self, *arguments: object) -> None:
        """Run a command; what it refuses is raised again, what must not happen is a `WrongEnd`."""
        out = self.out
        before = {path for path in self.good.parent.rglob("*") if path.is_dir() or path.suffix == ".tmp"}
        done = call(*arguments)
        said = [line for line in done.err.splitlines() if line.startswith("tram: ")]
        if done.code not in (0, 1, 2) or "Traceback" in done.err or len(said) != (done.code != 0):
            raise WrongEnd(f"{arguments}: {done}"[:5000])
        if done.code and not done.err.endswith(said[0] + "\n"):
            raise WrongEnd(f"the sentence is not the last: {arguments}: {done.err}"[:5000])
        if done.code and out.exists() and arguments[0] not in {"train", "prepare"}:
            raise WrongEnd(f"half written: {arguments}: {list(out.rglob('*'))}")
        left = set(self.good.parent.rglob("*.tmp")) - before
        if left:
            raise WrongEnd(f"temporary files: {arguments}: {left}")
        if done.code and "out of memory" in said[0]:
            raise WrongEnd(f"memory: {arguments}: {said[0]}")
        if done.code:
            raise {1: RunError, 2: InputError}[done.code](said[0])

    @property
    def out(self) -> Path:
        """The place for what commands write; empty."""
        return self.good.parent / "out"

    def case(self, seed: int) -> None:
        _clear(self.out)
        super().case(seed)

    def write(self, name: str, text: str) -> Path:
        """Write a good input."""
        path = self.good.parent / name
        path.write_text(text)
        return path


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class ModelCommands(Command, Models):
    """A model folder, in the commands that take one."""

    def use(self, draw: random.Random) -> None:
        if draw.random() < 0.5:
            self.refit(draw)
        lines = self.write("lines.txt", f"{SENTENCE}\n\nNo.\n")
        suite, bad, out = self.write("suite.jsonl", SUITE), self.bad, self.out
        engine = draw.choice([(), (), ("--engine", "torch"), ("--precision", "int8"), ("--dtype", "float16")])
        commands = [
            ("translate", "--model", bad, lines, "-o", out, "--beam", 2, *engine),
            ("translate", "--model", bad, "--lines", lines, "-o", out, "--json", out.with_name("report.json"), *engine),
            ("evaluate", lines, lines, "--model", bad, "--hypothesis", out, "--beam", 1, *engine),
            ("contrast", suite, "--model", bad, "--json", out, *engine),
            ("export", "int8", bad, out),
            ("export", "tram", bad, out),
            ("export", "hf", bad, out, *draw.choice([(), ("--without-context",)])),
            ("prepare", out, "--train", *self.pair, "--workers", 1, "--text", bad),
        ]
        self.tram(*draw.choice(commands))

    def make(self) -> None:
        super().make()
        self.pair = write_pair(self.good.parent, "some", made_up([2, 3], seed=3))


class Trainings(Command, WithText):
    """Configs that are mostly valid, in `tram train`, which is called again to continue."""

    growth = 6 << 30  # a model of the size that a config asks for is no fault

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        self.data = data
        finetune = STAGE | {"memory": {"slots": 2}, "window": [1, 2], "documents": 2}
        plans: dict[str, dict[str, Any]] = {
            "sentence": {"train": STAGE},
            "both": {"train": STAGE, "finetune": finetune | {"average": 2}},
            "frozen": {"train": STAGE, "finetune": finetune | {"freeze": ["tokens.*"]}},
            "muon": {"train": STAGE | {"optimizer": "muon", "precision": "bfloat16", "watch": "bleu"}},
        }
        for name, settings in SYSTEMS.items():
            second = {key: value for key, value in finetune.items() if key != "memory"} | {"window": "document"}
            context = settings.get("context")
            model = {key: value for key, value in settings.items() if key != "context"}
            plans[name] = {"train": None, "finetune": second | {"context": context, "start": "nothing"}, "model": model}
        for name, plan in plans.items():
            plan["model"] = TINY.model_dump() | plan.get("model", {})
            config = Config.model_validate({"data": str(data), "output": str(self.out), "train": None} | plan)
            write_yaml(self.variant(name) / "config.yaml", config)

    def use(self, draw: random.Random) -> None:
        path = self.bad / "config.yaml"
        good = (self.good / self.chosen / "config.yaml").read_text()
        if draw.random() < 0.7 and os.access(path, os.W_OK) and path.is_file() and not path.is_symlink():
            path.write_bytes(damaged_yaml(draw, good))
        small = [f"output={json.dumps(str(self.out))}"]  # what only takes long is no fault
        for stage in ("train", "finetune"):
            if yaml.safe_load(good)[stage] is not None:
                small += [f"{stage}.updates=2", f"{stage}.accumulate=1"]
        try:
            self.tram("train", path, *small)
        except InputError as error:
            if list(self.out.glob("*/checkpoints/*")) and "not numbers" not in str(error):  # diverged
                raise WrongEnd(f"refused after updates: {error}") from None
            raise
        self.tram("train", path, *small)


class PreparedCommands(Command, Prepared):
    """A prepared folder, trained on or made again; what can be used again of it must not change the data."""

    def make(self) -> None:
        super().make()
        from tram.data.prepare import PrepareSettings, prepare

        english, german = (self.good.parent / "corpus" / f"train.{language}" for language in ("en", "de"))
        self.pair, settings = (english, german), PrepareSettings(merges=20)
        with (
            mock.patch("tram.data.prepare._encode", side_effect=KeyboardInterrupt),
            contextlib.suppress(KeyboardInterrupt),
        ):
            prepare(self.good / "interrupted", [self.pair], [], settings, workers=1)
        assert (self.good / "interrupted" / ".cache").is_dir()
        prepare(self.out, [self.pair], [], settings, workers=1)
        self.expected = contents(self.out)
        self.config = self.good.parent / "config.yaml"
        values = {"data": str(self.bad), "output": str(self.out), "model": TINY.model_dump(), "train": STAGE}
        write_yaml(self.config, Config.model_validate(values))

    def use(self, draw: random.Random) -> None:
        if self.chosen == "interrupted" or draw.random() < 0.3:
            self.tram("prepare", self.bad, "--train", *self.pair, "--merges", 20, "--workers", 1)
            if any((self.bad / name).read_bytes() != data for name, data in self.expected.items()):
                raise WrongEnd("other data than without the damaged files")
        else:
            self.tram(
                "train", self.config, f"data={json.dumps(os.fsdecode(self.bad).encode('utf-8', 'replace').decode())}"
            )


class RunCommands(Command, Runs):
    """The folder of a run, which is continued, translated with and exported."""

    def use(self, draw: random.Random) -> None:
        config = self.good.parent / "config.yaml"
        if not config.exists():
            write_yaml(config, self.config)
        commands: list[tuple[object, ...]] = [
            *(("train", config), ("train", config), ("train", self.bad / "config.yaml")),
            ("translate", "--model", self.bad, self.write("lines.txt", SENTENCE), "-o", self.out),
            ("export", "adapter", self.bad, self.out),
        ]
        self.tram(*draw.choice(commands))


class CorpusCommands(Command, Corpora, WithText):
    """A corpus in every command that reads one."""

    def make(self) -> None:
        super().make()
        data = self.good.parent / "data"
        self.prepare(data)
        model, text = self.model(data)
        save_model(model, self.good.parent / "model", text)

    def use(self, draw: random.Random) -> None:
        files = sorted(path for path in self.bad.glob("text.*") if ".doc" not in path.name)
        if not files or any(path.is_fifo() for path in files):
            return
        pair = (files[-1], files[0]) if len(files) > 1 else (files[0],)
        one, model = files[0], ("--model", self.good.parent / "model", "--beam", 1)
        format = draw.choice([(), ("--format", self.chosen.split(".")[0])])
        commands: list[tuple[object, ...]] = [
            ("stats", *pair, *format, "--json", self.out),
            ("prepare", self.out, "--train", *pair, "--dev", *pair, "--merges", 20, "--workers", 1, *format),
            ("evaluate", *pair, *model, "--hypothesis", self.out, *format),
            ("score", one, "-i", one, *format, "--json", self.out),
            ("suite", "agreement", pair[0], pair[-1], self.out, *format),
            ("suite", "pronouns", pair[0], pair[-1], self.out, *format),
            ("translate", "--lines", one, *model, "-o", self.out),
            ("splice", self.out, "--train", *pair, "--documents", 2, *format),
        ]
        self.tram(*draw.choice(commands))


class SuiteCommands(Command, Suites, WithText):
    """A suite, or results that others are compared with."""

    def make(self) -> None:
        Suites.make(self)
        data = self.good.parent / "data"
        self.prepare(data)
        self.network, self.text = self.model(data)
        self.folder = self.good.parent / "model"
        save_model(self.network, self.folder, self.text)
        for name in ("contrastive", "agreement", "expected"):
            folder = self.variant(f"baseline {name}")
            suite = shutil.copy(self.good / name / "suite.jsonl", folder)
            done = call("contrast", suite, "--model", self.folder, "--json", folder / "results.json")
            assert done.code == 0, done

    def use(self, draw: random.Random) -> None:
        options: tuple[object, ...] = ("--model", self.folder, "--beam", 1, "--json", self.out)
        if self.chosen.startswith("baseline"):
            options += ("--baseline", self.bad / "results.json")
        with mock.patch("tram.cli.suite.load_translator", return_value=Translator(self.network, self.text, beam=1)):
            self.tram("contrast", self.bad / "suite.jsonl", *options)


class ImportCommands(Command, Imports):
    """A checkpoint of the paper's authors."""

    def use(self, draw: random.Random) -> None:
        texts = ("--vocab", self.bad / "vocab", "--codes", self.bad / "codes")
        side = draw.choice(["source", "target", "both"])
        arguments = ("import", "authors", self.bad / "model.pt", self.out, "--heads", 2, "--side", side)
        self.tram(*arguments, *draw.choice([texts, texts, ()]))


class ForeignCommands(Command, Foreign):
    """A model of the Hugging Face hub."""

    def use(self, draw: random.Random) -> None:
        languages = () if self.chosen.startswith("marian") else ("--source", "en", "--target", "de")
        self.tram("import", "hf", self.bad, self.out, *draw.choice([languages, ()]))


class TranslateCommands(Command, Adapters):
    """An adapter, a glossary or a file, in `tram translate`."""

    def make(self) -> None:
        super().make()
        others = self.good.parent / "others"
        for kind in (Files, Glossaries):
            made = kind(others / kind.__name__).good
            for folder in made.iterdir():
                shutil.move(folder, self.good / f"{kind.__name__} {folder.name}")

    def use(self, draw: random.Random) -> None:
        options: tuple[object, ...] = ("--model", self.base, "-o", self.out, "--beam", 1)
        letter = self.write("letter.txt", "The file of OpenOffice and the printer driver (x) in C++.\n")
        if self.chosen == "adapter":
            self.tram("translate", letter, *options, "--adapter", self.bad)
        elif self.chosen.startswith("Glossaries"):
            self.tram("translate", letter, *options, "--glossary", self.bad / "terms.tsv")
        else:
            path = self.bad / os.listdir(self.good / self.chosen)[0]
            with contextlib.suppress(PermissionError):
                if path.is_fifo() or path.is_socket():
                    return
            self.tram("translate", path, *options)


class ServeCommands(Command, Sessions):
    """A file of keys and a folder of sessions, of a service that starts and ends at once."""

    def make(self) -> None:
        super().make()
        (self.good / "one" / "keys.yaml").write_text(f"keys:\n  - {{name: one, key: {'0123456789abcdef' * 2}}}\n")
        self.scheduler.close(0)

    def use(self, draw: random.Random) -> None:
        from tram.service import server

        translator = Translator(self.scheduler.translator.model, self.scheduler.translator.text, beam=1)
        keys = ("--keys", self.bad / "keys.yaml") if draw.random() < 0.7 else ()
        with (
            mock.patch("tram.cli.console.load_translator", return_value=translator),
            mock.patch.object(server, "make_server", _OneStart),
        ):
            self.tram("serve", "--port", 0, "--sessions", self.bad, *keys)


class _OneStart:
    """A server that starts, and ends."""

    def __init__(self, service: Any) -> None:
        self.service = service

    def run(self, sockets: list[Any]) -> None:
        self.service.close(0)
        for socket in sockets:
            socket.close()


COMMANDS: dict[str, type[Kind]] = {
    "model commands": ModelCommands,
    "trainings": Trainings,
    "prepared commands": PreparedCommands,
    "run commands": RunCommands,
    "corpus commands": CorpusCommands,
    "suite commands": SuiteCommands,
    "import commands": ImportCommands,
    "foreign commands": ForeignCommands,
    "translate commands": TranslateCommands,
    "serve commands": ServeCommands,
}

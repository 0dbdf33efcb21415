"""Every command of the tutorial in docs/PRETRAINED.md, in its order, on a small stand-in for the OPUS-MT model."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from conftest import Done, made_up, write_pair
from pretrained_models import make
from tram.translation.translator import Translator

PAGE = Path(__file__).parents[2] / "docs" / "PRETRAINED.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FASTER = ["finetune.updates=2", "finetune.warmup=1", "finetune.documents=2"]  # than the tutorial's training


def test_the_tutorial_works(tram: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    stand_in = make("marian", tmp_path / "hub" / "0a1b2c").folder
    names = [path.name for path in stand_in.iterdir()]
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_, **__: names)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(stand_in))
    documents = made_up([3, 5, 4, 6, 2, 4, 3], seed=5)
    write_pair(tmp_path, "train", documents[:5])
    write_pair(tmp_path, "dev", documents[5:6])
    write_pair(tmp_path, "test", documents[6:])
    (tmp_path / "letter.txt").write_text("The old miller waits. A small fox sings on the bridge.\n")
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, content in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "yaml":
            (tmp_path / "memory.yaml").write_text(content)
        elif kind == "python":
            names_there: dict[str, Any] = {}
            exec(content, names_there)
            assert isinstance(names_there["translator"], Translator)
        for line in content.splitlines() if kind == "console" else []:
            prompt, program, *arguments = shlex.split(line)
            assert (prompt, program) == ("$", "tram")
            done = tram(*arguments, *(FASTER if arguments[0] == "train" else []))
            assert done.code == 0, (line, done.err)
            ran += 1
    assert ran == 10
    assert "commit 0a1b2c" in Path("adapter/README.md").read_text()
    assert json.loads(Path("opus-again/config.json").read_text())["model_type"] == "marian"
    assert Path("letter.de.txt").read_text().strip()
    assert Translator.load("whole").model.has_context


def test_the_page_names_what_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for path in re.findall(r"runs/pretrained/[\w.]+", text):
        assert (PAGE.parents[1] / path).exists()


def test_the_measurements_on_the_page_are_those_of_the_committed_file(tmp_path: Path) -> None:
    script, results = PAGE.parents[1] / "runs" / "pretrained" / "table.py", PAGE.with_name("pretrained.json")
    written = tmp_path / PAGE.name
    written.write_bytes(PAGE.read_bytes())
    subprocess.run([sys.executable, script, "page", results, written], check=True)
    assert written.read_bytes() == PAGE.read_bytes()

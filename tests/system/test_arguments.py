"""Paths that no file can have, or that lead to something else: every command refuses them in every place."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from conftest import Corpus, Done, refused
from tram.cli.app import app
from tram.translation.translator import Translator

HOSTILE = {
    "nothing": "",
    "a folder": "FOLDER",
    "the root": "/",
    "too long a name": "a" * 300,
    "too long a path": "/".join(["a" * 200] * 30),
    "below a file": "FILE/below",
    "a name that is not UTF-8": "\udcff\udcfe",
    "a line break": "a\nb",
    "a link to itself": "LOOP",
    "zeros": "ZEROS",
}
SLOW = {"bench", "complexity", "synthetic"}  # a name that can be written starts long work
LINES = ("--train", "--dev", "-i", "--model", "--baseline")  # options of strings that are paths, too


def commands(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The subcommands of a command at any depth, with their names."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from commands(below, *names, name)
    else:
        yield names, command


def holds_path(option: Any) -> bool:
    """Whether an option or argument is a path, or several."""
    annotation = option.type_descriptor.annotation
    return annotation is Path or Path in get_args(annotation) or bool(set(option.opts) & set(LINES))


def places() -> list[Any]:
    """Every option and argument of every command that is a path."""
    return [
        pytest.param(names, command, option, id=" ".join((*names, option.opts[0])))
        for names, command in commands(typer.main.get_command(app))
        for option in command.params
        if holds_path(option) and not set(names) & SLOW
    ]


def words(option: Any, value: str) -> list[str]:
    flag = max(option.opts, key=len)
    return [flag, value] if flag.startswith("-") else [value]


@pytest.mark.slow
@pytest.mark.parametrize(("names", "command", "option"), places())
def test_no_path_is_a_traceback(
    names: tuple[str, ...],
    command: Any,
    option: Any,
    tram: Callable[..., Done],
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All other paths that the command needs are files; no model is ever loaded, so that nothing takes long."""

    def load(*_: object, **__: object) -> None:
        raise OSError("no model here")

    monkeypatch.setattr(Translator, "load", load)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    files = {"FOLDER": tmp_path, "FILE": corpus.dev[0], "LOOP": tmp_path / "loop", "ZEROS": "/dev/zero"}
    for kind, path in HOSTILE.items():
        for name, file in files.items():
            path = path.replace(name, str(file))
        line = [*names, *words(option, path)]
        for other in command.params:
            if other.required and other is not option:
                line += words(other, str(corpus.dev[0]) if holds_path(other) else "1")
        done = tram(*line, stdin=b"")
        assert done.code in (0, 1, 2), (kind, line)
        assert "Traceback" not in done.err, (kind, line)
    assert {name for name in os.listdir(tmp_path) if name.endswith(".tmp")} == set()


@pytest.mark.parametrize(
    "line",
    [
        ["prepare", "", "--train", "SOURCE"],
        ["serve", "--sessions", ""],
        ["serve", "--sessions="],
        ["score", "SOURCE", "-i", "SOURCE", ""],
        ["train", ""],
        [""],
    ],
)
def test_an_empty_argument_is_not_the_current_folder(
    line: list[str], tram: Callable[..., Done], corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(tram(*(word.replace("SOURCE", str(corpus.dev[0])) for word in line)), "is empty; is a variable")
    assert not list(tmp_path.iterdir())

"""`tram translate`: where translations go, files that fail among others, and an interruption in the middle."""

import json
import os
import signal
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Done, refused
from filetype_samples import epub
from tram.filetypes import batch
from tram.translation.translator import Translator

Command = Callable[..., Done]


@pytest.fixture(scope="module")
def model(run: Path) -> Path:
    return run / "train" / "model"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with some files."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("Tea!\n")
    return tmp_path


@pytest.mark.parametrize("options", [[], ["--lines"], ["--lines", "--n-best", "2"]])
def test_a_dash_is_standard_output(model: Path, tram: Command, folder: Path, options: list[str]) -> None:
    printed = tram("translate", "a.txt", "--model", model, *options)
    done = tram("translate", "a.txt", "--output", "-", "--model", model, *options)
    assert (done.code, done.out) == (0, printed.out)
    assert done.out
    assert sorted(os.listdir(folder)) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.txt", "b.txt", "-o", "-"], ["--output -: 2 translations", "give a folder"]),
        (["a.txt", "-o", "-", "--json", "-"], ["--json -: the translation is printed there"]),
        (["a.txt", "b.txt", "-o", "c.txt"], ["c.txt: is a file, but there are 2"]),
        (["-", "-o", "new/"], ["new/: is a folder", "standard input has no name"]),
        (["a.txt", "-o", ""], ["the argument after -o is empty"]),
        (["a.txt", "--lines", "-o", "a.txt"], ["a.txt: is the original"]),
        (["a.txt", "--lines", "-o", "."], [".: is a folder"]),
        (["a.txt", "-o", "new", "--json", "new"], ["new: two results would be written there"]),
    ],
)
def test_outputs_that_cannot_be_are_refused(
    model: Path, tram: Command, folder: Path, arguments: list[str], words: list[str]
) -> None:
    done = tram("translate", *arguments, "--model", model, stdin=b"Tea!\n")
    refused(done, *words)
    assert done.out == ""
    assert sorted(os.listdir(folder)) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("files", [["a.txt", "a.de.txt"], ["a.de.txt", "a.txt"]])
def test_a_translation_does_not_replace_another_original(
    model: Path, tram: Command, folder: Path, files: list[str]
) -> None:
    (folder / "a.de.txt").write_text("Coffee!\n")
    done = tram("translate", *files, "--overwrite", "--model", model)
    refused(done, "a.de.txt: is read by this command, and would be replaced")
    assert (folder / "a.de.txt").read_text() == "Coffee!\n"


def test_one_file_goes_into_a_folder(model: Path, tram: Command, folder: Path) -> None:
    assert tram("translate", "a.txt", "-o", "new/", "--model", model).code == 0
    assert os.listdir(folder / "new") == ["a.de.txt"]
    refused(tram("translate", "a.txt", "-o", "new", "--model", model), "new/a.de.txt: exists already", "--overwrite")


def test_packages_are_not_printed_to_a_terminal(
    model: Path, tram: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile("a.odt", "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        package.writestr("content.xml", '<p xmlns="urn:oasis:names:tc:opendocument:xmlns:text:1.0">Tea!</p>')
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    refused(tram("translate", "a.odt", "-o", "-", "--model", model), "a.odt: its translation is a package")
    content = (folder / "a.odt").read_bytes()
    refused(tram("translate", "--model", model, stdin=content), "standard input: its translation is a package")
    assert tram("translate", "a.odt", "--model", model).code == 0
    assert (folder / "a.de.odt").exists()


def test_a_file_that_fails_does_not_stop_the_others(model: Path, tram: Command, folder: Path) -> None:
    (folder / "b.txt").write_bytes(b"Tea!\n\xff\n")
    (folder / "d.pdf").write_bytes(b"%PDF-1.7")
    (folder / "e.html").write_bytes(b"<html><meta charset=x-none><p>Tea!</p></html>")
    given = ["d.pdf", "a.txt", "b.txt", "e.html", "c.txt"]
    done = tram("translate", *given, "-o", "new", "--json", "r.json", "--model", model)
    assert done.code == 2
    sentences = [line for line in done.err.splitlines() if line.startswith("tram: ")]
    assert [sentence.split(":")[1].strip() for sentence in sentences[:-1]] == ["d.pdf", "b.txt", "e.html"]
    assert sentences[-1] == "tram: 3 of 5 files could not be translated; see above"
    assert sorted(os.listdir(folder / "new")) == ["a.de.txt", "c.de.txt"]
    assert done.out.split() == ["new/a.de.txt", "new/c.de.txt"]
    report = json.loads((folder / "r.json").read_text())
    failed = {file["source"]: file["error"] for file in report["files"] if "error" in file}
    assert list(failed) == ["d.pdf", "b.txt", "e.html"]
    assert failed["b.txt"].startswith("b.txt:2: is not valid UTF-8")


def test_an_interruption_keeps_finished_files_and_leaves_nothing_else(
    model: Path, tram: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_as_finished = batch.files_as_finished

    def interrupted(*arguments: object) -> object:
        """Translate; Ctrl-C comes after the first file."""
        results = files_as_finished(*arguments)  # type: ignore[arg-type]
        yield next(results)
        os.kill(os.getpid(), signal.SIGINT)
        yield from results

    monkeypatch.setattr(batch, "files_as_finished", interrupted)
    done = tram("translate", "a.txt", "b.txt", "-o", "new", "--model", model)
    assert done.code == 130
    assert done.err.endswith("tram: stopped\n")
    assert os.listdir(folder / "new") == ["a.de.txt"]
    assert (folder / "new" / "a.de.txt").read_text() == f"{Translator.load(model).translate(['Tea!'])[0]}\n"


def test_chapters_of_a_book_are_documents_if_asked(model: Path, tram: Command, folder: Path) -> None:
    (folder / "book.epub").write_bytes(epub().content)
    counts = []
    for options in ([], ["--chapters"]):
        done = tram("translate", "book.epub", "-o", "new.epub", "--json", "r.json", "--model", model, *options)
        assert done.code == 0, done.err
        counts.append(json.loads((folder / "r.json").read_text())["files"][0]["documents"])
    assert counts[0] == 1 < counts[1]

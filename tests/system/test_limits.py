"""Outputs are probed before the work, numbers have bounds, and an empty translation costs no scores."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from conftest import Corpus, Done, contents, refused
from tram.cli.app import app
from tram.cli.translate_lines import n_best_lines, translated_lines
from tram.data.corpus import Document, format_that_holds, read_documents, write_documents
from tram.translation.parts import Translation
from tram.translation.translator import Translator

Command = Callable[..., Done]


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model fails the test: the output must have been refused before."""

    def load(*_: Any, **__: Any) -> Translator:
        raise AssertionError("the model is loaded before the output is probed")

    monkeypatch.setattr(Translator, "load", load)


@pytest.mark.parametrize("path", ["", ".", "/", "FILE/below"])
@pytest.mark.parametrize("command", ["evaluate --json", "evaluate --hypothesis", "stats --json", "score --json"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    command: str, path: str, no_model: None, tram: Command, corpus: Corpus, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    name, option = command.split()
    files = [*corpus.dev] if name != "score" else [corpus.dev[1], "-i", corpus.dev[1]]
    refused(tram(name, *files, option, path.replace("FILE", str(tmp_path / "file"))))


@pytest.mark.parametrize(
    "command",
    [
        "evaluate dev.en dev.de --hypothesis dev.de",
        "evaluate dev.en dev.de --json dev.en",
        "evaluate dev.en dev.de --json new --hypothesis ./new",
        "score dev.de -i link dev.de --json dev.de",
        "score dev.de -i link --json dev.de",
        "stats dev.en dev.de --json link",
        "contrast dev.en --json dev.en",
        "suite pronouns dev.en dev.de dev.de",
        "suite agreement dev.en dev.de new.en --add train.en,new.en",
        "splice . --train train.en train.de",
        "prepare . --train train.en train.de --dev dev.jsonl",
        "translate dev.en -o new --json dev.en",
        "translate dev.en --lines -o new --json new",
        "translate dev.en -o new --glossary dev.de --alignment dev.de",
        "translate dev.en --lines -o dev.de --glossary dev.de",
    ],
)
def test_nothing_is_written_over_what_the_command_reads_or_writes(
    command: str, no_model: None, tram: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dev.en", "dev.de", "train.en", "train.de", "dev.jsonl", "new.en"):
        (tmp_path / name).write_text("A house.\n")
    (tmp_path / "link").symlink_to("dev.de")
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    refused(tram(*command.split()), "choose another output")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("path", ["", "/", "FILE/below"])
def test_the_output_of_lines_is_probed_first(path: str, no_model: None, tram: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(tram("translate", "--lines", "-o", path.replace("FILE", str(tmp_path / "file")), stdin=b"A house.\n"))


@pytest.mark.parametrize("path", ["FILE/below", "/proc/nothing/x"])
@pytest.mark.parametrize("source", ["-", "SOURCE"])
def test_the_output_of_a_document_is_probed_before_it_is_translated(
    source: str, path: str, run: Path, tram: Command, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may depend on the language of the model, which is loaded before."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(Translator, "as_finished", lambda *_: pytest.fail("translated in vain"))
    files = [source.replace("SOURCE", str(corpus.dev[0])), "-o", path.replace("FILE", str(tmp_path / "file"))]
    refused(tram("translate", *files, "--model", run, stdin=b"A house.\n"), "cannot be written")


@pytest.mark.parametrize(
    "arguments",
    [
        "prepare OUT --train SOURCE TARGET --seed -1",
        "prepare OUT --train SOURCE TARGET --workers -1",
        "prepare OUT --train SOURCE TARGET --workers 0",
        "prepare OUT --train SOURCE TARGET --workers 1000000",
        "prepare OUT --train SOURCE TARGET --merges -1",
        "prepare OUT --train SOURCE TARGET --merges 4611686018427387904",
        "prepare OUT --train SOURCE TARGET --held-out nan",
        "prepare OUT --train SOURCE TARGET --held-out 1e400",
        "prepare OUT --train SOURCE TARGET --source-language klingon",
        "prepare OUT --train SOURCE TARGET --target-language xx",
        "score TARGET -i TARGET --bootstrap 1000000000000",
        "score TARGET -i TARGET --bootstrap -1",
        "score TARGET -i TARGET --seed -1",
        "evaluate SOURCE TARGET --beam 0",
        "evaluate SOURCE TARGET --beam 1000000000",
        "evaluate SOURCE TARGET --length-penalty nan",
        "evaluate SOURCE TARGET --length-penalty 1e6",
        "synthetic OUT --documents 1000000000000",
        "synthetic OUT --seed -1",
        "synthetic OUT --distance 1000000000",
        "import authors SOURCE OUT --heads 0",
        "import authors SOURCE OUT --source-language xx",
        "bench train --rounds 1000000000",
    ],
)
def test_numbers_beyond_reason_are_refused(
    arguments: str, no_model: None, tram: Command, corpus: Corpus, tmp_path: Path
) -> None:
    places = {"OUT": tmp_path / "out", "SOURCE": corpus.dev[0], "TARGET": corpus.dev[1]}
    done = tram(*(places.get(word, word) for word in arguments.split()))
    assert done.code == 2
    assert "Traceback" not in done.err
    assert not (tmp_path / "out" / "prepared.json").exists()


# Translations that a format of lines cannot hold.


class Fixed:
    """A translator whose translations are given."""

    def __init__(self, translations: list[str]) -> None:
        self.translations = translations

    def detailed(self, documents: Any, *_: Any, **__: Any) -> Any:
        for document in documents:
            yield [Translation(text, 0.0) for text in self.translations[: len(document)]]

    def n_best(self, sentences: list[str], n: int) -> Any:
        return [[Translation(text, 0.0)] for text in self.translations[: len(sentences)]]


def test_line_ends_in_a_translation_do_not_shift_the_lines_after_it() -> None:
    translator: Any = Fixed(["a\rb", "c\nd", "e\r\nf"])
    assert "".join(translated_lines(translator, ["1\n", "2\n", "3\n"])) == "a b\nc d\ne f\n"
    assert [line.count("\n") + line.count("\r") for line in n_best_lines(translator, ["1", "2", "3"], 1)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [(["a", "b"], None), (["a", ""], "d"), (["<d>", "b"], None), (["<d>", " "], "jsonl")],
)
def test_a_format_is_chosen_that_holds_empty_sentences(
    sentences: list[str], expected: str | None, tmp_path: Path
) -> None:
    documents = [Document(sentences), Document(["x"])]
    path = tmp_path / "hypothesis.de"
    assert format_that_holds(path, documents) == expected
    write_documents(path, documents, expected)
    if expected != "jsonl":
        name = None if expected else "blank"
        assert [document.sentences for document in read_documents(path, name)] == [sentences, ["x"]]


def test_an_empty_translation_costs_neither_the_scores_nor_the_translations(
    tram: Command, run: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translate = Translator.translate_documents

    def with_empty(self: Translator, *arguments: Any, **options: Any) -> Any:
        for number, document in enumerate(translate(self, *arguments, **options)):
            yield ["", *document[1:]] if number == 0 else document

    monkeypatch.setattr(Translator, "translate_documents", with_empty)
    hypothesis, scores = tmp_path / "hypothesis.de", tmp_path / "scores.json"
    options = ("--no-perplexity", "--measures", "none", "--beam", 1, "--hypothesis", hypothesis, "--json", scores)
    done = tram("evaluate", *corpus.dev, "--model", run, *options)
    assert done.code == 0, done.err
    assert "BLEU" in done.out
    assert scores.exists()
    written = [document.sentences for document in read_documents(hypothesis)]
    assert [len(document) for document in written] == [len(d.sentences) for d in read_documents(corpus.dev[1])]
    assert written[0][0] == ""


# No number is forgotten.


def commands(command: Any, name: str = "tram") -> Iterator[tuple[str, Any]]:
    """The subcommands of a command at any depth, with their names."""
    if hasattr(command, "commands"):
        for part, below in command.commands.items():
            yield from commands(below, f"{name} {part}")
    else:
        yield name, command


def numbers_in(annotation: Any) -> set[type]:
    """The kinds of numbers in a type such as `list[int] | None`."""
    if annotation in (int, float):
        return {annotation}
    return {number for part in get_args(annotation) for number in numbers_in(part)}


def number_options() -> list[Any]:
    """Every option and argument of every command that is a number."""
    return [
        pytest.param(option, number, id=f"{name} {option.opts[0]}")
        for name, command in commands(typer.main.get_command(app))
        for option in command.params
        for number in numbers_in(option.type_descriptor.annotation)
    ]


@pytest.mark.parametrize(("option", "number"), number_options())
def test_every_number_has_bounds(option: Any, number: type) -> None:
    assert option.min is not None, "give typer.Option(min=…)"
    assert option.max is not None, "give typer.Option(max=…)"
    if number is float:  # NaN is in every range
        with pytest.raises(Exception, match="finite"):
            option.callback(float("nan"))


def test_the_walk_finds_the_numbers() -> None:
    found = {option.id for option in number_options()}
    assert {"tram prepare --merges", "tram analyze attention --sentences", "tram splice --replaced"} <= found


@pytest.mark.parametrize(
    "arguments",
    [
        "analyze complexity --output OUT --tokens 99999999999",
        "analyze complexity --output OUT --tokens ²",
        "analyze complexity --output OUT --repeats 0",
        "analyze window --output OUT --smooth -1",
        "analyze attention SOURCE TARGET --model OUT --output OUT --sentences 0 1",
        "analyze window --output OUT --train --data OUT --start OUT --runs OUT --windows ²",
        "analyze memory-size SOURCE TARGET --data OUT --start OUT --runs OUT --output OUT --share nan",
        "suite agreement SOURCE TARGET OUT --distance 1000000000",
        "suite agreement SOURCE TARGET OUT --seed -1",
        "splice OUT --train SOURCE TARGET --replaced nan",
        "splice OUT --train SOURCE TARGET --kinds pronouns=99999999999999999999999",
        "splice OUT --train SOURCE TARGET --kinds pronouns=²",
    ],
)
def test_numbers_of_analyses_and_suites_are_refused(
    arguments: str, no_model: None, tram: Command, corpus: Corpus, tmp_path: Path
) -> None:
    test_numbers_beyond_reason_are_refused(arguments, no_model, tram, corpus, tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
    ids=["Python's", "torch's", "the loader's"],
)
def test_a_full_memory_is_one_sentence(
    error: Exception, tram: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> Translator:
        raise error

    monkeypatch.setattr(Translator, "load", load)
    done = tram("translate", stdin=b"A house.")
    assert done.code == 1
    assert done.err == "tram: out of memory; give less input or smaller settings\n"

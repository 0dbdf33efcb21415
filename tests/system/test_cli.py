"""The command: help at once, text in and out with its layout, scores as tables and JSON, one sentence for bad input."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import yaml

from conftest import Corpus, Done, contents, made_up, refused, write_pair
from tram.cli.console import join_option_values
from tram.cli.translate_lines import translated_lines
from tram.config import Config, write_yaml
from tram.data.prepare import PrepareSettings, prepare
from tram.model.folder import WEIGHTS
from tram.translation.parts import Translation
from tram.translation.translator import Translator

Command = Callable[..., Done]
COMMANDS = [
    *(
        "stats",
        "prepare",
        "train",
        "translate",
        "evaluate",
        "score",
        "contrast",
        "synthetic",
        "import",
        "import authors",
    ),
    *("bench", "bench train", "bench decode", "bench memory"),
    *("bench document", "bench identity", "bench load"),
    *("suite", "suite agreement", "suite pronouns"),
]


@pytest.fixture(scope="module")
def model(run: Path) -> Path:
    return run / "train" / "model"


# Help.


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(tram: Command, command: str) -> None:
    done = tram(*command.split(), "--help")
    assert done.code == 0
    assert "Usage: tram " + command in done.out
    assert done.err == ""


def test_help_names_every_command(run_tram: Command) -> None:
    done = run_tram("--help")
    assert done.code == 0
    for command in COMMANDS[:7]:
        assert re.search(rf"\b{command}\b", done.out)


@pytest.mark.parametrize("group", ["", "analyze", "bench", "import", "export", "suite"])
def test_no_summary_in_a_list_of_commands_is_cut(tram: Command, group: str) -> None:
    summaries = tram(*group.split(), "--help").out.partition("Commands:\n")[2].splitlines()
    assert summaries
    assert [line for line in summaries if not line.endswith(".") or line.endswith("..")] == []


def test_help_does_not_wait_for_heavy_libraries() -> None:
    heavy = ["torch", "transformers", "accelerate", "sacrebleu", "sacremoses", "tokenizers", "matplotlib"]
    program = f"import tram.cli, sys; print(*set({heavy}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_the_version_is_printed(tram: Command) -> None:
    assert re.fullmatch(r"tram \d+\.\d+\.\d+\S*\n", tram("--version").out)


# Translating.


def with_ends(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class Shouting:
    """A translator that shouts, and tells which documents it was given."""

    def __init__(self) -> None:
        self.documents: list[list[str]] = []

    def detailed(self, documents: Iterable[list[str]], *_: object, **__: object) -> list[list[Translation]]:
        self.documents = list(documents)
        return [[Translation(sentence.upper(), 0.0) for sentence in document] for document in self.documents]


@pytest.mark.parametrize(
    "text", ["", "\n", "a", "a\n", "a\nb", "a\n\nb\n", "\n\na\n\n\nb\n\n", "a\n\n", "\na", " \na\n"]
)
def test_with_lines_every_line_has_its_line(text: str) -> None:
    assert "".join(translated_lines(Shouting(), with_ends(text))) == text.upper().replace(" ", "")


def test_with_lines_a_blank_line_starts_a_document() -> None:
    translator = Shouting()
    list(translated_lines(translator, with_ends("a\nb\n\nc\n")))
    assert translator.documents == [["a", "b"], ["c"]]


def test_a_line_end_in_a_translation_does_not_shift_the_others() -> None:
    class Breaking(Shouting):
        def detailed(self, documents: Iterable[list[str]], *_: object, **__: object) -> list[list[Translation]]:
            return [[Translation("x\ny", 0.0) for _ in document] for document in documents]

    assert "".join(translated_lines(Breaking(), with_ends("a\n\nb\n"))) == "x y\n\nx y\n"


def test_lines_of_a_file_and_of_standard_input_are_the_same(model: Path, tmp_path: Path, tram: Command) -> None:
    text = "The old miller waits.\n\nA small fox sings.\nTea!"
    (tmp_path / "in.txt").write_text(text)
    expected = [Translator.load(model).translate([line])[0] for line in text.split("\n")]
    for given_input in ((tmp_path / "in.txt",), ("-",), ()):
        done = tram("translate", *given_input, "--lines", "--model", model, stdin=text.encode())
        assert done.out.split("\n") == expected
    done = tram("translate", tmp_path / "in.txt", "--lines", "--model", model, "--output", tmp_path / "out.txt")
    assert (done.out, (tmp_path / "out.txt").read_text().split("\n")) == ("", expected)


def test_a_document_keeps_its_paragraphs(model: Path, tmp_path: Path, tram: Command) -> None:
    text = "\nThe fox sings. The miller waits.\n\n\n  Tea! My neighbour sleeps.\n"
    (tmp_path / "in.txt").write_text(text)
    done = tram("translate", tmp_path / "in.txt", "--model", model)
    translator = Translator.load(model)
    found = translator.translate(["The fox sings.", "The miller waits.", "Tea!", "My neighbour sleeps."])
    assert done.out == f"\n{found[0]} {found[1]}\n\n\n  {found[2]} {found[3]}\n"


def test_several_translations_are_listed_with_scores(model: Path, tram: Command) -> None:
    done = tram("translate", "--lines", "--n-best", 2, "--beam", 2, "--model", model, stdin=b"Tea!\n\nWhy?\n")
    rows = [line.split(" ||| ") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["0", "0", "1", "2", "2"]
    assert rows[2] == ["1", "", "0.0000"]
    assert all(float(row[2]) < 0 for row in rows if row[0] != "1")


def test_a_byte_order_mark_is_no_text(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbfTea!\n")
    plain = tram("translate", "--lines", "--model", model, stdin=b"Tea!\n").out
    assert tram("translate", "--lines", "--model", model, stdin=b"\xef\xbb\xbfTea!\n").out == plain
    assert tram("translate", tmp_path / "in.txt", "--lines", "--model", model).out == plain


# Scoring.


@pytest.fixture
def systems(tmp_path: Path) -> tuple[Path, list[Path]]:
    """A reference of three documents and two systems with some words wrong."""
    documents = made_up([4, 3, 5], seed=6)
    _, reference = write_pair(tmp_path, "ref", documents)
    text = reference.read_text()
    hypotheses = []
    for name, word, wrong in (("a", "wartet", "steht"), ("b", "der", "die")):
        hypotheses.append(tmp_path / f"{name}.de")
        hypotheses[-1].write_text(text.replace(word, wrong))
    return reference, hypotheses


def test_several_inputs_may_stand_together_or_apart(systems: tuple[Path, list[Path]], tram: Command) -> None:
    reference, (a, b) = systems
    together = tram("score", reference, "-i", a, b, "--bootstrap", 50)
    apart = tram("score", reference, "-i", a, "-i", b, "--bootstrap", 50)
    long = tram("score", "--bootstrap", 50, "--input", a, b, "--format", "blank", reference)
    assert together.code == 0
    assert together.out == apart.out == long.out
    assert "a.de" in together.out
    assert "b.de" in together.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("score ref -i A B", ["score", "ref", "-i", "A\0B"]),
        ("score ref -i A B --json x -i C", ["score", "ref", "-i", "A\0B", "--json", "x", "-i", "C"]),
        ("prepare o --train a b --train c d", ["prepare", "o", "--train", "a\0b", "--train", "c\0d"]),
        ("stats -i A B", ["stats", "-i", "A", "B"]),
        ("score -i - B", ["score", "-i", "-\0B"]),
        ("", []),
    ],
)
def test_values_of_one_option_are_gathered(arguments: str, expected: list[str]) -> None:
    assert join_option_values(arguments.split()) == expected


def test_json_goes_to_a_file_or_to_standard_output(
    systems: tuple[Path, list[Path]], tmp_path: Path, tram: Command
) -> None:
    reference, hypotheses = systems
    command = ("score", reference, "-i", *hypotheses, "--bootstrap", 50)
    printed = json.loads(tram(*command, "--json", "-").out)
    done = tram(*command, "--json", tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text()) == printed
    assert done.out == tram(*command).out, "the table for people is printed, too"
    assert json.loads(tram("stats", reference, "--json", "-").out)["documents"] == 3


def test_plain_lines_are_split_like_the_reference(
    systems: tuple[Path, list[Path]], tmp_path: Path, tram: Command
) -> None:
    reference, (a, _) = systems
    plain = tmp_path / "plain.de"
    plain.write_text(re.sub("\n\n", "\n", a.read_text()))
    results = [tram("score", reference, "-i", path, "--json", "-", "--bootstrap", 0).out for path in (a, plain)]
    assert results[0].replace(str(a), str(plain)) == results[1]


def test_a_hypothesis_of_other_length_is_refused(
    systems: tuple[Path, list[Path]], tmp_path: Path, tram: Command
) -> None:
    reference, (a, _) = systems
    lines = a.read_text().splitlines(keepends=True)
    a.write_text("".join(lines[:-1]))
    refused(tram("score", reference, "-i", a), "a.de", "document 3")


def test_evaluate_translates_keeps_and_scores(corpus: Corpus, model: Path, tmp_path: Path, tram: Command) -> None:
    kept = tmp_path / "dev.hyp"
    done = tram("evaluate", *corpus.dev, "--model", model, "--hypothesis", kept, "--json", tmp_path / "scores.json")
    assert done.code == 0
    for name in ("s-BLEU", "d-BLEU/doc", "d-BLEU/512", "chrF"):
        assert name in done.out
    again = tram("score", corpus.dev[1], "-i", kept, "--source", corpus.dev[0], "--text", model, "--json", "-")
    evaluated, scored = json.loads((tmp_path / "scores.json").read_text()), json.loads(again.out)
    assert str(evaluated["systems"]).replace(str(model), "X") == str(scored).replace(str(kept), "X")
    assert evaluated["perplexity"].keys() == {"none"}
    assert "Perplexity" in done.out
    brief = tram("evaluate", *corpus.dev, "--model", model, "--no-perplexity", "--json", "-")
    assert json.loads(brief.out)["systems"] == evaluated["systems"]
    assert "perplexity" not in json.loads(brief.out)


# What is refused.


def test_a_missing_or_broken_text_is_located(model: Path, tmp_path: Path, tram: Command) -> None:
    refused(tram("translate", tmp_path / "nowhere.txt", "--model", model), "nowhere.txt: there is no such file")
    (tmp_path / "bad.txt").write_bytes(b"one\ntwo\ncaf\xe9\n")
    refused(tram("translate", tmp_path / "bad.txt", "--model", model), "bad.txt:3: is not valid UTF-8")
    refused(tram("translate", "--model", model, stdin=b"one\n\xff\n"), "standard input:2: is not valid UTF-8")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(os.urandom(200).hex().encode())[:-20])
    refused(tram("translate", tmp_path / "cut.txt.gz", "--model", model), "cut.txt.gz: is compressed")
    refused(tram("translate", tmp_path, "--model", model), "is a folder")


@pytest.mark.parametrize("command", ["stats", "evaluate"])
def test_an_empty_file_is_refused(command: str, model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "empty").touch()
    options = ("--model", model) if command == "evaluate" else ()
    refused(tram(command, tmp_path / "empty", tmp_path / "empty2", *options), "empty2: there is no such file")
    (tmp_path / "empty2").touch()
    refused(tram(command, tmp_path / "empty", tmp_path / "empty2", *options), "empty: contains no sentences")


def test_no_model_no_translation(tmp_path: Path, tram: Command) -> None:
    refused(tram("translate", "--model", tmp_path / "x", stdin=b"Tea!"), "x: there is no such folder")
    refused(tram("translate", "--model", tmp_path, stdin=b"Tea!"), "is not a model folder")


@pytest.mark.parametrize("cut", [0, 5, 1000])
def test_a_damaged_model_is_refused(model: Path, tmp_path: Path, tram: Command, cut: int) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:cut])
    done = tram("translate", "--model", folder, "--output", tmp_path / "out.txt", stdin=b"Tea!")
    refused(done, f"{WEIGHTS}: is truncated or not a safetensors file")
    assert not (tmp_path / "out.txt").exists()


def test_a_text_pipeline_of_another_model_is_refused(
    corpus: Corpus, model: Path, tmp_path: Path, tram: Command
) -> None:
    prepare(tmp_path / "other", [corpus.dev], [], PrepareSettings(merges=200, pipeline="raw"), workers=1)
    folder = shutil.copytree(model, tmp_path / "model")
    shutil.copy(tmp_path / "other" / "text.json", folder)
    refused(tram("translate", "--model", folder, stdin=b"The old miller waits."), "text.json")


def test_an_output_that_cannot_be_written_is_refused(
    model: Path, corpus: Corpus, tmp_path: Path, tram: Command
) -> None:
    (tmp_path / "file").write_text("mine")
    below = tmp_path / "file" / "out"
    refused(tram("translate", "--model", model, "--output", below, stdin=b"Tea!"), "file/out: cannot be written")
    refused(tram("evaluate", *corpus.dev, "--model", model, "--hypothesis", below), "file/out: cannot be written")
    refused(tram("stats", corpus.dev[0], "--json", below), "file/out: cannot be written")
    refused(tram("stats", corpus.dev[0], "--json", tmp_path), "is a folder; give the name of a file")
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.fixture
def config(configure: Callable[..., Config], tmp_path: Path) -> Path:
    write_yaml(tmp_path / "config.yaml", configure(tmp_path / "run"))
    return tmp_path / "config.yaml"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.learning_rate=3", ["`train.learning_rate`", "did you mean `train."]),
        ("train.warmpu=3", ["unknown key `train.warmpu`", "did you mean `train.warmup`"]),
        ("sed=3", ["unknown key `sed`", "did you mean `seed`"]),
        ("train.lr=fast", ["`train.lr`", "'fast'"]),
        ("train.updates=0", ["`train.updates`", "0"]),
        ("train.updates=2.5", ["`train.updates`", "2.5"]),
        ("train.dropout=1", ["`train.dropout`"]),
        ("model.heads=3", ["heads (3) must divide d_model (16)"]),
        ("train=3", ["`train`"]),
        ("seed.x=3", ["`seed` is a value"]),
        ("nothing", ["key=value"]),
        ("train.lr=[", ["not a YAML value"]),
    ],
)
def test_a_wrong_setting_is_named(config: Path, tram: Command, override: str, words: list[str]) -> None:
    refused(tram("train", config, override), *words)
    assert list(config.parent.iterdir()) == [config]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["contains no settings"]),
        ("- 1\n", ["contains no settings"]),
        ("data: a\noutput: [b\n", ["config.yaml:3", "not valid YAML"]),
        ("data: a\n", ["`output` is missing"]),
        ("data: nowhere\noutput: run\n", ["nowhere: contains no prepared data"]),
    ],
)
def test_a_wrong_config_file_is_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tram: Command, text: str, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    refused(tram("train", "config.yaml"), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_run_that_cannot_be_written_is_refused(config: Path, tram: Command) -> None:
    refused(tram("train", config, f"output={config / 'run'}"), "cannot be written", "part of this path is a file")


# With a buffer, what is printed is written when the command ends; an empty PYTHONUNBUFFERED means a buffer.
BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
def test_a_full_disk_behind_standard_output_is_no_traceback(unbuffered: str, corpus: Corpus) -> None:
    command = [sys.executable, "-m", "tram", "stats", str(corpus.dev[0])]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert done.returncode == 2
    assert re.fullmatch(r"tram: .*No space left.*\n", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "redirection", "code", "error"),
    [
        ("stats FILE", ">&-", 2, "tram: standard input or output is closed"),
        ("stats FILE --json $OUT", "2>&-", 0, ""),
        ("stats FILE", "<&-", 0, ""),
        ("stats missing", "2>/dev/full", 2, ""),
        ("", "2>/dev/full", 2, ""),
        ("translate --lines", "<&-", 2, "tram: standard input or output is closed"),
    ],
)
def test_a_closed_or_full_stream_is_no_traceback(
    arguments: str, redirection: str, code: int, error: str, corpus: Corpus, tmp_path: Path
) -> None:
    """In the place of a closed stream, a file that the command opens would get its number."""
    line = f"exec {sys.executable} -m tram {arguments} {redirection}".replace("FILE", str(corpus.dev[0]))
    env = os.environ | {"PYTHONUNBUFFERED": "", "OUT": str(tmp_path / "out.json")}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr[: len(error) or None]) == (code, error)
    assert "Traceback" not in done.stdout
    if "OUT" in arguments:
        assert json.loads((tmp_path / "out.json").read_text())


def test_a_current_folder_that_was_removed_is_one_sentence(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd gone; rmdir ../gone; exec {sys.executable} -m tram stats {corpus.dev[0]}"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stderr) == (
        2,
        "tram: the current folder was removed; change to another one and run again\n",
    )


def test_a_service_that_cannot_say_where_it_listens_ends_in_one_sentence(model: Path) -> None:
    command = [sys.executable, "-m", "tram", "serve", "--model", str(model), "--port", "0"]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}  # what it prints can be written in any encoding
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
    assert done.returncode == 2
    assert re.fullmatch(r"tram: .*No space left.*\n", done.stderr)


@BUFFERED
def test_a_reader_who_leaves_is_no_error(unbuffered: str, corpus: Corpus) -> None:
    command = [sys.executable, "-m", "tram", "stats", str(corpus.dev[0])]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


# The whole way.


def test_from_raw_text_to_a_model_that_knows_its_training_text(tmp_path: Path, run_tram: Command) -> None:
    """A small model learns sixty sentences by heart."""
    pair = write_pair(tmp_path, "raw", made_up([6] * 10, seed=7))
    data, output = tmp_path / "data", tmp_path / "run"
    assert run_tram("prepare", data, "--train", *pair, "--merges", 150, "--held-out", 0, "--workers", 1).code == 0
    model = {
        "d_model": 64,
        "heads": 4,
        "feed_forward": 128,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_positions": 64,
        "max_length": 48,
    }
    stage = {"lr": 0.003, "warmup": 40, "updates": 200, "tokens": 1024, "dropout": 0.0}
    settings = {"data": str(data), "output": str(output), "model": model, "train": stage}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    trained = run_tram("train", tmp_path / "config.yaml")
    assert (trained.code, trained.out.strip()) == (0, str(output / "train" / "model"))
    evaluated = run_tram("evaluate", *pair, "--model", output, "--json", "-")
    assert evaluated.code == 0
    (system,) = json.loads(evaluated.out)["systems"]
    scores = {score["name"]: score["value"] for score in system["scores"]}
    assert scores["s-BLEU"] > 95


# Files.


def test_a_long_text_in_pieces_is_translated_as_the_whole_is(
    model: Path, tmp_path: Path, tram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"The old miller waits. A small fox sings.\r\n\r\n{'Tea! ' * (i % 4)}\r\n\r\n" for i in range(12))
    (tmp_path / "in.txt").write_bytes(text.encode())
    (tmp_path / "b.md").write_text("# Tea!\n")
    command = ("translate", tmp_path / "in.txt", "--model", model, "--output", tmp_path / "out.txt")
    assert tram(*command).code == 0
    whole = (tmp_path / "out.txt").read_bytes()
    monkeypatch.setattr("tram.filetypes.registry.LONG", 100)
    monkeypatch.setattr("tram.filetypes.long_text.PIECE", 150)
    monkeypatch.setattr("tram.filetypes.long_text.READ", 50)
    done = tram(*command)
    assert (done.code, (tmp_path / "out.txt").read_bytes()) == (0, whole)
    assert tram("translate", "--model", model, stdin=text.encode()).out == whole.decode()
    both = tram("translate", tmp_path / "in.txt", tmp_path / "b.md", "--model", model)
    assert both.out.split() == [str(tmp_path / "in.de.txt"), str(tmp_path / "b.de.md")]
    assert (tmp_path / "in.de.txt").read_bytes() == whole
    refused(tram(*command, "--json", tmp_path / "x.json"), "in.txt: is too long for --json")
    (tmp_path / "in.txt").write_bytes(text.encode() + b"\xff")
    (tmp_path / "out.txt").unlink()
    refused(tram(*command), "in.txt:49: is not valid UTF-8")
    assert not (tmp_path / "out.txt").exists()


def test_several_files_get_a_language_suffix_and_originals_stay(model: Path, tmp_path: Path, tram: Command) -> None:
    texts = {"a.txt": "Tea!\n", "b.md": "# Tea!\n\n```\nThe fox sings.\n```\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    done = tram("translate", tmp_path / "a.txt", tmp_path / "b.md", "--model", model)
    assert done.code == 0
    assert done.out.split() == [str(tmp_path / "a.de.txt"), str(tmp_path / "b.de.md")]
    tea = Translator.load(model).translate(["Tea!"])[0]
    assert (tmp_path / "a.de.txt").read_text() == f"{tea}\n"
    assert (tmp_path / "b.de.md").read_text().endswith("\n\n```\nThe fox sings.\n```\n")
    assert {name: (tmp_path / name).read_text() for name in texts} == texts
    refused(tram("translate", tmp_path / "a.txt", tmp_path / "b.md", "--model", model), "a.de.txt", "--overwrite")
    again = tram("translate", tmp_path / "a.txt", tmp_path / "b.md", "--model", model, "--overwrite")
    assert again.code == 0


def test_a_missing_file_is_refused_before_the_others_are_translated(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "a.txt").write_text("Tea!\n")
    refused(tram("translate", tmp_path / "a.txt", tmp_path / "b.txt", "--model", model), "b.txt: there is no such file")
    assert not (tmp_path / "a.de.txt").exists()


@pytest.mark.parametrize("name", ["data.bin", "letter.pdf", "table.xlsx"])
def test_a_file_of_an_unknown_type_is_refused(model: Path, tmp_path: Path, tram: Command, name: str) -> None:
    (tmp_path / name).write_bytes(b"%PDF-1.7" if name.endswith("pdf") else b"PK\x03\x04" + bytes(40))
    refused(tram("translate", tmp_path / name, "--model", model), name)


def test_the_original_is_never_the_output(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "a.txt").write_text("Tea!\n")
    refused(tram("translate", tmp_path / "a.txt", "-o", tmp_path / "a.txt", "--model", model), "is the original")
    assert (tmp_path / "a.txt").read_text() == "Tea!\n"


def test_plain_treats_any_text_as_plain_text(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "a.md").write_text("```\nTea!\n```\n")
    kept = tram("translate", tmp_path / "a.md", "--model", model)
    plain = tram("translate", tmp_path / "a.md", "--plain", "--model", model)
    assert kept.out == "```\nTea!\n```\n"
    assert plain.out != kept.out


def test_a_folder_of_results_is_not_overwritten_unless_asked(model: Path, tmp_path: Path, tram: Command) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Tea!\n")
    command = ("translate", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "out", "--model", model)
    assert tram(*command).code == 0
    refused(tram(*command), "a.de.txt: exists already", "--overwrite")
    assert tram(*command, "--overwrite").code == 0


# Reports.


def test_reports_have_every_sentence_with_its_alignment(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "a.txt").write_text("The old miller waits. Tea!\n\nSee https://a.b/c now.\n")
    (tmp_path / "b.md").write_text("The fox `sings`.\n")
    reports = ("--json", tmp_path / "r.json", "--alignment", tmp_path / "r.align")
    done = tram("translate", tmp_path / "a.txt", tmp_path / "b.md", "--model", model, *reports)
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "r.json").read_text())
    assert [file["output"] for file in report["files"]] == done.out.split()
    assert [file["translated"] for file in report["files"]] == [3, 1]
    sentences = [sentence for file in report["files"] for sentence in file["sentences"]]
    sources = ["The old miller waits.", "Tea!", "See https://a.b/c now.", "The fox sings."]
    assert [sentence["source"] for sentence in sentences] == sources
    assert "https://a.b/c" in sentences[2]["translation"]
    assert "sings" in sentences[3]["translation"], "inline code is kept"
    alignments = [sentence["alignment"] or "" for sentence in sentences]  # none where it was translated in parts
    assert (tmp_path / "r.align").read_text().splitlines() == alignments
    for sentence, alignment in zip(sentences, alignments, strict=True):
        links = [link.split("-") for link in alignment.split()]
        assert all(int(word) < len(sentence["source"].split()) for word, _ in links)
        assert all(int(word) < len(sentence["translation"].split()) for _, word in links)
    assert set(report["counts"]) == {"split", "repeated", "in parts", "doubtful"}
    counted = sum("doubtful" in sentence["warnings"] for sentence in sentences)
    assert report["counts"]["doubtful"] == counted
    assert (f"{counted} sentences are doubtful" in done.err) == (counted > 0)


def test_alignments_of_lines_are_lines(model: Path, tmp_path: Path, tram: Command) -> None:
    text = b"The old miller waits.\nTea!\n\nA fox sings.\n"
    done = tram(
        "translate", "--lines", "--model", model, "--alignment", tmp_path / "a", "-o", tmp_path / "o", stdin=text
    )
    assert done.code == 0, done.err
    lines = (tmp_path / "a").read_text().split("\n")
    assert len(lines) == text.count(b"\n") + 1
    assert lines[2] == ""
    assert all(link.count("-") == 1 for line in lines for link in line.split())


def test_a_glossary_decides(model: Path, tmp_path: Path, tram: Command) -> None:
    (tmp_path / "terms.tsv").write_text("miller\tSchmied\nTea\n")
    options = ("--glossary", tmp_path / "terms.tsv", "--model", model)
    for lines in ([], ["--lines"]):
        done = tram("translate", *options, *lines, stdin=b"The old miller waits.\nTea!\n")
        assert done.code == 0, done.err
        assert done.out.count("Schmied") == 1
        assert "Tea!" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--glossary", "nowhere.tsv"], ["nowhere.tsv: cannot be read"]),
        (["--glossary", "nowhere.tsv", "--no-verbatim"], ["contradict"]),
        (["--device", "toaster"], ["--device toaster", "give cpu"]),
        (["--json", "-"], ["--json -", "--output"]),
        (["--json", "x", "--alignment", "x"], ["give two files"]),
        (["--json", "/dev/null/x"], ["/dev/null/x: cannot be written"]),
        (["--lines", "--n-best", "2", "--json", "x"], ["--n-best", "leave out"]),
    ],
)
def test_reports_and_devices_that_cannot_be_are_refused(
    model: Path, tram: Command, options: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = tram("translate", "--model", model, *options, stdin=b"Tea!\n")
    refused(done, *words)
    assert done.out == ""


@pytest.mark.parametrize("options", [["--dtype", "float64"], ["--batch", "1"], ["--device", "cpu"]])
def test_settings_of_the_computation_do_not_change_a_translation(
    model: Path, tram: Command, options: list[str]
) -> None:
    plain = tram("translate", "--model", model, stdin=b"The old miller waits. Tea!\n")
    assert tram("translate", "--model", model, *options, stdin=b"The old miller waits. Tea!\n").out == plain.out

"""Faults 20 to 22 and 25 to 27: bad input."""

import importlib
import lzma
import os
import re
import signal
import tomllib
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common import (
    AUTHORS,
    CONFIG,
    LIMITS,
    LONG,
    PACKAGES,
    SIGNALS,
    TIME,
    TRANSLATOR,
    config,
    corpus,
    fault,
    growth,
    is_old,
    named,
    raised,
    started,
    tram,
    translator,
)


def load_config(*overrides: str) -> str:
    """Load a small config with overrides."""
    path = Path("config.yaml")
    if not path.exists():
        path.write_text("data: d\noutput: o\n")
    return raised(lambda: named("Config").load(path, list(overrides)))


@fault(
    20,
    f"{CONFIG}::test_a_value_that_yaml_cannot_read_is_one_sentence",
    values=["2026-11-31", "0x_", "!!int ''", '"\\U00110000"', "5,000 digits", "5,000 brackets"],
)
def yaml_value(value: str) -> str:
    """`output={}`."""
    return load_config("output=" + {"5,000 digits": "9" * 5000, "5,000 brackets": "[" * 5000}.get(value, value))


@fault(20, f"{CONFIG}::test_a_path_that_no_file_can_have_is_refused")
def null_character() -> str:
    r"""`output="a\0b"`."""
    return load_config('output="a\\0b"')


@fault(
    20,
    f"{CONFIG}::test_an_alias_bomb_is_a_short_sentence",
    f"{CONFIG}::test_an_integer_that_python_does_not_write_is_one_short_sentence",
)
def alias_bomb() -> str:
    """A config of 330 bytes with aliases of aliases."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 6)]
    Path("config.yaml").write_text("\n".join(lines) + "\ndata: *a5\noutput: o\n")
    told = load_config()
    return f"{told.partition(':')[0]}, {len(told):,} characters"


# Time.

SGML = '<srcset setid="x" srclang="any">\n'
FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    'SGML, `"<doc " * n`': ("sgml", lambda n: SGML + "<doc " * n),
    'talks, `"<doc " * n`': ("iwslt", lambda n: "<url>\n" + "<doc " * n),
    "XML, an attribute of n lines": ("wmtxml", lambda n: '<dataset id="' + "word\n" * n + '">\n</dataset>'),
    "XML, a comment of n lines": ("wmtxml", lambda n: "<dataset><!-- " + "word\n" * n + "-->\n</dataset>"),
    "SGML, n blanks in a segment": (
        "sgml",
        lambda n: f'{SGML}<doc docid="1">\n<seg>a' + " " * n + "b</seg>\n</doc>",
    ),
}


@fault(21, f"{TIME}::test_reading_takes_linear_time", values=list(FILES))
def reading(name: str) -> str:
    """Reading {}."""
    format, text = FILES[name]

    def work(size: int) -> Callable[[], object]:
        path = Path(f"{size}.txt")
        path.write_text(text(size))

        def read() -> None:
            with suppress(named("InputError")):
                list(named("read_documents")(path, format))

        return read

    return growth(work)


@fault(
    21,
    f"{TIME}::test_splitting_sentences_takes_linear_time",
    f"{TIME}::test_splitting_documents_takes_linear_time",
    values=["split_sentences", "split_document"],
)
def splitting(name: str) -> str:
    """`{}` with n blanks."""
    split = named(name)
    return growth(lambda n: lambda: split("a" + " " * n + "b", "de"))


# Options.


@fault(22, f"{LIMITS}::test_an_output_that_cannot_be_written_is_refused_before_the_work", values=['""', ".", "/"])
def json_path(value: str) -> str:
    """`tram stats --json {}`."""
    return tram("stats", *corpus(), "--json", value.strip('"')).outcome


@fault(
    22,
    f"{LIMITS}::test_numbers_beyond_reason_are_refused",
    f"{LIMITS}::test_every_number_has_bounds",
    values=["--seed -1", "--workers -1", "--merges 4611686018427387904"],
)
def prepare_number(option: str) -> str:
    """`tram prepare {}`."""
    return tram("prepare", "out", "--train", *corpus(), *option.split()).outcome


@fault(
    22,
    f"{LIMITS}::test_numbers_beyond_reason_are_refused",
    f"{LIMITS}::test_every_number_has_bounds",
    values=["--bootstrap 1000000000000", "--seed -1"],
)
def score_number(option: str) -> str:
    """`tram score {}`."""
    target = corpus()[1]
    return tram("score", target, "-i", target, *option.split()).outcome


@fault(
    22,
    f"{CONFIG}::test_every_number_has_bounds",
    values=["model.d_model=1000000000000000000", "train.tokens=1000000000000000000"],
)
def config_number(override: str) -> str:
    """`tram train {}`."""
    return tram("train", config(updates=1), override).outcome


# Text.


@fault(
    25,
    f"{SIGNALS}::test_a_command_that_waits_for_input_stops_in_one_sentence",
    f"{SIGNALS}::test_ctrl_c_while_the_command_is_imported_is_one_sentence",
)
def interrupted() -> str:
    """Ctrl-C while `tram stats` waits for a pipe."""
    pipe = Path("pipe")
    os.mkfifo(pipe)
    with started("stats", pipe, "--format", "blank") as process, pipe.open("wb"):  # waits for a reader
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return f"exit code {process.returncode}, {err.decode().strip() or 'nothing is printed'}"


class Fixed:
    """A translator of lines whose translations are given, in either version."""

    def __init__(self, translations: list[str]) -> None:
        self.translations = translations

    def translate_documents(self, documents: Any, *_: Any, **__: Any) -> Any:
        """Return them for one document."""
        return [self.translations for _ in documents]

    def detailed(self, documents: Any, *_: Any, **__: Any) -> Any:
        """Yield them for one document."""
        kind = importlib.import_module("tram.translation.parts").Translation
        for document in documents:
            yield [kind(text, 0.0) for text in self.translations[: len(document)]]


@fault(25, f"{LIMITS}::test_line_ends_in_a_translation_do_not_shift_the_lines_after_it")
def carriage_return() -> str:
    """Three lines whose translations hold a CR, an LF and a CR LF."""
    fixed = Fixed(["a\rb", "c\nd", "e\r\nf"])
    lines = ["1\n", "2\n", "3\n"]
    arguments = ("".join(lines), 1) if is_old() else (lines,)
    written = "".join(named("translated_lines")(fixed, *arguments))
    return f"{len(written.splitlines())} lines"


@fault(25, f"{TRANSLATOR}::test_progress_counts_every_sentence_once")
def counted() -> str:
    """Progress of a document of one long sentence."""
    steps: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(translator().translate_documents([[LONG]], steps.append))
    return f"{sum(steps)} of 1 sentences"


@fault(25, f"{LIMITS}::test_numbers_beyond_reason_are_refused", values=["prepare", "import authors"])
def language(name: str) -> str:
    """`tram {} --source-language klingon`."""
    if name == "prepare":
        arguments = ["out", "--train", *corpus(), "--merges", 60]
    else:
        import torch

        authors = importlib.import_module("test_importing" if is_old() else "test_authors")
        torch.save(authors.SMALL, "authors.pt")
        arguments = ["authors.pt", "out", "--heads", 2]
    return tram(*name.split(), *arguments, "--source-language", "klingon").outcome


@fault(25, f"{TIME}::test_a_packed_line_that_fills_the_memory_is_refused")
def packed_line() -> str:
    """A packed file with a line of 200 MB."""
    import resource

    size = 200 << 20
    with lzma.open("bomb.xz", "wb", preset=0) as file:
        for _ in range(size >> 20):
            file.write(b"a" * (1 << 20))
    small = Path("small.txt")
    small.write_text("a\n")
    tram("stats", small)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = tram("stats", "bomb.xz")
    more = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before) * 1024
    return f"{more / size:.1f} bytes of memory for each of the line; {done.outcome}"


@fault(25, f"{AUTHORS}::test_a_tensor_without_values_is_refused")
def meta_tensor() -> str:
    """An authors' checkpoint with a meta tensor."""
    import torch

    authors = importlib.import_module("test_importing" if is_old() else "test_authors")
    torch.save(authors.SMALL | {authors.NAMES[-1]: torch.empty(3, 8, device="meta")}, "authors.pt")
    return tram("import", "authors", "authors.pt", "out", "--heads", 2).outcome


@fault(
    26,
    f"{AUTHORS}::test_learned_positions_of_the_slots_are_imported",
    f"{AUTHORS}::test_a_unit_without_the_table_of_the_others_is_refused",
)
def learned_positions() -> str:
    """An authors' checkpoint with learned positions of the slots."""
    import torch

    authors = importlib.import_module("test_importing" if is_old() else "test_authors")
    values = dict(authors.SMALL)
    for name in authors.NAMES:
        if name.endswith(".rnn.ds_query_init"):
            place = name.removesuffix("ds_query_init") + "recurrent_layer.seg_embedding.emb.weight"
            values[place] = torch.randn(values[name].shape[1:])
    torch.save(values, "authors.pt")
    done = tram("import", "authors", "authors.pt", "out", "--heads", 2)
    if done.code:
        return done.outcome
    return f"imported, {Path('out/config.yaml').read_text().count('positions: learned')} settings `positions: learned`"


# Packages.


def checkout() -> Path:
    """Return the folder of the version that runs."""
    return Path(os.environ["TRAM_CHECKOUT"])


@fault(27, f"{PACKAGES}::test_every_dependency_has_an_exact_current_version")
def pip() -> str:
    """The version of pip in constraints.txt."""
    return next(line for line in (checkout() / "constraints.txt").read_text().splitlines() if line.startswith("pip=="))


@fault(
    27,
    f"{PACKAGES}::test_every_dependency_has_an_exact_current_version",
    f"{PACKAGES}::test_every_package_that_a_user_installs_is_imported",
)
def serve() -> str:
    """Packages of `[serve]` that are not in constraints.txt, or that no module imports."""
    extra = tomllib.loads((checkout() / "pyproject.toml").read_text())["project"]["optional-dependencies"]["serve"]
    names = [re.split(r"[<>=\[]", each)[0] for each in extra]
    pinned = (checkout() / "constraints.txt").read_text()
    sources = "".join(path.read_text() for path in (checkout() / "src").rglob("*.py"))
    modules = {"python-multipart": "fastapi"}  # fastapi needs it for forms
    unpinned = [name for name in names if not re.search(rf"(?m)^{name.replace('-', '[-_]')}==", pinned)]
    imported = {name: modules.get(name, name).replace("-", "_") for name in names}
    unused = [name for name, module in imported.items() if not re.search(rf"\b(import|from) {module}", sources)]
    return f"unpinned: {', '.join(unpinned) or 'none'}; unused: {', '.join(unused) or 'none'}"


@fault(27)
def hashes() -> str:
    """Hashes in constraints.txt; lists of the packages (SBOM) in the repository."""
    lines = (checkout() / "constraints.txt").read_text()
    sboms = [path for path in checkout().glob("*") if "sbom" in path.name.lower() or path.name.endswith(".cdx.json")]
    return f"{lines.count('--hash')} hashes, {len(sboms)} lists"

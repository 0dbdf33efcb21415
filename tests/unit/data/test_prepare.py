"""`tram prepare`: ids decode to the text, whole documents are held out, nothing is done twice or left half-done."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tram.data.prepare
import tram.data.prepared_folder
from conftest import Corpus, Done, contents, made_up, refused, snapshot, write_pair
from tram.data.arrays import PreparedData
from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.data.prepare import MAX_CHARACTERS, PrepareSettings, prepare
from tram.errors import InputError
from tram.text.pipeline import TextPipeline

SMALL = PrepareSettings(merges=60, held_out=0.2)
Command = Callable[..., Done]


def texts(folder: Path, split: str) -> list[tuple[list[str], list[str]]]:
    """Return the documents of a split, decoded."""
    data = PreparedData.open(folder)
    ids, text = data.split(split), data.text()
    return [
        (
            text.decode([ids.source[i] for i in range(first, last)], "source"),
            text.decode([ids.target[i] for i in range(first, last)], "target"),
        )
        for first, last in zip(ids.documents[:-1], ids.documents[1:], strict=True)
    ]


def sides(*pairs: tuple[Path, Path]) -> list[tuple[list[str], list[str]]]:
    return [(document.source, document.target) for pair in pairs for document in read_parallel(*pair)]


@pytest.mark.parametrize("pipeline", ["moses", "raw"])
def test_ids_decode_to_the_text(corpus: Corpus, tmp_path: Path, pipeline: Any) -> None:
    about = prepare(tmp_path, [corpus.train], [corpus.dev], replace(SMALL, pipeline=pipeline), workers=1)
    given_documents = sides(corpus.train)
    train, held_out = texts(tmp_path, "train"), texts(tmp_path, "held")
    assert texts(tmp_path, "dev") == sides(corpus.dev)
    assert held_out, "some documents are held out"
    assert [document for document in given_documents if document not in held_out] == train, "whole, and in order"
    assert sorted(train + held_out) == sorted(given_documents), "each document is in one of the two splits"
    assert sides_of_jsonl(tmp_path / "held.jsonl") == held_out
    assert sides_of_jsonl(tmp_path / "dev.jsonl") == sides(corpus.dev)
    assert about["cut"] == 0
    assert not (tmp_path / ".cache").exists()


def sides_of_jsonl(path: Path) -> list[tuple[list[str], list[str]]]:
    return [(document.source, document.target) for document in read_parallel(path)]


def test_workers_do_not_change_a_byte(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tram.data.prepare, "CHUNK", 7)  # several tasks for each worker
    for workers in (1, 2):
        prepare(tmp_path / str(workers), [corpus.train], [corpus.dev], SMALL, workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_second_call_does_nothing(corpus: Corpus, tmp_path: Path, tram: Command) -> None:
    command = ("prepare", tmp_path / "out", "--train", *corpus.train, "--dev", *corpus.dev, "--merges", 60)
    first = tram(*command, "--workers", 1)
    before = snapshot(tmp_path)
    second = tram(*command, "--workers", 1)
    assert (first.code, second.code) == (0, 0)
    assert "nothing to do" not in first.out
    assert "nothing to do" in second.out
    assert "tokenising" not in second.err
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("change", [{"merges": 50}, {"seed": 5}, {"held_out": 0.5}, {"pipeline": "raw"}])
def test_other_settings_prepare_the_folder_again_as_if_it_were_new(
    corpus: Corpus, tmp_path: Path, change: dict[str, Any]
) -> None:
    again, fresh = tmp_path / "again", tmp_path / "fresh"
    prepare(again, [corpus.train], [corpus.dev], SMALL, workers=1)
    for folder in (again, fresh):
        assert "skipped" not in prepare(folder, [corpus.train], [corpus.dev], replace(SMALL, **change), workers=1)
    assert contents(again) == contents(fresh)


def test_a_changed_file_is_prepared_again(tmp_path: Path) -> None:
    pair = write_pair(tmp_path, "a", made_up([3, 4], seed=1))
    prepare(tmp_path / "out", [pair], [], SMALL, workers=1)
    write_pair(tmp_path, "a", made_up([5, 2, 6], seed=2))
    about = prepare(tmp_path / "out", [pair], [], SMALL, workers=1)
    assert "skipped" not in about
    assert sum(split["sentences"] for split in about["splits"].values()) == 13


def test_a_copy_of_the_files_is_the_same_data(corpus: Corpus, tmp_path: Path) -> None:
    prepare(tmp_path / "out", [corpus.train], [], SMALL, workers=1)
    copies = tuple(Path(shutil.copyfile(path, tmp_path / path.name)) for path in corpus.train)  # with later times
    assert "skipped" in prepare(tmp_path / "out", [copies], [], SMALL, workers=1)
    times = os.stat(copies[1])
    copies[1].write_bytes(copies[1].read_bytes().replace(b"Boot", b"Bett"))
    os.utime(copies[1], ns=(times.st_atime_ns, times.st_mtime_ns))  # the same size and time as before
    assert "skipped" not in prepare(tmp_path / "out", [copies], [], SMALL, workers=1)


def test_a_folder_with_a_missing_file_is_prepared_again(corpus: Corpus, tmp_path: Path) -> None:
    prepare(tmp_path, [corpus.train], [], SMALL, workers=1)
    before = contents(tmp_path)
    (tmp_path / "train.target.ids.npy").unlink()
    prepare(tmp_path, [corpus.train], [], SMALL, workers=1)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("step", ["_tokenise_chunk", "_learn", "_encode_chunk", "write_parallel"])
def test_a_kill_at_any_step_costs_only_the_rest(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    prepare(tmp_path / "whole", [corpus.train], [corpus.dev], SMALL, workers=1)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(tram.data.prepare, step, killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(out, [corpus.train], [corpus.dev], SMALL, workers=1)
    with pytest.raises(InputError, match="no prepared data"):
        PreparedData.open(out)
    if step != "_tokenise_chunk":
        monkeypatch.setattr(tram.data.prepare, "_tokenise_chunk", killed)  # the cache exists: not called again
    prepare(out, [corpus.train], [corpus.dev], SMALL, workers=1)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_kill_in_the_removal_of_the_cache_leaves_nothing(corpus: Corpus, tmp_path: Path) -> None:
    prepare(tmp_path, [corpus.train], [], SMALL, workers=1)
    before = contents(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "text.json").write_text("{}")
    assert "skipped" in prepare(tmp_path, [corpus.train], [], SMALL, workers=1)
    assert contents(tmp_path) == before
    assert not (tmp_path / ".cache").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_cache_that_cannot_be_removed_is_one_sentence(
    again: bool, corpus: Corpus, tmp_path: Path, tram: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("prepare", tmp_path, "--train", *corpus.train, "--merges", 20, "--workers", 1)
    if again:
        assert tram(*command).code == 0
    (tmp_path / ".cache").write_text("not a folder")

    def refuse(*_: object, **__: object) -> None:  # an immutable file, for example
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        refused(tram(*command), f"{tmp_path}")
    assert tram(*command).code == 0


def test_what_is_no_file_in_the_cache_is_removed(corpus: Corpus, tmp_path: Path) -> None:
    """To write to a pipe would wait for a reader."""
    prepare(tmp_path / "whole", [corpus.train], [], SMALL, workers=1)
    cache = tmp_path / "out" / ".cache"
    (cache / "train.source.ids.npy").mkdir(parents=True)
    (cache / "dev.jsonl").symlink_to(tmp_path / "other")
    os.mkfifo(cache / "text.json")
    prepare(tmp_path / "out", [corpus.train], [], SMALL, workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not (tmp_path / "other").exists()


def interrupted(out: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare up to the encoding, so that the cache is left."""
    with monkeypatch.context() as patch:
        patch.setattr(tram.data.prepare, "_encode_chunk", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepare(out, [corpus.train], [], SMALL, workers=1)


@pytest.mark.parametrize("damage", [b"", b"[", b'{"checksum": null}', b'["x"]', b"\xff"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".cases", ".text.json"])
def test_a_damaged_cache_is_made_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, damage: bytes
) -> None:
    prepare(tmp_path / "whole", [corpus.train], [], SMALL, workers=1)
    interrupted(tmp_path / "out", corpus, monkeypatch)
    caches = [path for path in (tmp_path / "out" / ".cache").iterdir() if path.name.endswith(suffix)]
    assert caches
    for path in caches:
        path.write_bytes(damage)
    prepare(tmp_path / "out", [corpus.train], [], SMALL, workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_file_of_terabytes_in_the_cache_is_made_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path, corpus, monkeypatch)
    for path in chain(*((tmp_path / ".cache").glob(f"*{end}") for end in (".jsonl", ".cases", ".text.json"))):
        os.truncate(path, 1 << 40)
    digest = hashlib.file_digest

    def of_a_small_file(file: BinaryIO, name: str) -> Any:
        assert os.fstat(file.fileno()).st_size < 1 << 40
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", of_a_small_file)
    assert prepare(tmp_path, [corpus.train], [], SMALL, workers=1)["splits"]


def test_a_cached_text_pipeline_that_is_damaged_but_readable_is_learnt_again(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path / "whole", [corpus.train], [], SMALL, workers=1)
    interrupted(tmp_path / "out", corpus, monkeypatch)
    (path,) = (tmp_path / "out" / ".cache").glob("?*.text.json")
    text = json.loads(path.read_text())
    path.write_text(json.dumps(text | {"merges": text["merges"][:-1]}))
    prepare(tmp_path / "out", [corpus.train], [], SMALL, workers=1)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_kill_leaves_the_previous_data_complete_or_invalid(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, [corpus.train], [corpus.dev], SMALL, workers=1)
    before = {name: data for name, data in contents(tmp_path).items() if not name.startswith(".cache")}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tram.data.prepare, "_encode_chunk", killed)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, [corpus.train], [corpus.dev], replace(SMALL, merges=40), workers=1)
    after = {name: data for name, data in contents(tmp_path).items() if not name.startswith(".cache")}
    assert after == before

    monkeypatch.undo()
    monkeypatch.setattr(tram.data.prepared_folder, "write_json", killed)  # the very last step
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, [corpus.train], [corpus.dev], replace(SMALL, merges=40), workers=1)
    with pytest.raises(InputError, match="no prepared data"):
        PreparedData.open(tmp_path)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.floats(0, 0.9),
    st.integers(0, 5),
    st.integers(1, 100),
)
def test_about_the_requested_fraction_is_held_out(sizes: list[int], fraction: float, seed: int, most: int) -> None:
    settings = PrepareSettings(held_out=fraction, seed=seed, most_held_out=most)
    held_out = tram.data.prepare._choose_held_out(sizes, settings)
    size, wanted = sum(sizes[i] for i in held_out), min(fraction * sum(sizes), most)
    assert held_out <= set(range(len(sizes)))
    assert len(held_out) < len(sizes), "a document remains for training"
    assert size <= wanted + max(sizes)
    assert size >= wanted or len(held_out) == len(sizes) - 1
    assert held_out == tram.data.prepare._choose_held_out(sizes, settings)


def test_the_seed_decides_what_is_held_out() -> None:
    sizes = [5] * 100
    chosen = [
        frozenset(tram.data.prepare._choose_held_out(sizes, PrepareSettings(held_out=0.1, seed=seed)))
        for seed in range(5)
    ]
    assert len(set(chosen)) > 1


def test_an_overlong_line_is_cut_and_counted(tmp_path: Path, tram: Command) -> None:
    long = "wort " * 2000
    documents = [*made_up([3], seed=1), ParallelDocument([long.strip(), "Short."], ["Kurz.", "Kurz."])]
    pair = write_pair(tmp_path, "a", documents)
    done = tram("prepare", tmp_path / "out", "--train", *pair, "--held-out", 0, "--merges", 20, "--workers", 1)
    assert "warning: 1 sentences of a.en are longer than 5,000 characters and are cut" in done.err
    assert json.loads((tmp_path / "out" / "prepared.json").read_text())["cut"] == 1
    (source, target), *_ = reversed(texts(tmp_path / "out", "train"))
    assert source[0] == long[:MAX_CHARACTERS].strip().capitalize()
    assert (source[1], target) == ("Short.", ["Kurz.", "Kurz."])


@pytest.mark.parametrize("pipeline", ["moses", "raw"])
def test_a_given_text_pipeline_is_used_as_it_is(corpus: Corpus, tmp_path: Path, pipeline: Any) -> None:
    """Its own tokenisation is used, whatever the settings say."""
    first, second = tmp_path / "first", tmp_path / "second"
    prepare(first, [corpus.train], [corpus.dev], replace(SMALL, pipeline=pipeline), workers=1)
    prepare(second, [corpus.train], [corpus.dev], SMALL, text=first, workers=1)
    for name in ("text.json", "train.source.ids.npy", "train.target.ids.npy", "dev.target.ids.npy"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_two_pairs_are_one_corpus(tmp_path: Path, tram: Command) -> None:
    documents = made_up([3, 4, 5, 2], seed=3)
    one, two = write_pair(tmp_path, "one", documents[:2]), write_pair(tmp_path, "two", documents[2:])
    options = ("--held-out", 0, "--merges", 30, "--workers", 1)
    done = tram("prepare", tmp_path / "out", "--train", *one, "--train", *two, "--dev", *one, *options)
    assert done.code == 0
    assert texts(tmp_path / "out", "train") == sides(one, two)
    assert "train: 4 documents, 14 sentences" in done.out


def test_one_file_may_hold_both_sides(tmp_path: Path, tram: Command) -> None:
    documents = made_up([3, 4], seed=4)
    write_parallel(tmp_path / "both.tsv", None, documents)
    done = tram("prepare", tmp_path / "out", "--train", tmp_path / "both.tsv", "--held-out", 0, "--workers", 1)
    assert done.code == 0
    assert texts(tmp_path / "out", "train") == [(document.source, document.target) for document in documents]


# Bad input.


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return write_pair(tmp_path, "a", made_up([3, 4, 2], seed=5))


def prepare_refused(tram: Command, out: Path, *files: Path) -> str:
    """Return the error message, after a check that nothing in `out` counts as prepared or is half-written."""
    done = tram("prepare", out, "--train", *files, "--workers", 1)
    assert not (out / "prepared.json").exists()
    assert not [path for path in out.rglob("*") if path.is_file()]
    return refused(done)


def test_a_missing_file_is_named(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    assert "nowhere.de" in prepare_refused(tram, tmp_path / "out", pair[0], tmp_path / "nowhere.de")


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_file_is_named(tmp_path: Path, pair: tuple[Path, Path], tram: Command, content: str) -> None:
    pair[1].write_text(content)
    assert "a.de: contains no sentences" in prepare_refused(tram, tmp_path / "out", *pair)


def test_sides_of_different_length_are_located(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    lines = pair[1].read_text().splitlines(keepends=True)
    pair[1].write_text("".join(lines[:6] + lines[7:]))  # three sentences, a blank line, three of four sentences
    sentence = prepare_refused(tram, tmp_path / "out", *pair)
    assert "document 2" in sentence
    assert "a.de:8 ends the document after 3 sentences" in sentence
    assert "a.en:8 continues" in sentence


def test_broken_utf8_is_located(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    lines = pair[0].read_bytes().splitlines(keepends=True)
    lines[5] = b"caf\xe9\n"
    pair[0].write_bytes(b"".join(lines))
    assert "a.en:6 is not UTF-8" in prepare_refused(tram, tmp_path / "out", *pair)


def test_document_marks_on_one_side_only_are_refused(tmp_path: Path, tram: Command) -> None:
    pair = write_pair(tmp_path, "a", made_up([4], seed=5))
    pair[0].write_text("<d>\n" + pair[0].read_text())
    sentence = prepare_refused(tram, tmp_path / "out", *pair)
    assert "a.en looks like format d" in sentence
    assert "a.de like blank" in sentence


def test_three_files_are_not_a_pair(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    assert "--train takes a source and a target, not 3 files" in prepare_refused(tram, tmp_path / "out", *pair, pair[0])


@pytest.mark.parametrize(("option", "value"), [("--held-out", 1.5), ("--held-out", -0.1), ("--merges", -1)])
def test_impossible_settings_are_refused(
    tmp_path: Path, pair: tuple[Path, Path], tram: Command, option: str, value: float
) -> None:
    done = tram("prepare", tmp_path / "out", "--train", *pair, option, value)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert option in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("setting", "value"), [("held_out", 1.0), ("held_out", float("nan")), ("merges", -1)])
def test_impossible_settings_of_a_program_are_refused(setting: str, value: float) -> None:
    with pytest.raises(InputError, match=r"give a number from 0"):
        PrepareSettings(**{setting: value})  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    (tmp_path / "file").touch()
    refused(tram("prepare", tmp_path / "file" / "out", "--train", *pair), "file/out: cannot be written")


@pytest.mark.parametrize(
    "name", ["prepared.json", "text.json", "dev.jsonl", "train.source.ids.npy", "held.documents.npy"]
)
def test_a_folder_in_the_place_of_a_file_is_named_before_the_work(
    name: str, tmp_path: Path, pair: tuple[Path, Path], tram: Command
) -> None:
    (tmp_path / "out" / name / "below").mkdir(parents=True)
    done = tram("prepare", tmp_path / "out", "--train", *pair, "--workers", 1)
    refused(done, f"{tmp_path / 'out' / name}: is a folder")
    assert "tokenising" not in done.err


def test_a_text_folder_without_pipeline_is_refused(tmp_path: Path, pair: tuple[Path, Path], tram: Command) -> None:
    done = tram("prepare", tmp_path / "out", "--train", *pair, "--text", tmp_path)
    refused(done, "text.json: there is no such file")


def test_a_text_pipeline_of_no_language_is_refused_by_its_folder(
    tmp_path: Path, pair: tuple[Path, Path], prepared: Path, tram: Command
) -> None:
    replace(TextPipeline.load(prepared), target_language="klingon").save(tmp_path / "text")
    done = tram("prepare", tmp_path / "out", "--train", *pair, "--text", tmp_path / "text")
    refused(done, f"{tmp_path / 'text'}: language 'klingon': is not a language code")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("limit", [200, 1000, 3000])
def test_a_full_disk_is_reported_and_the_next_call_continues(
    tmp_path: Path, corpus: Corpus, tram: Command, file_limit: Callable[[int], AbstractContextManager[None]], limit: int
) -> None:
    command = ("prepare", tmp_path / "out", "--train", *corpus.train, "--merges", 60, "--workers", 1)
    with file_limit(limit):
        refused(tram(*command), "cannot be written", "File too large")
    assert not (tmp_path / "out" / "prepared.json").exists()
    assert tram(*command).code == 0
    assert len(texts(tmp_path / "out", "train")) + len(texts(tmp_path / "out", "held")) == 12


@pytest.mark.slow
def test_a_document_of_a_hundred_thousand_sentences(tmp_path: Path, run_tram: Command) -> None:
    pair = (tmp_path / "long.en", tmp_path / "long.de")
    for path, words in zip(pair, ("We walk to house number {}.", "Wir gehen zu Haus Nummer {}."), strict=True):
        path.write_text("".join(words.format(i) + "\n" for i in range(100_000)))
    assert "longest document, sentences      100,000" in run_tram("stats", *pair).out
    done = run_tram("prepare", tmp_path / "out", "--train", *pair, "--merges", 200)
    assert done.code == 0
    split = PreparedData.open(tmp_path / "out").split("train")
    assert split.documents.tolist() == [0, 100_000]
    assert np.all(split.source.lengths > 0)

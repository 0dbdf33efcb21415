"""Prepared ids on disk: what is written comes back, and a damaged folder is refused."""

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Corpus, contents
from tram.data.arrays import VERSION, GrowingArray, PreparedData, SplitWriter
from tram.data.prepare import PrepareSettings, prepare
from tram.errors import InputError
from tram.text.special_ids import HISTORY

Document = tuple[list[list[int]], list[list[int]]]
sentence = st.lists(st.integers(0, 2**16 - 1), max_size=5)
document = st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4)


def written(folder: Path, documents: list[Document], vocabulary: int = 2**16) -> PreparedData:
    """A prepared folder with one split, `train`."""
    writer = SplitWriter(folder, "train", vocabulary)
    for source, target in documents:
        writer.add(source, target)
    about = {"version": VERSION, "vocabulary": vocabulary, "text": "0" * 12, "splits": {"train": writer.close()}}
    (folder / "prepared.json").write_text(json.dumps(about))
    return PreparedData.open(folder)


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(-(2**60), 2**60), max_size=6), max_size=6))
def test_an_array_written_in_pieces_is_one_array(pieces: list[list[int]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        with GrowingArray(path, np.int64) as array:
            for piece in pieces:
                array.append(piece)
        assert np.load(path).tolist() == [value for piece in pieces for value in piece]


def test_a_target_that_is_marked_as_history_comes_back_without_mark_and_labels(tmp_path: Path) -> None:
    """In files: a line that begins with the reserved character `HISTORY`."""
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    source.write_text("It rained.\nWe stayed.\nIt was late.\n", encoding="utf-8")
    target.write_text(f"Es regnete.\n{HISTORY} Wir blieben.\nEs war spät.\n", encoding="utf-8")
    settings = PrepareSettings(merges=20, held_out=0.0, reserved=True)
    prepare(tmp_path / "marked", [(source, target)], [], settings)
    marked = PreparedData.open(tmp_path / "marked").split("train")
    target.write_text("Es regnete.\nWir blieben.\nEs war spät.\n", encoding="utf-8")
    prepare(tmp_path / "plain", [(source, target)], [], settings, text=tmp_path / "marked")
    plain = PreparedData.open(tmp_path / "plain").split("train")
    assert plain.given is None
    assert marked.given is not None
    assert marked.given.tolist() == [0, len(plain.target[1]) + 1, 0]
    assert [ids.tolist() for ids in marked.target] == [ids.tolist() for ids in plain.target]
    assert marked.target.lengths.tolist() == plain.target.lengths.tolist()


def test_history_needs_a_pipeline_with_reserved_ids(tmp_path: Path) -> None:
    for name, text in (("train.en", "It rained.\n"), ("train.de", f"{HISTORY} Es regnete.\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="--reserved"):
        prepare(tmp_path / "out", [(tmp_path / "train.en", tmp_path / "train.de")], [], PrepareSettings(merges=20))


@settings(max_examples=40)
@given(st.lists(document, max_size=5))
def test_documents_come_back_as_they_were(documents: list[list[tuple[list[int], list[int]]]]) -> None:
    sides = [([source for source, _ in pairs], [target for _, target in pairs]) for pairs in documents]
    with TemporaryDirectory() as folder:
        data = written(Path(folder), sides)
        split = data.split("train")
        cuts = zip(split.documents[:-1], split.documents[1:], strict=True)
        found = [
            ([split.source[i].tolist() for i in range(*cut)], [split.target[i].tolist() for i in range(*cut)])
            for cut in cuts
        ]
        assert found == sides
        assert split.source.lengths.tolist() == [len(ids) for source, _ in sides for ids in source]
        assert len(split.target) == data.splits["train"]["sentences"] == sum(map(len, documents))


def test_large_vocabularies_keep_large_ids(tmp_path: Path) -> None:
    split = written(tmp_path, [([[2**16 + 1, 5]], [[2**17 - 1]])], vocabulary=2**17).split("train")
    assert split.source[0].tolist() == [2**16 + 1, 5]
    assert split.target[0].tolist() == [2**17 - 1]


def test_a_folder_without_prepared_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no prepared data.*tram prepare"):
        PreparedData.open(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 1}', "3"])
def test_a_damaged_summary_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "prepared.json").write_text(text)
    with pytest.raises(InputError, match=r"prepared\.json: is damaged"):
        PreparedData.open(tmp_path)


def test_data_of_another_version_is_refused(tmp_path: Path) -> None:
    written(tmp_path, [([[4]], [[5]])])
    about = json.loads((tmp_path / "prepared.json").read_text())
    (tmp_path / "prepared.json").write_text(json.dumps(about | {"version": VERSION + 1}))
    with pytest.raises(InputError, match=f"has version {VERSION + 1}"):
        PreparedData.open(tmp_path)


def test_an_unknown_split_is_named(tmp_path: Path) -> None:
    data = written(tmp_path, [([[4]], [[5]])])
    with pytest.raises(InputError, match="no split `test`, only train"):
        data.split("test")


@pytest.mark.parametrize("size", [0, 40, 128, 130])
@pytest.mark.parametrize("part", ["source.ids", "target.offsets", "documents"])
def test_a_truncated_array_is_refused(tmp_path: Path, part: str, size: int) -> None:
    data = written(tmp_path, [([[4, 4, 7], [9]], [[5], [6]])])
    path = tmp_path / f"train.{part}.npy"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=f"train.{part}.npy: is damaged"):
        data.split("train")


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    data = written(tmp_path, [([[4]], [[5]])])
    (tmp_path / "train.target.ids.npy").unlink()
    with pytest.raises(InputError, match=r"train\.target\.ids\.npy: is missing"):
        data.split("train")


def test_undamaged_ids_that_cannot_be_opened_are_not_called_damaged(tmp_path: Path) -> None:
    """Else the user would be told to remove them; here the limit on open files is reached."""
    data = written(tmp_path, [([[1, 2]], [[3]])])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(InputError, match=r"npy: cannot be read \(Too many open files\)"):
            data.split("train")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert data.split("train")


def test_a_foreign_text_pipeline_is_refused(prepared: Path, tmp_path: Path) -> None:
    folder = damaged_copy(prepared, tmp_path / "copy")
    assert PreparedData.open(folder).text().fingerprint == PreparedData.open(folder).fingerprint
    about = json.loads((folder / "prepared.json").read_text())
    (folder / "prepared.json").write_text(json.dumps(about | {"text": "f" * 12}))
    with pytest.raises(InputError, match=r"text\.json: is not the pipeline that produced these ids"):
        PreparedData.open(folder).text()


@pytest.mark.parametrize("change", [{"vocabulary": 40_000}, {"source_vocabulary": 5}])
def test_another_number_of_ids_than_the_text_pipeline_has_is_refused(
    change: dict[str, int], prepared: Path, tmp_path: Path
) -> None:
    folder = damaged_copy(prepared, tmp_path / "damaged")
    path = folder / "prepared.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"prepared\.json: has another number of ids than text\.json"):
        PreparedData.open(folder).text()


# Damaged folders.


def damaged_copy(prepared: Path, folder: Path) -> Path:
    """A copy as an earlier version wrote it, without the checksums of the files: their values must be checked."""
    shutil.copytree(prepared, folder)
    path = folder / "prepared.json"
    about = json.loads(path.read_text())
    del about["files"], about["checksum"]
    path.write_text(json.dumps(about))
    return folder


DAMAGES: dict[str, Callable[[Path], object]] = {
    "ids beyond the vocabulary": lambda f: np.save(f / "train.source.ids.npy", np.full(100, 65535, np.uint16)),
    "offsets that descend": lambda f: np.save(f / "train.source.offsets.npy", _offsets(f)[::-1].copy()),
    "offsets beyond the ids": lambda f: np.save(f / "train.source.offsets.npy", _offsets(f) * 2),
    "offsets that are fractions": lambda f: np.save(f / "train.source.offsets.npy", _offsets(f).astype(float)),
    "a matrix": lambda f: np.save(f / "train.documents.npy", np.zeros((2, 2), np.int64)),
    "no sentences": lambda f: np.save(f / "train.source.offsets.npy", np.zeros(0, np.int64)),
    "no offsets": lambda f: np.save(f / "train.documents.npy", np.zeros(0, np.int64)),
    "fewer sentences on one side": lambda f: np.save(f / "train.target.offsets.npy", _offsets(f, "target")[[0, -1]]),
    "an empty file": lambda f: (f / "train.source.ids.npy").write_bytes(b""),
    "objects": lambda f: np.save(f / "train.documents.npy", np.array([{}]), allow_pickle=True),
}


def _offsets(folder: Path, side: str = "source") -> Any:
    return np.load(folder / f"train.{side}.offsets.npy")


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_arrays_that_do_not_fit_together_are_refused(
    damage: Callable[[Path], object], prepared: Path, tmp_path: Path
) -> None:
    folder = damaged_copy(prepared, tmp_path / "damaged")
    damage(folder)
    with pytest.raises(InputError, match=r"is damaged|does not describe the split"):
        PreparedData.open(folder).split("train")


@pytest.mark.parametrize(
    "change",
    [
        {"vocabulary": "many"},
        {"vocabulary": 0},
        {"vocabulary": 10**30},
        {"text": 1},
        {"splits": []},
        {"splits": {"../../etc": {}}},
        {"splits": {"train": 7}},
        {"splits": {"train": {"sentences": "all"}}},
    ],
)
def test_a_damaged_description_is_refused(change: dict[str, Any], prepared: Path, tmp_path: Path) -> None:
    folder = damaged_copy(prepared, tmp_path / "damaged")
    path = folder / "prepared.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match="is damaged"):
        PreparedData.open(folder)


@pytest.mark.parametrize("change", [("held", "hell"), ('"files"', '"filed"'), ('"cut": 0', '"cut": 1')])
def test_damage_that_leaves_a_description_valid_is_refused(
    change: tuple[str, str], prepared: Path, tmp_path: Path
) -> None:
    """Without the split `held`, a run would be trained without its evaluations."""
    path = Path(shutil.copytree(prepared, tmp_path / "copy")) / "prepared.json"
    text = path.read_text()
    path.write_text(text.replace(*change))
    assert path.read_text() != text
    with pytest.raises(InputError, match=r"prepared\.json: is damaged"):
        PreparedData.open(path.parent)


def test_sizes_that_are_not_those_of_the_arrays_are_refused(prepared: Path, tmp_path: Path) -> None:
    folder = damaged_copy(prepared, tmp_path / "damaged")
    path = folder / "prepared.json"
    about = json.loads(path.read_text())
    about["splits"]["train"]["sentences"] += 1
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match="does not describe the split `train`"):
        PreparedData.open(folder).split("train")


def test_prepare_repairs_a_damaged_folder(corpus: Corpus, prepared: Path, tmp_path: Path) -> None:
    folder = damaged_copy(prepared, tmp_path / "damaged")
    (folder / "train.source.ids.npy").write_bytes(b"")
    about = prepare(folder, [corpus.train], [corpus.dev], PrepareSettings(merges=60, held_out=0.1), workers=1)
    assert "skipped" not in about
    assert contents(folder) == contents(prepared)


@pytest.mark.parametrize("name", ["train.source.ids.npy", "train.target.offsets.npy", "held.documents.npy"])
def test_a_file_with_other_values_that_are_valid_is_refused(name: str, prepared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared, tmp_path / "copy")
    values = np.load(folder / name).copy()
    values[1] = values[0]
    np.save(folder / name, values)
    with pytest.raises(InputError, match=f"{name}: is damaged"):
        PreparedData.open(folder).split(name.partition(".")[0])


@pytest.mark.parametrize("name", ["train.source.ids.npy", "held.jsonl", "dev.jsonl"])
def test_prepare_repairs_a_flipped_bit(name: str, corpus: Corpus, prepared: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared, tmp_path / "copy")
    data = bytearray((folder / name).read_bytes())
    data[-3] ^= 1
    (folder / name).write_bytes(data)
    prepare(folder, [corpus.train], [corpus.dev], PrepareSettings(merges=60, held_out=0.1), workers=1)
    assert contents(folder) == contents(prepared)


def test_what_a_kill_or_someone_else_left_is_not_written_through(tmp_path: Path) -> None:
    """A pipe would block, and a link would lead elsewhere."""
    other = tmp_path / "other"
    other.write_text("unchanged")
    (tmp_path / "train.source.ids.npy").symlink_to(other)
    os.mkfifo(tmp_path / "train.documents.npy")
    writer = SplitWriter(tmp_path, "train", 100)
    writer.add([[1, 2]], [[3]])
    writer.close()
    assert other.read_text() == "unchanged"
    assert np.load(tmp_path / "train.source.ids.npy").tolist() == [1, 2]
    assert np.load(tmp_path / "train.documents.npy").tolist() == [0, 1]

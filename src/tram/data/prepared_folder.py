"""The files of a prepared folder: made in a cache inside it, and moved into place when all are finished."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tram.data.arrays import PARTS, RAW_TEXTS, PreparedData
from tram.errors import InputError
from tram.files import flush_to_disk, is_folder, remove, write_json, writing
from tram.fingerprints import checksums, fingerprint
from tram.text.pipeline import TextPipeline


def make_cache(cache: Path) -> None:
    """Make the folder of the cache, and remove from it what tram does not write: a link, a pipe, a folder."""
    with writing(cache):
        if cache.is_symlink() or not cache.is_dir():
            remove(cache)
        cache.mkdir(exist_ok=True)
        for path in cache.iterdir():
            if path.is_symlink() or not path.is_file():
                remove(path)


def check_places(out: Path, names: Iterable[str]) -> None:
    """Refuse a folder in the place of a file that would be written, before the work."""
    for path in (out / name for name in ["prepared.json", *names]):
        if is_folder(path):
            raise InputError(f"{path}: is a folder; remove it, or choose another output folder")


def is_complete(out: Path) -> bool:
    """Return whether a prepared folder has all its files, undamaged."""
    try:
        data = PreparedData.open(out)
        for name in data.splits:
            data.split(name)
        for name in file_names(data.splits, data.text()):
            data.check(name)
    except InputError:
        return False
    return True


def file_names(splits: Iterable[str], text: TextPipeline | None) -> list[str]:
    """Return the names of the files of a prepared folder, without `prepared.json`.

    text: None if it is still to be learnt
    """
    arrays = [f"{split}.{part}.npy" for split in splits for part in PARTS]
    return [*arrays, *RAW_TEXTS, *(["text.json"] if text is None else text.file_names)]


def install(cache: Path, out: Path, about: dict[str, Any]) -> None:
    """Move the finished files into place; without `prepared.json`, the folder does not count as prepared."""
    names = file_names(about["splits"], TextPipeline.load(cache))
    about["files"] = checksums(cache, names)
    with writing(out / "prepared.json"):
        (out / "prepared.json").unlink(missing_ok=True)
    flush_to_disk(out)  # before the first of the files that it does not describe
    for name in names:
        flush_to_disk(cache / name)
        with writing(out / name):
            (out / name).parent.mkdir(exist_ok=True)
            os.replace(cache / name, out / name)
    for folder in {(out / name).parent for name in names}:  # `out`, and that of a tokeniser's files
        flush_to_disk(folder)
    describe(out, about)
    remove(cache)


def describe(folder: Path, about: dict[str, Any]) -> None:
    """Write `prepared.json`, with a checksum of its own values."""
    values = {name: value for name, value in about.items() if name != "checksum"}
    write_json(folder / "prepared.json", values | {"checksum": fingerprint(values)})

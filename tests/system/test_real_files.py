"""Files that other people made: up to 50 of each type that this machine has come back undamaged.

Searches the installed system and Python packages; folders with more files can be named in TRAM_REAL_FILES, separated
by colons. With LibreOffice installed, its DOCX, ODT and EPUB files are tested too, and it must read the translations.
Run with `-s` to see how many files there were.
"""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import lxml.html
import pytest

from tram.errors import InputError
from tram.filetypes import ReadOptions, Segment, Translation, by_sentences, translate_document
from tram.filetypes.registry import read_bytes

pytestmark = pytest.mark.slow

PLACES = [*filter(None, os.environ.get("TRAM_REAL_FILES", "").split(":")), "/usr/share", "/usr/lib", sys.prefix]
ACCENTS = str.maketrans("aeiouAEIOU", "äéíöüÄÉÍÖÜ")
PLAIN = str.maketrans("äéíöüÄÉÍÖÜ", "aeiouAEIOU")
COUNT = 50
OPTIONS = ReadOptions(target_language="de")
TYPES = ["md", "html", "po", "srt", "vtt", "xlf", "tmx", "docx", "odt", "epub"]


def accented(texts: list[str]) -> list[str]:
    return [text.translate(ACCENTS) for text in texts]


def found(suffix: str, places: list[str]) -> Iterator[Path]:
    for place in places:
        paths = [Path(folder) / name for folder, _, names in os.walk(place) for name in names]
        wanted = sorted(path for path in paths if path.suffix == f".{suffix}" and path.is_file())
        random.Random(0).shuffle(wanted)
        yield from (path for path in wanted if 0 < path.stat().st_size < 500_000)


def texts(segments: list[Segment]) -> str:
    return " ".join(segment.text for segment in segments if segment.text.strip())


def check(path: Path) -> bytes:
    """Test the laws on one file; return its translation."""
    content = path.read_bytes()
    document = read_bytes(path.name, content)
    assert document.write([[None] * len(d) for d in document.documents]) == content
    identity = [[Translation(s.text, s.tags) if s.translate else None for s in d] for d in document.documents]
    written = document.write(identity)
    bilingual = path.suffix in (".po", ".xlf", ".tmx")
    assert bilingual or written == content
    written, report = translate_document(document, by_sentences(accented))
    again = read_bytes(path.name, written)
    assert report.repaired == 0
    if bilingual:
        assert [s.readable for d in again.documents for s in d] == [
            s.readable for d in document.documents for s in d
        ] or (
            report.kept < report.segments  # sentences of a new translation may be cut in another way
        )
    else:
        # Sentences may be cut in another way: "Jan. 1" is an abbreviation, "Jän. 1" is not.
        before, after = (" ".join(texts(d) for d in doc.documents).split() for doc in (document, again))
        assert [word.translate(PLAIN) for word in after] == [word.translate(PLAIN) for word in before]
    return written


def check_all(paths: Iterator[Path], name: str, limit: int = COUNT) -> list[tuple[Path, bytes]]:
    results: list[tuple[Path, bytes]] = []
    refused: list[tuple[Path, str]] = []
    seen: set[bytes] = set()
    for path in paths:
        content = path.read_bytes()
        if content in seen or len(results) == limit:
            continue
        seen.add(content)
        try:
            results.append((path, check(path)))
        except InputError as error:  # a broken file is refused in one sentence
            refused.append((path, str(error)))
    print(f"\n{name}: {len(results)} files, {len(refused)} refused")
    assert all(path.name in message and "\n" not in message for path, message in refused)
    return results


@pytest.mark.parametrize("suffix", TYPES)
def test_files_of_this_machine_come_back_undamaged(suffix: str, tmp_path: Path) -> None:
    results = check_all(islice(found(suffix, PLACES), 3 * COUNT), suffix)
    if not results:
        pytest.skip(f"no .{suffix} files here")
    for path, written in results:
        if suffix == "html":
            before, after = ([e.tag for e in lxml.html.fromstring(c).iter()] for c in (path.read_bytes(), written))
            assert [str(tag) for tag in before] == [str(tag) for tag in after]
        if suffix == "po" and shutil.which("msgfmt"):
            new = tmp_path / "new.po"
            new.write_bytes(written)
            command = ["msgfmt", "--check", "-o", os.devnull]
            was_right = subprocess.run([*command, path], capture_output=True, check=False).returncode == 0
            now = subprocess.run([*command, new], capture_output=True, check=False)
            assert not was_right or now.returncode == 0, (path, now.stderr)


def convert(paths: list[Path], target: str, folder: Path, *options: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    home = f"-env:UserInstallation=file://{folder.parent}/profile"
    command = ["soffice", home, "--headless", *options, "--convert-to", target, "--outdir", str(folder)]
    subprocess.run([*command, *map(str, paths)], capture_output=True, check=True, timeout=1200)
    return sorted(folder.iterdir())


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_libreoffice_reads_the_translations_of_its_own_files(tmp_path: Path) -> None:
    pages = list(islice((p for p in found("html", PLACES) if 8_000 < p.stat().st_size < 150_000), COUNT))
    sources = tmp_path / "pages"
    sources.mkdir()
    copies = [shutil.copy(page, sources / f"{i}.html") for i, page in enumerate(pages)]
    odt = convert(list(map(Path, copies)), "odt:writer8", tmp_path / "odt", "--infilter=HTML (StarWriter)")
    for suffix, files in (("odt", odt), ("docx", convert(odt, "docx", tmp_path / "docx"))):
        results = check_all(iter(files), f"{suffix} by LibreOffice")
        new = tmp_path / f"new-{suffix}"
        new.mkdir()
        for path, written in results:
            (new / path.name).write_bytes(written)
        plain = "txt:Text (encoded):UTF8"
        before = convert([path for path, _ in results], plain, tmp_path / f"{suffix}-before")
        after = convert(sorted(new.iterdir()), plain, tmp_path / f"{suffix}-after")
        assert [path.name for path in before] == [path.name for path in after]
        for old_text, new_text in zip(before, after, strict=True):
            words = [path.read_text("utf-8-sig").translate(PLAIN).split() for path in (old_text, new_text)]
            assert words[0] == words[1], old_text.name
    check_all(iter(convert(odt, "epub", tmp_path / "epub")), "epub by LibreOffice")

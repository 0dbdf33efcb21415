"""Time to load a model and peak memory, beside CTranslate2: `tram bench load`.

Each side is a process of its own that loads a folder and translates one sentence. Only what it needs is imported
there: CTranslate2 would load torch where it is installed, which it does not need to translate.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tram.data.workers import in_new_process
from tram.measuring import peak_megabytes


def loading(model: Path | None, sentence: str, rounds: int = 5) -> list[dict[str, Any]]:
    """Return size, time and memory of a model folder in float32 and in int8, and of the same for CTranslate2."""
    with tempfile.TemporaryDirectory() as scratch:
        folders, ids = _folders(model, sentence, Path(scratch))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
        for _ in range(rounds):
            for name, (folder, precision) in folders.items():
                given = sentence if name.startswith("tram") else ids
                found[name].append(in_new_process(_load, str(folder), precision, given))
        return [
            {"what": name, "file MB": _megabytes(folders[name][0])}
            | {key: statistics.median(each[key] for each in measured) for key in measured[0]}
            for name, measured in found.items()
        ]


def _folders(model: Path | None, sentence: str, scratch: Path) -> tuple[dict[str, tuple[Path, str]], list[str]]:
    """Return folders and what they are loaded as, and the sentence in CTranslate2's words."""
    from tram.bench.ctranslate2 import convert
    from tram.translation.translator import Translator

    translator = Translator.load(model)
    translator.save(scratch / "float32")
    translator.save(scratch / "int8", "int8")
    folders = {"tram torch": (scratch / "float32", "torch")}
    if translator.engine.name.startswith("native"):
        folders["tram native float32"] = scratch / "float32", "native"
        folders["tram native int8"] = scratch / "int8", "native"
    for precision in ("float32", "int8"):
        folder = scratch / f"ctranslate2-{precision}"
        names = convert(translator.model, translator.special, folder, precision)
        folders[f"CTranslate2 {precision}"] = folder, precision
    special = translator.special
    return folders, [names[id] for id in special.source(translator.split([sentence]).ids[0])]


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20


def _load(folder: str, precision: str, given: str | list[str]) -> dict[str, float]:
    """Load one side in this process and translate a sentence."""
    start = time.process_time()
    if isinstance(given, str):
        from tram.translation.translator import Translator

        imported, before = time.process_time(), peak_megabytes()
        translator = Translator.load(folder, engine=precision, threads=1)
        loaded = time.process_time()
        translator.translate([given])
    else:
        sys.modules["torch"] = None  # type: ignore[assignment]
        import ctranslate2

        imported, before = time.process_time(), peak_megabytes()
        peer = ctranslate2.Translator(folder, device="cpu", compute_type=precision, inter_threads=1, intra_threads=1)
        loaded = time.process_time()
        peer.translate_batch([given], beam_size=5)
    return {
        "import ms": 1000 * (imported - start),
        "load ms": 1000 * (loaded - imported),
        "first sentence ms": 1000 * (time.process_time() - loaded),
        "peak MB": peak_megabytes(),
        "MB without imports": peak_megabytes() - before,
    }

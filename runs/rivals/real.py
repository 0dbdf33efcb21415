"""Score the translations of real documents, against the control: one JSON file per system.

python runs/rivals/real.py TEST FOLDER docs/rivals/real      # TEST.en, TEST.de; FOLDER/NAME.jsonl and so on by run.sh

s-BLEU, d-BLEU/doc, d-BLEU/512 and chrF with paired bootstrap over documents; form of address and pronouns where the
documents have them. Systems that are not translated yet are left out, so this can be run at any time.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from systems import CONTROL, SYSTEMS

from tram.data.corpus import read_documents
from tram.errors import InputError
from tram.evaluation.comparison import compare_address, compare_suites, read_address, read_results
from tram.evaluation.metrics import Documents, results_json, score_systems
from tram.files import write_json
from tram.text.pipeline import TextPipeline


def read_sentences(path: Path) -> Documents:
    """Read the documents of a file."""
    return [document.sentences for document in read_documents(path)]


def compared(
    read: Callable[[Path], dict[str, Any]], compare: Callable[..., dict[str, Any]], own: Path, control: Path
) -> dict[str, Any] | None:
    """Return the differences from the control in a measure; None if one of the two files has no such measure."""
    try:
        return {name: asdict(each) for name, each in compare(read(own), read(control)).items()}
    except InputError:
        return None


def score(test: Path, folder: Path, output: Path) -> None:
    """Score every system that is translated."""
    done = [system.name for system in SYSTEMS if (folder / f"{system.name}.jsonl").exists()]
    if CONTROL not in done:
        return
    sources, references = (read_sentences(test.with_name(f"{test.name}.{language}")) for language in ("en", "de"))
    names = [CONTROL, *(name for name in done if name != CONTROL)]  # the first is what the others are compared with
    translations = [(name, read_sentences(folder / f"{name}.jsonl")) for name in names]
    text = TextPipeline.load(folder / "prepared")
    for name, found in zip(names, results_json(score_systems(translations, [references], sources, text)), strict=True):
        address = (folder / f"{name}.json", folder / f"{CONTROL}.json")
        pronouns = (folder / f"{name}.pronouns.json", folder / f"{CONTROL}.pronouns.json")
        result = {
            "system": name,
            "sentences": sum(map(len, references)),
            "scores": found["scores"],
            "from_control": found["differences"],
            "address_from_control": compared(read_address, compare_address, *address),
            "pronouns_from_control": compared(read_results, compare_suites, *pronouns),
        }
        write_json(output / f"{name}.json", result)


if __name__ == "__main__":
    score(*map(Path, sys.argv[1:]))

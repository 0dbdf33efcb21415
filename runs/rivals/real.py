"""Score the translations of real documents, against the control: one JSON file per system.

python runs/rivals/real.py FOLDER docs/rivals/real      # FOLDER/test.en, test.de, NAME.jsonl and so on: see run.sh

s-BLEU, d-BLEU/doc, d-BLEU/512 and chrF with paired bootstrap over documents; form of address, and pronouns
of ContraPro.
Systems that are not translated yet or have a file already are left out, so this can be run at any time.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from result import stage_folder, training
from systems import CONTROL, SENTENCE, SYSTEMS

from tram.data.corpus import read_documents
from tram.evaluation.comparison import compare_address, compare_suites, read_address, read_results
from tram.evaluation.metrics import Documents, results_json, score_systems
from tram.files import write_json
from tram.model.folder import find_model, fingerprint, load_model, read_model_file
from tram.text.pipeline import TextPipeline


def read_sentences(path: Path) -> Documents:
    """Read the documents of a file."""
    return [document.sentences for document in read_documents(path)]


def compared(name: str, folder: Path) -> dict[str, Any]:
    """Return the differences of a system from the control in form of address and in pronouns."""
    address, control_address = (read_address(folder / f"{each}.json") for each in (name, CONTROL))
    pronouns, control_pronouns = (read_results(folder / f"{each}.pronouns.json") for each in (name, CONTROL))
    measures = {
        "address": compare_address(address, control_address),
        "pronouns": compare_suites(pronouns, control_pronouns),
    }
    return {kind: {key: asdict(each) for key, each in found.items()} for kind, found in measures.items()}


def score(folder: Path, output: Path) -> None:
    """Score every system that is translated."""
    finished = {system.name for system in SYSTEMS if (folder / f"{system.name}.pronouns.json").exists()}
    missing = [system.name for system in SYSTEMS if not (output / f"{system.name}.json").exists()]
    names = [name for name in missing if name in finished]
    if CONTROL not in finished or not names:
        return
    sources, references = (read_sentences(folder / f"test.{language}") for language in ("en", "de"))
    # The first is what the others are compared with
    scored = [CONTROL, *(name for name in names if name != CONTROL)]
    translations = [(name, read_sentences(folder / f"{name}.jsonl")) for name in scored]
    text = TextPipeline.load(folder / "prepared")
    start = fingerprint(load_model(find_model(folder / SENTENCE)))
    for found in results_json(score_systems(translations, [references], sources, text)):
        name = found["name"]
        if name not in names:
            continue
        model = read_model_file(find_model(folder / name)).model
        result = {
            "system": name,
            "start": start,
            "context": None if model.context is None else model.context.model_dump(mode="json"),
            "unit": None if model.unit.kind == "sentence" else model.unit.model_dump(mode="json"),
            "max_positions": model.max_positions,
            "training": None if name == SENTENCE else training(stage_folder(name, folder)),
            "documents": len(references),
            "sentences": sum(map(len, references)),
            "scores": found["scores"],
            "from_control": found["differences"],
            **compared(name, folder),
        }
        write_json(output / f"{name}.json", result)


if __name__ == "__main__":
    score(*map(Path, sys.argv[1:]))

"""Measure speed and peak memory of import, translation and finetuning, at the sizes of real models.

    python runs/pretrained/sizes.py OUT [--size opus-mt nllb-600m]

The weights are random (`stand_in.py`), which affects neither; translations run to their length limit. Every command
runs in its own process; its peak is the maximum resident set size (`ru_maxrss`), including libraries and mapped pages
of files. The numbers are written to OUT/sizes.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

CONFIG = """\
data: {data}
output: {output}
train: null
finetune:
  start: {model}
  freeze: base
  context: {{kind: memory, read: {read}}}
  updates: 3
  warmup: 1
  documents: 2
  tokens: 1024
  window: [5, 10]
  evaluate_every: 10
  log_every: 1
"""

# Of MODEL, SENTENCES and a file for the result: eight sentences at once, with the model's own beam
TRANSLATE = """\
import json, pathlib, sys, time
from tram import Translator
translator = Translator.load(sys.argv[1])
ids = translator.text.encode(pathlib.Path(sys.argv[2]).read_text().splitlines(), "source")
began = time.monotonic()
tokens = sum(len(hypotheses[0][0]) + 1 for hypotheses in translator.translate_ids(ids))
pathlib.Path(sys.argv[3]).write_text(json.dumps({"tokens/s": round(tokens / (time.monotonic() - began), 1)}))
"""


def main() -> None:
    """Measure the models that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", nargs="+", choices=["opus-mt", "nllb-600m"], default=["opus-mt", "nllb-600m"])
    given = parser.parse_args()
    corpus = given.out / "corpus"
    if not corpus.exists():
        measured("tram", "synthetic", corpus, "--documents", 60)
    results = {size: measure(given.out / size, corpus, size) for size in given.size}
    (given.out / "sizes.json").write_text(json.dumps(results, indent=2) + "\n")


def measure(out: Path, corpus: Path, size: str) -> dict[str, dict[str, float]]:
    """Run all commands for one model and print their time and memory."""
    pair = [corpus / "train.en", corpus / "train.de"]
    if not (out / "foreign" / "README.md").exists():
        measured(Path(__file__).with_name("stand_in.py"), *pair, out / "foreign", "--size", size)
    weights = (out / "foreign" / "model.safetensors").stat().st_size / 2**20
    target = ["--target", "de"] if size == "nllb-600m" else []
    sentences = out / "sentences.txt"
    lines = (corpus / "test.en").read_text(encoding="utf-8").split("\n")
    sentences.write_text("\n".join([line for line in lines if line][:8]), encoding="utf-8")
    config = out / "config.yaml"
    read = "scaled" if size == "nllb-600m" else "add"
    config.write_text(CONFIG.format(data=out / "data", output=out / "run", model=out / "model", read=read))
    results = {"file": {"megabytes": round(weights)}}
    results["start of tram and torch alone"] = measured("-c", "import torch, tram.model.folder")
    results["import"] = measured("tram", "import", "hf", out / "foreign", out / "model", *target)
    results["translate"] = measured("-c", TRANSLATE, out / "model", sentences, out / "speed.json")
    results["translate"] |= json.loads((out / "speed.json").read_text())
    results["prepare"] = measured("tram", "prepare", out / "data", "--train", *pair, "--text", out / "model")
    results["finetune a memory, base frozen"] = measured("tram", "train", config) | training_speed(out / "run")
    results["export of the adapter"] = measured("tram", "export", "adapter", out / "run", out / "adapter")
    adapter = (out / "adapter" / "memory.safetensors").stat().st_size / 1e6
    print(f"{size}: file {weights:,.0f} MB, adapter {adapter:.1f} MB")
    return results


def training_speed(run: Path) -> dict[str, float]:
    """Return the target tokens per second of a run's updates after the first one."""
    lines = [json.loads(line) for line in (run / "finetune" / "metrics.jsonl").read_text().splitlines()]
    first, *_, last = [line for line in lines if "tokens" in line]
    return {"tokens/s": round((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]), 1)}


def measured(*command: object) -> dict[str, float]:
    """Run a command of tram, or a Python program, and return its seconds and its peak memory."""
    arguments = [*(["-m"] if command[0] == "tram" else []), *map(str, command)]
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}: ended with code {process.returncode}")
    found = {"seconds": round(time.monotonic() - began, 1), "megabytes": round(usage.ru_maxrss / 1024)}
    shown = " ".join(each for each in arguments if each != TRANSLATE)
    print(f"{found['seconds']:7.1f} s, peak {found['megabytes']:6,} MB: {shown}", flush=True)
    return found


if __name__ == "__main__":
    main()

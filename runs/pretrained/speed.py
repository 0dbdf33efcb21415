"""Measure the decoding speed of an imported Marian model, relative to `generate` of transformers on the same model.

    python runs/pretrained/speed.py OUT [--size opus-mt] [--rounds 5]

Both decode the same sentences of equal length on one thread, alternately. The weights are random, and the end of a
sentence has a logit of -10,000, so that both run to tram's length limit; in greedy search the ids must be the same.
The medians are written to OUT/speed.json.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from sizes import measured  # beside this file

from tram.bench.peers import Row, alternately, compared, table
from tram.translation.search import length_limit
from tram.translation.translator import Translator

SOURCE = 15  # subwords of a sentence
NEVER = -1e4
CASES = [(beam, batch) for beam in (1, 4) for batch in (1, 16)]


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=["tiny", "small", "opus-mt"], default="opus-mt")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    peer = endless_model(given.out, given.size)
    rows = [row for beam, batch in CASES for row in compare(given.out / "model", peer, beam, batch, given.rounds)]
    print(table(rows))
    (given.out / "speed.json").write_text(json.dumps({"size": given.size, "rows": rows}, indent=2) + "\n")


def endless_model(out: Path, size: str) -> Any:
    """Return a random model of transformers that never ends a sentence; OUT/model is the same one, imported."""
    import transformers

    transformers.logging.set_verbosity_error()
    corpus, foreign = out / "corpus", out / "foreign"
    if not corpus.exists():
        measured("tram", "synthetic", corpus, "--documents", 60)
    if not (foreign / "README.md").exists():
        script = Path(__file__).with_name("stand_in.py")
        measured(script, corpus / "train.en", corpus / "train.de", foreign, "--size", size)
    peer = transformers.MarianMTModel.from_pretrained(foreign).eval()
    peer.final_logits_bias[0, peer.config.eos_token_id] = NEVER
    if not (out / "model").exists():
        peer.save_pretrained(foreign)
        measured("tram", "import", "hf", foreign, out / "model")
    return peer


def compare(model: Path, peer: Any, beam: int, batch: int, rounds: int) -> list[Row]:
    """Measure one beam and one number of sentences."""
    translator = Translator.load(model, beam=beam)
    torch.manual_seed(1)
    foreign = torch.randint(10, 1000, (batch, SOURCE))  # without special ids
    sentences = [[number + 1 for number in row] for row in foreign.tolist()]  # tram's ids
    limit = length_limit(translator.model, translator.special, SOURCE)
    ended = torch.cat([foreign, torch.full((batch, 1), peer.config.eos_token_id)], dim=1)

    def we() -> list[list[int]]:
        return [hypotheses[0][0] for hypotheses in translator.translate_ids(sentences)]

    def they() -> list[list[int]]:
        with torch.inference_mode():
            found = peer.generate(
                input_ids=ended,
                attention_mask=torch.ones_like(ended),
                num_beams=beam,
                do_sample=False,
                max_new_tokens=limit,
                max_length=None,
            )
        return [[number + 1 for number in row] for row in found[:, 1:-1].tolist()]

    ours, theirs = we(), they()
    if {len(ids) for ids in ours + theirs} != {limit - 1}:
        sys.exit(f"beam {beam}, batch {batch}: translations of different lengths were compared")
    if beam == 1 and ours != theirs:
        sys.exit(f"beam {beam}, batch {batch}: the two sides translated differently")
    seconds = alternately({"tram": lambda: drop(we()), "transformers": lambda: drop(they())}, rounds)
    return compared(f"beam {beam}, batch {batch}", seconds, batch * limit, "transformers")


def drop(_: object) -> None:
    """Ignore a value: what is measured returns nothing."""


if __name__ == "__main__":
    main()

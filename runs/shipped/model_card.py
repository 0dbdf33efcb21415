"""Card of the model that ships with tram, from its runs and from the scores of `tram evaluate`.

python runs/shipped/model_card.py FOLDER src/tram/shipped          FOLDER: that of runs/mixed/run.sh
"""

import json
import sys
from pathlib import Path
from typing import Any

from tram.analysis.report import markdown_table, wrap_markdown
from tram.analysis.window import last_update
from tram.files import write_text
from tram.model.folder import WEIGHTS, load_model, read_model_file

SETS = {
    "opendocs": "opendocs/dev: help pages, manuals, games",
    "europarl": "Europarl dev: parliament",
    "news": "News dev (newstest2015)",
    "ted": "TED dev: talks",
}
CARD = """\
# tram's small model, English → German

{parameters:.1f} million parameters in float16 ({megabytes:.1f} MB): {encoder} encoder and {decoder} decoder layers of
width {width}, {vocabulary:,} joint subwords, a memory of {slots} vectors in the last layer of {sides}. It ships
with tram so that `tram translate` works out of the box, and to show what the memory does; it does not compete with
large models.

## Training data

{base} million target tokens as single sentences, then {warm} and {finetune} million in whole documents with the memory
(mostly generated, then mostly real ones; `runs/shipped/ship.sh`, {hours:.1f} hours on a CPU):

- **opendocs**: documents of free software projects in both languages: help pages (LibreOffice, GNOME, KDE, GIMP, LyX),
  manuals (Debian, man pages), stories and dialogue of games (Wesnoth, FreedroidRPG, Cataclysm, …); 7,418 documents,
  240,590 sentences. Licences of the texts: GPL, LGPL, MPL-2.0, GFDL, CC-BY-SA.
- **europarl-direct**: speeches given in English in the European Parliament 1999–2012; 25,918 documents, 381,316
  sentences. Free to use with acknowledgement of the source (European Parliament; Koehn 2005). Speeches of the Europarl
  dev and test sets are removed.
- **generated documents** (`tram synthetic`, 8,000 of them, in the stages with the memory only), which teach the memory
  what to look for: the gender of what "it" refers to, *du* or *Sie*, the chosen term.

The weights do not contain these texts as such and are released under tram's licence.

## Scores

Scores of exactly this folder, by `tram evaluate SOURCE REFERENCE` (beam 5; intervals: bootstrap over documents):

{scores}

{signatures}

About a fifth of the sentences of opendocs/dev occur word for word in its training data; `docs/RESULTS-shipped.md` has
scores without them, the models it was compared with, and the cost of each. ContraPro sample (1,000 pronouns from film
subtitles, a domain that does not occur in training): {contrapro}; chance is {chance:.1f}%.

## Limits

- It knows the language of manuals and of parliament. It is worse on news, talks, conversation, names and rare words.
- It is small: expect wrong words, literal translations of idioms, and occasional omissions or additions. Check its
  output before you rely on it.
- The memory carries what the sentences of one document share. It does not store facts, and it may lose what was said
  far back.
- Speeches and texts of two decades reflect the views and habits of their authors; masculine forms prevail.
"""


def values(folder: Path) -> dict[str, Any]:
    """Return the cost of training the model."""
    stages = {"base": "base/train", "warm": "warm/finetune", "finetune": "shipped/finetune"}
    last = {name: last_update(folder / stage) for name, stage in stages.items()}
    tokens = {name: f"{line['tokens'] / 1e6:.1f}" for name, line in last.items()}
    return tokens | {"hours": sum(line["seconds"] for line in last.values()) / 3600}


def score_table(scores: Path) -> tuple[str, str]:
    """Return the table of scores, and their signatures."""
    rows, signatures, header = [], set(), []
    for name, title in SETS.items():
        (system,) = json.loads((scores / f"{name}.json").read_text(encoding="utf-8"))["systems"]
        header = [score["name"] for score in system["scores"]]
        signatures |= {score["signature"] for score in system["scores"]}
        rows.append([title, *(f"{s['value']:.2f} [{s['low']:.2f}, {s['high']:.2f}]" for s in system["scores"])])
    return markdown_table(["documents", *header], rows), "\n".join(f"- `{each}`" for each in sorted(signatures))


def card(folder: Path, model: Path) -> str:
    """Return the card as Markdown."""
    about = read_model_file(model).model
    memory = about.memory
    assert memory is not None, "the model that ships has a memory"
    table, signatures = score_table(folder / "scores" / "shipped")
    overall = json.loads((folder / "scores" / "shipped" / "contrapro.json").read_text(encoding="utf-8"))["overall"]
    text = CARD.format(
        parameters=sum(parameter.numel() for parameter in load_model(model).parameters()) / 1e6,
        megabytes=(model / WEIGHTS).stat().st_size / 1e6,
        encoder=about.encoder_layers,
        decoder=about.decoder_layers,
        width=about.d_model,
        vocabulary=read_model_file(model).vocabulary,
        slots=memory.slots,
        sides={"both": "encoder and decoder", "source": "the encoder", "target": "the decoder"}[memory.side],
        scores=table,
        signatures=signatures,
        chance=100 * overall["chance"],
        contrapro=f"{100 * overall['accuracy']:.1f}% correct [{100 * overall['low']:.1f}, {100 * overall['high']:.1f}]",
        **values(folder),
    )
    return wrap_markdown(text) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[2]) / "README.md", card(Path(sys.argv[1]), Path(sys.argv[2])))

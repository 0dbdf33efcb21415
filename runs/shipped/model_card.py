"""Card of the model that ships with tram, from its runs and from the files of runs/shipped/measure.sh.

python runs/shipped/model_card.py FOLDER src/tram/shipped          FOLDER: that of runs/shipped/ship.sh
"""

import json
import sys
from pathlib import Path
from typing import Any

from scores import cost

from tram.analysis.report import markdown_table, wrap_markdown
from tram.files import write_text
from tram.model.folder import WEIGHTS, load_model, read_model_file

SETS = {
    "opendocs": "opendocs/dev: help pages, manuals, games",
    "europarl": "Europarl dev: parliament",
    "dialogue": "dialogue/dev: customer chats, a role-playing game",
    "prose": "prose/dev: essays, novels, tales",
    "conversation": "conversation-nc/dev: everyday dialogues",
    "news": "News dev (newstest2015)",
    "ted": "TED dev: talks",
}
RUN = "memory-1"
CARD = """\
# tram's small model, English → German

{parameters:.1f} million parameters in float16 ({megabytes:.1f} MB): {encoder} encoder and {decoder} decoder layers of
width {width}, {vocabulary:,} joint subwords, 32 of them reserved (copy sentinels, separator, mask), a memory of {slots}
vectors in the last layer of {sides}. It ships with tram so that `tram translate` works out of the box, and to show
what the memory does; it does not compete with large models.

## Training data

Earlier versions of this model were trained on 47 million target tokens of the corpora below and of generated and
spliced documents (`docs/LOG.md`). From the last of them all weights were trained on {tokens:.1f} million more in
{hours:.1f} hours on one core of a CPU (`runs/shipped/ship.sh`): windows and passages of real documents, documents put
together from real sentences so that context decides (`tram splice`), documents that call somebody and address them in
the form that goes with it (`runs/shipped/called.py`), and generated ones (`tram synthetic`). `ATTRIBUTION.md` names
the works.

- **opendocs**: documents of free software projects in both languages: help pages (LibreOffice, GNOME, KDE, GIMP, LyX),
  manuals (Debian, man pages), stories and dialogue of games (Wesnoth, FreedroidRPG, Cataclysm, …); 7,418 documents,
  240,590 sentences. Licences of the texts: GPL, LGPL, MPL-2.0, GFDL, CC-BY-SA.
- **europarl-direct**: speeches given in English in the European Parliament 1999–2012; 25,918 documents, 381,316
  sentences. Free to use with acknowledgement of the source (European Parliament; Koehn 2005). Speeches of the Europarl
  dev and test sets are removed.
- **dialogue**: customer-service chats (WMT20 chat task), dialogue of Andor's Trail, scripts of Fish Fillets, Hedgewars,
  Widelands and Wesnoth; 1,722 documents, 48,636 sentences. CC-BY-SA 4.0, GPL-2.
- **prose**: essays, interviews and news of the FSFE, novels and tales (Carroll, Kafka, Hesse, Twain, Andersen, …),
  children's storybooks, tutorials; 622 documents, 33,171 sentences. CC-BY-SA 4.0, CC-BY 4.0, public domain.
- **everyday**: example sentences of Ding's dictionary (GPL-2 or later), sentences made of its words and of other
  everyday words, and phrases of letters.

The weights do not contain these texts as such and are released under tram's licence.

## What the memory does

Agreement: a sentence with a noun, then "It …" one or three sentences later. Per cent of the pronouns (er, sie, es) that
agree with the article that the model chose for the noun, averaged over the three genders; nouns and "it" sentences
were held out of training (`tram suite agreement`, `tram contrast`):

{agreement}

ContraPro sample (1,000 pronouns from film subtitles, a domain that does not occur in training): {contrapro} with the
item's own context; chance is {chance:.1f}%.

{address}

## Scores

Scores of exactly this folder, by `tram evaluate SOURCE REFERENCE --precision int8` (beam 5; intervals: bootstrap over
documents). In float32, the default, they are about 0.1 BLEU higher (`docs/LOG.md`):

{scores}

{signatures}

About a fifth of the sentences of opendocs/dev occur word for word in its training data. `docs/RESULTS.md` says which
runs these scores can be compared with: a sentence model finetuned as long on the same documents is beside them.

## Limits

- It knows the language of manuals and of parliament. It is worse on news, talks, conversation, names and rare words.
- It is small: expect wrong words, literal translations of idioms, and occasional omissions or additions. Check its
  output before you rely on it.
- The memory carries what the sentences of one document share. It does not store facts, and it may lose what was said
  far back. A wrong first choice, such as *du* for a customer, is kept.
- Speeches and texts of two decades reflect the views and habits of their authors; masculine forms prevail.
"""


def read_scores(scores: Path, name: str) -> Any:
    """Return the contents of a file of measure.sh; None if it is missing."""
    path = scores / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def score_table(scores: Path) -> tuple[str, str]:
    """Return the table of scores, and their signatures."""
    rows, signatures, header = [], set(), []
    for name, title in SETS.items():
        found = read_scores(scores, name)
        if found is None:
            continue
        (system,) = found["systems"]
        header = [score["name"] for score in system["scores"]]
        signatures |= {score["signature"] for score in system["scores"]}
        rows.append([title, *(interval(score, 1) for score in system["scores"])])
    return markdown_table(["documents", *header], rows), "\n".join(f"- `{each}`" for each in sorted(signatures))


def interval(value: dict[str, float], scale: float = 100) -> str:
    """Return a value with its interval."""
    digits = 1 if scale == 100 else 2
    return " ".join(
        [
            f"{scale * value['value']:.{digits}f}",
            f"[{scale * value['low']:.{digits}f}, {scale * value['high']:.{digits}f}]",
        ]
    )


def agreement_table(scores: Path) -> str:
    """Return agreement by distance and context."""
    rows = [
        [distance + place, *(interval(row[context]["shares"]["mean"]) for context in ("own", "other", "none"))]
        for name, place in (("agreement", " back"), ("inside", " back, after six sentences of another document"))
        for distance, row in read_scores(scores, name)["by_distance"].items()
    ]
    return markdown_table(["sentences", "own context", "another item's", "none"], rows)


def address_paragraph(scores: Path) -> str:
    """Return what is known about the form of address."""
    lines = []
    for name, history in (
        ("conversation", "its own translations"),
        ("conversation-gold", "the reference translations"),
    ):
        found = read_scores(scores, name)
        if found is not None:
            address = found["measures"]["address"]["own"]
            lines.append(
                f"after {history}, {interval(address['balanced'])}% of the sentences have the reference's form,"
                f" balanced over *du* and *Sie* (consistency within a document {interval(address['consistency'])}%)"
            )
    return "Form of address on conversation-nc/dev: " + "; ".join(lines) + "." if lines else ""


def card(folder: Path, model: Path) -> str:
    """Return the card as Markdown."""
    about = read_model_file(model).model
    memory, training = about.memory, cost(folder / "trained" / RUN / "finetune")
    assert memory is not None, "the model that ships has a memory"
    assert training is not None, f"{RUN} is not trained yet"
    scores = folder / "scores" / RUN
    table, signatures = score_table(scores)
    overall = read_scores(scores, "contrapro")["overall"]
    text = CARD.format(
        parameters=sum(parameter.numel() for parameter in load_model(model).parameters()) / 1e6,
        megabytes=(model / WEIGHTS).stat().st_size / 1e6,
        encoder=about.encoder_layers,
        decoder=about.decoder_layers,
        width=about.d_model,
        vocabulary=read_model_file(model).vocabulary,
        slots=memory.slots,
        sides={"both": "encoder and decoder", "source": "the encoder", "target": "the decoder"}[memory.side],
        agreement=agreement_table(scores),
        address=address_paragraph(scores),
        scores=table,
        signatures=signatures,
        chance=100 * overall["chance"],
        contrapro=f"{interval(overall | {'value': overall['accuracy']})}% correct",
        tokens=training["tokens"] / 1e6,
        hours=training["seconds"] / 3600,
    )
    return wrap_markdown(text) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[2]) / "README.md", card(Path(sys.argv[1]), Path(sys.argv[2])))

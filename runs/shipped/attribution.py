"""ATTRIBUTION.md of the shipped model: whose texts it was trained on, counted from the corpora.

python runs/shipped/attribution.py DATA src/tram/shipped/ATTRIBUTION.md
"""

import sys
from collections import Counter
from pathlib import Path

from tram.analysis.report import markdown_table, wrap_markdown
from tram.data.text_files import Lines
from tram.files import write_text

# Corpus, its licences, and the origins that its docs.tsv names.
CORPORA: dict[str, tuple[str, dict[str, str]]] = {
    "opendocs": (
        "GPL, LGPL, MPL, GFDL, CC-BY-SA",
        {
            "libreoffice-help": "LibreOffice help, The Document Foundation and contributors",
            "gnome-help": "GNOME help pages, GNOME documentation and translation teams",
            "manpages": "manual pages and manpages-l10n, their authors and translators",
            "gimp-help": "GIMP user manual, GIMP documentation team",
            "cataclysm-dda": "Cataclysm: Dark Days Ahead, its contributors",
            "wesnoth-campaigns": "The Battle for Wesnoth, campaigns, its developers and translators",
            "wesnoth-other": "The Battle for Wesnoth, help and other texts, its developers and translators",
            "kde-handbooks": "KDE handbooks, KDE documentation and translation teams",
            "colobot": "Colobot, TerranovaTeam, Epsitec and contributors",
            "lyx-manuals": "LyX manuals, LyX documentation team",
            "lilypond": "GNU LilyPond documentation, its authors and translators",
            "widelands": "Widelands, its developers and translators",
            "debian-handbook": "The Debian Administrator's Handbook, Raphaël Hertzog, Roland Mas and translators",
            "freedroidrpg": "FreedroidRPG, its developers and translators",
            "fish-fillets": "Fish Fillets NG, ALTAR interactive, its developers and translators",
            "debian-docs": "Debian documentation, the Debian project",
            "freeciv": "Freeciv, its developers and translators",
            "installation-guide": "Debian installation guide, the Debian project",
        },
    ),
    "dialogue": (
        "CC-BY-SA 4.0, GPL-2",
        {
            "andorstrail": "Andor's Trail, its developers and translators",
            "wmt20chat.train": "WMT 2020 shared task on chat translation, its organisers",
            "fishfillets": "Fish Fillets NG, ALTAR interactive, its developers and translators",
            "hedgewars": "Hedgewars, its developers and translators",
            "wesnoth-foap": "The Battle for Wesnoth, campaign, its developers and translators",
            "widelands": "Widelands, its developers and translators",
        },
    ),
    "prose": (
        "CC-BY-SA 4.0, CC-BY 4.0, public domain",
        {
            "fsfe": "Free Software Foundation Europe, essays, interviews and news",
            "storybooks": "Global Storybooks, its authors and translators",
            "book-tomsawyer": "Mark Twain, The Adventures of Tom Sawyer",
            "bilinguator": "tales and stories by Andersen, Wilde and others, aligned by Bilinguator",
            "djangogirls": "Django Girls tutorial, its authors and translators",
            "opensourceguide": "Open Source Guides, GitHub and contributors",
            "book-siddhartha": "Hermann Hesse, Siddhartha",
            "book-alice": "Lewis Carroll, Alice's Adventures in Wonderland",
            "book-metamorphosis": "Franz Kafka, The Metamorphosis",
        },
    ),
}
DICTIONARY = "Example sentences and words of the dictionary of Ding, Frank Richter, TU Chemnitz, and contributors."
EUROPARL = "free with acknowledgement of the source"
INTRODUCTION = """\
# Texts the shipped model was trained on

The model was trained on sentence pairs from the works below, each in English and German. The weights are numbers
learned from them and do not contain the texts. We thank their authors and translators.
Licences are those that the corpora state for each group. Counts are documents and sentence pairs of the training sets
(`runs/shipped/attribution.py`); how much of each was used is in the model card, `README.md`.
"""


def counts(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Return documents and sentences by origin, from a docs.tsv whose last column is the number of sentences."""
    documents: Counter[str] = Counter()
    sentences: Counter[str] = Counter()
    for _, line in Lines(path):
        origin, *_, size = line.split("\t")
        documents[origin] += 1
        sentences[origin] += int(size)
    return documents, sentences


def page(data: Path) -> str:
    """Return the page as Markdown."""
    parts = [INTRODUCTION]
    for corpus, (licences, origins) in CORPORA.items():
        documents, sentences = counts(data / corpus / "train.docs.tsv")
        if unknown := documents.keys() - origins:
            raise SystemExit(f"{corpus}: no attribution for {', '.join(sorted(unknown))}; add it")
        rows = [[title, f"{documents[name]:,}", f"{sentences[name]:,}"] for name, title in origins.items()]
        parts += [f"## {corpus}: {licences}", markdown_table(["work", "documents", "sentences"], rows)]
    documents, sentences = counts(data / "europarl-direct" / "train.docs.tsv.xz")
    parts.append(f"## europarl-direct: {EUROPARL}")
    parts.append(
        "Proceedings of the European Parliament 1999–2012 (Philipp Koehn, Europarl: A Parallel Corpus for Statistical "
        f"Machine Translation, MT Summit 2005): {documents.total():,} speeches given in English, "
        f"{sentences.total():,} sentences."
    )
    parts += ["## Example sentences: GPL-2 or later", DICTIONARY]
    return wrap_markdown("\n\n".join(parts)) + "\n"


if __name__ == "__main__":
    write_text(Path(sys.argv[2]), page(Path(sys.argv[1])))

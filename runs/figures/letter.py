"""Split the letter of `make demo` into sentences and translate it with the model that ships with tram.

python runs/figures/letter.py SOURCE TARGET          writes one sentence per line to each file
"""

import sys
from pathlib import Path

from tram import Translator
from tram.files import write_text
from tram.filetypes.plain_text import split_document

LETTER = Path(__file__).parents[2] / "examples" / "letter.txt"


def main(source: Path, target: Path) -> None:
    """Write both sides of the document."""
    sentences = split_document(LETTER.read_text(encoding="utf-8"), "en").sentences
    for path, lines in ((source, sentences), (target, Translator.load().translate(sentences))):
        write_text(path, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

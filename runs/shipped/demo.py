"""Demonstration for `make demo`: a letter translated by the model that ships with tram, and what its memory changed.

python runs/shipped/demo.py [FILE]
"""

import sys
import textwrap
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from tram import Translator
from tram.filetypes.plain_text import split_document

WIDTH = 58  # of a column
LETTER = Path(__file__).parents[2] / "examples" / "letter.txt"
BOLD, PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("*", "*")


def side_by_side(left: str, right: str) -> str:
    """Format two texts as two columns."""
    columns = (textwrap.wrap(text, WIDTH) for text in (left, right))
    return "\n".join(f"{a:<{WIDTH}}  {b}".rstrip() for a, b in zip_longest(*columns, fillvalue=""))


def highlight(text: str, other: str) -> str:
    """Return a text with the words that differ from another one in bold."""
    words = text.split()
    for kind, start, end, *_ in SequenceMatcher(None, words, other.split(), autojunk=False).get_opcodes():
        if kind in ("replace", "delete"):
            words[start] = BOLD + words[start]
            words[end - 1] += PLAIN
    return " ".join(words)


def main(path: Path) -> None:
    """Translate a document as a whole and, to compare, each of its sentences alone."""
    translator = Translator.load()
    text = split_document(path.read_text(encoding="utf-8"), translator.text.source_language)
    whole = translator.translate(text.sentences)
    alone = [result[0] for result in translator.translate_documents([[sentence] for sentence in text.sentences])]
    print(f"\n{path.name}\n")
    for source, target, gap in zip(text.sentences, whole, text.gaps[1:], strict=True):
        print(side_by_side(source, target) + "\n" * ("\n\n" in gap))
    changed = [row for row in zip(text.sentences, alone, whole, strict=True) if row[1] != row[2]]
    print(f"\nWhere the memory changed the translation: {len(changed)} of {len(text.sentences)} sentences\n")
    for source, without, remembered in changed:
        print(source)
        print(f"    alone:      {highlight(without, remembered)}")
        print(f"    in context: {highlight(remembered, without)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else LETTER)

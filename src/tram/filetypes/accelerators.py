"""Accelerators: the mark before a letter of a menu entry or button, as in `_Save as`, `E&xit` and `~File`.

without_accelerator("E&xit")                     # "Exit", "&", 0: the start of the word with the mark
with_accelerator("Beenden", "&", 0)              # "&Beenden"
"""

import re

LONGEST = 80  # characters of a message; entries of menus are short
# At the start of a word, or inside of one: E&xit, but not R&D, snake_case, &amp; or ~/folder
MARK = re.compile(r"(?<![\w&~])[_&~](?=[^\W\d_])(?!\w+;)|(?<=[^\W\d_])(?<![A-ZÄÖÜ][A-ZÄÖÜ])[&~](?=[a-zäöüß])(?!\w+;)")
WORD = re.compile(r"[^\W\d_]\w*")


def without_accelerator(text: str) -> tuple[str, str, int] | None:
    """Return a message without its mark, the mark, and where its word begins; None if it has no mark or several."""
    marks = [match.start() for match in MARK.finditer(text)] if len(text) <= LONGEST else []
    if len(marks) != 1 or text.count(text[marks[0]]) != 1:
        return None
    at = marks[0]
    start = max((match.start() for match in re.finditer(r"\w+", text[:at]) if match.end() == at), default=at)
    return text[:at] + text[at + 1 :], text[at], start


def with_accelerator(text: str, mark: str, at: int) -> str:
    """Put a mark before the first word from a position on, or before the first word of all."""
    word = WORD.search(text, at) or WORD.search(text)
    place = word.start() if word else at
    return text[:place] + mark + text[place:]

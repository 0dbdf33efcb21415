"""The signs of a file in its translation: ellipses, dashes and quotation marks as typographers set them.

Models normalise such signs; a file that has them gets them back.
"""

import re
from itertools import cycle

QUOTES = {"de": "„“", "cs": "„“", "fr": "«»", "ru": "«»"}  # of English and others: “”
SINGLE_QUOTES = re.compile(r"(?<!\w)'[^']+'(?!\w)")
CURLED = "“”„«»"


def restored_signs(source: str, target: str, language: str) -> str:
    """Return a translation with the typographic signs of its source; the number of its words stays the same.

    language: of the translation.
    """
    if ",," not in source:
        target = target.replace(",,", '"')  # an opening quotation mark as some corpora have it
    if "…" in source and "..." not in source:
        target = target.replace("...", "…")
    if re.search("[–—]", source) and " - " not in source:
        target = re.sub(r"(?<=\s)-(?=\s|\Z)", "–", target)
    if "’" in source and "'" not in source:
        target = re.sub(r"(?<=[^\W\d_])'(?=[^\W\d_])", "’", target)
    if '"' not in source and SINGLE_QUOTES.search(source) and target.count('"') % 2 == 0:
        target = target.replace('"', "'")
    if any(sign in source for sign in CURLED) and '"' not in source and target.count('"') % 2 == 0:
        signs = cycle(QUOTES.get(language, "“”"))
        target = re.sub('"', lambda _: next(signs), target)
    return target

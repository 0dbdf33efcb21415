"""The split between training and probes: which nouns and which sentences spliced training documents never use.

    held_out_noun("Paket")                    # True for a fifth of all nouns
    held_out_sentence("It is on the stairs.")  # True for a fifth of all source sentences
    held_out_noun("Paket", half=1)             # the held-out nouns in two halves: choose on one, report on the other

The split is a hash of the text alone. It does not change with the corpora, the seed or the order of anything, so that a
probe made from the held-out fifth contains neither an antecedent nor a sentence with "it" that training has used.
"""

import hashlib
import re
import unicodedata

SHARE = 0.2  # of the nouns, and of the sentences


def held_out_noun(noun: str, half: int | None = None) -> bool:
    """Return whether this target noun is kept for probes. Case does not matter; each inflected form counts alone.

    half: 1 or 2 for one half of those that are kept.
    """
    return _held_out("noun", noun, half)


def held_out_sentence(source: str, half: int | None = None) -> bool:
    """Return whether this source sentence is kept for probes. Case, punctuation and spaces do not matter.

    half: 1 or 2 for one half of those that are kept.
    """
    return _held_out("sentence", source, half)


def _held_out(kind: str, text: str, half: int | None) -> bool:
    first, last = {None: (0.0, SHARE), 1: (0.0, SHARE / 2), 2: (SHARE / 2, SHARE)}[half]
    return first <= _fraction(kind, text) < last


def _fraction(kind: str, text: str) -> float:
    """Return a number in [0, 1) that depends only on the kind and the words of the text."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", text).lower())
    digest = hashlib.sha256(f"{kind}:{' '.join(words)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64

"""The nouns and sentences that are held out for probes: spliced training documents never use them.

    held_out_noun("Paket")                    # True for a fifth of all nouns
    held_out_sentence("It is on the stairs.")  # True for a fifth of all source sentences
    held_out_noun("Paket", half=1)             # one half, for model selection; the other half is for reporting

The split depends on a hash of the text alone, not on the corpora, the seed or any order. A probe made from the held-out
fifth therefore contains no antecedent and no sentence with "it" that was used in training.
"""

import hashlib
import re
import unicodedata

SHARE = 0.2  # held-out share of the nouns, and of the sentences


def held_out_noun(noun: str, half: int | None = None) -> bool:
    """Return whether this target noun is held out. Case does not matter; inflected forms are treated separately.

    half: 1 or 2 for one half of the held-out nouns.
    """
    return _held_out("noun", noun, half)


def held_out_sentence(source: str, half: int | None = None) -> bool:
    """Return whether this source sentence is held out. Case, punctuation and spaces do not matter.

    half: 1 or 2 for one half of the held-out sentences.
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

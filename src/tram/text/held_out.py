"""The split between training and probes: which nouns and which sentences spliced training documents never use.

    held_out_noun("Paket")                    # True for a fifth of all nouns
    held_out_sentence("It is on the stairs.")  # True for a fifth of all source sentences

The split is a hash of the text alone. It does not change with the corpora, the seed or the order of anything, so that a
probe made from the held-out fifth contains neither an antecedent nor a sentence with "it" that training has used.
"""

import hashlib
import re
import unicodedata

SHARE = 0.2  # of the nouns, and of the sentences


def held_out_noun(noun: str) -> bool:
    """Return whether this target noun is kept for probes. Case does not matter; each inflected form counts alone."""
    return _fraction("noun", noun) < SHARE


def held_out_sentence(source: str) -> bool:
    """Return whether this source sentence is kept for probes. Case, punctuation and spaces do not matter."""
    return _fraction("sentence", source) < SHARE


def _fraction(kind: str, text: str) -> float:
    """Return a number in [0, 1) that depends only on the kind and the words of the text."""
    words = re.findall(r"\w+", unicodedata.normalize("NFC", text).lower())
    digest = hashlib.sha256(f"{kind}:{' '.join(words)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64

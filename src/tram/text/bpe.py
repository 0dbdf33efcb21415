"""Joint byte-pair encoding for both languages, with bytes for characters that are not in the alphabet.

    bpe = BPE.learn(lines, merges=30_000)
    bpe.decode(bpe.encode("any text"))                # exactly the same text

Models trained by tram use it; `WordEndBPE` is the BPE of models trained with other tools.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE as BPEModel
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer

from tram.errors import InputError

SPECIALS = ("<pad>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
RESERVED = frozenset(SPECIALS + BYTES)
FIRST_CHARACTER = len(SPECIALS) + len(BYTES)

WORD = r" ?\S+|\s"  # a space belongs to the word after it; further spaces in a run are separate
RARE = 5  # less frequent characters are encoded as bytes
MARGIN = 20_000  # extra pieces for the alphabet, whose size is unknown before the only pass, and for unusable merges

Merge = tuple[str, str]


class BPE:
    """Byte-pair encoding from which every string can be restored exactly.

    A space is put before each sentence, so that its first word is encoded like any other. The ids are, in this order:
    `SPECIALS`, the 256 bytes for characters outside the alphabet, the alphabet, one id per merge, and the reserved
    characters, which no merge joins to others. The first two kinds are not special tokens of the tokeniser: "<pad>" in
    a text is five characters.
    """

    def __init__(self, alphabet: str, merges: Iterable[Merge], reserved: str = "") -> None:
        self.alphabet = alphabet
        self.reserved = reserved
        self.merges = [(left, right) for left, right in merges]
        products = dict.fromkeys(left + right for left, right in self.merges)  # two merges may have the same product
        self._pieces = [*SPECIALS, *BYTES, *alphabet, *products, *reserved]
        self._bytes = [b""] * len(SPECIALS) + [bytes([byte]) for byte in range(256)]
        self._bytes += [piece.encode() for piece in self._pieces[FIRST_CHARACTER:]]
        vocabulary = {piece: number for number, piece in enumerate(self._pieces)}
        self._tokenizer = Tokenizer(BPEModel(vocab=vocabulary, merges=self.merges, byte_fallback=True))
        self._tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")

    def __reduce__(self) -> tuple[type["BPE"], tuple[str, list[Merge], str]]:
        return BPE, (self.alphabet, self.merges, self.reserved)

    @classmethod
    def learn(cls, lines: Iterable[str], merges: int = 30_000, rare: int = RARE) -> Self:
        """Learn `merges` merges in one pass; characters seen fewer than `rare` times are encoded as bytes."""
        counts: Counter[str] = Counter()
        learned = _train(_counted(lines, counts), merges + MARGIN)
        alphabet = "".join(sorted(character for character, count in counts.items() if count >= rare))
        return cls(alphabet, _usable(learned, alphabet)[:merges])

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self._pieces)

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """The ids of the reserved characters, which are the last ones."""
        return tuple(range(self.size - len(self.reserved), self.size))

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text, without special ids."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, without special ids."""
        check_unicode(texts)
        encodings = self._tokenizer.encode_batch_fast(
            [" " + text if text else "" for text in texts], add_special_tokens=False
        )
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids are skipped, and bytes that are not valid UTF-8 become U+FFFD."""
        text = b"".join([self._bytes[number] for number in ids]).decode("utf-8", "replace")
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" for the space at the start of a word."""
        return [self._pieces[number].replace(" ", "▁") for number in ids]


def _counted(lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Yield the lines in the form in which they are encoded, and count their characters."""
    for number, line in enumerate(lines, 1):
        check_unicode([line], number)
        counts.update(" " + line)
        yield " " + line


def _train(lines: Iterator[str], pieces: int) -> list[Merge]:
    tokenizer = Tokenizer(BPEModel())
    tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")
    trainer = BpeTrainer(vocab_size=pieces, min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def _usable(merges: list[Merge], alphabet: str) -> list[Merge]:
    """Drop merges of rare characters, merges that result in special or byte pieces, and merges that depend on them."""
    known = set(alphabet)
    usable = []
    for left, right in merges:
        if left in known and right in known and left + right not in RESERVED:
            known.add(left + right)
            usable.append((left, right))
    return usable


def check_unicode(texts: list[str], first: int = 1) -> None:
    """Refuse lone surrogates, which UTF-8 cannot represent; `first` is the number of the first text."""
    for number, text in enumerate(texts, first):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"sentence {number} contains a lone surrogate (U+{ord(text[error.start]):04X});"
                " read the text as UTF-8 or remove it"
            ) from error

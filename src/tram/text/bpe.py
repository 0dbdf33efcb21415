"""Subwords: joint BPE for both languages, and the text pipeline that lies beside every model as `text.json`.

text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, cut into subwords
text.decode(ids, "source")                        # and back
text.save(folder); TextPipeline.load(folder)

`BPE` is ours, `WordEndBPE` that of models made with other tools.
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


WORD = r" ?\S+|\s"  # a blank belongs to the word behind it; what a run of blanks has more stands alone


RARE = 5  # characters seen less often are spelled in bytes


MARGIN = 20_000  # room for the alphabet, unknown before the one pass, and for merges that cannot be used


Merge = tuple[str, str]


class BPE:
    """Byte-pair encoding that brings back every string exactly.

    Each sentence gets one blank in front, so that its first word is cut like any other. Ids: `SPECIALS`, the
    256 bytes for what the alphabet lacks, the alphabet, one for each merge. The tokeniser does not know the
    first two kinds as special tokens: "<pad>" in a text is five characters.
    """

    def __init__(self, alphabet: str, merges: Iterable[Merge]) -> None:
        self.alphabet = alphabet
        self.merges = [(left, right) for left, right in merges]
        products = dict.fromkeys(left + right for left, right in self.merges)  # some arise from two merges
        self._pieces = [*SPECIALS, *BYTES, *alphabet, *products]
        self._bytes = [b""] * len(SPECIALS) + [bytes([byte]) for byte in range(256)]
        self._bytes += [piece.encode() for piece in self._pieces[FIRST_CHARACTER:]]
        vocabulary = {piece: number for number, piece in enumerate(self._pieces)}
        self._tokenizer = Tokenizer(BPEModel(vocab=vocabulary, merges=self.merges, byte_fallback=True))
        self._tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")

    def __reduce__(self) -> tuple[type["BPE"], tuple[str, list[Merge]]]:
        return BPE, (self.alphabet, self.merges)

    @classmethod
    def learn(cls, lines: Iterable[str], merges: int = 30_000, rare: int = RARE) -> Self:
        """Learn `merges` merges in one pass; characters seen less than `rare` times are left to bytes."""
        counts: Counter[str] = Counter()
        learned = _train(_counted(lines, counts), merges + MARGIN)
        alphabet = "".join(sorted(character for character, count in counts.items() if count >= rare))
        return cls(alphabet, _usable(learned, alphabet)[:merges])

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of many texts, without BOS and EOS."""
        check_unicode(texts)
        encodings = self._tokenizer.encode_batch_fast(
            [" " + text if text else "" for text in texts], add_special_tokens=False
        )
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special ids are passed over, bytes that are no UTF-8 become U+FFFD."""
        text = b"".join([self._bytes[number] for number in ids]).decode("utf-8", "replace")
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as a reader wants to see it, with "▁" for the blank, which is where a word starts."""
        return [self._pieces[number].replace(" ", "▁") for number in ids]


def _counted(lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Pass lines on as they are encoded and count their characters on the way."""
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
    """Leave out merges of rare characters or into special or byte pieces, and those that build on them."""
    known = set(alphabet)
    usable = []
    for left, right in merges:
        if left in known and right in known and left + right not in RESERVED:
            known.add(left + right)
            usable.append((left, right))
    return usable


def check_unicode(texts: list[str], first: int = 1) -> None:
    """Refuse half characters, which no UTF-8 file can hold; `first` is the number of the first text."""
    for number, text in enumerate(texts, first):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"sentence {number} holds half a character (U+{ord(text[error.start]):04X}, a"
                " lone surrogate): read the text as UTF-8 or remove it"
            ) from error

"""The BPE of subword-nmt and fastBPE, for models that were trained with these tools.

    bpe = WordEndBPE(["<pad>", "<s>", "</s>", "mill@@", "e@@", "r"], [("m", "i"), ("l", "l"), ("mi", "ll")])
    bpe.decode(bpe.encode("miller"))

`tram.pretrained.subword_files` reads vocabularies and merges; models trained by tram use `BPE` instead.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from tram.text.bpe import SPECIALS, Merge, check_unicode

WORD_END = "</w>"  # ends a merge that ends a word
JOINER = "@@"  # ends a token that does not end a word
UNKNOWN = ("<unk>", "[unk]")  # in upper or lower case

SPACE = " "  # replaces WORD_END inside symbols: a word may contain "</w>" as text, but no space
LETTER = re.compile("[^ ] ?")
# A word with the space after it. Merging takes quadratic time, so extremely long words are merged in pieces.
WORD_PIECE = re.compile("[^ ]{1,500} ?")
CACHE_SIZE = 100_000  # words whose ids are cached

# Moses' escapes.
UNESCAPES = {
    "&amp;": "&",
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
}
ESCAPES = {ord(character): escaped for escaped, character in UNESCAPES.items()}
ESCAPED = re.compile("|".join(UNESCAPES))


class WordEndBPE:
    """Byte-pair encoding that marks the ends of words, with the ids of a given vocabulary.

    tokens: one for each id; the first three are `SPECIALS`, whatever their names. A piece that does not end its word
    is the token `piece@@`. merges: in the order in which they were learnt, with `</w>` at the end of a word.

    A piece without a token is split back into the pieces it was merged from; letters without a token become `<unk>`,
    or are dropped if the vocabulary has no `<unk>`. If the tokens contain Moses' escapes (`&apos;`), text is escaped.

    Not built on `tokenizers`, which merges one position at a time: subword-nmt merges the best pair in all positions
    at once, and the results may differ if two merges produce the same piece.
    """

    def __init__(self, tokens: Iterable[str], merges: Iterable[Merge]) -> None:
        self.tokens = list(tokens)
        self.merges = [(left, right) for left, right in merges]
        self._ranks: dict[Merge, int] = {}
        self._parts: dict[str, Merge] = {}
        for rank, (left, right) in enumerate(self.merges):
            if right.endswith(WORD_END):
                right = right.removesuffix(WORD_END) + SPACE
            self._ranks.setdefault((left, right), rank)
            self._parts.setdefault(left + right, (left, right))
        unknown = [n for n, token in enumerate(self.tokens) if token.lower() in UNKNOWN]
        self._unknown = unknown[:1]
        special = {*range(len(SPECIALS)), *unknown}
        self._ids = {_symbol(token): n for n, token in enumerate(self.tokens) if n not in special}
        self._escapes = any("&apos;" in token or "&quot;" in token for token in self.tokens)
        self._word_ids = lru_cache(CACHE_SIZE)(self._encode_word)

    def __reduce__(self) -> tuple[type["WordEndBPE"], tuple[list[str], list[Merge]]]:
        return WordEndBPE, (self.tokens, self.merges)

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """The ids of reserved characters: such a vocabulary has none."""
        return ()

    def encode(self, text: str) -> list[int]:
        """Return the ids of one tokenised text, without special ids."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many tokenised texts, without special ids."""
        check_unicode(texts)
        if self._escapes:
            texts = [text.translate(ESCAPES) for text in texts]
        lines = ["".join(f"{word}{SPACE}" for word in text.split()) for text in texts]
        return [[number for word in WORD_PIECE.findall(line) for number in self._word_ids(word)] for line in lines]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the words of ids, separated by spaces; padding, bos and eos are skipped."""
        tokens = "".join(f"{self.tokens[number]} " for number in ids if number >= len(SPECIALS))
        text = tokens.replace(f"{JOINER} ", "").removesuffix(" ")
        return ESCAPED.sub(lambda escaped: UNESCAPES[escaped[0]], text) if self._escapes else text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" where a word starts."""
        pieces, starts = [], True
        for number in ids:
            token = self.tokens[number]
            pieces.append("▁" * (starts and number >= len(SPECIALS)) + token.removesuffix(JOINER))
            starts = not token.endswith(JOINER)
        return pieces

    def _encode_word(self, word: str) -> tuple[int, ...]:
        pending = self._merged(LETTER.findall(word))[::-1]
        ids: list[int] = []
        while pending:
            symbol = pending.pop()
            if symbol in self._ids:
                ids.append(self._ids[symbol])
            elif symbol in self._parts:
                pending += reversed(self._parts[symbol])
            else:
                ids += self._unknown
        return tuple(ids)

    def _merged(self, symbols: list[str]) -> list[str]:
        """Merge the pair that was learnt first, at all its positions from the left, until no merge applies."""
        unranked = len(self.merges)
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, unranked))
            if best not in self._ranks:
                break
            merged: list[str] = []
            for symbol in symbols:
                if merged and (merged[-1], symbol) == best:
                    merged[-1] += symbol
                else:
                    merged.append(symbol)
            symbols = merged
        return symbols


def _symbol(token: str) -> str:
    """Return the symbol that merges produce for a token: a token that ends its word ends in `SPACE`."""
    return token.removesuffix(JOINER) if token.endswith(JOINER) else token + SPACE

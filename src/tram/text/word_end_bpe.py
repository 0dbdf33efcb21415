"""Subwords: joint BPE for both languages, and the text pipeline that lies beside every model as `text.json`.

text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, cut into subwords
text.decode(ids, "source")                        # and back
text.save(folder); TextPipeline.load(folder)

`BPE` is ours, `WordEndBPE` that of models made with other tools.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from tram.text.bpe import SPECIALS, Merge, check_unicode
from tram.text.special_ids import EOS

# subword-nmt and fastBPE: how a merge marks the end of a word, and a token the lack of one.
WORD_END = "</w>"


JOINER = "@@"


UNKNOWN = ("<unk>", "[unk]")  # in any case of letters


END = " "  # stands for WORD_END inside symbols: a word may hold "</w>" as text, but no blank


LETTER = re.compile("[^ ] ?")


# A word, with the blank behind it. Merging takes quadratic time: what no language calls a word is merged in stretches.
STRETCH = re.compile("[^ ]{1,500} ?")


CACHED = 100_000  # words whose ids are kept


UNESCAPES = {"&amp;": "&", "&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"',
             "&#91;": "[", "&#93;": "]"}  # fmt: skip


ESCAPES = {ord(sign): escaped for escaped, sign in UNESCAPES.items()}


ESCAPED = re.compile("|".join(UNESCAPES))


class WordEndBPE:
    """The BPE of subword-nmt and fastBPE, which marks ends of words, with the ids of a vocabulary.

    tokens: one for each id, the first three those of `SPECIALS` whatever they are called; a piece that does not end
    its word is the token `piece@@`. merges: in the order of learning, `</w>` at an end of a word. A piece without a
    token is split back into those it was merged from; what is left is `<unk>`, or passed over if there is no such
    token. If the tokens are in the escaped form of Moses (`&apos;`), text is escaped, too.

    Not built on `tokenizers`: that merges one place at a time, subword-nmt the best pair in all places at once, and
    where two merges give the same piece the results may differ.
    """

    def __init__(self, tokens: Iterable[str], merges: Iterable[Merge]) -> None:
        self.tokens = list(tokens)
        self.merges = [(left, right) for left, right in merges]
        self._ranks: dict[Merge, int] = {}
        self._parts: dict[str, Merge] = {}
        for rank, (left, right) in enumerate(self.merges):
            if right.endswith(WORD_END):
                right = right.removesuffix(WORD_END) + END
            self._ranks.setdefault((left, right), rank)
            self._parts.setdefault(left + right, (left, right))
        unknown = [n for n, token in enumerate(self.tokens) if token.lower() in UNKNOWN]
        self._unknown = unknown[:1]
        special = {*range(len(SPECIALS)), *unknown}
        self._ids = {_symbol(token): n for n, token in enumerate(self.tokens) if n not in special}
        self._escapes = any("&apos;" in token or "&quot;" in token for token in self.tokens)
        self._word_ids = lru_cache(CACHED)(self._encode_word)

    def __reduce__(self) -> tuple[type["WordEndBPE"], tuple[list[str], list[Merge]]]:
        return WordEndBPE, (self.tokens, self.merges)

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of one tokenised text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of many tokenised texts, without BOS and EOS."""
        check_unicode(texts)
        if self._escapes:
            texts = [text.translate(ESCAPES) for text in texts]
        lines = ["".join(f"{word}{END}" for word in text.split()) for text in texts]
        return [[number for word in STRETCH.findall(line) for number in self._word_ids(word)] for line in lines]

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids with blanks between them; padding, begin and end are passed over."""
        tokens = "".join(f"{self.tokens[number]} " for number in ids if number > EOS)
        text = tokens.replace(f"{JOINER} ", "").removesuffix(" ")
        return ESCAPED.sub(lambda escaped: UNESCAPES[escaped[0]], text) if self._escapes else text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as a reader wants to see it, with "▁" where a word starts."""
        pieces, starts = [], True
        for number in ids:
            token = self.tokens[number]
            pieces.append("▁" * (starts and number > EOS) + token.removesuffix(JOINER))
            starts = not token.endswith(JOINER)
        return pieces

    def _encode_word(self, word: str) -> tuple[int, ...]:
        waiting = self._merged(LETTER.findall(word))[::-1]
        ids: list[int] = []
        while waiting:
            symbol = waiting.pop()
            if symbol in self._ids:
                ids.append(self._ids[symbol])
            elif symbol in self._parts:
                waiting += reversed(self._parts[symbol])
            else:
                ids += self._unknown
        return tuple(ids)

    def _merged(self, symbols: list[str]) -> list[str]:
        """Merge the pair that was learnt first, in all its places from the left, until no merge is left."""
        never = len(self.merges)
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, never))
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
    """A token as merges make it: one that ends its word ends in `END`."""
    return token.removesuffix(JOINER) if token.endswith(JOINER) else token + END

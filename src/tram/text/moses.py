"""Text on its way to the subwords and back: Moses' normalisation, tokenisation and truecasing (sacremoses).

    moses = Moses("de")
    tokens = moses.tokenize(moses.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    moses.detokenize(tokens)

How plain text falls into sentences stands in the second half: `split_sentences` and `split_document`.
"""

import re
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

# Stands for a protected word while sacremoses cuts the text: it must be a letter for Moses, and of no case.
PLACEHOLDER = "ꙮ"


# A word with all that is written together with it, except double quotes and brackets; a bracket belongs to it
# when it closes again inside the word (argv[0], ${HOME}), a round one never: the normaliser sets it apart.
WORD = re.compile(
    r"""
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} )
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} | \[ [^\s"()\[\]{}]*+ \] )*+
    """,
    re.VERBOSE,
)


PRICE_OR_SHARE = re.compile(r"[$€£¥]?\d[\d.,]*%?")


BEHIND_A_WORD = ".,:;!?'"


# What sacremoses' detokeniser gets wrong and a look at the neighbours settles: the end of a quotation that
# began sentences ago, das "Haupt"-Menü, 300 $ zahlen.
LAST_QUOTE = re.compile(r""" (["'])(?=[,.;:!?)\]]*(?:\s|$))""")


QUOTED_COMPOUND = re.compile(r'(?<=[^\s"]") -(?=\w)')


PRICE_BEFORE_WORD = re.compile(r"(?<=\d )([$€£¥])(?=[^\W\d])")


# One rule of the normaliser is quadratic in runs of dots: longer texts go through it in pieces.
LONG = 1_000


PIECE = re.compile(rf".{{1,{LONG}}}(?:\s|$)|.{{1,{LONG}}}", re.DOTALL)


BLANKS = re.compile(r" +")


class _Tokenizer(MosesTokenizer):  # type: ignore[misc]
    """sacremoses' tokeniser, without making the sets of all letters anew at each full stop."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._lower, self._alpha = frozenset(self.IsLower), frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES: frozenset[str] = frozenset(self.NONBREAKING_PREFIXES)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class Moses:
    """The Moses scripts for one language, with words protected that they would tear apart for good.

    Protected is a word with a sign inside that Moses sets apart and its detokeniser does not put back: URLs,
    mail addresses, paths, options (--width=3), keys (Ctrl+C), placeholders (%s, {name}, $VAR), and/or, R&D.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._tokenizer = _Tokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        # These have rules of their own for the apostrophe inside a word, in other languages it is torn out.
        inside = r"\w.'-" if language in ("en", "fr", "it") else r"\w.-"
        self._torn = re.compile(rf"[^{inside}]|_|\.\.|{PLACEHOLDER}|DOTMULTI")
        self._rules = [
            (re.compile(pattern), replacement, {sign for sign in pattern if not sign.isascii()})
            for pattern, replacement in MosesPunctNormalizer(language).substitutions
        ]

    def normalize(self, text: str) -> str:
        """Write quotes, dashes and blanks as Moses' normalize-punctuation does."""
        if len(text) <= LONG:
            return self._normalize(text).strip()
        return BLANKS.sub(" ", "".join(self._normalize(piece) for piece in PIECE.findall(text))).strip()

    def _normalize(self, text: str) -> str:
        signs = set(text)
        for pattern, replacement, needed in self._rules:
            if needed <= signs:  # no rule brings in a sign that is not ASCII: many can be passed over
                text = pattern.sub(replacement, text)
        return text

    def tokenize(self, text: str) -> list[str]:
        """Cut normalised text into words and signs."""
        held: list[str] = []
        text = self._protect(text, held)
        joined: str = self._tokenizer.tokenize(text, return_str=True, escape=False)
        words = iter(held)
        # Moses keeps the order of words: the n-th placeholder stands for the n-th protected word.
        return re.sub(PLACEHOLDER, lambda _: next(words), joined).split() if held else joined.split()

    def detokenize(self, tokens: list[str]) -> str:
        """Write words and signs as running text."""
        text: str = self._detokenizer.detokenize(tokens, unescape=False)
        text = LAST_QUOTE.sub(r"\1", text)
        text = QUOTED_COMPOUND.sub("-", text)
        return PRICE_BEFORE_WORD.sub(r"\1 ", text)

    def _protect(self, text: str, held: list[str]) -> str:
        def replace(match: re.Match[str]) -> str:
            whole = match[0]
            word = whole.rstrip(BEHIND_A_WORD).lstrip("'")
            if not self._torn.search(word) or PRICE_OR_SHARE.fullmatch(word):
                return whole
            if len(word) == 1 and word != PLACEHOLDER:
                return whole
            held.append(word)
            before, _, after = whole.partition(word)
            return before + PLACEHOLDER + after

        return WORD.sub(replace, text)


@lru_cache(maxsize=32)
def moses(language: str) -> Moses:
    """Give the one `Moses` of a language in this process: making it takes longer than many sentences."""
    return Moses(language)

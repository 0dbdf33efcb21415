"""Moses' punctuation normalisation, tokenisation and detokenisation for one language, on top of sacremoses.

    scripts = moses("de")
    tokens = scripts.tokenize(scripts.normalize('Siehe „Datei → Neu“ oder ~/.config/app.'))
    scripts.detokenize(tokens)

URLs, paths, options and placeholders, which Moses would split irreversibly, stay single tokens.
"""

import re
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from tram.text.special_ids import RESERVED_CHARACTERS

# Replaces a protected word while sacremoses tokenises the text; it must be a letter without case to Moses.
PLACEHOLDER = "ꙮ"
# Copy sentinels and other characters with ids of their own; to Moses they are letters without case.
RESERVED = re.compile(f"[{RESERVED_CHARACTERS}]")

# A word with everything attached to it, except double quotes and brackets. A bracket belongs to the word if it closes
# inside the word (argv[0], ${HOME}); a round bracket never does, because the normaliser separates it.
WORD = re.compile(
    r"""
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} )
    (?: [^\s"()\[\]{}] | \{ [^\s"()\[\]{}]*+ \} | \[ [^\s"()\[\]{}]*+ \] )*+
    """,
    re.VERBOSE,
)
PRICE_OR_PERCENTAGE = re.compile(r"[$€£¥]?\d[\d.,]*%?")
TRAILING_PUNCTUATION = ".,:;!?'"

# Errors of sacremoses' detokeniser that the neighbouring characters reveal: the end of a quotation that started in an
# earlier sentence, das "Haupt"-Menü, 300 $ zahlen.
CLOSING_QUOTE = re.compile(r""" (["'])(?=[,.;:!?)\]]*(?:\s|$))""")
QUOTED_COMPOUND = re.compile(r'(?<=[^\s"]") -(?=\w)')
PRICE_BEFORE_WORD = re.compile(r"(?<=\d )([$€£¥])(?=[^\W\d])")

# One rule of the normaliser takes quadratic time on runs of dots, so longer texts are normalised in pieces.
MAX_PIECE = 1_000
PIECE = re.compile(rf".{{1,{MAX_PIECE}}}(?:\s|$)|.{{1,{MAX_PIECE}}}", re.DOTALL)
SPACES = re.compile(r" +")


class _Tokenizer(MosesTokenizer):  # type: ignore[misc]
    """sacremoses' tokeniser, without rebuilding the sets of all letters at each full stop."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._lower, self._alpha = frozenset(self.IsLower), frozenset(self.IsAlpha)
        self.NONBREAKING_PREFIXES: frozenset[str] = frozenset(self.NONBREAKING_PREFIXES)

    def islower(self, text: str) -> bool:
        return self._lower.issuperset(text)

    def isanyalpha(self, text: str) -> bool:
        return not self._alpha.isdisjoint(text)


class Moses:
    """The Moses scripts for one language, with protection for words that they would split irreversibly.

    A word is protected if it contains a character that Moses separates and its detokeniser does not reattach: URLs,
    mail addresses, paths, options (--width=3), keys (Ctrl+C), placeholders (%s, {name}, $VAR), and/or, R&D.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._tokenizer = _Tokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        # Only these languages have rules for an apostrophe inside a word; elsewhere Moses separates it.
        inside = r"\w.'-" if language in ("en", "fr", "it") else r"\w.-"
        self._needs_protection = re.compile(rf"[^{inside}]|_|\.\.|{PLACEHOLDER}|DOTMULTI")
        self._rules = [
            (re.compile(pattern), replacement, {sign for sign in pattern if not sign.isascii()})
            for pattern, replacement in MosesPunctNormalizer(language).substitutions
        ]

    def normalize(self, text: str) -> str:
        """Normalise quotes, dashes and spaces as Moses' normalize-punctuation does."""
        if len(text) <= MAX_PIECE:
            return self._normalize(text).strip()
        return SPACES.sub(" ", "".join(self._normalize(piece) for piece in PIECE.findall(text))).strip()

    def _normalize(self, text: str) -> str:
        characters = set(text)
        for pattern, replacement, needed in self._rules:
            if needed <= characters:  # no rule introduces a non-ASCII character, so many rules can be skipped
                text = pattern.sub(replacement, text)
        return text

    def tokenize(self, text: str) -> list[str]:
        """Split normalised text into words and punctuation."""
        text, protected = self._protect(text)
        joined: str = self._tokenizer.tokenize(text, return_str=True, escape=False)
        words = iter(protected)
        # Moses keeps the order of words: the n-th placeholder stands for the n-th protected word.
        return re.sub(PLACEHOLDER, lambda _: next(words), joined).split() if protected else joined.split()

    def detokenize(self, tokens: list[str]) -> str:
        """Join words and punctuation into running text."""
        text: str = self._detokenizer.detokenize(tokens, unescape=False)
        text = CLOSING_QUOTE.sub(r"\1", text)
        text = QUOTED_COMPOUND.sub("-", text)
        return PRICE_BEFORE_WORD.sub(r"\1 ", text)

    def _protect(self, text: str) -> tuple[str, list[str]]:
        """Return the text with placeholders for protected words, and these words in order."""
        protected: list[str] = []

        def replace(match: re.Match[str]) -> str:
            whole = match[0]
            word = whole.rstrip(TRAILING_PUNCTUATION).lstrip("'")
            if RESERVED.search(word) and not self._needs_protection.search(RESERVED.sub("", word)):
                protected.extend(RESERVED.findall(word))
                return RESERVED.sub(PLACEHOLDER, whole)
            if not self._needs_protection.search(word) or PRICE_OR_PERCENTAGE.fullmatch(word):
                return whole
            if len(word) == 1 and word != PLACEHOLDER:
                return whole
            protected.append(word)
            before, _, after = whole.partition(word)
            return before + PLACEHOLDER + after

        return WORD.sub(replace, text), protected


@lru_cache(maxsize=32)
def moses(language: str) -> Moses:
    """Return the `Moses` of a language, shared in this process: creating one takes longer than many sentences."""
    return Moses(language)

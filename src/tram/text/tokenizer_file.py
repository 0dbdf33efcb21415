"""The subwords of a `tokenizer.json` (Hugging Face tokenizers), as used by BART, mBART-50 and NLLB.

    subwords = TokenizerFile(Path("tokenizer.json").read_bytes(), rows=50_265)
    subwords.encode_batch(["Hello"])           # tram's ids are those of the file plus 1, 0 is padding

Special tokens such as `</s>` or a language code in a text are treated as text.
"""

import re
from collections.abc import Iterable

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from tram.text.subwords import SHIFT, ForeignSubwords, raising_panics

# Where a merge does not fit this prefix, the library ends the process. BART, mBART-50 and NLLB have none.
PREFIX = re.compile(rb'"continuing_subword_prefix"\s*:\s*"[^"]')
BYTE_LEVEL_SPACE = "Ġ"  # how byte-level BPE writes the space before a word


def check_file(content: bytes) -> None:
    """Refuse a tokenizer.json with a setting that can end the process."""
    if PREFIX.search(content):
        raise ValueError("`continuing_subword_prefix` is not supported")


class TokenizerFile(ForeignSubwords):
    """The tokeniser of a tokenizer.json."""

    def __init__(self, file: bytes, rows: int) -> None:
        super().__init__(rows)
        self.file = file
        check_file(file)
        with raising_panics():
            self._tokenizer = Tokenizer.from_buffer(file)
        if (largest := max(self._tokenizer.get_vocab().values(), default=-1)) >= rows:
            raise ValueError(f"it has the id {largest:,}, the model's table has {rows:,} rows")
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._byte_level = isinstance(self._tokenizer.decoder, ByteLevel)

    def __reduce__(self) -> tuple[type["TokenizerFile"], tuple[bytes, int]]:
        return TokenizerFile, (self.file, self.rows)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids are skipped."""
        text: str = self._tokenizer.decode([n - SHIFT for n in ids if n >= SHIFT], skip_special_tokens=True)
        return text

    def _encode(self, texts: list[str]) -> Iterable[list[int]]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return (encoding.ids for encoding in encodings)

    def _piece(self, number: int) -> str | None:
        piece: str | None = self._tokenizer.id_to_token(number)
        return piece.replace(BYTE_LEVEL_SPACE, "▁") if piece is not None and self._byte_level else piece

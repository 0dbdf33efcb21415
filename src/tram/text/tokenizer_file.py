"""The subwords of a `tokenizer.json` of the library tokenizers, as BART, mBART-50 and NLLB have them.

    subwords = TokenizerFile(Path("tokenizer.json").read_bytes(), rows=50_265)
    subwords.encode_batch(["Hello"])           # ids of tram are those of the file plus 1, 0 is padding

Special tokens such as `</s>` or a language code in a text are text.
"""

from collections.abc import Iterable

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from tram.text.bpe import check_unicode
from tram.text.sentencepieces import SHIFT

BYTE_LEVEL_SPACE = "Ġ"  # how byte-level BPE writes the space before a word


class TokenizerFile:
    """The tokeniser of a tokenizer.json; rows: of the model's token table, which may have more ids than tokens."""

    def __init__(self, file: bytes, rows: int) -> None:
        self.file = file
        self.rows = rows
        self._tokenizer = Tokenizer.from_buffer(file)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._byte_level = isinstance(self._tokenizer.decoder, ByteLevel)

    def __reduce__(self) -> tuple[type["TokenizerFile"], tuple[bytes, int]]:
        return TokenizerFile, (self.file, self.rows)

    @property
    def size(self) -> int:
        """The number of ids, padding included."""
        return self.rows + SHIFT

    @property
    def reserved_ids(self) -> tuple[int, ...]:
        """The ids of reserved characters: such a vocabulary has none."""
        return ()

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of many texts, without special ids."""
        check_unicode(texts)
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [[number + SHIFT for number in encoding.ids] for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids are skipped."""
        text: str = self._tokenizer.decode([n - SHIFT for n in ids if n >= SHIFT], skip_special_tokens=True)
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" where a word starts."""
        pieces = [(self._tokenizer.id_to_token(n - SHIFT) if n >= SHIFT else None) or "<unk>" for n in ids]
        return [piece.replace(BYTE_LEVEL_SPACE, "▁") for piece in pieces] if self._byte_level else pieces

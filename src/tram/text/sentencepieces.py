"""The subwords of a sentencepiece model with the ids of a separate vocabulary, as Marian and M2M100 have them.

    pieces = SentencePieces(Path("source.spm").read_bytes(), {"</s>": 0, "<unk>": 1, "▁Hello": 2}, rows=3)
    pieces.encode_batch(["Hello"])             # → [[3]]: ids of tram are those of the vocabulary plus 1, 0 is padding

The text is not normalised other than by the model itself. Tags such as `</s>` in a text are text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tram.errors import InputError
from tram.text.bpe import check_unicode

SHIFT = 1  # tram's ids are those of the vocabulary plus 1: its own 0 is padding
UNKNOWN = "<unk>"


class SentencePieces:
    """Pieces of a sentencepiece model, numbered by a vocabulary.

    model: bytes of the sentencepiece file; vocabulary: id of every piece; rows: of the model's token table, which may
    have more ids than the vocabulary has pieces; special: tokens of the vocabulary that are not text. A piece that the
    vocabulary lacks is unknown.
    """

    def __init__(
        self, model: bytes, vocabulary: Mapping[str, int], rows: int, special: Iterable[str] = ("</s>", "<pad>")
    ) -> None:
        self.model = model
        self.vocabulary = dict(vocabulary)
        self.rows = rows
        self.special = frozenset({*special, UNKNOWN})
        self._unknown = self.vocabulary[UNKNOWN] + SHIFT
        self._ids = {piece: number + SHIFT for piece, number in self.vocabulary.items()}
        self._pieces = {number: piece for piece, number in self._ids.items()}
        self._processor = _load(model)

    def __reduce__(self) -> tuple[type["SentencePieces"], tuple[Any, ...]]:
        return SentencePieces, (self.model, self.vocabulary, self.rows, tuple(sorted(self.special)))

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
        found = self._processor.encode(texts, out_type=str) if texts else []
        return [[self._ids.get(piece, self._unknown) for piece in pieces] for pieces in found]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids and the unknown piece are skipped."""
        pieces = [self._pieces.get(number, UNKNOWN) for number in ids]
        text: str = self._processor.decode_pieces([piece for piece in pieces if piece not in self.special])
        return text.replace("▁", " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as a readable piece, with "▁" where a word starts."""
        return [self._pieces.get(number, UNKNOWN) for number in ids]


def _load(model: bytes) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise InputError(
            "this model needs the package sentencepiece; install it with `pip install tram-mt[pretrained]`"
        ) from None
    return SentencePieceProcessor(model_proto=model)

"""The subwords of a sentencepiece model with the ids of a separate vocabulary, as Marian and M2M100 have them.

    pieces = SentencePieces(Path("source.spm").read_bytes(), {"</s>": 0, "<unk>": 1, "▁Hello": 2}, rows=3)
    pieces.encode_batch(["Hello"])             # → [[3]]: tram's ids are those of the vocabulary plus 1, 0 is padding

Only the sentencepiece model normalises the text. Special tokens such as `</s>` in a text are treated as text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tram.errors import InputError
from tram.text.subwords import UNKNOWN, ForeignSubwords


class SentencePieces(ForeignSubwords):
    """Pieces of a sentencepiece model, numbered by a vocabulary.

    model: bytes of the sentencepiece file; vocabulary: id of every piece; special: tokens of the vocabulary that are
    not text. A piece that the vocabulary lacks is unknown.
    """

    def __init__(
        self, model: bytes, vocabulary: Mapping[str, int], rows: int, special: Iterable[str] = ("</s>", "<pad>")
    ) -> None:
        super().__init__(rows)
        self.model = model
        self.vocabulary = dict(vocabulary)
        self.special = frozenset({*special, UNKNOWN})
        self._pieces = {number: piece for piece, number in self.vocabulary.items()}
        self._processor = _load(model)

    def __reduce__(self) -> tuple[type["SentencePieces"], tuple[Any, ...]]:
        return SentencePieces, (self.model, self.vocabulary, self.rows, tuple(sorted(self.special)))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special ids and the unknown piece are skipped."""
        text: str = self._processor.decode_pieces([piece for piece in self.pieces(ids) if piece not in self.special])
        return text.replace("▁", " ").strip()

    def _encode(self, texts: list[str]) -> Iterable[list[int]]:
        unknown = self.vocabulary[UNKNOWN]
        segmented = self._processor.encode(texts, out_type=str) if texts else []
        return ([self.vocabulary.get(piece, unknown) for piece in pieces] for pieces in segmented)

    def _piece(self, number: int) -> str | None:
        return self._pieces.get(number)


def _load(model: bytes) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise InputError(
            "this model needs the package sentencepiece; install it with `pip install tram-mt[pretrained]`"
        ) from None
    if not model:
        raise ValueError("the file is empty")  # the library would make a processor without a model
    return SentencePieceProcessor(model_proto=model)

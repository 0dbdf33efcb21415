"""Sentencepiece models whose file is damaged."""

import pytest

from tram.text.sentencepieces import SentencePieces


def test_an_empty_file_is_no_model() -> None:
    pytest.importorskip("sentencepiece")
    with pytest.raises(ValueError, match="empty"):
        SentencePieces(b"", {"</s>": 0, "<unk>": 1}, rows=2)

"""Word alignments from cross-attention."""

from pathlib import Path

import pytest
import torch

from helpers import make_translator
from tram.data.batches import document_ids
from tram.text.words import words_by_blanks
from tram.translation.alignment import _strongest, align_words, cross_attention
from tram.translation.translator import Translator

SOURCES = ["The old miller waits on the bridge.", "Tea!", "", "My neighbour sleeps, near the station."]
TARGETS = ["Der alte Müller wartet auf der Brücke.", "Tee!", "Leer.", "Mein Nachbar schläft nahe dem Bahnhof."]


@pytest.fixture(scope="module")
def translator(prepared: Path) -> Translator:
    return make_translator(prepared)


def test_every_target_word_has_one_source_word(translator: Translator) -> None:
    found = align_words(translator, SOURCES, TARGETS)
    assert found[2] == []
    for source, target, pairs in zip(SOURCES, TARGETS, found, strict=True):
        if source:
            assert [word for _, word in pairs] == list(range(len(target.split())))
            assert all(0 <= word < len(source.split()) for word, _ in pairs)


def test_neighbours_in_the_batch_do_not_change_an_alignment(translator: Translator) -> None:
    together = align_words(translator, SOURCES, TARGETS)
    alone = [align_words(translator, [s], [t])[0] for s, t in zip(SOURCES, TARGETS, strict=True)]
    assert together == alone


def test_weights_are_those_of_the_last_layer_and_at_most_one(translator: Translator) -> None:
    ids = [translator.text.encode([text], side)[0] for text, side in ((SOURCES[0], "source"), (TARGETS[0], "target"))]  # type: ignore[arg-type]
    encoded = translator.model.encode(document_ids([[translator.special.source(ids[0])]]))
    (weights,) = cross_attention(translator.model, translator.special, encoded, [ids[0]], [ids[1]])
    assert weights.shape == (len(ids[1]), len(ids[0]))
    assert float(weights.min()) >= 0
    assert float(weights.sum(-1).max()) <= 1 + 1e-9  # the rest is on the template


def test_a_decoder_that_looks_at_one_word_aligns_with_it(translator: Translator) -> None:
    """Keys that differ only at one source word draw all attention there."""
    attention = translator.model.decoder.layers[-1].cross_attention.attention
    before = {name: value.clone() for name, value in attention.state_dict().items()}
    try:
        with torch.no_grad():
            attention.query.weight.zero_()
            attention.query.bias.fill_(1.0)
            attention.key_value.bias.zero_()
            words = words_by_blanks(SOURCES[0])
            found = align_words(translator, SOURCES[:1], TARGETS[:1])[0]
            assert len({source for source, _ in found}) == 1, "the same query looks at the same word everywhere"
            assert found[0][0] < len(words)
    finally:
        attention.load_state_dict(before)


def test_signs_of_their_own_are_not_aligned(translator: Translator) -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        import re

        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    (found,) = align_words(translator, ["Tea, now!"], ["Tee, jetzt!"], spans)
    assert [word for _, word in found] == [0, 2]


def test_weak_links_of_a_word_can_be_left_out() -> None:
    weights = torch.tensor([[0.3, 0.1], [0.8, 0.1], [0.1, 0.6]])
    assert _strongest(weights, [0, 1], [0, 1, 2], min_share=0.0) == [(0, 0), (0, 1), (1, 2)]
    assert _strongest(weights, [0, 1], [0, 1, 2], min_share=0.7) == [(0, 1), (1, 2)]

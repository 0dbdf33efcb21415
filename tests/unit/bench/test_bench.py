"""The benchmarks compare what they say they compare; none of these tests looks at a time."""

from pathlib import Path

import pytest
import torch

from helpers import make_translator
from tram.bench.identity import identity, logit_difference
from tram.bench.peers import SPECIAL, nearest_peer, ratios, table
from tram.bench.speed import peaked
from tram.config import MemoryConfig, ModelConfig
from tram.measuring import median_interval
from tram.model.transformer import Transformer
from tram.translation.engines.native import why_unavailable
from tram.translation.engines.torch import TorchEngine

TINY = ModelConfig(d_model=16, heads=2, feed_forward=32, encoder_layers=1, decoder_layers=1, context=MemoryConfig())
native_only = pytest.mark.skipif(why_unavailable() is not None, reason="no native engine")


def test_the_interval_of_a_median_has_as_many_values_on_either_side() -> None:
    assert median_interval([5.0, 1.0, 3.0]) == (1.0, 5.0)
    assert median_interval([float(i) for i in range(9)]) == (1.0, 7.0), "2 · (1 + 9) / 512 lie outside: 4%"
    assert median_interval([float(i) for i in range(20)]) == (5.0, 14.0)


def test_a_ratio_is_that_of_the_same_round_to_each_peer_and_its_interval_to_the_one_of_its_precision() -> None:
    times = {"tram native int8": [1.0, 2.0, 4.0], "CTranslate2 float32": [8.0] * 3, "CTranslate2 int8": [2.0, 2.0, 2.0]}
    row = ratios("tram native int8", times)
    assert row == {"ratio to CTranslate2 float32": 4.0, "ratio to CTranslate2 int8": 1.0, "interval": [0.5, 2.0]}
    assert ratios("CTranslate2 int8", times)["interval"] is None
    assert nearest_peer("tram torch float32") == "CTranslate2 float32"
    rows = [{"what": name} | ratios(name, times) for name in times]
    assert "[0.50, 2.00]" in table(rows).splitlines()[1]


def test_a_peaked_output_layer_prefers_few_words_and_never_the_end() -> None:
    torch.manual_seed(1)
    model = Transformer(TINY, 300).eval()
    ids = torch.randint(3, 300, (1, 2, 6))

    def probabilities() -> torch.Tensor:
        with torch.inference_mode():
            return model(ids, ids).softmax(-1)

    flat = probabilities().amax(-1).mean()
    found = peaked(model)
    assert found is model
    after = probabilities()
    assert after.amax(-1).mean() > 5 * flat
    assert not (after.argmax(-1) == SPECIAL.end).any()


def test_logits_of_an_engine_are_those_of_itself_and_not_those_of_other_weights() -> None:
    torch.manual_seed(1)
    one, other = (TorchEngine(Transformer(TINY, 50).eval()) for _ in range(2))
    document = [[5, 6, 7], [8, 9]]
    assert logit_difference(one, one, SPECIAL, document, document) == 0
    assert logit_difference(one, other, SPECIAL, document, document) > 0.01


@native_only
def test_identity_counts_the_sentences_that_come_out_as_with_torch(prepared: Path) -> None:
    translator = make_translator(prepared)
    translator.model.float()
    float32, int8, plain = identity(translator, [["Tea!", "", "Why?"], ["Tea!"]], logits=2)
    assert (float32["what"], int8["what"]) == ("tram native float32", "tram native int8")
    assert float32["sentences"] == float32["as torch"] == 3, "blank lines do not count"
    assert (plain["what"], plain["as torch"]) == ("tram native float32, without rescoring", 3)
    assert float32["share"] == 1
    assert float(float32["largest difference"]) < 1e-4 < float(int8["largest difference"])
    assert float32["logits of sentences"] == 2

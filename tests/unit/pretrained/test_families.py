"""Imported models compute what transformers computes, for every family and for unusual sizes."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from pretrained_models import ODD_TEXT, TARGETS, Made, make, random_sentences
from tram.data.batches import document_ids
from tram.model.transformer import Transformer
from tram.pretrained.hf import import_hf
from tram.translation.search import length_limit
from tram.translation.translator import Translator

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("marian", {}),
    "marian, two vocabularies": ("marian", {"separate": True}),
    "marian, several targets": ("marian", {"codes": ["deu", "fra", "cmn_Hans"]}),
    "marian, untied": ("marian", {"tie_word_embeddings": False, "activation_function": "relu"}),
    "marian, other sizes": ("marian", {"d_model": 40, "encoder_attention_heads": 5, "decoder_attention_heads": 5}),
    "marian, two tables for one vocabulary": (
        "marian",
        {"share_encoder_decoder_embeddings": False, "encoder_attention_heads": 1, "decoder_attention_heads": 1},
    ),
    "bart": ("bart", {}),
    "bart, forced start": ("bart", {"forced_bos_token_id": 0, "decoder_layers": 3}),
    "bart, untied": ("bart", {"tie_word_embeddings": False, "scale_embedding": True}),
    "mbart": ("mbart", {}),
    "mbart, other sizes": ("mbart", {"encoder_layers": 1, "decoder_layers": 3, "scale_embedding": False}),
    "m2m100": ("m2m100", {}),
    "m2m100, untied": ("m2m100", {"tie_word_embeddings": False, "d_model": 18}),
    "nllb": ("nllb", {}),
    "m2m100, other languages": ("m2m100", {"languages": ("de", "fr"), "scale_embedding": False, "d_model": 30}),
    "nllb, language last": ("nllb", {"legacy_behaviour": True}),
    "nllb, other languages": ("nllb", {"languages": ("deu_Latn", "zho_Hans"), "activation_function": "gelu"}),
}


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Translator]:
    family, changes = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp("family")
    changes = dict(changes)
    source, target = changes.pop("languages", (None, "fra" if "codes" in changes else TARGETS.get(family)))
    made = make(family, folder / "foreign", **changes)
    if source is not None:
        made.tokenizer.src_lang, made.tokenizer.tgt_lang = source, target
    import_hf(str(made.folder), folder / "tram", source, target)
    return made, Translator.load(folder / "tram", beam=1)


def foreign_source(made: Made, translator: Translator, sentences: list[str]) -> Any:
    """What the tokeniser of transformers makes of source sentences."""
    if translator.text.pretrained is not None and ">>fra<<" in made.tokenizer.get_vocab():
        sentences = [f">>fra<< {sentence}" for sentence in sentences]
    return made.tokenizer(sentences, return_tensors="pt", padding=True)


def shifted(ids: list[int]) -> list[int]:
    return [number + 1 for number in ids]


def random_targets(made: Made, translator: Translator, lengths: list[int]) -> list[list[int]]:
    """Foreign ids of decoder inputs: start, forced prefix, then random ids without padding."""
    draw = torch.Generator().manual_seed(3)
    start = [number - 1 for number in translator.special.target_start]
    largest = made.model.lm_head.weight.shape[0] - 10
    return [start + torch.randint(4, largest, (n,), generator=draw).tolist() for n in lengths]


def padded(rows: list[list[int]], padding: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [padding] * (longest - len(row)) for row in rows])


SENTENCES = ["The old miller waits behind the mill.", "A fox!", *ODD_TEXT]


def test_logits_equal_those_of_transformers_in_padded_batches(pair: tuple[Made, Translator]) -> None:
    made, translator = pair
    batch = foreign_source(made, translator, SENTENCES)
    targets = random_targets(made, translator, [5, 1, *range(2, 2 + len(ODD_TEXT))])
    with torch.no_grad():
        expected = made.model(**batch, decoder_input_ids=padded(targets, made.model.config.pad_token_id)).logits
        source = [translator.special.source(ids) for ids in translator.text.encode(SENTENCES, "source")]
        found = translator.model(document_ids([source]), document_ids([[shifted(row) for row in targets]]))[0]
    for row, target in enumerate(targets):
        n = len(target)
        torch.testing.assert_close(found[row, :n, 1:], expected[row, :n], atol=1e-5, rtol=0)
        assert (found[row, :n, 0] <= -9_000).all()


def test_the_tokenisers_agree_in_both_directions(pair: tuple[Made, Translator]) -> None:
    made, translator = pair
    sentences = [*SENTENCES, *random_sentences(150)]
    text, special = translator.text, translator.special
    ours = [special.source(ids) for ids in text.encode(sentences, "source")]
    theirs = [shifted(foreign_source(made, translator, [each])["input_ids"][0].tolist()) for each in sentences]
    assert [ids for ids in ours if ids] == [ids for own, ids in zip(ours, theirs, strict=True) if own]
    targets = text.encode(sentences, "target")
    labels = made.tokenizer(text_target=sentences)["input_ids"]
    control = {number - 1 for number in (*special.control, *special.source_prefix, *special.source_suffix)}
    for own, label in zip(targets, labels, strict=True):
        assert own == shifted([number for number in label if number not in control])
    decoded = made.tokenizer.batch_decode([[n - 1 for n in own] for own in targets], skip_special_tokens=True)
    assert text.decode(targets, "target") == decoded


def test_greedy_translations_are_the_same_ids(pair: tuple[Made, Translator]) -> None:
    made, translator = pair
    sentences = [*SENTENCES[:2], "a"]
    forced = translator.special.target_prefix
    found = translator.translate_ids(translator.text.encode(sentences, "source"))
    lengths = set()
    for sentence, hypotheses in zip(sentences, found, strict=True):
        batch = foreign_source(made, translator, [sentence])
        given = len(batch["input_ids"][0]) - translator.special.source_extra
        with torch.no_grad():
            output = made.model.generate(
                **batch,
                num_beams=1,
                do_sample=False,
                forced_eos_token_id=made.model.config.eos_token_id,
                max_length=1 + len(forced) + length_limit(translator.model, translator.special, given),
                forced_bos_token_id=forced[0] - 1 if forced else None,
            )
        expected = shifted(output[0, 1 + len(forced) :].tolist())
        assert [*hypotheses[0][0], translator.special.end] == expected
        lengths.add(len(expected))
    assert len(lengths) > 1


def test_scores_of_given_outputs_are_the_same(pair: tuple[Made, Translator]) -> None:
    made, translator = pair
    targets = random_targets(made, translator, [4, 9, 6])
    batch = foreign_source(made, translator, SENTENCES[:3])
    source = document_ids([[translator.special.source(ids) for ids in translator.text.encode(SENTENCES[:3], "source")]])
    for row, target in enumerate(targets):
        with torch.no_grad():
            logits = made.model(
                input_ids=batch["input_ids"][row : row + 1],
                attention_mask=batch["attention_mask"][row : row + 1],
                decoder_input_ids=torch.tensor([target[:-1]]),
            ).logits
            expected = logits.log_softmax(-1)[0].gather(-1, torch.tensor(target[1:])[:, None]).sum()
            done = translator.model.forced_decode(source[:, row : row + 1], document_ids([[shifted(target[:-1])]]))
            found = translator.model.token_log_probs(done.states, torch.tensor(shifted(target[1:]))).sum()
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_the_model_is_an_ordinary_one(pair: tuple[Made, Translator], tmp_path: Path) -> None:
    _, translator = pair
    translations = translator.translate(SENTENCES[:3])
    translator.save(tmp_path / "again")
    assert Translator.load(tmp_path / "again", beam=1).translate(SENTENCES[:3]) == translations
    assert isinstance(translator.model, Transformer)
    assert not translator.model.has_context

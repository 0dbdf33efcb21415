"""M2M100 and NLLB: one network (pre-norm, sinusoids of fairseq), two kinds of tokenisers.

M2M100 has a sentencepiece model and a vocabulary, with 100 language codes after it; NLLB a BPE tokeniser with codes
such as `deu_Latn`. The decoder starts with the end id, followed by the target language. The source language comes
before the sentence or, in NLLB with `legacy_behaviour`, after its end.
"""

import re
from typing import Any

from tram.pretrained.family import (
    Family,
    banned_ids,
    check_fit,
    check_token,
    load_tokenizer,
    many_to_many,
    pretrained_text,
    tokenizer_subwords,
)
from tram.pretrained.hub import ModelFiles
from tram.text.languages import UNDETERMINED
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import SubwordFiles, Template
from tram.text.subwords import SHIFT

NLLB_CODE = re.compile("[a-z]{3}_[A-Z][a-z]{3}")
MODEL, VOCABULARY = "sentencepiece.bpe.model", "vocab.json"


def text(files: ModelFiles, source: str | None, target: str | None) -> TextPipeline:
    """Return the text pipeline of an M2M100 or NLLB model."""
    tokenizer = load_tokenizer(files)
    is_nllb = type(tokenizer).__name__.startswith("Nllb")
    if is_nllb:
        subwords, small = tokenizer_subwords(files, tokenizer)
        codes = {code: n + SHIFT for code, n in tokenizer.get_vocab().items() if NLLB_CODE.fullmatch(code)}
    else:
        subwords, small = m2m100_subwords(files, tokenizer)
        codes = {code: number + SHIFT for code, number in tokenizer.lang_code_to_id.items()}
    end = files.required_token("eos_token_id") + SHIFT
    language_last = is_nllb and bool(files.tokenizer_config.get("legacy_behaviour", False))
    template = Template(
        start=files.required_token("decoder_start_token_id") + SHIFT,
        end=end,
        source_prefix=() if language_last else ("source",),
        source_suffix=(end, "source") if language_last else (end,),
        target_prefix=("target",),
        banned=banned_ids(files),
    )
    name, languages = "NLLB" if is_nllb else "M2M100", (UNDETERMINED, UNDETERMINED)
    pipeline = pretrained_text(name, files, (subwords, subwords), small, template, languages, codes)
    return many_to_many(pipeline, files, source, target)


def m2m100_subwords(files: ModelFiles, tokenizer: Any) -> tuple[SubwordFiles, dict[str, bytes]]:
    """Return the subwords of M2M100, and the files that a model folder keeps."""
    files.require(MODEL, VOCABULARY)
    rows = files.integer("vocab_size")
    check_fit(files, max(tokenizer.lang_code_to_id.values()) + 1, rows)
    for key in ("eos_token_id", "pad_token_id"):
        check_token(files, key, getattr(tokenizer, key))
    special = tuple(token for token in tokenizer.all_special_tokens if token in tokenizer.encoder)
    subwords = SubwordFiles(kind="sentencepiece", model=MODEL, vocabulary=VOCABULARY, rows=rows, special=special)
    return subwords, files.small_files()


FAMILY = Family(
    name="M2M100",
    model_type="m2m_100",
    norm="pre",
    embedding_norm=False,
    positions="sinusoidal-fairseq",
    has_output_bias=False,
    text=text,
)

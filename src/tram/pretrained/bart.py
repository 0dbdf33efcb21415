"""BART: post-norm with a LayerNorm after the embedding, learned positions, byte-level BPE.

BART itself is not a translator; models that were finetuned for translation with its architecture are. They name no
languages, so that English is assumed on a side for which none is given.
"""

from tram.pretrained.family import (
    Family,
    banned_ids,
    load_tokenizer,
    pretrained_text,
    tokenizer_subwords,
)
from tram.pretrained.hub import ModelFiles
from tram.text.languages import short_code
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import Template
from tram.text.subwords import SHIFT


def text(files: ModelFiles, source: str | None, target: str | None) -> TextPipeline:
    """Return the text pipeline of a BART model."""
    subwords, small = tokenizer_subwords(files, load_tokenizer(files))
    end = files.required_token("eos_token_id") + SHIFT
    forced = files.token("forced_bos_token_id")
    template = Template(
        start=files.required_token("decoder_start_token_id") + SHIFT,
        end=end,
        source_prefix=(files.required_token("bos_token_id") + SHIFT,),
        source_suffix=(end,),
        target_prefix=() if forced is None else (forced + SHIFT,),
        banned=banned_ids(files),
    )
    languages = short_code(source or "en"), short_code(target or "en")
    return pretrained_text("BART", files, (subwords, subwords), small, template, languages)


FAMILY = Family(
    name="BART",
    model_type="bart",
    norm="post",
    embedding_norm=True,
    positions="learned",
    has_output_bias=True,
    text=text,
)

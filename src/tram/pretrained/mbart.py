"""mBART-50: pre-norm with a LayerNorm after the embedding, learned positions, one unigram vocabulary, 52 languages.

The source begins with its language and ends with the end id; the decoder starts with the end id, followed by the
target language. (mBART-25 puts the language at the end of the source and starts the decoder with it: refused.)
"""

from tram.errors import InputError
from tram.pretrained.family import (
    Family,
    banned_ids,
    load_tokenizer,
    many_to_many,
    pretrained_text,
    tokenizer_subwords,
)
from tram.pretrained.hub import ModelFiles
from tram.text.languages import UNDETERMINED
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import Template
from tram.text.subwords import SHIFT


def text(files: ModelFiles, source: str | None, target: str | None) -> TextPipeline:
    """Return the text pipeline of an mBART-50 model."""
    tokenizer = load_tokenizer(files)
    if not type(tokenizer).__name__.startswith("MBart50"):
        raise InputError(
            f"{files.folder / 'tokenizer_config.json'}: `tokenizer_class`: is {type(tokenizer).__name__}; "
            "of mBART only mBART-50 (MBart50Tokenizer) can be imported"
        )
    subwords, small = tokenizer_subwords(files, tokenizer)
    end = files.required_token("eos_token_id") + SHIFT
    start = files.token("decoder_start_token_id")
    template = Template(
        start=end if start is None else start + SHIFT,
        end=end,
        source_prefix=("source",),
        source_suffix=(end,),
        target_prefix=("target",),
        banned=banned_ids(files),
    )
    codes = {code: number + SHIFT for code, number in tokenizer.lang_code_to_id.items()}
    languages = UNDETERMINED, UNDETERMINED
    pipeline = pretrained_text("mBART-50", files, (subwords, subwords), small, template, languages, codes)
    return many_to_many(pipeline, files, source, target)


FAMILY = Family(
    name="mBART-50",
    model_type="mbart",
    norm="pre",
    embedding_norm=True,
    positions="learned",
    has_output_bias=True,
    text=text,
)

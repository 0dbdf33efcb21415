"""Marian, the models of OPUS-MT: post-norm, sinusoids, two sentencepiece models and a vocabulary.

The decoder starts with the padding id. Models with several target languages begin every source sentence with a code
such as `>>deu<<`; some models have a vocabulary for each side. The tokeniser's punctuation normaliser is not applied,
because transformers does not apply it either.
"""

import re
from typing import Any

from tram.errors import InputError
from tram.json_text import parse_json
from tram.pretrained.family import Family, banned_ids, check_fit, check_token, pretrained_text
from tram.pretrained.hub import ModelFiles, is_encodable
from tram.text.languages import UNDETERMINED, short_code
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import SubwordFiles, Template
from tram.text.subwords import SHIFT, UNKNOWN

CODE = re.compile(">>(.+)<<")
PAIR = re.compile(r"opus-mt-(?:tc-\w+-)?(\w+)-(\w+)")  # in the names of repositories
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"


def text(files: ModelFiles, source: str | None, target: str | None) -> TextPipeline:
    """Return the text pipeline of a Marian model."""
    separate = bool(files.tokenizer_config.get("separate_vocabs", False))
    files.require(SOURCE_MODEL, TARGET_MODEL, VOCABULARY, *([TARGET_VOCABULARY] if separate else []))
    small = files.small_files()
    rows = files.integer("vocab_size")
    shared = files.flag("share_encoder_decoder_embeddings", True)
    target_rows = rows if shared else files.integer("decoder_vocab_size", rows)
    names = [VOCABULARY, TARGET_VOCABULARY if separate else VOCABULARY]
    vocabularies = [read_vocabulary(files, small[name]) for name in names]
    check_fit(files, max(vocabularies[0].values()) + 1, rows)
    check_fit(files, max(vocabularies[1].values()) + 1, target_rows, "decoder_vocab_size")
    special = tuple(files.token_text(key, default) for key, default in SPECIAL_TOKENS.items())
    for key, token in zip(("eos_token_id", "pad_token_id"), special, strict=True):
        check_token(files, key, vocabularies[1].get(token))
    end = files.required_token("eos_token_id") + SHIFT
    codes = {match[1]: number + SHIFT for piece, number in vocabularies[0].items() if (match := CODE.fullmatch(piece))}
    template = Template(
        start=files.required_token("decoder_start_token_id") + SHIFT,
        end=end,
        source_prefix=("target",) if codes else (),
        source_suffix=(end,),
        banned=banned_ids(files),
    )
    special = (*special, *(f">>{code}<<" for code in codes))
    subwords = [
        SubwordFiles(kind="sentencepiece", model=model, vocabulary=name, rows=size, special=special)
        for model, name, size in zip((SOURCE_MODEL, TARGET_MODEL), names, (rows, target_rows), strict=True)
    ]
    languages = pair_of(files, source, None if codes else target)
    pipeline = pretrained_text("Marian", files, (subwords[0], subwords[1]), small, template, languages, codes)
    return pipeline.with_languages(None, target if codes else None, str(files.folder))


SPECIAL_TOKENS = {"eos_token": "</s>", "pad_token": "<pad>"}  # keys of the tokeniser's config and their defaults


def read_vocabulary(files: ModelFiles, content: bytes) -> dict[str, int]:
    """Return the pieces of a vocabulary file with their ids."""
    try:
        value: Any = parse_json(content)
    except ValueError:
        value = None
    is_vocabulary = isinstance(value, dict) and UNKNOWN in value and all(isinstance(n, int) for n in value.values())
    if not is_vocabulary or not is_encodable(value):
        raise InputError(
            f"{files.folder}: {VOCABULARY} is not a vocabulary with {UNKNOWN}; use another copy of the model"
        )
    return value


def pair_of(files: ModelFiles, source: str | None, target: str | None) -> tuple[str, str]:
    """Return both languages: as given, or from the tokeniser's config or the model's name, or undetermined."""
    named = PAIR.search(files.name) or PAIR.search(str(files.config.get("_name_or_path", "")))
    pair = []
    for number, given in enumerate((source, target)):
        stated = files.tokenizer_config.get(("source_lang", "target_lang")[number])
        code = given or stated or (named[number + 1] if named else UNDETERMINED)
        pair.append(short_code(str(code)))
    return pair[0], pair[1]


FAMILY = Family(
    name="Marian",
    model_type="marian",
    norm="post",
    embedding_norm=False,
    positions="sinusoidal",
    has_output_bias=True,
    text=text,
)

"""Code shared by the families of pretrained models: conversion of configs, search defaults and tokenisers.

A family is a module with a `Family`: `marian`, `bart`, `mbart`, `m2m100`. Everything is read from the model's configs;
the error for an unsupported setting names its key.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from tram.config import ModelConfig, checked
from tram.errors import InputError
from tram.files import is_file
from tram.fingerprints import bytes_fingerprint
from tram.pretrained.hub import EXTRA, ModelFiles
from tram.text.languages import short_code
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import Origin, PretrainedText, SearchDefaults, SubwordFiles, Template
from tram.text.special_ids import PAD
from tram.text.subwords import SHIFT, raising_panics
from tram.text.tokenizer_file import check_file
from tram.yaml_files import short_repr

TOKENIZER = "tokenizer.json"
REBUILT = "subwords.json"  # a tokenizer.json as transformers rebuilds it
LONGEST_SENTENCE = 512  # subwords; longer ones are split, whatever the position table allows
ROOM = 128  # maximum number of rows after the last token: token tables are often padded
# Generation settings that tram's search does not have, with the value that has no effect.
NOT_SEARCHED: dict[str, Any] = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "do_sample": False,
}


@dataclass(frozen=True)
class Family:
    """A model family: its architecture and its text processing.

    text: returns the pipeline for a pair of languages, either of which may be None.
    """

    name: str
    model_type: str
    norm: Literal["pre", "post"]
    embedding_norm: bool
    positions: Literal["learned", "sinusoidal", "sinusoidal-fairseq"]
    has_output_bias: bool
    text: Callable[["ModelFiles", str | None, str | None], TextPipeline]

    def position_offset(self, files: ModelFiles) -> int:
        """Return the row of the position table that the first token uses."""
        if self.positions == "learned":
            return 2  # a constant of BART's code
        return files.integer("pad_token_id", 1) + 1 if self.positions == "sinusoidal-fairseq" else 0


def model_config(family: Family, files: ModelFiles) -> ModelConfig:
    """Return the model config, with shared token tables; refuse unsupported settings."""
    for key in ("attention_heads", "ffn_dim"):
        encoder, decoder = files.integer(f"encoder_{key}"), files.integer(f"decoder_{key}")
        if encoder != decoder:
            raise files.refusal(
                f"decoder_{key}", f"is {decoder}, the encoder's is {encoder}; both sides must have the same width"
            )
    activation = files.config.get("activation_function", "gelu")
    known = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
    if not isinstance(activation, str) or activation not in known:
        raise files.refusal("activation_function", f"is {activation!r}; known are {', '.join(known)}")
    positions = files.integer("max_position_embeddings")
    values = {
        "d_model": files.integer("d_model"),
        "heads": files.integer("encoder_attention_heads"),
        "feed_forward": files.integer("encoder_ffn_dim"),
        "encoder_layers": files.integer("encoder_layers"),
        "decoder_layers": files.integer("decoder_layers"),
        "norm": family.norm,
        "activation": known[activation],
        "positions": family.positions,
        "position_offset": family.position_offset(files),
        "max_positions": positions,
        "max_length": min(positions, LONGEST_SENTENCE),
        "embedding_norm": family.embedding_norm,
        "embedding_scale": files.flag("scale_embedding", family.model_type == "m2m_100"),
        "output_bias": "fixed",
    }
    return checked(ModelConfig, values, str(files.config_path))


def search_defaults(files: ModelFiles) -> SearchDefaults:
    """Return beam and length penalty of the model's generation config."""
    beam, penalty = files.generation("num_beams"), files.generation("length_penalty")
    return SearchDefaults(
        beam=beam if type(beam) is int and 1 <= beam <= 1000 else None,  # not a bool
        length_penalty=float(penalty) if type(penalty) in (int, float) and abs(penalty) <= 10 else None,
    )


def unused_settings(files: ModelFiles) -> list[str]:
    """Return the generation settings that have an effect in transformers but not in tram."""
    return [key for key, off in NOT_SEARCHED.items() if files.generation(key) not in (None, off)]


def banned_ids(files: ModelFiles) -> tuple[int, ...]:
    """Return the ids that a search must not produce: padding, and those that the generation config forbids."""
    words = files.generation("bad_words_ids") or []
    if not isinstance(words, list) or any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise files.refusal("bad_words_ids", "forbids sequences of several ids; only single ids can be forbidden")
    lists = {"bad_words_ids": [word[0] for word in words], "suppress_tokens": files.generation("suppress_tokens") or []}
    for key, numbers in lists.items():
        if not isinstance(numbers, list) or any(type(number) is not int for number in numbers):
            raise files.refusal(key, f"is {short_repr(numbers)}, where ids are needed; use another copy of the model")
    return (PAD, *(number + SHIFT for numbers in lists.values() for number in numbers))


def check_fit(files: ModelFiles, tokens: int, rows: int, key: str = "vocab_size") -> None:
    """Refuse a tokeniser that has more tokens than the token table has rows, or far fewer."""
    if not rows - ROOM <= tokens <= rows:
        raise files.refusal(
            key, f"is {rows}, but the tokeniser beside it has {tokens} tokens; copy the tokeniser of this model"
        )


def check_token(files: ModelFiles, key: str, actual: int | None) -> None:
    """Refuse a tokeniser in which a special token has another id than in the model's config."""
    expected = files.config.get(key)
    if expected is not None and actual is not None and actual != expected:
        raise files.refusal(
            key, f"is {expected}, but the tokeniser beside it has {actual}; copy the tokeniser of this model"
        )


def tokenizer_subwords(files: ModelFiles, tokenizer: Any) -> tuple[SubwordFiles, dict[str, bytes]]:
    """Return the subwords of a Hugging Face tokeniser, and the files that a model folder keeps.

    transformers rebuilds some tokenisers from the vocabulary of a tokenizer.json or from other files; then the rebuilt
    tokeniser is stored beside the original files.
    """
    small = files.small_files()
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(
            f"{files.folder / 'tokenizer_config.json'}: `tokenizer_class`: {type(tokenizer).__name__} has no "
            f"{TOKENIZER}; copy the tokeniser of this model"
        )
    rebuilt = tokenizer.backend_tokenizer.to_str()
    name = TOKENIZER
    if TOKENIZER not in small or _without_templates(small[TOKENIZER]) != _without_templates(rebuilt):
        name = REBUILT
        small[name] = rebuilt.encode()
    rows = files.integer("vocab_size")
    check_fit(files, max(tokenizer.get_vocab().values()) + 1, rows)
    for key in ("eos_token_id", "pad_token_id"):
        check_token(files, key, getattr(tokenizer, key))
    return SubwordFiles(kind="tokenizer", model=name, rows=rows), small


def _without_templates(file: str | bytes) -> Any:
    """Return the content of a tokenizer.json without the parts that tram's templates replace."""
    try:
        content = json.loads(file)
        return {key: content[key] for key in content.keys() - {"truncation", "padding", "post_processor"}}
    except (ValueError, AttributeError, RecursionError):
        return None


def pretrained_text(
    family: str,
    files: ModelFiles,
    subwords: tuple[SubwordFiles, SubwordFiles],
    small: dict[str, bytes],
    template: Template,
    languages: tuple[str, str],
    codes: dict[str, int] | None = None,
) -> TextPipeline:
    """Return a text pipeline before a language of `codes` is chosen; languages: short codes of both sides."""
    data = PretrainedText(
        source_subwords=subwords[0],
        target_subwords=subwords[1],
        files={name: bytes_fingerprint(content) for name, content in small.items()},
        template=template,
        languages=codes or {},
        search=search_defaults(files),
        origin=Origin(family=family, name=files.name, commit=files.commit, licence=files.licence),
    )
    return TextPipeline.of_pretrained(data, small, languages, str(files.folder))


def many_to_many(pipeline: TextPipeline, files: ModelFiles, source: str | None, target: str | None) -> TextPipeline:
    """Choose the languages of a many-to-many model: as given, or as in its tokeniser's config.

    The source defaults to English if the model supports it; the target can be chosen when the model is used.
    """
    assert pipeline.pretrained is not None
    known = {short_code(code) for code in pipeline.pretrained.languages}
    source = source or files.tokenizer_config.get("src_lang") or ("en" if "en" in known else None)
    target = target or files.tokenizer_config.get("tgt_lang")
    return pipeline.with_languages(source, target, str(files.folder))


def load_tokenizer(files: ModelFiles) -> Any:
    """Return the model's tokeniser as transformers loads it."""
    try:
        from transformers import AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise InputError(f"{files.folder}: reading its tokeniser needs the package transformers; {EXTRA}") from None
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        if is_file(path := files.folder / TOKENIZER):
            check_file(path.read_bytes())
        with warnings.catch_warnings(action="ignore"), raising_panics():
            return AutoTokenizer.from_pretrained(str(files.folder), local_files_only=True)
    except Exception as error:  # transformers raises many kinds for missing and damaged files
        if not (files.folder / TOKENIZER).exists() and any(files.folder.glob("*.model")) and not _has_protobuf():
            raise InputError(f"{files.folder}: reading its tokeniser needs the package protobuf; {EXTRA}") from None
        problem = " ".join(str(error).split())[:200]
        raise InputError(
            f"{files.folder}: its tokeniser cannot be loaded ({problem}); copy its files from the original model"
        ) from None
    finally:
        logging.set_verbosity(before)


def _has_protobuf() -> bool:
    """Return whether protobuf is installed, with which transformers converts sentencepiece models."""
    try:
        return find_spec("google.protobuf") is not None
    except ImportError:
        return False

"""What the families of pretrained translators share: how a config becomes a `ModelConfig` and defaults of the search.

A family is a module with a `Family`: `marian`, `bart`, `mbart`, `m2m100`. Everything is read from the model's configs;
what tram cannot compute is refused by the key that asks for it.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from tram.config import ModelConfig, checked
from tram.errors import InputError
from tram.files import bytes_fingerprint
from tram.pretrained.hub import EXTRA, ModelFiles
from tram.text.languages import short_code
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import Origin, PretrainedText, SearchDefaults, SubwordFiles, Template
from tram.text.special_ids import PAD
from tram.text.subwords import SHIFT

TOKENIZER = "tokenizer.json"
REBUILT = "subwords.json"  # a tokenizer.json as transformers rebuilds it
LONGEST_SENTENCE = 512  # subwords; longer ones are split, whatever the position table allows
ROOM = 128  # rows that a token table may have beyond the last token: tables are often padded
# Settings of generation that tram's search does not have, with the value that has no effect.
NOT_SEARCHED: dict[str, Any] = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "repetition_penalty": 1.0,
    "do_sample": False,
}


@dataclass(frozen=True)
class Family:
    """A family: what its network computes, and how its text is read.

    text: makes the pipeline for a pair of languages, either of which may be None.
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
    """Return the config of the network, with token tables that are shared; refuse what tram cannot compute."""
    for key in ("attention_heads", "ffn_dim"):
        encoder, decoder = files.integer(f"encoder_{key}"), files.integer(f"decoder_{key}")
        if encoder != decoder:
            raise files.refusal(
                f"decoder_{key}", f"is {decoder}, the encoder's is {encoder}; both sides must have the same width"
            )
    activation = files.config.get("activation_function", "gelu")
    known = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
    if activation not in known:
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
        beam=beam if isinstance(beam, int) and 1 <= beam <= 1000 else None,
        length_penalty=float(penalty) if isinstance(penalty, int | float) and abs(penalty) <= 10 else None,
    )


def unused_settings(files: ModelFiles) -> list[str]:
    """Return the settings of generation that have an effect there and none in tram."""
    return [key for key, off in NOT_SEARCHED.items() if files.generation(key) not in (None, off)]


def banned_ids(files: ModelFiles) -> tuple[int, ...]:
    """Return what a search may not produce: padding, and what the model's generation config forbids."""
    words = files.generation("bad_words_ids") or []
    if any(not isinstance(word, list) or len(word) != 1 for word in words):
        raise files.refusal("bad_words_ids", "forbids sequences of several ids; only single ids can be forbidden")
    suppressed = files.generation("suppress_tokens") or []
    return (PAD, *(int(number) + SHIFT for number in (*(word[0] for word in words), *suppressed)))


def check_fit(files: ModelFiles, tokens: int, rows: int, key: str = "vocab_size") -> None:
    """Refuse a tokeniser with more tokens than the model has rows for them, or with far fewer."""
    if not rows - ROOM <= tokens <= rows:
        raise files.refusal(
            key, f"is {rows}, but the tokeniser beside it has {tokens} tokens; copy the tokeniser of this model"
        )


def check_token(files: ModelFiles, key: str, found: int | None) -> None:
    """Refuse a tokeniser that gives a special token another id than the model's config."""
    wanted = files.config.get(key)
    if wanted is not None and found is not None and found != wanted:
        raise files.refusal(
            key, f"is {wanted}, but the tokeniser beside it has {found}; copy the tokeniser of this model"
        )


def tokenizer_subwords(files: ModelFiles, tokenizer: Any) -> tuple[SubwordFiles, dict[str, bytes]]:
    """Return the subwords of a tokeniser of the library tokenizers, and the files that a model folder keeps.

    transformers builds some tokenisers anew from the vocabulary of a tokenizer.json, or makes one of other files: then
    what it made is kept beside the model's own files.
    """
    small = files.small_files()
    made = tokenizer.backend_tokenizer.to_str()
    name = TOKENIZER
    if TOKENIZER not in small or _without_templates(small[TOKENIZER]) != _without_templates(made):
        name = REBUILT
        small[name] = made.encode()
    rows = files.integer("vocab_size")
    check_fit(files, max(tokenizer.get_vocab().values()) + 1, rows)
    for key in ("eos_token_id", "pad_token_id"):
        check_token(files, key, getattr(tokenizer, key))
    return SubwordFiles(kind="tokenizer", model=name, rows=rows), small


def _without_templates(file: str | bytes) -> Any:
    """Return the content of a tokenizer.json without what tram's own templates replace."""
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
    """Choose the languages of a model that translates between all of its own: as given, or as its tokeniser says.

    Without a source it is English, if the model knows it; without a target it is chosen when the model is used.
    """
    assert pipeline.pretrained is not None
    known = {short_code(code) for code in pipeline.pretrained.languages}
    source = source or files.tokenizer_config.get("src_lang") or ("en" if "en" in known else None)
    target = target or files.tokenizer_config.get("tgt_lang")
    return pipeline.with_languages(source, target, str(files.folder))


def load_tokenizer(files: ModelFiles) -> Any:
    """Return the model's tokeniser as the library transformers loads it."""
    try:
        from transformers import AutoTokenizer
        from transformers.utils import logging
    except ImportError:
        raise InputError(f"{files.folder}: reading its tokeniser needs the package transformers; {EXTRA}") from None
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"):
            return AutoTokenizer.from_pretrained(str(files.folder), local_files_only=True)
    except Exception as error:  # of many kinds, for missing and damaged files
        if not (files.folder / TOKENIZER).exists() and any(files.folder.glob("*.model")) and not _has_protobuf():
            raise InputError(f"{files.folder}: reading its tokeniser needs the package protobuf; {EXTRA}") from None
        problem = " ".join(str(error).split())[:200]
        raise InputError(
            f"{files.folder}: its tokeniser cannot be loaded ({problem}); copy its files from the model's source"
        ) from None
    finally:
        logging.set_verbosity(before)


def _has_protobuf() -> bool:
    """Return whether transformers can convert a sentencepiece model to a tokeniser of the library tokenizers."""
    try:
        return find_spec("google.protobuf") is not None
    except ImportError:
        return False

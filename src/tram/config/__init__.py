"""Every setting of tram, checked when it is read.

    config = Config.load("configs/small.yaml", ["train.lr=3e-4"])
    write_yaml("run/config.yaml", config)

A config is a YAML file; the fields below are its keys, and their descriptions are the reference. A file may start with
`extends: base.yaml` (a path relative to the file) and then contain only what differs from that file. The error for a
wrong key or value names the file, the key and the closest valid key.
"""

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from tram.config.contexts import ContextConfig, ContextSection, ContextSide, MemoryConfig
from tram.config.sections import (
    Count,
    FilePath,
    Fraction,
    Layers,
    Positions,
    Positive,
    Rate,
    Section,
    Width,
    usable_path,
)
from tram.config.units import SentenceUnit, UnitConfig
from tram.errors import InputError
from tram.files import exists, write_text
from tram.yaml_files import parse_yaml, read_yaml, short, short_repr, yaml_problem

__all__ = [
    "Config",
    "ContextConfig",
    "ContextSection",
    "ContextSide",
    "FinetuneConfig",
    "MemoryConfig",
    "ModelConfig",
    "Positive",
    "Section",
    "TrainConfig",
    "checked",
    "read_extended",
    "read_yaml",
    "with_context",
    "write_yaml",
]
S = TypeVar("S", bound="Section")
MAX_EXTENDED = 20  # files, each of which extends the next


class WithContext(Section):
    """A section that names a context module."""

    context: ContextConfig | None = Field(None, description="the context module; null: none")

    @property
    def memory(self) -> MemoryConfig | None:
        """The recurrent memory, if that is the context."""
        return self.context if isinstance(self.context, MemoryConfig) else None

    @classmethod
    def with_current_keys(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return `values` with keys of earlier versions renamed; `memory` is now a kind of `context`."""
        return _with_context_key(super().with_current_keys(values))


def _with_context_key(values: dict[str, Any]) -> dict[str, Any]:
    """Return a section in which `memory: …`, the only context of earlier versions, is `context: {kind: memory, …}`."""
    if "memory" not in values:
        return values
    memory, context = values["memory"], values.get("context")
    if isinstance(context, dict) and context.get("kind", "memory") != "memory":
        return values  # both are given: `memory` is refused as an unknown key
    if isinstance(memory, dict):
        memory = _merge({"context": context}, {"context": {"kind": "memory", **memory}})["context"]
    return {key: value for key, value in values.items() if key not in ("memory", "context")} | {"context": memory}


class ModelConfig(WithContext):
    """The Transformer; the defaults are the paper's transformer-base in the authors' BART layout."""

    d_model: Width = Field(512, description="width of the hidden states")
    heads: Width = Field(8, description="attention heads")
    feed_forward: Annotated[int, Field(ge=1, le=2**20)] = Field(
        2048, description="inner width of the feed-forward sublayers"
    )
    encoder_layers: Layers = Field(6, description="layers of the encoder")
    decoder_layers: Layers = Field(6, description="layers of the decoder")
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after (post) or before (pre) a sublayer")
    activation: Literal["relu", "gelu", "swish"] = Field("gelu", description="activation of the feed-forward sublayers")
    positions: Literal["learned", "sinusoidal", "sinusoidal-fairseq"] = Field(
        "learned",
        description="position encoding of the tokens; sinusoidal-fairseq: with the wavelengths of M2M100 and NLLB",
    )
    position_offset: Annotated[int, Field(ge=0, le=10**6)] = Field(
        0, description="row of the position table that the first token uses (BART: 2)"
    )
    max_positions: Positions = Field(256, description="rows of the position table; longest possible translation")
    max_length: Annotated[int, Field(ge=3, le=10**6)] = Field(
        128,
        description="maximum sentence length in subwords, with bos and eos; longer sentences are cut in training "
        "and split in translation",
    )
    embedding_norm: bool = Field(True, description="LayerNorm after the sum of embedding and position")
    embedding_scale: bool = Field(False, description="multiply embeddings by the square root of d_model")
    output_bias: bool | Literal["fixed"] = Field(
        False, description="add a bias to the logits, as Marian does; fixed: it is not trained (imported models)"
    )
    tied_output: bool = Field(True, description="the output layer shares the token table of the target")
    source_vocabulary: Positive | None = Field(
        None, description="rows of the source's own token table; null: the source shares that of the target"
    )
    context: ContextConfig | None = Field(None, description="the context module; none: a sentence model")
    unit: UnitConfig = Field(SentenceUnit(), description="what is translated as one sequence, by `kind`")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(f"heads ({self.heads}) must divide d_model ({self.d_model})")
        if self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even: positions are half sines, half cosines")
        if self.max_length > self.max_positions:
            raise ValueError(f"max_length ({self.max_length}) must not exceed max_positions ({self.max_positions})")
        if self.context is not None:
            self.context.check(self)
            if self.unit.kind != "sentence":
                raise ValueError(f"a context module works on sentences; unit.kind {self.unit.kind} needs context: null")
        self.unit.check(self)
        return self

    def without_context(self) -> "ModelConfig":
        """Return the config of the sentence model inside."""
        return self.model_copy(update={"context": None})


class TrainConfig(Section):
    """The first stage: training a sentence model."""

    RENAMED: ClassVar[dict[str, str]] = {"keep": "keep_checkpoints"}

    start: FilePath = Field(
        Path("nothing"), description="`nothing`: random weights; or a model folder to continue from"
    )
    lr: Rate = Field(5e-4, description="peak learning rate, reached at the end of the warm-up")
    warmup: Count = Field(4000, description="updates of linear warm-up")
    schedule: Literal["inverse-sqrt", "constant"] = Field("inverse-sqrt", description="schedule after the warm-up")
    cooldown: Count = Field(0, description="number of final updates over which lr falls linearly to zero")
    updates: Positive = Field(100_000, description="maximum number of updates")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: orthogonal steps for the matrices inside the layers, AdamW for the rest"
    )
    tokens: Positive = Field(4096, description="tokens per pass: longest sentence × sentences, on the larger side")
    accumulate: Positive = Field(1, description="passes whose gradients are accumulated into one update")
    dropout: Fraction = Field(0.1, description="dropout on embeddings and on the output of every sublayer")
    attention_dropout: Fraction = Field(0.0, description="dropout on attention weights")
    activation_dropout: Fraction = Field(0.0, description="dropout inside the feed-forward sublayers")
    label_smoothing: Fraction = Field(0.1, description="probability mass spread over the whole vocabulary")
    betas: tuple[Fraction, Fraction] = Field((0.9, 0.98), description="AdamW's decay of the first and second moments")
    weight_decay: float = Field(0.0, ge=0, le=1e6, description="AdamW's weight decay")
    clip: float = Field(1.0, ge=0, le=1e38, description="maximum gradient norm; 0: no clipping")
    precision: Literal["auto", "float64", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: mixed precision if the device supports it, float32 otherwise"
    )
    loss_chunk: Positive = Field(512, description="tokens whose logits are in memory at the same time")
    evaluate_every: Positive = Field(1000, description="updates between two evaluations on the held-out documents")
    watch: Literal["loss", "bleu"] = Field("loss", description="metric for the best checkpoint and early stopping")
    patience: Count = Field(5, description="evaluations without improvement before the stage ends early; 0: never")
    checkpoint_every: Positive = Field(1000, description="updates between two checkpoints")
    keep_checkpoints: Positive = Field(3, description="checkpoints to keep in addition to the best one")
    average: Count = Field(0, description="number of last checkpoints whose average competes with the best; 0: off")
    log_every: Positive = Field(50, description="updates between two lines of metrics.jsonl")


class FinetuneConfig(WithContext, TrainConfig):
    """The second stage: finetuning on whole documents, with a context; the defaults are the paper's for TED."""

    RENAMED: ClassVar[dict[str, str]] = TrainConfig.RENAMED | {"like": "max_length_gap"}
    REMOVED: ClassVar[dict[str, Any]] = {"foretell": 0, "memory_dropout": None}

    start: FilePath = Field(
        Path("train"), description="`train`: the first stage's best model; `nothing`: random weights; or a model folder"
    )
    context: ContextConfig | None = Field(
        MemoryConfig(),
        description="the context module; null: the control run, the sentence model finetuned in the same way",
    )
    unit: UnitConfig | None = Field(
        None,
        description="what is translated as one sequence from this stage on; null: as before. With a window, block or "
        "document, batches are made as in the first stage, and `context` must be null",
    )
    lr: Rate = Field(6e-5, description="peak learning rate of loaded parameters")
    lr_new: Rate = Field(3e-4, description="peak learning rate of new parameters")
    freeze: Literal["none", "base"] | tuple[str, ...] = Field(
        "none",
        description="parameters that stay as they are; base: all loaded ones but the context's; or patterns of names "
        "such as [tokens.*]",
    )
    warmup: Count = Field(1000, description="updates of linear warm-up, for both learning rates")
    dropout: Fraction = Field(0.2, description="dropout on embeddings and on the output of every sublayer")
    documents: Positive = Field(8, description="documents per batch")
    max_length_gap: Count | None = Field(
        10,
        description="largest difference in sentences between documents of a batch; null: batches are random samples",
    )
    window: Literal["document"] | tuple[Positive, Positive] = Field(
        "document", description="sentences per update: drawn from [minimum, maximum], or the whole document"
    )
    tokens: Positive = Field(
        4096, description="tokens per backward pass, on the larger side; a window may need several"
    )
    weighting: Literal["token", "authors"] = Field(
        "token",
        description="token: mean over all tokens of an update; authors: mean per sentence index, then over indices",
    )

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if self.window != "document" and self.window[0] > self.window[1]:
            raise ValueError(f"window: the minimum ({self.window[0]}) is greater than the maximum ({self.window[1]})")
        if self.window != "document" and self.context is not None and self.context.segment is not None:
            raise ValueError(
                f"window: the context ({self.context.kind}) reads the whole source, so a document must not be cut; "
                "set window: document"
            )
        if self.accumulate != 1:
            raise ValueError("accumulate: a window of documents is already one update; leave it at 1")
        return self


class Config(Section):
    """One run of `tram train`: the first stage, the second, or both."""

    data: FilePath = Field(description="folder written by `tram prepare`")
    output: FilePath = Field(description="folder of the run: checkpoints, metrics and the final model")
    seed: int = Field(1, ge=0, lt=2**63, description="random seed of the weights, the data order and dropout")
    model: ModelConfig = Field(ModelConfig(), description="the Transformer")
    train: TrainConfig | None = Field(TrainConfig(), description="first stage: a sentence model; null: none")
    finetune: FinetuneConfig | None = Field(None, description="second stage: documents with a context; null: none")

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        if self.train is None and self.finetune is None:
            raise ValueError("neither train nor finetune is set; set at least one of them")
        if self.model.context is not None:
            raise ValueError("model.context: the context belongs to the second stage; set finetune.context")
        if self.train is None and self.finetune is not None and str(self.finetune.start) == "train":
            raise ValueError("finetune.start is `train` but there is no first stage; set a model folder or `nothing`")
        if self.finetune is not None:
            changes: dict[str, Any] = {"context": self.finetune.context}
            if str(self.finetune.start) in ("train", "nothing"):  # otherwise the loaded model's config applies
                changes["unit"] = self.finetune.unit or self.model.unit
            ModelConfig(**self.model.model_dump() | changes)  # raises if they do not fit
        return self

    @classmethod
    def load(cls, path: Path | str, overrides: list[str] | None = None) -> Self:
        """Read a YAML file, with the files it extends, and set `key.key=value` on top of it."""
        values, base_files = read_extended(Path(path))
        for override in overrides or []:
            _set(values, override)
        extends = f" (extends {', '.join(map(str, base_files))})" if base_files else ""
        return checked(cls, values, f"{path}{extends}")


def read_extended(path: Path, extended_by: tuple[Path, ...] = ()) -> tuple[dict[str, Any], list[Path]]:
    """Return the settings of a YAML file, merged with those of the file that it extends, and the extended files.

    extended_by: the files that extend this one, to detect a cycle
    """
    values = {
        name: _with_context_key(section) if isinstance(section, dict) else section
        for name, section in read_yaml(path).items()
    }
    base = values.pop("extends", None)
    if base is None:
        return values, []
    if not isinstance(base, str):
        raise InputError(f"{path}: `extends`: give the path of one YAML file, not {short(base)}; correct this key")
    try:
        base_file = usable_path(path.parent / base)
    except ValueError as error:
        raise InputError(f"{path}: `extends`: {error}; correct this key") from None
    chain = (*extended_by, path)
    if len(chain) > MAX_EXTENDED:
        raise InputError(f"{path}: ends a chain of {len(chain)} files with `extends`; put some of them together")
    if os.path.realpath(base_file) in {os.path.realpath(each) for each in chain}:
        cycle = " → ".join(map(str, (*chain, base_file)))
        raise InputError(f"{path}: `extends: {base}` is part of a cycle ({cycle}); remove this key")
    if not exists(base_file) or not base_file.is_file():
        raise InputError(f"{path}: `extends: {base}`: there is no file {base_file}; give a path relative to {path}")
    inherited, base_files = read_extended(base_file, chain)
    return _merge(inherited, values), [base_file, *base_files]


def _merge(inherited: dict[str, Any], overriding: dict[str, Any]) -> dict[str, Any]:
    """Merge two mappings: sections recursively; other values of `overriding` win.

    A section of another `kind` replaces the inherited one, because their keys differ.
    """
    merged = dict(inherited)
    for key, value in overriding.items():
        base = merged.get(key)
        if isinstance(base, dict) and isinstance(value, dict):
            kinds = base.get("kind"), value.get("kind")
            replaced = None not in kinds and kinds[0] != kinds[1]
            merged[key] = value if replaced else _merge(base, value)
        else:
            merged[key] = value
    return merged


def write_yaml(path: Path, section: BaseModel) -> None:
    """Write a config section as YAML, atomically."""
    write_text(path, yaml.safe_dump(section.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def checked(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Return the config section, or raise an `InputError` that names the wrong key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {_problem(kind, error.errors()[0])}") from None


def _problem(kind: type[BaseModel], error: ErrorDetails) -> str:
    """Describe a validation error in one sentence."""
    keys = _keys(kind, chosen=error["loc"])
    fields = {name for key in keys for name in key.split(".")}
    unknown = error["type"] == "extra_forbidden"
    *outer, last = error["loc"] or ("",)
    # Pydantic also names the branches of a union, which are not keys.
    key = ".".join(short(str(part)) for part in (*outer, last) if part in fields or (unknown and part is last))
    if unknown:
        near = difflib.get_close_matches(key, keys, n=1, cutoff=0.3)
        depth = max(key.count("."), 1)  # do not list the keys of every kind of context
        listed = [each for each in keys if each.count(".") <= depth]
        hint = f"did you mean `{near[0]}`?" if near else f"the keys are {', '.join(listed)}"
        return f"unknown key `{key}`; {hint}"
    if error["type"] == "union_tag_invalid":
        kinds, tag = re.findall(r"\w+", error["ctx"]["expected_tags"]), str(error["ctx"]["tag"])
        near = difflib.get_close_matches(tag, kinds, n=1, cutoff=0)
        return f"`{key}.kind`: there is no kind `{short(tag)}`; did you mean `{near[0]}`? All: {', '.join(kinds)}"
    if error["type"] == "union_tag_not_found" and isinstance(error["input"], dict):
        return f"the key `{key}.kind` is missing; add it"
    if error["type"] == "missing" and last in fields:
        return f"the key `{key}` is missing; add it"
    problem = error["msg"].removeprefix("Value error, ")
    actual = "" if isinstance(error["input"], dict) else f", not {short_repr(error['input'])}"
    return f"`{key or kind.__name__}`: {problem}{actual}; correct this key"


def _set(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    name = f"override `{short(override)}`"
    if not sign or not key:
        raise InputError(f"{name}: write it as key=value, for example train.lr=3e-4")
    *sections, last = key.split(".")
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise InputError(f"{name}: `{short(section)}` is a value, not a section; see the config's keys")
    try:
        values[last] = parse_yaml(text)
    except yaml.YAMLError as error:
        raise InputError(
            f"{name}: `{short(text)}` is not a YAML value ({yaml_problem(error)}); correct it or put it in quotes"
        ) from None


def _keys(kind: type[BaseModel], prefix: str = "", chosen: Sequence[int | str] = ()) -> list[str]:
    """Return the keys of a section and of its subsections; of alternative subsections, the chosen `kind` if any."""
    keys = []
    for name, field in kind.model_fields.items():
        keys.append(prefix + name)
        sections = _sections(field.annotation)
        of_kind = [section for section in sections if section.model_fields.get("kind", field).default in chosen]
        for section in of_kind or sections:
            keys += _keys(section, f"{prefix}{name}.", chosen)
    return list(dict.fromkeys(keys))


def _sections(annotation: Any) -> list[type[Section]]:
    """Return the section types that an annotation contains."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def with_context(model: ModelConfig, context: ContextSection | None, start: str) -> ModelConfig:
    """Return the config of the model to finetune: `model` with `context`.

    A context that the model already has is kept; only the gradient depth of a memory may change.
    """
    if model.context is not None:
        kind = model.context.kind
        if context is None:
            raise InputError(
                f"{start}: has a context ({kind}), but finetune.context is null; start from a sentence model"
            )
        current = model.context.model_dump()
        requested = context.model_dump(include=context.model_fields_set)
        for key in sorted(requested, key=lambda key: key != "kind"):
            if key != "depth" and requested[key] != current.get(key):
                raise InputError(
                    f"{start}: its {kind} has {key} {current.get(key)}, but finetune.context.{key} is {requested[key]};"
                    " leave it out or start from a sentence model"
                )
        context = model.context.model_copy(update=requested)
    return checked(ModelConfig, model.model_dump() | {"context": context}, start)

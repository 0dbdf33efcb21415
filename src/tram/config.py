"""Every setting of tram, checked when it is read.

    config = Config.load("configs/small.yaml", ["train.lr=3e-4"])
    write_yaml("run/config.yaml", config)

A config is a YAML file; the fields below are its keys, their descriptions are the reference. A file may start with
`extends: base.yaml` (a path relative to the file) and then contain only what differs from that file. A wrong key or
value is refused with its name, the file and the closest valid key.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tram.errors import InputError
from tram.files import write_text
from tram.yaml_files import parse_yaml, read_yaml, short, short_repr

# No number is larger than anything that makes sense, so that a slip of the keyboard is not an endless loop.
Fraction = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1e38)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[int, Field(ge=1, le=10**9)]
Width = Annotated[int, Field(ge=1, le=2**17)]  # of vectors
Layers = Annotated[int, Field(ge=1, le=500)]
Positions = Annotated[int, Field(ge=1, le=10**6)]
MemorySide = Literal["source", "target", "both"]  # encoder, decoder or both
S = TypeVar("S", bound="Section")


def _usable_path(path: Path) -> Path:
    try:
        parts = [part.encode() for part in path.parts]
    except UnicodeEncodeError:
        raise ValueError("the path contains a lone surrogate") from None
    if any(b"\0" in part or len(part) > 255 for part in parts) or sum(map(len, parts)) + len(parts) > 4000:
        raise ValueError("the path contains a null character or is too long")
    return path


FilePath = Annotated[Path, AfterValidator(_usable_path)]


class Section(BaseModel):
    """A part of the config: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    RENAMED: ClassVar[dict[str, str]] = {}  # keys of earlier versions, and their current names
    REMOVED: ClassVar[dict[str, Any]] = {}  # keys of earlier versions, and the value that had no effect

    @model_validator(mode="before")
    @classmethod
    def _accept_former_keys(cls, values: Any) -> Any:
        return cls.with_current_keys(values) if isinstance(values, dict) else values

    @classmethod
    def with_current_keys(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return `values` with keys of earlier versions renamed, or removed if they had no effect."""
        current = {}
        for key, value in values.items():
            if key in cls.REMOVED and value == cls.REMOVED[key]:
                continue
            new_key = cls.RENAMED.get(key, key)
            current[key if new_key in values else new_key] = value  # both names: the former one is refused
        return current


class MemoryConfig(Section):
    """The recurrent memory; the defaults are the paper's."""

    slots: Width = Field(16, description="number of memory vectors, d_M in the paper")
    side: MemorySide = Field("both", description="memory in the encoder, the decoder, or both")
    layers: tuple[Annotated[int, Field(ge=-500, lt=500)], ...] = Field(
        (-1,), min_length=1, max_length=500, description="layers with a memory; 0 is the first, -1 the last"
    )
    positions: Literal["sinusoidal", "learned"] = Field("sinusoidal", description="position encoding of the slots")
    read: Literal["norm", "add", "scaled"] = Field(
        "norm",
        description="norm: LN(h + MHA), the authors'; add: h + MHA, which starts exactly at the sentence model; "
        "scaled: h + |h| MHA, the same for pre-norm models, whose states are many times larger than the memory output",
    )
    depth: Positive | Literal["full"] = Field(
        1, description="number of updates that gradients flow back through: 1 (the paper's), k, or full"
    )

    @field_validator("depth", mode="before")
    @classmethod
    def _check_depth(cls, depth: Any) -> Any:
        if depth == 0:
            raise ValueError("with depth 0 no gradient would ever reach the update attention; set 1, more, or full")
        return depth

    def layer_numbers(self, layers: int) -> list[int]:
        """Return the layers of one side that have a memory, counted from 0."""
        for layer in self.layers:
            if not -layers <= layer < layers:
                raise ValueError(f"memory.layers: there is no layer {layer}, the model has 0 to {layers - 1}")
        return sorted({layer % layers for layer in self.layers})


class ModelConfig(Section):
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
        description="position encoding of the tokens; sinusoidal-fairseq: with the wave lengths of M2M100 and NLLB",
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
        False, description="add a bias to the logits, as Marian does; fixed: it is never trained (imported models)"
    )
    tied_output: bool = Field(True, description="the output layer shares the token table of the target")
    source_vocabulary: Positive | None = Field(
        None, description="rows of the source's own token table; null: the source shares that of the target"
    )
    memory: MemoryConfig | None = Field(None, description="the recurrent memory; none: a sentence model")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(f"heads ({self.heads}) must divide d_model ({self.d_model})")
        if self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even: one half is sines, the other cosines")
        if self.max_length > self.max_positions:
            raise ValueError(f"max_length ({self.max_length}) must not exceed max_positions ({self.max_positions})")
        if self.memory is not None:
            if self.norm == "pre" and self.memory.read == "norm":
                raise ValueError("a pre-norm model needs memory.read: scaled or add; norm is for post-norm models")
            if self.memory.side != "target":
                self.memory.layer_numbers(self.encoder_layers)
            if self.memory.side != "source":
                self.memory.layer_numbers(self.decoder_layers)
        return self

    def without_context(self) -> "ModelConfig":
        """Return the config of the sentence model inside."""
        return self.model_copy(update={"memory": None})


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


class FinetuneConfig(TrainConfig):
    """The second stage: finetuning on whole documents, with the memory; the defaults are the paper's for TED."""

    RENAMED: ClassVar[dict[str, str]] = TrainConfig.RENAMED | {"like": "max_length_gap"}
    REMOVED: ClassVar[dict[str, Any]] = {"foretell": 0, "memory_dropout": None}

    start: FilePath = Field(
        Path("train"), description="`train`: the first stage's best model; `nothing`: random weights; or a model folder"
    )
    memory: MemoryConfig | None = Field(
        MemoryConfig(), description="null: the control run, the sentence model finetuned in the same way"
    )
    lr: Rate = Field(6e-5, description="peak learning rate of loaded parameters")
    lr_new: Rate = Field(3e-4, description="peak learning rate of new parameters")
    freeze: Literal["none", "base"] | tuple[str, ...] = Field(
        "none",
        description="parameters that stay as they are; base: all loaded ones; or patterns of names such as [tokens.*]",
    )
    warmup: Count = Field(1000, description="updates of linear warm-up, for both learning rates")
    dropout: Fraction = Field(0.2, description="dropout on embeddings and on the output of every sublayer")
    documents: Positive = Field(8, description="documents per batch")
    max_length_gap: Count = Field(10, description="largest difference in sentences between documents of a batch")
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
    finetune: FinetuneConfig | None = Field(None, description="second stage: documents with the memory; null: none")

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        if self.train is None and self.finetune is None:
            raise ValueError("neither train nor finetune is set; configure at least one stage")
        if self.model.memory is not None:
            raise ValueError("model.memory: the memory belongs to the second stage; set finetune.memory")
        if self.train is None and self.finetune is not None and str(self.finetune.start) == "train":
            raise ValueError("finetune.start is `train` but there is no first stage; set a model folder or `nothing`")
        if self.finetune is not None and self.finetune.memory is not None:
            ModelConfig(**self.model.model_dump() | {"memory": self.finetune.memory})  # raises if they do not fit
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
    values = read_yaml(path)
    base = values.pop("extends", None)
    if base is None:
        return values, []
    if not isinstance(base, str):
        raise InputError(f"{path}: `extends`: give the path of one YAML file, not {short(base)}; correct this key")
    try:
        base_file = _usable_path(path.parent / base)
    except ValueError as error:
        raise InputError(f"{path}: `extends`: {error}; correct this key") from None
    chain = (*extended_by, path)
    if base_file.resolve() in {each.resolve() for each in chain}:
        cycle = " → ".join(map(str, (*chain, base_file)))
        raise InputError(f"{path}: `extends: {base}` is part of a cycle ({cycle}); remove this key")
    if not base_file.is_file():
        raise InputError(f"{path}: `extends: {base}`: there is no file {base_file}; give a path relative to {path}")
    inherited, base_files = read_extended(base_file, chain)
    return _merge(inherited, values), [base_file, *base_files]


def _merge(inherited: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return both mappings as one; sections are merged recursively, and other values of `own` win."""
    merged = dict(inherited)
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def write_yaml(path: Path, section: BaseModel) -> None:
    """Write a config section as YAML, atomically."""
    write_text(path, yaml.safe_dump(section.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def checked(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Return the config section, or raise an `InputError` that names the wrong key."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        fields = {name for key in _keys(kind) for name in key.split(".")}
        unknown = first["type"] == "extra_forbidden"
        *outer, last = first["loc"] or ("",)
        # Pydantic also names the branches of a union, which are not keys.
        key = ".".join(short(str(part)) for part in (*outer, last) if part in fields or (unknown and part is last))
        if unknown:
            near = difflib.get_close_matches(key, _keys(kind), n=1, cutoff=0.3)
            hint = f"; did you mean `{near[0]}`?" if near else f"; the keys are {', '.join(_keys(kind))}"
            raise InputError(f"{where}: unknown key `{key}`{hint}") from None
        if first["type"] == "missing" and last in fields:
            raise InputError(f"{where}: the key `{key}` is missing; add it") from None
        problem = first["msg"].removeprefix("Value error, ")
        found = "" if isinstance(first["input"], dict) else f", not {short_repr(first['input'])}"
        raise InputError(f"{where}: `{key or kind.__name__}`: {problem}{found}; correct this key") from None


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
    except yaml.YAMLError:
        raise InputError(f"{name}: `{short(text)}` is not a YAML value; put it in quotes") from None


def _keys(kind: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in kind.model_fields.items():
        keys.append(prefix + name)
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Section):
                keys += _keys(part, f"{prefix}{name}.")
    return keys


def with_memory(model: ModelConfig, memory: MemoryConfig | None, start: str) -> ModelConfig:
    """Return the config of the model to finetune: `model` with `memory`.

    A memory that the model already has is kept; only its depth may change.
    """
    if model.memory is not None:
        if memory is None:
            raise InputError(f"{start}: has a memory, but finetune.memory is null; start from a sentence model")
        current = model.memory.model_dump()
        requested = memory.model_dump(include=memory.model_fields_set)
        for key in requested:
            if key != "depth" and requested[key] != current[key]:
                raise InputError(
                    f"{start}: its memory has {key} {current[key]}, but finetune.memory.{key} is {requested[key]};"
                    " leave it out or start from a sentence model"
                )
        memory = model.memory.model_copy(update=requested)
    return checked(ModelConfig, model.model_dump() | {"memory": memory}, start)

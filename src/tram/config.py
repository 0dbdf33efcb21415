"""Every setting of tram, checked when it is read.

    config = Config.load("configs/small.yaml", ["train.lr=3e-4"])
    write_yaml("run/config.yaml", config)

A config is a YAML file; the fields below are its keys and their descriptions its reference. A wrong key or value is
refused with its name, the file, and the nearest right key.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tram.errors import InputError
from tram.files import write_text

Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
MemorySide = Literal["source", "target", "both"]  # encoder, decoder or both
S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A part of the config: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MemoryConfig(Section):
    """The recurrent memory. The defaults are the paper's."""

    slots: Positive = Field(16, description="vectors of the memory, d_M in the paper")
    side: MemorySide = Field("both", description="in the encoder, the decoder, or both")
    layers: tuple[int, ...] = Field((-1,), min_length=1, description="layers with a memory, from 0; -1 is the last")
    positions: Literal["sinusoidal", "learned"] = Field("sinusoidal", description="positions of the slots")
    read: Literal["norm", "add", "scaled"] = Field(
        "norm",
        description="norm: LN(h + MHA), the authors'; add: h + MHA, which starts exactly at the sentence model; "
        "scaled: h + |h| MHA, the same for pre-norm models, whose states are many times as large as what is read",
    )
    depth: Positive | Literal["full"] = Field(
        1, description="updates that gradients go back through: 1 (the paper's), k, or full"
    )

    @field_validator("depth", mode="before")
    @classmethod
    def _some_depth(cls, depth: Any) -> Any:
        if depth == 0:
            raise ValueError("with depth 0 no gradient would ever reach the update attention; give 1, more, or full")
        return depth

    def layer_numbers(self, layers: int) -> list[int]:
        """The layers of one side that have a memory, counted from 0."""
        for layer in self.layers:
            if not -layers <= layer < layers:
                raise ValueError(f"memory.layers: there is no layer {layer}, the model has 0 to {layers - 1}")
        return sorted({layer % layers for layer in self.layers})


class ModelConfig(Section):
    """The Transformer. The defaults are the paper's transformer-base in the authors' BART layout."""

    d_model: Positive = Field(512, description="width of the states")
    heads: Positive = Field(8, description="attention heads")
    feed_forward: Positive = Field(2048, description="inner width of the feed-forward sublayers")
    encoder_layers: Positive = Field(6, description="layers of the encoder")
    decoder_layers: Positive = Field(6, description="layers of the decoder")
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after (post) or before (pre) a sublayer")
    activation: Literal["relu", "gelu", "swish"] = Field("gelu", description="of the feed-forward sublayers")
    positions: Literal["learned", "sinusoidal"] = Field("learned", description="positions of tokens")
    position_offset: Count = Field(0, description="row of the position table that the first token uses (BART: 2)")
    max_positions: Positive = Field(256, description="rows of the position table: no translation gets longer than this")
    max_length: Annotated[int, Field(ge=3)] = Field(
        128,
        description="longest sentence in subwords, bos and eos counted: cut in training, split in translation",
    )
    embedding_norm: bool = Field(True, description="LayerNorm after the sum of embedding and position")
    embedding_scale: bool = Field(False, description="multiply embeddings by the square root of d_model")
    output_bias: bool = Field(False, description="add a bias to the logits, as Marian does")
    memory: MemoryConfig | None = Field(None, description="the recurrent memory; none: a sentence model")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.d_model % self.heads:
            raise ValueError(f"heads ({self.heads}) must divide d_model ({self.d_model})")
        if self.d_model % 2:
            raise ValueError(f"d_model ({self.d_model}) must be even: sines and cosines take half of it each")
        if self.max_length > self.max_positions:
            raise ValueError(f"max_length ({self.max_length}) must not exceed max_positions ({self.max_positions})")
        if self.memory is not None:
            if self.norm == "pre" and self.memory.read == "norm":
                raise ValueError("a pre-norm model reads with memory.read: scaled or add; norm is for post-norm")
            if self.memory.side != "target":
                self.memory.layer_numbers(self.encoder_layers)
            if self.memory.side != "source":
                self.memory.layer_numbers(self.decoder_layers)
        return self


class TrainConfig(Section):
    """The first stage: a sentence model."""

    lr: float = Field(5e-4, gt=0, description="learning rate at the end of the warm-up")
    warmup: Count = Field(4000, description="updates of linear warm-up")
    schedule: Literal["inverse-sqrt", "constant"] = Field("inverse-sqrt", description="of lr after the warm-up")
    cooldown: Count = Field(0, description="over so many last updates lr falls to zero, in a straight line")
    updates: Positive = Field(100_000, description="updates at most")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: orthogonal steps for the matrices inside the layers, AdamW for the rest"
    )
    tokens: Positive = Field(4096, description="tokens in one pass: longest sentence × rows, the larger of both sides")
    accumulate: Positive = Field(1, description="passes whose gradients make one update")
    dropout: Share = Field(0.1, description="on embeddings and on the result of every sublayer")
    attention_dropout: Share = Field(0.0, description="on attention weights")
    activation_dropout: Share = Field(0.0, description="inside the feed-forward sublayers")
    label_smoothing: Share = Field(0.1, description="share of the probability spread over the whole vocabulary")
    betas: tuple[Share, Share] = Field((0.9, 0.98), description="AdamW's decay of the first and second moment")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay")
    clip: float = Field(1.0, ge=0, description="largest gradient norm; 0: no clipping")
    precision: Literal["auto", "float64", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: mixed precision where the device has it, float32 elsewhere"
    )
    loss_chunk: Positive = Field(512, description="tokens whose logits stand in memory at once")
    evaluate_every: Positive = Field(1000, description="updates between two looks at the held-out documents")
    watch: Literal["loss", "bleu"] = Field("loss", description="what patience and the best checkpoint look at")
    patience: Count = Field(5, description="evaluations without a new best before the stage ends; 0: never")
    checkpoint_every: Positive = Field(1000, description="updates between two checkpoints")
    keep: Positive = Field(3, description="checkpoints kept beside the best one")
    average: Count = Field(0, description="mean of that many last checkpoints competes with the best; 0: off")
    log_every: Positive = Field(50, description="updates between two lines of metrics.jsonl")


class FinetuneConfig(TrainConfig):
    """The second stage: documents in order, with the memory. The defaults are the paper's for TED."""

    start: Path = Field(
        Path("train"), description="`train`: the first stage's best model; `nothing`: new weights; or a model folder"
    )
    memory: MemoryConfig | None = Field(
        MemoryConfig(), description="null: the control run, the sentence model trained on in the same way"
    )
    lr: float = Field(6e-5, gt=0, description="learning rate of parameters that were loaded, at its peak")
    lr_new: float = Field(3e-4, gt=0, description="learning rate of parameters that are new, at its peak")
    warmup: Count = Field(1000, description="updates of linear warm-up; one schedule for both rates")
    dropout: Share = Field(0.2, description="on embeddings and on the result of every sublayer")
    memory_dropout: Share | None = Field(None, description="inside the memory; null: the same as dropout")
    foretell: float = Field(
        0.0, ge=0, description="weight of a second loss: before each sentence the target memory names its words; 0: off"
    )
    documents: Positive = Field(8, description="documents that go through time together")
    like: Count = Field(10, description="most sentences by which their lengths may differ")
    window: Literal["document"] | tuple[Positive, Positive] = Field(
        "document", description="sentences between two updates: drawn from [least, most], or the whole document"
    )
    tokens: Positive = Field(4096, description="tokens of the longer side in one backward pass: a piece of a window")
    weighting: Literal["token", "authors"] = Field(
        "token",
        description="token: mean over all tokens of an update; authors: mean per sentence step, then over steps",
    )

    @model_validator(mode="after")
    def _window_is_a_range(self) -> Self:
        if self.window != "document" and self.window[0] > self.window[1]:
            raise ValueError(f"window: the least ({self.window[0]}) is more than the most ({self.window[1]})")
        if self.foretell and self.memory is not None and self.memory.side == "source":
            raise ValueError("foretell: the words of the translation are foretold by a memory on the target side")
        if self.accumulate != 1:
            raise ValueError("accumulate: a window of documents is one update already; leave it at 1")
        return self


class Config(Section):
    """One run of `tram train`: the first stage, the second, or both."""

    data: Path = Field(description="folder made by `tram prepare`")
    output: Path = Field(description="folder of the run: checkpoints, metrics and the finished model")
    seed: int = Field(1, ge=0, description="of the weights, the order of the data and dropout")
    model: ModelConfig = Field(ModelConfig(), description="the Transformer")
    train: TrainConfig | None = Field(TrainConfig(), description="first stage: a sentence model; null: none")
    finetune: FinetuneConfig | None = Field(None, description="second stage: documents with the memory; null: none")

    @model_validator(mode="after")
    def _some_stage(self) -> Self:
        if self.train is None and self.finetune is None:
            raise ValueError("neither train nor finetune: name at least one stage")
        if self.model.memory is not None:
            raise ValueError("model.memory: the memory belongs to the second stage; set finetune.memory")
        if self.train is None and self.finetune is not None and str(self.finetune.start) == "train":
            raise ValueError("finetune.start is `train` but there is no first stage; give a model folder or `nothing`")
        if self.finetune is not None and self.finetune.memory is not None:
            ModelConfig(**self.model.model_dump() | {"memory": self.finetune.memory})  # refuses what does not fit
        return self

    @classmethod
    def load(cls, path: Path | str, overrides: list[str] | None = None) -> Self:
        """Read a YAML file and set `key.key=value` on top of it."""
        values = read_yaml(Path(path))
        for override in overrides or []:
            _set(values, override)
        return checked(cls, values, str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give the path of a YAML config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}); give a YAML config") from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        problem = getattr(error, "problem", None) or "not YAML"
        raise InputError(f"{path}:{line}: is not valid YAML ({problem}); correct that line") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds no settings; give a YAML file with `key: value` lines")
    return values


def write_yaml(path: Path, section: BaseModel) -> None:
    """Write a config section as YAML, whole or not at all."""
    write_text(path, yaml.safe_dump(section.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def checked(kind: type[S], values: dict[str, Any], where: str) -> S:
    """Make the config, or say in one sentence which key is wrong."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        fields = {name for key in _keys(kind) for name in key.split(".")}
        unknown = first["type"] == "extra_forbidden"
        *outer, last = first["loc"] or ("",)
        # Pydantic also names the branches of a union; they are no keys.
        key = ".".join(str(part) for part in (*outer, last) if part in fields or (unknown and part is last))
        if unknown:
            near = difflib.get_close_matches(key, _keys(kind), n=1, cutoff=0.3)
            hint = f"; did you mean `{near[0]}`?" if near else f"; the keys are {', '.join(_keys(kind))}"
            raise InputError(f"{where}: unknown key `{key}`{hint}") from None
        if first["type"] == "missing" and last in fields:
            raise InputError(f"{where}: the key `{key}` is missing; add it") from None
        problem = first["msg"].removeprefix("Value error, ")
        found = "" if isinstance(first["input"], dict) else f", not {first['input']!r}"
        raise InputError(f"{where}: `{key or kind.__name__}`: {problem}{found}; correct this key") from None


def _set(values: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    if not sign or not key:
        raise InputError(f"override `{override}`: write it as key=value, for example train.lr=3e-4")
    *sections, last = key.split(".")
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise InputError(f"override `{override}`: `{section}` is a value, not a section; see the config's keys")
    try:
        values[last] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"override `{override}`: `{text}` is not a YAML value; put it in quotes") from None


def _keys(kind: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in kind.model_fields.items():
        keys.append(prefix + name)
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, Section):
                keys += _keys(part, f"{prefix}{name}.")
    return keys


def with_memory(model: ModelConfig, memory: MemoryConfig | None, start: str) -> ModelConfig:
    """The model that a finetuning trains. A memory that is there already stays as it is; only its depth may change."""
    if model.memory is not None:
        if memory is None:
            raise InputError(f"{start}: has a memory, and finetune.memory is null; start from a sentence model")
        there = model.memory.model_dump()
        asked = memory.model_dump(include=memory.model_fields_set)
        for key in asked:
            if key != "depth" and asked[key] != there[key]:
                raise InputError(
                    f"{start}: its memory has {key} {there[key]}, finetune.memory.{key} is {asked[key]}; leave it out "
                    "or start from a sentence model"
                )
        memory = model.memory.model_copy(update=asked)
    return checked(ModelConfig, model.model_dump() | {"memory": memory}, start)

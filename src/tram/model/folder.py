"""Model folders: `config.yaml`, `model.safetensors`, `text.json` and `README.md`, which can be moved together.

    save_model(model, "run/model", text=pipeline, card="…")
    model = load_model("run/model")

An int8 folder (`save_int8`, `precision: int8` in its config.yaml) stores matrices as int8 and their scales; its model
has no float32 copy of them (`quantised`).

Folders of version 1 had one projection for queries, keys and values; `converted` renames their tensors.
"""

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tram.config import ModelConfig, Positive, Section, checked, write_yaml
from tram.errors import InputError
from tram.files import exists, names_in, replacing_folder
from tram.measuring import available_memory
from tram.model.quantised import SCALE, int8_shapes, int8_tensors, is_quantised, matrices, quantise
from tram.model.tensors import check_shapes, load_tensors, save_tensors, tensor_shapes
from tram.model.transformer import Transformer
from tram.yaml_files import read_yaml, short_repr

if TYPE_CHECKING:
    from tram.text.pipeline import TextPipeline

__all__ = [
    "WEIGHTS",
    "ModelFile",
    "check_exact",
    "check_memory",
    "check_replaceable",
    "check_text",
    "converted",
    "find_model",
    "fingerprint",
    "load_known_weights",
    "load_model",
    "load_parameters",
    "load_tensors",
    "load_text",
    "load_weights",
    "parameter_shapes",
    "read_model_file",
    "replacing_model",
    "save_int8",
    "save_model",
    "save_tensors",
    "tensors_fingerprint",
    "weights",
]
VERSION = 2
WEIGHTS = "model.safetensors"
PARTS = {WEIGHTS, "config.yaml", "text.json", "README.md", "origin"}  # of a model folder
FUSED = re.compile(r"(.*)\.projection\.(weight|bias)")  # version 1: W^q, W^k and W^v stacked


class ModelFile(Section):
    """The contents of `config.yaml` in a model folder."""

    version: int = Field(VERSION, ge=1)
    vocabulary: Positive
    text: str | None = None  # fingerprint of text.json
    precision: Literal["float32", "int8"] = "float32"  # of the matrices
    model: ModelConfig

    @model_serializer(mode="wrap")
    def _without_default(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out default values, so that earlier versions can read the file."""
        values: dict[str, Any] = write(self)
        if self.precision == "float32":
            del values["precision"]
        return values


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter once, by its first name; int8 matrices in float32."""
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    return parameters | {name: matrix.weight for name, matrix in matrices(model).items()}


def converted(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the names of this version; those of version 1 are split."""
    result: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if (match := FUSED.fullmatch(name)) and value.dim():
            d_model = value.shape[0] // 3
            result |= {
                f"{match[1]}.query.{match[2]}": value[:d_model],
                f"{match[1]}.key_value.{match[2]}": value[d_model:],
            }
        else:
            result[name] = value
    return result


def fingerprint(model: nn.Module) -> str:
    """Return twelve hexadecimal digits that identify the weights of a model."""
    return tensors_fingerprint(weights(model))


def tensors_fingerprint(parameters: Mapping[str, Tensor]) -> str:
    """Return twelve hexadecimal digits that identify parameters, in float32 and with the names of version 1."""
    tensors: dict[str, Tensor] = {}
    for name, value in parameters.items():
        if match := re.fullmatch(r"(.*)\.(query|key_value)\.(weight|bias)", name):
            fused = f"{match[1]}.projection.{match[3]}"
            tensors[fused] = torch.cat([tensors[fused], value]) if fused in tensors else value
        else:
            tensors[name] = value
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(name.encode() + value.float().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a model's parameters from a file that must contain exactly these parameters."""
    _fill(model, path, complete=True)


def load_known_weights(model: Transformer, path: Path) -> set[str]:
    """Load those parameters of a model that a file contains, and return their names.

    Any other tensor of the file must be a parameter of the model without its context module, for example positions
    that the context module replaces.
    """
    sentence_model = parameter_shapes(model.config.without_context(), model.vocabulary)
    return _fill(model, path, complete=False, ignored=sentence_model.keys() - weights(model).keys())


def _fill(model: nn.Module, path: Path, complete: bool, ignored: Set[str] = frozenset()) -> set[str]:
    parameters = dict(model.named_parameters())
    stored = {name: value for name, value in converted(tensor_shapes(path)).items() if name not in ignored}
    check_shapes(path, stored, parameters, complete)
    tensors = {name: value for name, value in _floating_point(path).items() if name not in ignored}
    with torch.no_grad():
        for name, value in tensors.items():
            parameters[name].copy_(value)
    return set(tensors)


def _floating_point(path: Path) -> dict[str, Tensor]:
    tensors = converted(load_tensors(path))
    if wrong := [name for name, value in tensors.items() if not value.is_floating_point()]:
        raise InputError(f"{path}: `{wrong[0]}` does not contain floating-point values; it belongs to another program")
    return tensors


def save_model(model: Transformer, folder: Path | str, text: "TextPipeline | None" = None, card: str = "") -> None:
    """Write a model folder: config.yaml, model.safetensors, README.md and, if there is one, text.json."""
    with replacing_model(folder, model.config, model.vocabulary, text, card) as temporary:
        save_tensors(temporary / WEIGHTS, weights(model))


def save_int8(model: Transformer, folder: Path | str, text: "TextPipeline | None" = None, card: str = "") -> None:
    """Write an int8 folder; the model itself does not change."""
    rounded = model
    if not is_quantised(model):
        rounded = copy.deepcopy(model)
        quantise(rounded)
    with replacing_model(folder, model.config, model.vocabulary, text, card, "int8") as temporary:
        save_tensors(temporary / WEIGHTS, int8_tensors(rounded))


@contextmanager
def replacing_model(
    folder: Path | str,
    config: ModelConfig,
    vocabulary: int,
    text: "TextPipeline | None" = None,
    card: str = "",
    precision: Literal["float32", "int8"] = "float32",
) -> Iterator[Path]:
    """Yield a temporary folder for the weights; at the end, complete it and replace `folder` by it."""
    folder = Path(folder)
    check_replaceable(folder)
    with replacing_folder(folder) as temporary:
        yield temporary
        pipeline = None if text is None else text.fingerprint
        about = ModelFile(vocabulary=vocabulary, text=pipeline, precision=precision, model=config)
        write_yaml(temporary / "config.yaml", about)
        card = card or "A translation model trained with tram.\n"
        if text is not None and text.pretrained is not None and text.pretrained.origin.describe() not in card:
            card += f"\n{text.pretrained.origin.describe()}\n"  # its licence also applies to derived models
        (temporary / "README.md").write_text(card, encoding="utf-8")
        if text is not None:
            text.save(temporary)


def check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything but a model in it, such as a run: it would be lost."""
    if others := [name for name in names_in(folder) if name not in PARTS]:
        raise InputError(
            f"{folder}: contains `{others[0]}`, which a model folder would replace; move it, or choose another folder"
        )


def find_model(folder: Path | str) -> Path:
    """Resolve a path to a model folder: itself, or that of the last finished stage of a run."""
    folder = Path(folder)
    for candidate in (folder, folder / "finetune" / "model", folder / "train" / "model"):
        if exists(candidate / WEIGHTS) and exists(candidate / "config.yaml"):
            return candidate
    if not exists(folder):
        raise InputError(f"{folder}: there is no such folder; give a model folder or the output of `tram train`")
    raise InputError(f"{folder}: is not a model folder (no config.yaml and {WEIGHTS}); give one or finish the training")


def read_model_file(folder: Path) -> ModelFile:
    """Return the contents of the config.yaml of a model folder; refuse weights with other shapes than it implies."""
    about = _read_config(folder)
    # Compared without allocating the values: a damaged config.yaml may contain any size.
    expected = parameter_shapes(about.model, about.vocabulary)
    if about.precision == "int8":
        expected = int8_shapes(expected)
    check_shapes(folder / WEIGHTS, converted(tensor_shapes(folder / WEIGHTS)), expected)
    return about


def _read_config(folder: Path) -> ModelFile:
    path = folder / "config.yaml"
    values = read_yaml(path)
    version = values.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{folder}: was written by a newer tram (version {short_repr(version)}); update tram")
    return checked(ModelFile, values, str(path))


def check_exact(folder: Path) -> None:
    """Refuse an int8 folder: rounded weights cannot be trained, and are not those that an adapter is made for."""
    if _read_config(folder).precision == "int8":
        raise InputError(
            f"{folder}: has int8 weights, which cannot be trained or have an adapter; give the float32 model that they "
            "were rounded from"
        )


def check_text(folder: Path) -> None:
    """Refuse a model folder that lost its text.json: what is exported from it could not translate text either."""
    if _read_config(folder).text is not None and not exists(folder / "text.json"):
        raise InputError(f"{folder}: has no text.json, although it was written with one; copy the original")


def load_text(folder: Path) -> "TextPipeline | None":
    """Return the text pipeline of a model folder, if it has one; refuse one that the model was not trained with."""
    from tram.text.pipeline import TextPipeline

    path = folder / "text.json"
    if not exists(path):
        return None
    text, about = TextPipeline.load(folder), _read_config(folder)
    if text.fingerprint != about.text:
        raise InputError(
            f"{path}: is pipeline {text.fingerprint}, the model was trained with {about.text}; "
            "copy the text.json it was trained with"
        )
    if not text.fits(about.vocabulary, about.model.source_vocabulary):
        sizes = f"{text.subwords('source').size:,} and {text.vocabulary:,}"
        rows = f"{about.model.source_vocabulary or about.vocabulary:,} and {about.vocabulary:,}"
        raise InputError(
            f"{path}: has {sizes} ids for source and target, the model's tables have {rows} rows; "
            "copy the text.json it was trained with"
        )
    return text


def parameter_shapes(config: ModelConfig, vocabulary: int) -> dict[str, Tensor]:
    """Return the parameters of a model without values."""
    return weights(empty_model(config, vocabulary))


def empty_model(config: ModelConfig, vocabulary: int) -> Transformer:
    """Return a model whose tensors have shapes but no values."""
    with torch.device("meta"), _WithoutRandomValues():
        return Transformer(config, vocabulary)


INITIALISERS = frozenset({nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, nn.init.xavier_uniform_})


class _WithoutRandomValues(TorchFunctionMode):
    """A mode that skips random initialisation, for which torch would load its compiler on `meta` (70 MB)."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in INITIALISERS:
            return (kwargs or {}).get("tensor", args[0] if args else None)
        if function is torch.randn:
            function = torch.empty
        return function(*args, **(kwargs or {}))


class _WithoutValues(_WithoutRandomValues):
    """A mode that creates all tensors to be filled later on the device `meta`; computed values are not affected."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.empty:
            kwargs = (kwargs or {}) | {"device": "meta"}
        return super().__torch_function__(function, types, args, kwargs)


def check_memory(config: ModelConfig, vocabulary: int, copies: int = 1) -> None:
    """Refuse a new model that is larger than the memory that this process may use.

    copies: of the parameters, in training for gradients and the state of the optimiser.
    """
    model = empty_model(config, vocabulary)
    parameters = sum(value.numel() for value in weights(model).values())
    size = 4 * (copies * parameters + sum(value.numel() for value in model.buffers()))
    available = available_memory()
    if size > available:
        raise InputError(
            f"a model with these settings takes {size / 1e9:,.1f} GB, this process may use {available / 1e9:,.1f} GB; "
            "choose smaller sizes in the config"
        )


def load_model(folder: Path | str, dtype: torch.dtype = torch.float32) -> Transformer:
    """Return the model of a model folder (or the best model of a run folder), in evaluation mode."""
    folder = find_model(folder)
    about = read_model_file(folder)
    check_memory(about.model, about.vocabulary)  # a sparse file can declare any size
    if about.precision == "int8":
        return _load_int8(about, folder / WEIGHTS).to(dtype).eval()
    model = Transformer(about.model, about.vocabulary).to(dtype)
    load_weights(model, folder / WEIGHTS)
    return model.eval()


def load_parameters(folder: Path, about: ModelFile) -> dict[str, Tensor]:
    """Return the parameters of a model folder in the data types of its file; int8 matrices in float32."""
    if about.precision == "int8":
        return weights(_load_int8(about, folder / WEIGHTS))
    return _floating_point(folder / WEIGHTS)


def _load_int8(about: ModelFile, path: Path) -> Transformer:
    """Return the model of an int8 folder, without a float32 copy of its matrices at any time."""
    with _WithoutValues():
        model = Transformer(about.model, about.vocabulary)
    # Copies: a mapped file that another program overwrites would change or end what the model computes
    tensors = {name: value.clone() for name, value in load_tensors(path).items()}
    for name, value in tensors.items():
        if value.is_floating_point() == (name + SCALE in tensors):
            kind = "int8" if name + SCALE in tensors else "floating-point"
            raise InputError(f"{path}: `{name}` does not contain {kind} values; it belongs to another program")
    quantise(model, tensors)
    for name, parameter in list(model.named_parameters()):
        owner, _, own_name = name.rpartition(".")
        value = nn.Parameter(tensors[name], requires_grad=parameter.requires_grad)
        setattr(model.get_submodule(owner), own_name, value)
    return model

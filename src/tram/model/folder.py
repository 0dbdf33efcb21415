"""Model folders: `config.yaml`, `model.safetensors`, `text.json` and `README.md`, which can be moved together.

    save_model(model, "run/model", text=pipeline, card="…")
    model = load_model("run/model")

Folders of version 1 had one projection for queries, keys and values; `converted` renames their tensors.
"""

import errno
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tram.config import ModelConfig, Positive, Section, checked, read_yaml, write_yaml
from tram.errors import InputError
from tram.files import replacing_folder
from tram.model.transformer import Transformer

if TYPE_CHECKING:
    from tram.text.pipeline import TextPipeline

VERSION = 2
WEIGHTS = "model.safetensors"
FUSED = re.compile(r"(.*)\.projection\.(weight|bias)")  # version 1: W^q, W^k and W^v on top of each other


class ModelFile(Section):
    """The contents of `config.yaml` in a model folder."""

    version: int = VERSION
    vocabulary: Positive
    text: str | None = None  # fingerprint of text.json
    model: ModelConfig


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter once, by its first name."""
    return {name: value.detach() for name, value in model.named_parameters()}


def converted(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the names of this version; those of version 1 are split."""
    result: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if match := FUSED.fullmatch(name):
            d_model = value.shape[0] // 3
            result |= {
                f"{match[1]}.query.{match[2]}": value[:d_model],
                f"{match[1]}.key_value.{match[2]}": value[d_model:],
            }
        else:
            result[name] = value
    return result


def fingerprint(model: nn.Module) -> str:
    """Return twelve digits that stand for the weights, as float32 and under the names of version 1."""
    tensors: dict[str, Tensor] = {}
    for name, value in weights(model).items():
        if match := re.fullmatch(r"(.*)\.(query|key_value)\.(weight|bias)", name):
            fused = f"{match[1]}.projection.{match[3]}"
            tensors[fused] = torch.cat([tensors[fused], value]) if fused in tensors else value
        else:
            tensors[name] = value
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(name.encode() + value.float().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:12]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as safetensors; errors of the disk are raised as OSError."""
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    path.touch()
    mode = path.stat().st_mode  # that of any other file here; safetensors would let the owner alone read it
    try:
        save_file(plain, path)
        path.chmod(mode)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        raise OSError(int(code[1]) if code else errno.EIO, str(error)) from error


def load_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, or say what is wrong with it."""
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; give a complete model or run folder") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: is truncated or not a safetensors file ({error}); use another copy of it") from None


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model's parameters from a file that must hold exactly them."""
    missing = sorted(weights(model).keys() - load_known_weights(model, path))
    if missing:
        raise InputError(f"{path}: lacks the tensor `{missing[0]}`; it belongs to another model or another tram")


def load_known_weights(model: nn.Module, path: Path) -> set[str]:
    """Fill those of a model's parameters that a file holds, and return their names; it may hold nothing else."""
    tensors = converted(load_tensors(path))
    own = dict(model.named_parameters())
    if foreign := sorted(tensors.keys() - own.keys()):
        raise InputError(
            f"{path}: holds the unknown tensor `{foreign[0]}`; it belongs to another model or another tram"
        )
    for name, value in tensors.items():
        if own[name].shape != value.shape:
            found, wanted = list(value.shape), list(own[name].shape)
            raise InputError(f"{path}: `{name}` has shape {found}, config.yaml asks for {wanted}; do not mix models")
    with torch.no_grad():
        for name, value in tensors.items():
            own[name].copy_(value)
    return set(tensors)


def save_model(model: Transformer, folder: Path | str, text: "TextPipeline | None" = None, card: str = "") -> None:
    """Write a model folder: config.yaml, model.safetensors, README.md and, if there is one, text.json."""
    folder = Path(folder)
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if present and not present & {WEIGHTS, "config.yaml"}:
        raise InputError(f"{folder}: holds other files, which a model folder would replace; choose another folder")
    with replacing_folder(folder) as temporary:
        save_tensors(temporary / WEIGHTS, weights(model))
        pipeline = None if text is None else text.fingerprint
        about = ModelFile(vocabulary=model.vocabulary, text=pipeline, model=model.config)
        write_yaml(temporary / "config.yaml", about)
        (temporary / "README.md").write_text(card or "A translation model made with tram.\n", encoding="utf-8")
        if text is not None:
            text.save(temporary)


def find_model(folder: Path | str) -> Path:
    """Return the model folder that a path means: itself, or that of the last finished stage of a run."""
    folder = Path(folder)
    for candidate in (folder, folder / "finetune" / "model", folder / "train" / "model"):
        if (candidate / WEIGHTS).exists() and (candidate / "config.yaml").exists():
            return candidate
    if not folder.exists():
        raise InputError(f"{folder}: there is no such folder; give a model folder or the output of `tram train`")
    raise InputError(f"{folder}: is no model folder (config.yaml and {WEIGHTS}); give one or let the training finish")


def read_model_file(folder: Path) -> ModelFile:
    """Return the contents of the config.yaml of a model folder."""
    about = checked(ModelFile, read_yaml(folder / "config.yaml"), str(folder / "config.yaml"))
    if about.version > VERSION:
        raise InputError(f"{folder}: was made by a newer tram (version {about.version}); update tram")
    return about


def load_model(folder: Path | str, dtype: torch.dtype = torch.float32) -> Transformer:
    """Return the model of a model folder (or the best model of a run folder), in evaluation mode."""
    folder = find_model(folder)
    about = read_model_file(folder)
    model = Transformer(about.model, about.vocabulary).to(dtype)
    load_weights(model, folder / WEIGHTS)
    return model.eval()

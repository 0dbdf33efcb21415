"""The files of a Hugging Face model: a folder, or a download of a repository.

    found = find_model_files("Helsinki-NLP/opus-mt-en-de", revision=None)
    found.integer("d_model")                   # of config.json
    found.generation("num_beams")              # of generation_config.json, else of config.json

Reading a folder never uses the network.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tram import files
from tram.errors import InputError
from tram.pretrained.tensor_files import INDEX, SAFETENSORS, TORCH
from tram.yaml_files import parse_yaml

REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
SMALL_FILES = ("*.json", "*.spm", "*.model", "*.txt")  # everything but the weights
MOST_BYTES = 200_000_000  # maximum size of a small file
EXTRA = "install it with `pip install tram-mt[pretrained]`"


@dataclass(frozen=True)
class ModelFiles:
    """The files of a Hugging Face model, with its configs read."""

    folder: Path
    name: str  # of the repository or the folder
    commit: str | None
    config: dict[str, Any]
    generation_config: dict[str, Any] = field(default_factory=dict)
    tokenizer_config: dict[str, Any] = field(default_factory=dict)
    licence: str | None = None

    @property
    def config_path(self) -> Path:
        """The path of config.json."""
        return self.folder / "config.json"

    def refusal(self, key: str, problem: str) -> InputError:
        """Return the error that refuses a model for one key of its config."""
        return InputError(f"{self.config_path}: `{key}`: {problem}")

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a non-negative integer of config.json."""
        value = self.config.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.refusal(key, f"is {value!r}, where a number is needed; use another copy of the model")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean of config.json."""
        value = self.config.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.refusal(key, f"is {value!r}, where true or false is needed; use another copy of the model")
        return value

    def generation(self, key: str) -> Any:
        """Return a generation setting from generation_config.json or, if absent, from config.json."""
        value = self.generation_config.get(key)
        return self.config.get(key) if value is None else value

    def token(self, key: str) -> int | None:
        """Return a special id, of generation or of config.json; None if there is none."""
        value = self.generation(key)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refusal(key, f"is {value!r}; models with one such id can be imported")
        return value

    def required_token(self, key: str) -> int:
        """Return a special id that the model must have."""
        value = self.token(key)
        if value is None:
            raise self.refusal(key, "is missing; use another copy of the model")
        return value

    def token_text(self, key: str, default: str) -> str:
        """Return a special token of tokenizer_config.json, which may be stored with its properties."""
        value = self.tokenizer_config.get(key)
        return str((value.get("content") if isinstance(value, dict) else value) or default)

    def small_files(self) -> dict[str, bytes]:
        """Return the contents of configs and tokeniser files, which a model folder of tram keeps."""
        paths = {path for path in small_paths(self.folder) if files.is_file(path) and not path.name.endswith(INDEX)}
        contents = {}
        for path in sorted(paths):
            with files.reading(path):
                contents[path.name] = path.read_bytes()
        return contents

    def require(self, *names: str) -> None:
        """Refuse a folder that lacks one of these files."""
        for name in names:
            if not files.is_file(self.folder / name):
                raise InputError(f"{self.folder / name}: is missing; copy it from the original model")


def small_paths(folder: Path) -> set[Path]:
    """Return the paths of configs and tokeniser files."""
    return {path for pattern in SMALL_FILES for path in folder.glob(pattern)}


def find_model_files(source: str, revision: str | None = None) -> ModelFiles:
    """Return the files of a folder or a repository."""
    folder, commit = Path(source), None
    if not files.is_folder(folder):
        if files.exists(folder) or not REPOSITORY.fullmatch(source):
            raise InputError(f"{source}: is neither a folder nor the name of a repository such as Helsinki-NLP/opus-mt")
        folder = fetch(source, revision)
        commit = folder.name
    elif revision is not None:
        raise InputError(f"{source}: is a folder, which has no revisions; leave out --revision")
    for path in small_paths(folder):  # transformers would read a pipe, a device or a huge file to its end
        files.regular_file(path, MOST_BYTES)
    config = read_json(folder / "config.json", required=True)
    return ModelFiles(
        folder=folder,
        name=source if commit else folder.resolve().name,
        commit=commit,
        config=config,
        generation_config=read_json(folder / "generation_config.json"),
        tokenizer_config=read_json(folder / "tokenizer_config.json"),
        licence=read_licence(folder / "README.md"),
    )


def fetch(repository: str, revision: str | None) -> Path:
    """Download a repository, without weights in formats that are not needed, and return its folder."""
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        raise InputError(f"{repository}: fetching a model needs the package huggingface_hub; {EXTRA}") from None
    try:
        names = HfApi().list_repo_files(repository, revision=revision)
        safe = any(name.endswith(".safetensors") for name in names)
        weights = [f"{Path(SAFETENSORS).stem}*.safetensors"] if safe else [f"{Path(TORCH).stem}*.bin"]
        patterns = [*SMALL_FILES, "README.md", *weights]
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))
    except Exception as error:  # errors of the network, the hub and the disk have many types
        problem = type(error).__name__
        raise InputError(
            f"{repository}: there is no such folder, and the repository could not be fetched ({problem}); "
            "check its name, the revision and the network, or give a folder"
        ) from None


def read_json(path: Path, required: bool = False) -> dict[str, Any]:
    """Return the mapping of a JSON file; an empty one if the file is missing and not required."""
    try:
        value = files.read_json(path)
    except FileNotFoundError:
        if required:
            raise InputError(f"{path}: is missing; give the folder of a Hugging Face model") from None
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is not readable as JSON ({error}); use another copy of the model") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: is not a JSON object; use another copy of the model")
    if not is_encodable(value):
        raise InputError(f"{path}: contains a lone surrogate; use another copy of the model")
    return value


def is_encodable(value: Any) -> bool:
    """Return whether the strings of a JSON value can be written to a file; lone surrogates cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def read_licence(card: Path) -> str | None:
    """Return the licence that the front matter of a model card states."""
    try:
        parts = files.read_text(card, MOST_BYTES).split("---\n", 2)
        about = parse_yaml(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except (OSError, ValueError, yaml.YAMLError, InputError):
        return None
    licence = about.get("license") if isinstance(about, dict) else None
    return licence if isinstance(licence, str) else None

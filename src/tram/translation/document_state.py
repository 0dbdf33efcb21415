"""What a translator knows of a document between two sentences: data of fixed size that can be kept and moved.

state = translator.start()
state.save("chapter-1.safetensors")
state = DocumentState.load("chapter-1.safetensors")
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from tram.errors import InputError
from tram.files import replacing
from tram.model.state import Carried, carried_from, named_tensors

VERSION = 1


@dataclass
class DocumentState:
    """The memories of one document, (1, …) each, and which model they belong to."""

    carried: Carried
    model: str  # fingerprint of the weights
    sentences: int = 0  # taken in so far

    def fork(self) -> "DocumentState":
        """A copy that goes its own way."""
        carried = {name: {key: value.clone() for key, value in state.items()} for name, state in self.carried.items()}
        return DocumentState(carried, self.model, self.sentences)

    def save(self, path: Path | str) -> None:
        """Write the state as one safetensors file, whole or not at all."""
        named = named_tensors(self.carried)
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in named.items()}
        about = {"version": str(VERSION), "model": self.model, "sentences": str(self.sentences)}
        with replacing(Path(path)) as temporary:
            temporary.write_bytes(save(tensors, metadata=about))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a saved state."""
        path = Path(path)
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            if (version := int(about["version"])) > VERSION:
                raise InputError(f"{path}: is a state of version {version}, this tram reads {VERSION}; update tram")
            model, sentences = about["model"], int(about["sentences"])
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file; give a state that `save` wrote") from None
        except (SafetensorError, OSError, KeyError, ValueError):
            raise InputError(f"{path}: is damaged or no document state; start the document anew") from None
        return cls(carried_from(tensors), model, sentences)

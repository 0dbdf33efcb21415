"""Building blocks of the settings: sections that refuse unknown keys, and bounded numbers."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

# All numbers are bounded, so that a typing error cannot start an endless computation.
Fraction = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1e38)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Positive = Annotated[int, Field(ge=1, le=10**9)]
Width = Annotated[int, Field(ge=1, le=2**17)]  # dimension of vectors
Layers = Annotated[int, Field(ge=1, le=500)]
Positions = Annotated[int, Field(ge=1, le=10**6)]


def usable_path(path: Path) -> Path:
    """Return the path if file systems accept it, else raise ValueError."""
    try:
        parts = [part.encode() for part in path.parts]
    except UnicodeEncodeError:
        raise ValueError("the path contains a lone surrogate") from None
    if any(b"\0" in part or len(part) > 255 for part in parts) or sum(map(len, parts)) + len(parts) > 4000:
        raise ValueError("the path contains a null character or is too long")
    return path


def not_empty(path: Any) -> Any:
    """Refuse an empty text, which as a path would be the current folder."""
    if path == "":
        raise ValueError("the path is empty; write . for the current folder")
    return path


FilePath = Annotated[Path, BeforeValidator(not_empty), AfterValidator(usable_path)]


class Section(BaseModel):
    """A section of the config: frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    RENAMED: ClassVar[dict[str, str]] = {}  # keys of earlier versions, and their current names
    REMOVED: ClassVar[dict[str, Any]] = {}  # keys of earlier versions, and the value that had no effect

    @model_validator(mode="before")
    @classmethod
    def _accept_former_keys(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = cls.with_current_keys(values)
        for key, value in values.items():
            if isinstance(value, bool) and key in cls.model_fields:
                annotation = cls.model_fields[key].annotation
                if bool not in (annotation, *get_args(annotation)):  # pydantic would read `updates: yes` as 1
                    raise ValueError(f"{key}: true and false (in YAML also yes, no, on and off) are not valid here")
        return values

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

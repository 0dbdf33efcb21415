"""Suites: sentences whose right translation is decided by their context. Contrastive items, and readers of all kinds.

items = read_items("suite.jsonl")          # contrastive, with an expected word, or the agreement probe
items = read_suite("suite.jsonl")          # contrastive only: `tram synthetic`, `tram suite`, ContraPro
exchange_contexts(items)                   # the control: every item after another one's context
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tram.data.text_files import Lines
from tram.errors import InputError
from tram.evaluation.agreement import AgreementItem
from tram.evaluation.contexts import others
from tram.evaluation.expected import ExpectedItem

AnyItem = TypeVar("AnyItem", bound=BaseModel)
SHIPPED = Path(__file__).parent / "suites"
PRONOUNS = ("er", "sie", "es")
OTHER = "other"


class Item(BaseModel):
    """A sentence after its context, the right translation, and wrong ones that differ in what the context decides."""

    model_config = ConfigDict(frozen=True)

    source_context: tuple[str, ...]
    target_context: tuple[str, ...]
    source: str
    reference: str
    contrastive: tuple[str, ...]
    phenomenon: str | None = None
    distance: int | None = Field(None, ge=0)  # sentences back to the one that decides
    document: str | None = None  # where the item is from; intervals draw documents

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        source, target = len(self.source_context), len(self.target_context)
        if source != target:
            raise ValueError(
                f"has {source} sentences in 'source_context' and {target} in 'target_context'; "
                "give every sentence its translation"
            )
        if not self.contrastive:
            raise ValueError("has nothing in 'contrastive'; give at least one wrong translation")
        texts = {"source": self.source, "reference": self.reference}
        texts |= {f"contrastive.{number}": variant for number, variant in enumerate(self.contrastive)}
        for name, text in texts.items():
            if not text.strip():
                raise ValueError(f"has an empty {name!r}; fill it in or remove the item")
        if self.reference in self.contrastive:
            raise ValueError("has its reference among 'contrastive', which nothing could tell apart; remove it there")
        return self

    @property
    def pronoun(self) -> str:
        """The German pronoun in question: the first word in which the reference and a variant differ."""
        reference = _words(self.reference)
        first = min(_first_difference(reference, _words(variant)) for variant in self.contrastive)
        word = reference[first] if first < len(reference) else ""
        return word if word in PRONOUNS else OTHER


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _first_difference(left: list[str], right: list[str]) -> int:
    """Return the number of leading words that are the same."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(left), len(right)))


def read_suite(path: Path | str) -> list[Item]:
    """Read a contrastive suite: a JSON object per line, plain or packed as .gz or .xz; blank lines do not count."""
    return _read(Path(path), Item)


def find_suite(path: Path | str) -> Path:
    """Return the file of a suite: a path, or the name of one that comes with tram (`agreement`)."""
    shipped = SHIPPED / f"{path}.jsonl"
    return shipped if not Path(path).exists() and shipped.is_file() else Path(path)


def read_items(path: Path | str) -> list[Item] | list[ExpectedItem] | list[AgreementItem]:
    """Read a suite of any kind; what its first item has tells which: `contrastive`, `expected` or `antecedent`.

    path: a file, or the name of a suite that comes with tram.
    """
    path = find_suite(path)
    for _, line in Lines(path):
        if line and not line.isspace():
            if re.search(r'"antecedent"\s*:', line):
                return _read(path, AgreementItem)
            if re.search(r'"expected"\s*:', line):
                return _read(path, ExpectedItem)
            break
    return read_suite(path)


def _read(path: Path, kind: type[AnyItem]) -> list[AnyItem]:
    lines = Lines(path)
    items = []
    for number, line in lines:
        if line and not line.isspace():
            try:
                items.append(kind.model_validate_json(line, strict=True))
            except ValidationError as error:
                lines.refuse(number, _problem(error, kind))
    if not items:
        raise InputError(
            f"{path}: has no items; give a suite of `tram synthetic` or `tram suite`, or one in its format"
        )
    return items


def exchange_contexts(items: Sequence[Item], seed: int = 1) -> list[Item]:
    """Give every item another one's context, if possible of its phenomenon and distance: nothing there can help."""
    contexts = [(item.source_context, item.target_context) for item in items]
    givers = others(contexts, [(item.phenomenon, item.distance) for item in items], seed)
    return [
        item.model_copy(update={"source_context": contexts[giver][0], "target_context": contexts[giver][1]})
        for item, giver in zip(items, givers, strict=True)
    ]


def _problem(error: ValidationError, kind: type[BaseModel]) -> str:
    problem = error.errors()[0]
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "json_invalid":
        return f"is not JSON ({problem['ctx']['error']}); write one whole object per line"
    if problem["type"] == "missing":
        *most, last = [field for field, about in kind.model_fields.items() if about.is_required()]
        return f"has no {name!r}; an item needs {', '.join(most)} and {last}"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    where = f"a wrong {name!r}" if name else "no object"
    return f"has {where} ({problem['msg']}); write it as `tram synthetic` and `tram suite` do"

"""Suites of sentences whose translation depends on context: contrastive items, and readers for all kinds of items.

items = read_items("suite.jsonl")          # contrastive, with an expected word, or the agreement probe
items = read_suite("suite.jsonl")          # contrastive only: `tram synthetic`, `tram suite`, ContraPro
exchange_contexts(items)                   # the control: every item with the context of another item
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
from tram.files import exists
from tram.json_text import parse_json

AnyItem = TypeVar("AnyItem", bound=BaseModel)
SHIPPED = Path(__file__).parent / "suites"
PRONOUNS = ("er", "sie", "es")
OTHER = "other"


class ContrastiveItem(BaseModel):
    """A sentence with its context, its reference, and incorrect translations that differ in what context decides."""

    model_config = ConfigDict(frozen=True)

    source_context: tuple[str, ...]
    target_context: tuple[str, ...]
    source: str
    reference: str
    contrastive: tuple[str, ...]
    phenomenon: str | None = None
    distance: int | None = Field(None, ge=0)  # sentences back to the deciding one
    document: str | None = None  # the document of the item; bootstrap intervals resample documents

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
            raise ValueError("has its reference among 'contrastive', so the two cannot be told apart; remove it there")
        return self

    @property
    def pronoun(self) -> str:
        """The German pronoun that is tested: the first word in which the reference and a variant differ."""
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


def read_suite(path: Path | str) -> list[ContrastiveItem]:
    """Read a contrastive suite: one JSON object per line, plain or compressed (.gz, .xz); blank lines are skipped."""
    return _read(Path(path), ContrastiveItem)


def find_suite(path: Path | str) -> Path:
    """Return the file of a suite: a path, or the name of one that ships with tram (`agreement`)."""
    shipped = SHIPPED / f"{path}.jsonl"
    return shipped if not exists(Path(path)) and shipped.is_file() else Path(path)


def read_items(path: Path | str) -> list[ContrastiveItem] | list[ExpectedItem] | list[AgreementItem]:
    """Read a suite of any kind; the kind is that of its first item: `contrastive`, `expected` or `antecedent`.

    path: a file, or the name of a suite that ships with tram.
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
                parse_json(line)  # pydantic takes the last value of a key that appears twice
                items.append(kind.model_validate_json(line, strict=True))
            except ValidationError as error:
                lines.refuse(number, _problem(error, kind))
            except ValueError as error:
                lines.refuse(number, f"is not JSON ({error}); write one whole object per line")
    if not items:
        raise InputError(
            f"{path}: has no items; give a suite of `tram synthetic` or `tram suite`, or one in the same format"
        )
    return items


def exchange_contexts(items: Sequence[ContrastiveItem], seed: int = 1) -> list[ContrastiveItem]:
    """Return the items with each other's contexts, if possible of the same phenomenon and distance.

    Another item's context does not help, so this is the control.
    """
    contexts = [(item.source_context, item.target_context) for item in items]
    donors = others(contexts, [(item.phenomenon, item.distance) for item in items], seed)
    return [
        item.model_copy(update={"source_context": contexts[donor][0], "target_context": contexts[donor][1]})
        for item, donor in zip(items, donors, strict=True)
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

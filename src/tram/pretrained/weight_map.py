"""Mapping of the tensors of a foreign checkpoint to tram's parameters.

tram's ids are the foreign ones plus 1, because id 0 is padding: token tables have one more row at the top, whose bias
keeps its logit at -10,000, so that it changes no probability.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tram.config import ModelConfig
from tram.errors import InputError
from tram.model.folder import parameter_shapes
from tram.pretrained.family import Family
from tram.pretrained.hub import ModelFiles
from tram.pretrained.names import (
    DECODER_TOKENS,
    ENCODER_TOKENS,
    LAYER_NAMES,
    OUTPUT,
    OUTPUT_BIAS,
    SHARED,
    foreign_names,
)
from tram.pretrained.tensor_files import Entry, Tensors

PADDING_LOGIT = -1e4  # not -inf: label smoothing averages all logits


@dataclass(frozen=True)
class Tables:
    """Foreign names of the token tables; source None: shared with the target; output None: tied to the target."""

    target: str
    source: str | None = None
    output: str | None = None

    @classmethod
    def of_config(cls, files: ModelFiles) -> "Tables":
        """Return the tables that a config describes."""
        output = None if files.flag("tie_word_embeddings", True) else OUTPUT
        if files.flag("share_encoder_decoder_embeddings", True) and output is None:
            return cls(SHARED)
        return cls(DECODER_TOKENS, ENCODER_TOKENS, output)


class Checkpoint:
    """A foreign checkpoint, read as the parameters of a tram model."""

    def __init__(self, family: Family, files: ModelFiles, tensors: Tensors) -> None:
        self.family = family
        self.files = files
        self.tensors = tensors
        # In a file that was saved without the output layer, all names lack the first component.
        bare = not any(name.startswith("model.") for name in tensors.entries)
        self.names = {f"model.{name}" if bare else name: name for name in tensors.entries}
        self.tables = self.find_tables()
        self._used = {SHARED, ENCODER_TOKENS, DECODER_TOKENS, OUTPUT, OUTPUT_BIAS}

    def find_tables(self) -> Tables:
        """Return the token tables, by their names in the file."""
        tables = Tables.of_config(self.files)
        if tables.source is None:
            copies = (SHARED, DECODER_TOKENS, ENCODER_TOKENS, OUTPUT)
            return Tables(next((name for name in copies if name in self.names), SHARED))
        # Without tied weights, older files have one table for both sides, or two equal ones.
        source, target = (name if name in self.names else SHARED for name in (tables.source, tables.target))
        if source == target or (tables.output is not None and self.are_equal(source, target)):
            return Tables(target, None, tables.output)
        return Tables(target, source, tables.output)

    def are_equal(self, one: str, other: str) -> bool:
        """Return whether two tensors are equal."""
        alike = self.entry(one) == self.entry(other)
        pairs = zip(self.blocks(one), self.blocks(other), strict=True)
        return alike and all(torch.equal(first, second) for first, second in pairs)

    def unused_table(self) -> Tensor | None:
        """Return the unused table of a checkpoint with untied tables; only a complete export needs it."""
        used = {self.tables.target, self.tables.source}
        if self.tables.output is None or SHARED not in self.names or SHARED in used:
            return None
        if self.are_equal(SHARED, self.tables.target):
            return None
        return torch.cat([block.clone() for block in self.blocks(SHARED)]).reshape(self.entry(SHARED).shape)

    def settings(self, config: ModelConfig) -> ModelConfig:
        """Return the config with the token tables of this checkpoint."""
        source = None
        if self.tables.source is not None:
            rows, *_ = (*self.entry(self.tables.source).shape, 0)  # 0: of a single number, whose shape is refused later
            source = rows + 1
        return config.model_copy(update={"source_vocabulary": source, "tied_output": self.tables.output is None})

    def entries(self, config: ModelConfig, vocabulary: int) -> dict[str, Entry]:
        """Return shape and data type of every parameter; refuse a checkpoint that does not fit the config."""
        entries = {}
        for name, expected in parameter_shapes(config, vocabulary).items():
            parts = self.parts(name)
            self._used.update(parts)
            dtype = self.entry(parts[0] if parts else self.tables.target).dtype
            entries[name] = Entry(tuple(expected.shape), dtype)
            rows, *columns = expected.shape
            shape = [(rows - self.extra_rows(name)) // max(len(parts), 1), *columns]
            for part in parts:
                actual = [n for n in self.entry(part).shape if part != OUTPUT_BIAS or n != 1]
                if actual != shape:
                    raise InputError(
                        f"{self.tensors.path(self.names[part])}: `{part}` has shape {list(self.entry(part).shape)}, "
                        f"but config.json and the tokeniser ask for {shape}; do not mix files of several models"
                    )
        self.check_all_used()
        return entries

    def check_all_used(self) -> None:
        """Refuse a tensor that no parameter uses; sinusoidal position tables are ignored."""
        for name, original in self.names.items():
            is_sinusoid = self.family.positions != "learned" and ".embed_positions.weight" in name
            if name not in self._used and not is_sinusoid:
                raise InputError(
                    f"{self.tensors.path(original)}: contains the unknown tensor `{original}`; "
                    f"this {self.family.name} model was changed in a way that tram does not support"
                )

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the foreign names of the tensors of a parameter; empty for a bias that the file does not have."""
        if name == "bias":
            return (OUTPUT_BIAS,) if OUTPUT_BIAS in self.names else ()
        tables = {
            "tokens.weight": self.tables.target,
            "source_tokens.weight": self.tables.source,
            "output.weight": self.tables.output,
        }
        table = tables.get(name)
        return (table,) if table is not None else foreign_names(name, LAYER_NAMES)

    @staticmethod
    def extra_rows(name: str) -> int:
        """Return the number of rows for ids that the foreign model does not have."""
        return int(name in {"tokens.weight", "source_tokens.weight", "output.weight", "bias"})

    def parameter(self, name: str, entry: Entry) -> Iterator[Tensor]:
        """Yield the values of a parameter in order, a block at a time: the padding row, then the foreign tensors."""
        parts = self.parts(name)
        if self.extra_rows(name):
            yield torch.full(entry.shape[1:], PADDING_LOGIT if name == "bias" else 0.0)
        for part in parts:
            yield from self.blocks(part)
        if name == "bias" and not parts:
            yield torch.zeros(entry.shape[0] - 1)

    def entry(self, name: str) -> Entry:
        """Return shape and data type of a foreign tensor."""
        if name not in self.names:
            raise InputError(f"{self.files.folder}: its weights lack the tensor `{name}`; use another copy of it")
        return self.tensors.entry(self.names[name])

    def blocks(self, name: str) -> Iterator[Tensor]:
        """Yield the values of a foreign tensor in order, a block at a time."""
        self.entry(name)
        return self.tensors.blocks(self.names[name])

"""`tram export hf`: convert model folders of tram to folders that transformers can load.

    export_hf(Path("opus"), Path("opus-hf"))

An imported model is exported to its own family, with its configs and its tokeniser. A model trained by tram becomes a
BART, an mBART or a Marian model, whichever has its architecture, without a tokeniser.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tram.config import ModelConfig
from tram.config.units import WindowUnit
from tram.errors import InputError
from tram.files import replacing_folder
from tram.json_text import parse_json
from tram.model.folder import (
    check_text,
    find_model,
    load_parameters,
    load_tensors,
    load_text,
    parameter_shapes,
    read_model_file,
)
from tram.pretrained.family import REBUILT, Family
from tram.pretrained.folders import check_output_folder
from tram.pretrained.hf import FAMILIES, UNUSED
from tram.pretrained.names import (
    DECODER_TOKENS,
    ENCODER_TOKENS,
    LAYER_NAMES,
    OUTPUT,
    OUTPUT_BIAS,
    SHARED,
    foreign_names,
)
from tram.pretrained.tensor_files import DTYPE_NAMES, SAFETENSORS, Entry, write_tensors
from tram.text.pretrained import AGAIN, FOLDER
from tram.text.special_ids import PAD, SpecialIds

ARCHITECTURES = {
    "bart": "BartForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "marian": "MarianMTModel",
}
BART_OFFSET = 2  # unused rows at the top of learned position tables


@dataclass(frozen=True)
class Exported:
    """A model to export: its parameters, the number of token table rows that only tram has, and its family."""

    config: ModelConfig
    parameters: Mapping[str, Tensor]
    family: Family
    own_rows: int  # 1 in imported models, whose row 0 is padding

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors under the names of transformers, as views of the parameters."""
        named: dict[str, Tensor] = {}
        for name, value in self.parameters.items():
            if name == "bias" or name.endswith("tokens.weight") or name == "output.weight":
                continue
            if name.endswith("embeddings.positions"):
                value = torch.cat([value.new_zeros(BART_OFFSET - self.config.position_offset, value.shape[1]), value])
            names = foreign_names(name, LAYER_NAMES)
            named |= dict(zip(names, value.chunk(len(names)), strict=True))
        return named | self.tables()

    def tables(self) -> dict[str, Tensor]:
        """Return the token tables and the bias of the output."""
        target = self.parameters["tokens.weight"][self.own_rows :]
        source = self.parameters.get("source_tokens.weight")
        output = self.parameters.get("output.weight")
        if source is None and output is None:
            tables = {SHARED: target}
        else:
            tables = {DECODER_TOKENS: target, ENCODER_TOKENS: target if source is None else source[self.own_rows :]}
        if output is not None:
            tables[OUTPUT] = output[self.own_rows :]
            tables[SHARED] = target  # unused; replaced by the original's if that is another one
        if self.family.has_output_bias:
            bias = self.parameters.get("bias")
            flat = target.new_zeros(len(target)) if bias is None else bias[self.own_rows :]
            tables[OUTPUT_BIAS] = flat[None]
        return tables


def export_hf(model: Path, out: Path, without_context: bool = False) -> None:
    """Write a model folder for transformers; refuse a context module unless `without_context`."""
    check_output_folder(out)
    folder = find_model(model)
    about = read_model_file(folder)
    if about.model.context is not None and not without_context:
        raise InputError(
            f"{folder}: has a context module, which transformers does not support; add --without-context to leave it "
            "out, or use `tram export adapter` to keep it"
        )
    if isinstance(about.model.unit, WindowUnit) and about.model.unit.flat_layers:
        raise InputError(
            f"{folder}: transformers does not support the layers of Flat-Transformer (unit.flat_layers); use "
            "`tram export tram`"
        )
    check_text(folder)
    text = load_text(folder)
    config = about.model.without_context()
    names = parameter_shapes(config, about.vocabulary)
    stored = load_parameters(folder, about)
    if replaced := names.keys() - stored.keys():
        raise InputError(
            f"{folder}: there is no sentence model inside it, because its context replaces `{min(replaced)}`; use "
            "`tram export tram`"
        )
    parameters = {name: stored[name] for name in names}
    if text is not None and text.pretrained is not None:
        files = {name: content for name, content in text.files.items() if name not in {REBUILT, UNUSED}}
        kind = _kind_of_origin(files.get("config.json", b""), folder)
        exported = Exported(config, parameters, FAMILIES[kind], 1)
        unused = load_tensors(folder / FOLDER / UNUSED) if UNUSED in text.files else {}
        card = f"{text.pretrained.origin.describe()}\n\nExported by `tram export hf`.\n"
    else:
        kind = kind_of(config, folder)
        exported = Exported(config, parameters, FAMILIES[kind], 0)
        special = SpecialIds() if text is None else text.special
        files = {"config.json": json.dumps(foreign_config(config, about.vocabulary, kind, special), indent=2).encode()}
        unused = {}
        card = "A model trained with tram, exported by `tram export hf` without its tokeniser.\n"
    found = exported.tensors() | unused
    found |= {name: value.float() for name, value in found.items() if value.dtype not in DTYPE_NAMES}  # of 8 bits
    entries = {name: Entry(tuple(value.shape), value.dtype) for name, value in found.items()}
    with replacing_folder(out.resolve()) as temporary:
        write_tensors(temporary / SAFETENSORS, entries, lambda name: [found[name]])
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        (temporary / "README.md").write_text(card, encoding="utf-8")


def _kind_of_origin(config: bytes, folder: Path) -> str:
    """Return the family that the config.json of an imported model names."""
    try:
        kind: str = parse_json(config.decode())["model_type"]
        FAMILIES[kind]
    except (ValueError, LookupError, TypeError):
        raise InputError(f"{folder / FOLDER / 'config.json'}: names no family of models; {AGAIN}") from None
    return kind


def kind_of(config: ModelConfig, folder: Path) -> str:
    """Return the family with the architecture of a model trained by tram; raise InputError if there is none."""
    layout = (config.norm, config.embedding_norm, config.positions)
    for kind in ARCHITECTURES:
        family = FAMILIES[kind]
        offset_fits = config.position_offset in {0, BART_OFFSET if kind != "marian" else 0}
        if layout == (family.norm, family.embedding_norm, family.positions) and offset_fits:
            return kind
    raise InputError(
        f"{folder}: no family of transformers has {config.norm}-norm, {config.positions} positions and embedding_norm "
        f"{str(config.embedding_norm).lower()} together; only the layouts of BART, mBART and Marian can be exported"
    )


def foreign_config(config: ModelConfig, vocabulary: int, kind: str, special: SpecialIds) -> dict[str, Any]:
    """Return the config.json of a model trained by tram."""
    sides = {
        f"{stack}_{key}": value
        for stack in ("encoder", "decoder")
        for key, value in {"attention_heads": config.heads, "ffn_dim": config.feed_forward}.items()
    }
    return {
        "model_type": kind,
        "architectures": [ARCHITECTURES[kind]],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        **sides,
        "activation_function": config.activation,
        "max_position_embeddings": config.max_positions,
        "scale_embedding": config.embedding_scale,
        "pad_token_id": PAD,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
        "decoder_start_token_id": special.start,
        "forced_eos_token_id": special.end,
        "dropout": 0.0,
    }

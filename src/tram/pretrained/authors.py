"""Import of the paper authors' checkpoints as tram model folders.

    import_authors(Path("authors.pt"), Path("model"), heads=8, side="both")

A checkpoint is a PyTorch state dict with BART's names and a memory unit, `rnn`, in some layers; a sentence model has
none. All sizes are read from the shapes of the tensors, and a tensor that does not fit is refused by name. With the
authors' vocabulary and BPE codes, the model folder translates text, otherwise ids.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tram.config import ContextSide, ModelConfig, checked
from tram.errors import InputError
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.pretrained.folders import check_output_folder
from tram.pretrained.names import (
    DECODER_TOKENS,
    ENCODER_TOKENS,
    LAYER_NAMES,
    OUTPUT,
    OUTPUT_BIAS,
    SHARED,
    foreign_names,
)
from tram.pretrained.subword_files import read_text_pipeline
from tram.pretrained.torch_files import checked_tensors, load_torch_file
from tram.text.languages import check_language
from tram.text.pipeline import TextPipeline

STACKS: dict[ContextSide, tuple[str, ...]] = {
    "source": ("encoder",),
    "target": ("decoder",),
    "both": ("encoder", "decoder"),
}
POSITION_OFFSET = 2  # BART's position tables begin with two unused rows

EMBEDDING = SHARED
COPIES = (ENCODER_TOKENS, DECODER_TOKENS, OUTPUT)

# tram's names and the authors' names inside a layer; those of the memory come first, because other names are prefixes.
AUTHORS_LAYER_NAMES = {
    "self_attention.context.table": "rnn.ds_query_init",
    "self_attention.context.first_norm": "rnn.ds_layernorm",
    "self_attention.context.update_attention": "rnn.recurrent_layer.attn",
    "self_attention.context.positions.positions": "rnn.recurrent_layer.seg_embedding.emb.weight",  # learned ones only
    "self_attention.context.positions.norm": "rnn.recurrent_layer.seg_embedding.layer_norm",
    "self_attention.context.update_norm": "rnn.recurrent_layer.attn_layer_norm",
    "self_attention.context.feed_forward.inner": "rnn.recurrent_layer.fc1",
    "self_attention.context.feed_forward.outer": "rnn.recurrent_layer.fc2",
    "self_attention.context.feed_forward_norm": "rnn.recurrent_layer.final_layer_norm",
    "self_attention.context.output_attention": "rnn.attn",
    "self_attention.context.output_norm": "rnn_layer_norm",
    **LAYER_NAMES,
}

LAYER = r"layers\.([0-9]{1,9})\."
MEMORY_UNIT = re.compile(rf"model\.(encoder|decoder)\.{LAYER}rnn(\.|_layer_norm\.)")
SLOT_TABLE = re.compile(r".*\.rnn\.recurrent_layer\.seg_embedding\.emb\.weight")  # learned positions of the slots
SLOT_NORM = re.compile(r"(.*\.rnn\.recurrent_layer\.seg_embedding)\.(?!emb\.)\w+\.(weight|bias)")  # whatever its name
UNUSED_IN_MEMORY = re.compile(r"\.rnn\.ds_linear\.(weight|bias)$")


def import_authors(
    checkpoint: Path,
    out: Path,
    heads: int,
    side: ContextSide,
    vocab: Path | None = None,
    codes: Path | None = None,
    source_language: str = "en",
    target_language: str = "de",
) -> None:
    """Write a checkpoint of the authors as a model folder, or refuse it and write nothing.

    heads, side: number of attention heads, and the sides whose memory is used; neither can be read from the shapes.
    side is ignored if the checkpoint has no memory.
    vocab, codes: the authors' vocabulary and BPE codes, both or neither; the languages are those of Moses.
    """
    if (vocab is None) != (codes is None):
        missing = "--codes" if codes is None else "--vocab"
        raise InputError(
            f"{vocab or codes}: --vocab and --codes belong together; give {missing}, too, or neither of them"
        )
    for language in (source_language, target_language):
        check_language(language)
    check_output_folder(out)
    state = read_state_dict(checkpoint)
    model = build_model(state, heads, side)
    text = None
    if vocab is not None and codes is not None:
        text = read_text_pipeline(vocab, codes, model.vocabulary, source_language, target_language)
    save_model(model, out.resolve(), text, model_card(checkpoint, model, text))


@dataclass(frozen=True)
class StateDict:
    """The tensors of a checkpoint by the authors' names, and the file they were read from."""

    path: Path
    tensors: dict[str, Tensor]

    def tensor(self, name: str, *shape: int | None) -> Tensor:
        """Return the tensor `name`, which must have this shape; None in a shape means any size but 0."""
        if name not in self.tensors:
            raise InputError(
                f"{self.path}: lacks the tensor `{name}`; give a complete checkpoint of the authors' model"
            )
        tensor = self.tensors[name]
        sizes = [size or max(n, 1) for size, n in zip(shape, tensor.shape, strict=False)]
        if len(shape) != tensor.dim() or sizes != list(tensor.shape):
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise InputError(
                f"{self.path}: `{name}` has shape {list(tensor.shape)}, but the other tensors require [{expected}];"
                " give a checkpoint of the authors' model"
            )
        if not tensor.is_floating_point() or not bool(tensor.float().isfinite().all()):
            raise InputError(
                f"{self.path}: `{name}` contains values that are not finite numbers; use another checkpoint"
            )
        return tensor.float()

    def layers(self, stack: str) -> int:
        """Return the number of layers of the encoder or the decoder."""
        numbers = {int(match[1]) for name in self.tensors if (match := re.match(rf"model\.{stack}\.{LAYER}", name))}
        count = max(len(numbers), 1)
        for layer in range(count):
            if layer not in numbers:
                raise InputError(f"{self.path}: lacks the layer `model.{stack}.layers.{layer}`; use another checkpoint")
        return count

    def memory_layers(self, stack: str) -> list[int]:
        """Return the layers of the encoder or the decoder that have a memory unit, counted from 0."""
        units = (MEMORY_UNIT.match(name) for name in self.tensors)
        return sorted({int(unit[2]) for unit in units if unit and unit[1] == stack})


def read_state_dict(path: Path) -> StateDict:
    """Read the state dict of a file, or the one under its key `state_dict` or `model`, with uniform names."""
    remedy = "give a file made by torch.save(model.state_dict(), FILE)"
    found = load_torch_file(path, remedy)
    for key in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
            break
    loaded = checked_tensors(path, found, remedy)
    # A wrapper around the authors' model prefixes all names with `model.`, even those that already begin with it.
    if all(name.startswith("model.") for name in loaded) and any(name.startswith("model.model.") for name in loaded):
        loaded = {name.removeprefix("model."): value for name, value in loaded.items()}
    return StateDict(path, with_slot_norms(loaded))


def with_slot_norms(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, with the LayerNorm after every learned table of slot positions under a uniform name.

    The table's module is read as LN(M + table); a LayerNorm without weights is one with weights 1 and biases 0.
    """
    renamed = {SLOT_NORM.sub(r"\1.layer_norm.\2", name): value for name, value in tensors.items()}
    for name, table in tensors.items():
        if SLOT_TABLE.fullmatch(name) and table.dim():
            start = name.removesuffix("emb.weight") + "layer_norm"
            if f"{start}.weight" not in renamed and f"{start}.bias" not in renamed:
                renamed |= {
                    f"{start}.weight": torch.ones(table.shape[-1]),
                    f"{start}.bias": torch.zeros(table.shape[-1]),
                }
    return renamed


def build_model(state: StateDict, heads: int, side: ContextSide) -> Transformer:
    """Return the model that a state dict describes, with its weights."""
    check_tied_embeddings(state)
    config = read_config(state, heads, side)
    model = Transformer(config, len(state.tensors[EMBEDDING]))
    known = {EMBEDDING, OUTPUT_BIAS, *COPIES}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs = authors_names(name)
            known.update(theirs)
            parameter.copy_(assemble(state, theirs, parameter.shape))
    for name in state.tensors:
        if name not in known and not is_unused(name, side):
            raise InputError(
                f"{state.path}: contains the unknown tensor `{name}`; only the authors' model can be imported"
            )
    return model


def check_tied_embeddings(state: StateDict) -> None:
    """Refuse a checkpoint whose encoder, decoder and output do not share one embedding."""
    embedding = state.tensor(EMBEDDING, None, None)
    for name in COPIES:
        if name in state.tensors and not torch.equal(state.tensor(name, *embedding.shape), embedding):
            raise InputError(f"{state.path}: `{name}` differs from `{EMBEDDING}`; only tied embeddings can be imported")


def read_config(state: StateDict, heads: int, side: ContextSide) -> ModelConfig:
    """Return the model config that follows from the shapes of the tensors."""
    vocabulary, d_model = state.tensors[EMBEDDING].shape
    if heads < 1 or d_model % heads:
        raise InputError(
            f"{state.path}: --heads {heads} does not divide the width {d_model} of `{EMBEDDING}`;"
            " give the number of heads that the model was trained with"
        )
    table = "model.encoder.embed_positions.weight"
    positions = len(state.tensor(table, None, d_model)) - POSITION_OFFSET
    if positions < 3:
        raise InputError(f"{state.path}: `{table}` is too small for a sentence of one token; use another checkpoint")
    bias = OUTPUT_BIAS in state.tensors and bool(state.tensor(OUTPUT_BIAS, 1, vocabulary).any())
    settings = {
        "d_model": d_model,
        "heads": heads,
        "feed_forward": len(state.tensor("model.encoder.layers.0.fc1.weight", None, d_model)),
        "encoder_layers": state.layers("encoder"),
        "decoder_layers": state.layers("decoder"),
        "position_offset": POSITION_OFFSET,
        "max_positions": positions,
        "max_length": min(128, positions),
        "output_bias": bias,
        "context": read_memory_settings(state, side),
    }
    return checked(ModelConfig, settings, str(state.path))


def read_memory_settings(state: StateDict, side: ContextSide) -> dict[str, Any] | None:
    """Return the settings of the memory on the given sides; None if the whole model has no memory unit."""
    if not any(state.memory_layers(stack) for stack in STACKS["both"]):
        return None
    memory_layers = {stack: state.memory_layers(stack) for stack in STACKS[side]}
    for stack, numbers in memory_layers.items():
        if not numbers:
            raise InputError(f"{state.path}: has no memory unit (`rnn`) in its {stack}; give another --side")
    layers = common_layer_numbers([(set(numbers), state.layers(stack)) for stack, numbers in memory_layers.items()])
    if layers is None:
        raise InputError(
            f"{state.path}: has memory units in layers {memory_layers['encoder']} of the encoder and"
            f" {memory_layers['decoder']} of the decoder; only the same layers on both sides can be imported"
        )
    stack, numbers = next(iter(memory_layers.items()))
    first = f"model.{stack}.layers.{numbers[0]}.rnn.ds_query_init"
    slots = state.tensor(first, 1, None, state.tensors[EMBEDDING].shape[1]).shape[1]
    units = [f"model.{stack}.layers.{number}." for stack, numbers in memory_layers.items() for number in numbers]
    learned = [any(SLOT_TABLE.fullmatch(name) and name.startswith(unit) for name in state.tensors) for unit in units]
    if any(learned) and not all(learned):
        raise InputError(f"{state.path}: only some memory units have learned slot positions; use another checkpoint")
    positions = "learned" if all(learned) else "sinusoidal"
    return {"kind": "memory", "slots": slots, "side": side, "layers": layers, "positions": positions}


def common_layer_numbers(stacks: list[tuple[set[int], int]]) -> tuple[int, ...] | None:
    """Return layer numbers (negative: from the top) that denote exactly the given layers in every stack, if possible.

    stacks: for each stack, the layers with a memory and the number of layers
    """
    least = min(layers for _, layers in stacks)
    for candidates in (range(least), range(-least, 0), range(-least, least)):
        numbers = [n for n in candidates if all(n % layers in wanted for wanted, layers in stacks)]
        if all({n % layers for n in numbers} == wanted for wanted, layers in stacks):
            return tuple(numbers)
    return None


def authors_names(name: str) -> tuple[str, ...]:
    """Return the authors' names of the tensors that are stacked in tram's parameter `name`."""
    tables = {"tokens.weight": EMBEDDING, "bias": OUTPUT_BIAS}
    return (tables[name],) if name in tables else foreign_names(name, AUTHORS_LAYER_NAMES)


def assemble(state: StateDict, names: tuple[str, ...], shape: torch.Size) -> Tensor:
    """Return the authors' tensors stacked and reshaped to a parameter's shape."""
    rows, *columns = shape
    leading = [1] if names[0] == OUTPUT_BIAS or names[0].endswith(".ds_query_init") else []
    parts = [state.tensor(name, *leading, rows // len(names), *columns) for name in names]
    return torch.cat(parts).reshape(shape)


def is_unused(name: str, side: ContextSide) -> bool:
    """Return whether the authors' model never uses this tensor; every checkpoint has some of these."""
    unit = MEMORY_UNIT.match(name)
    return unit is not None and (unit[1] not in STACKS[side] or UNUSED_IN_MEMORY.search(name) is not None)


def model_card(checkpoint: Path, model: Transformer, text: TextPipeline | None) -> str:
    """Return the README.md of the model folder."""
    config, memory = model.config, model.config.memory
    with checkpoint.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    about_memory = "none, a sentence model"
    if memory is not None:
        about_memory = f"{memory.slots} slots, side {memory.side}, layers {', '.join(map(str, memory.layers))}"
    about_text = "the folder has no `text.json`, so it translates ids of the vocabulary it was trained with"
    if text is not None:
        about_text = (
            f"{text.source_language} to {text.target_language}, tokenised with Moses but not truecased: the authors'"
            " files contain no truecaser"
        )
    return (
        "# A model of the paper's authors\n\n"
        f"Imported by `tram import authors` from `{checkpoint.name}` (sha256 {digest}).\n\n"
        f"- {config.encoder_layers} + {config.decoder_layers} layers, width {config.d_model}, {config.heads} heads,"
        f" feed-forward {config.feed_forward}, vocabulary {model.vocabulary}\n"
        f"- memory: {about_memory}\n"
        "- ids: 0 padding, 1 start of sentence, 2 end of sentence\n"
        f"- text: {about_text}\n"
    )

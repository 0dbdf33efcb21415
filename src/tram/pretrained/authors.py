"""Checkpoints of the paper's authors, made into model folders of tram.

    import_authors(Path("authors.pt"), Path("model"), heads=8, side="both")

A checkpoint is a PyTorch state dict with BART's names and a memory unit, `rnn`, in some layers, or in none: a model of
sentences. All sizes are read from the shapes of its tensors; what does not fit is refused by the name of the tensor.
With their vocabulary and BPE codes the folder takes text, without them ids.
"""

import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from torch import Tensor

from tram.config import MemoryConfig, ModelConfig
from tram.errors import InputError
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.pretrained.subword_files import read_text
from tram.text.pipeline import TextPipeline

Side = Literal["source", "target", "both"]

SIDES = {"source": ("encoder",), "target": ("decoder",), "both": ("encoder", "decoder")}
POSITION_OFFSET = 2  # BART's position tables begin with two rows that no token uses

EMBEDDING = "model.shared.weight"
COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
OUTPUT_BIAS = "final_logits_bias"

# Our names and theirs, inside a layer.
LAYER_NAMES = {
    "self_attention.context.table": "rnn.ds_query_init",
    "self_attention.context.first_norm": "rnn.ds_layernorm",
    "self_attention.context.update_attention": "rnn.recurrent_layer.attn",
    "self_attention.context.update_norm": "rnn.recurrent_layer.attn_layer_norm",
    "self_attention.context.feed_forward.inner": "rnn.recurrent_layer.fc1",
    "self_attention.context.feed_forward.outer": "rnn.recurrent_layer.fc2",
    "self_attention.context.feed_forward_norm": "rnn.recurrent_layer.final_layer_norm",
    "self_attention.context.output_attention": "rnn.attn",
    "self_attention.context.output_norm": "rnn_layer_norm",
    "self_attention.attention": "self_attn",
    "self_attention.residual.norm": "self_attn_layer_norm",
    "cross_attention.attention": "encoder_attn",
    "cross_attention.residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "residual.norm": "final_layer_norm",
}
OTHER_NAMES = {
    "tokens.weight": EMBEDDING,
    "bias": OUTPUT_BIAS,
    **{
        f"{side}.embeddings.{ours}": f"model.{side}.{theirs}"
        for side in ("encoder", "decoder")
        for ours, theirs in {
            "positions": "embed_positions.weight",
            "norm.weight": "layernorm_embedding.weight",
            "norm.bias": "layernorm_embedding.bias",
        }.items()
    },
}

LAYER = r"layers\.([0-9]+)\."
UNIT = re.compile(rf"model\.(encoder|decoder)\.{LAYER}rnn(\.|_layer_norm\.)")
UNUSED_IN_UNIT = re.compile(r"\.rnn\.ds_linear\.(weight|bias)$")


def import_authors(
    checkpoint: Path,
    out: Path,
    heads: int,
    side: Side,
    vocab: Path | None = None,
    codes: Path | None = None,
    source_language: str = "en",
    target_language: str = "de",
) -> None:
    """Write a checkpoint of the authors as a model folder, or refuse it and write nothing.

    heads, side: attention heads and the side or sides whose memory is switched on: shapes do not tell. Without a
    memory in the checkpoint, the side says nothing. vocab, codes: both or none; the languages are those of Moses.
    """
    if (vocab is None) != (codes is None):
        missing = "--codes" if codes is None else "--vocab"
        raise InputError(f"{vocab or codes}: --vocab and --codes belong together; give {missing}, too, or neither")
    check_place(out)
    state = read_state_dict(checkpoint)
    model = build(state, heads, side)
    text = None
    if vocab is not None and codes is not None:
        text = read_text(vocab, codes, model.vocabulary, source_language, target_language)
    save_model(model, out.resolve(), text, card(checkpoint, model, text))


def check_place(out: Path) -> None:
    """Refuse to put a model folder where something stands: its place would be taken."""
    try:
        if not any(out.iterdir()):
            return
        problem = "is not empty"
    except FileNotFoundError:
        return
    except OSError as error:
        problem = f"cannot be used as a folder ({error.strerror})"
    raise InputError(f"{out}: {problem}; give a folder that does not exist yet")


@dataclass(frozen=True)
class StateDict:
    """The tensors of a checkpoint by the authors' names, and the file they came from."""

    path: Path
    tensors: dict[str, Tensor]

    def tensor(self, name: str, *shape: int | None) -> Tensor:
        """The tensor called `name`, which must be there in this shape; None: any size but 0."""
        if name not in self.tensors:
            raise InputError(
                f"{self.path}: lacks the tensor `{name}`; give a complete checkpoint of the authors' model"
            )
        tensor = self.tensors[name]
        sizes = [size or max(n, 1) for size, n in zip(shape, tensor.shape, strict=False)]
        if len(shape) != tensor.dim() or sizes != list(tensor.shape):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise InputError(
                f"{self.path}: `{name}` has shape {list(tensor.shape)}, the rest of the file asks for [{wanted}];"
                " give a checkpoint of the authors' model"
            )
        if not tensor.is_floating_point() or not bool(tensor.float().isfinite().all()):
            raise InputError(f"{self.path}: `{name}` holds values that are no finite numbers; take another checkpoint")
        return tensor.float()

    def layers(self, side: str) -> int:
        """The number of layers of the encoder or the decoder."""
        found = {int(match[1]) for name in self.tensors if (match := re.match(rf"model\.{side}\.{LAYER}", name))}
        count = max(len(found), 1)
        for layer in range(count):
            if layer not in found:
                raise InputError(f"{self.path}: lacks the layer `model.{side}.layers.{layer}`; take another checkpoint")
        return count

    def memory_layers(self, side: str) -> list[int]:
        """The layers of the encoder or the decoder that hold a memory unit, from 0."""
        units = (UNIT.match(name) for name in self.tensors)
        return sorted({int(unit[2]) for unit in units if unit and unit[1] == side})


def read_state_dict(path: Path) -> StateDict:
    """Read a state dict that lies in the file itself or under `state_dict` or `model`, and make its names uniform."""
    loaded = load(path)
    for key in ("state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
            break
    if not isinstance(loaded, dict) or not loaded or not all(isinstance(name, str) for name in loaded):
        raise InputError(f"{path}: holds no state dict; give a file made by torch.save(model.state_dict(), FILE)")
    for name, value in loaded.items():
        if not isinstance(value, Tensor):
            raise InputError(f"{path}: `{name}` is no tensor; give a file made by torch.save(model.state_dict(), FILE)")
    # A wrapper around the authors' model puts `model.` before all names, also those that begin with it anyway.
    if all(name.startswith("model.") for name in loaded) and any(name.startswith("model.model.") for name in loaded):
        loaded = {name.removeprefix("model."): value for name, value in loaded.items()}
    return StateDict(path, loaded)


def load(path: Path) -> Any:
    """What a PyTorch file holds: tensors, numbers, texts and containers of them, never code."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the authors' checkpoint file") from error
    try:
        with file, warnings.catch_warnings(action="ignore"):  # about pickle; what matters comes as an error
            return torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise InputError(
            f"{path}: is no PyTorch file of tensors alone (other objects are not loaded, they could run code);"
            " give a file made by torch.save(model.state_dict(), FILE)"
        ) from error
    except Exception as error:  # torch meets damaged files with errors of many kinds, KeyError and OSError too
        raise InputError(f"{path}: is damaged or no PyTorch file; take another copy of it") from error


def build(state: StateDict, heads: int, side: Side) -> Transformer:
    """The model that a state dict describes, with its weights."""
    check_tied(state)
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
                f"{state.path}: holds the unknown tensor `{name}`; only the authors' model with sinusoidal"
                " memory positions can be imported"
            )
    return model


def check_tied(state: StateDict) -> None:
    """Refuse embeddings that are not one and the same for encoder, decoder and output."""
    embedding = state.tensor(EMBEDDING, None, None)
    for name in COPIES:
        if name in state.tensors and not torch.equal(state.tensor(name, *embedding.shape), embedding):
            raise InputError(f"{state.path}: `{name}` differs from `{EMBEDDING}`; only tied embeddings can be imported")


def read_config(state: StateDict, heads: int, side: Side) -> ModelConfig:
    """The settings that the shapes of the tensors tell."""
    vocabulary, d_model = state.tensors[EMBEDDING].shape
    if heads < 1 or d_model % heads:
        raise InputError(
            f"{state.path}: --heads {heads} does not divide the width {d_model} of `{EMBEDDING}`;"
            " give the number of heads that the model was trained with"
        )
    table = "model.encoder.embed_positions.weight"
    positions = len(state.tensor(table, None, d_model)) - POSITION_OFFSET
    if positions < 3:
        raise InputError(f"{state.path}: `{table}` has no rows for a sentence of one token; take another checkpoint")
    bias = OUTPUT_BIAS in state.tensors and bool(state.tensor(OUTPUT_BIAS, 1, vocabulary).any())
    return ModelConfig(
        d_model=d_model,
        heads=heads,
        feed_forward=len(state.tensor("model.encoder.layers.0.fc1.weight", None, d_model)),
        encoder_layers=state.layers("encoder"),
        decoder_layers=state.layers("decoder"),
        position_offset=POSITION_OFFSET,
        max_positions=positions,
        max_length=min(128, positions),
        output_bias=bias,
        memory=read_memory(state, side),
    )


def read_memory(state: StateDict, side: Side) -> MemoryConfig | None:
    """The settings of the memory on the side or sides in use; None if the whole model has no memory unit."""
    if not any(state.memory_layers(part) for part in SIDES["both"]):
        return None
    places = {part: state.memory_layers(part) for part in SIDES[side]}
    for part, found in places.items():
        if not found:
            raise InputError(f"{state.path}: has no memory unit (`rnn`) in its {part}; give another --side")
    layers = common_numbers([(set(found), state.layers(part)) for part, found in places.items()])
    if layers is None:
        raise InputError(
            f"{state.path}: has memory units in layers {places['encoder']} of the encoder and {places['decoder']} of"
            " the decoder; only the same layers on both sides can be imported"
        )
    part, found = next(iter(places.items()))
    first = f"model.{part}.layers.{found[0]}.rnn.ds_query_init"
    slots = state.tensor(first, 1, None, state.tensors[EMBEDDING].shape[1]).shape[1]
    return MemoryConfig(slots=slots, side=side, layers=layers)


def common_numbers(sides: list[tuple[set[int], int]]) -> tuple[int, ...] | None:
    """Layer numbers, from the bottom or (below 0) from the top, that mean exactly these layers on every side.

    sides: the layers with a memory and the number of layers, for each side.
    """
    least = min(layers for _, layers in sides)
    for numbers in (range(least), range(-least, 0), range(-least, least)):
        fitting = [n for n in numbers if all(n % layers in wanted for wanted, layers in sides)]
        if all({n % layers for n in fitting} == wanted for wanted, layers in sides):
            return tuple(fitting)
    return None


def authors_names(name: str) -> tuple[str, ...]:
    """The authors' tensors that make our parameter `name`, one below the other."""
    if name in OTHER_NAMES:
        return (OTHER_NAMES[name],)
    side, _, layer, rest = name.split(".", 3)
    ours = next(part for part in LAYER_NAMES if rest.startswith(part))
    theirs = f"model.{side}.layers.{layer}.{LAYER_NAMES[ours]}"
    end = rest.removeprefix(ours).replace(".output.", ".out_proj.")
    if end.startswith(".projection."):
        return tuple(theirs + end.replace("projection", f"{part}_proj") for part in "qkv")
    return (theirs + end,)


def assemble(state: StateDict, names: tuple[str, ...], shape: torch.Size) -> Tensor:
    """The authors' tensors one below the other, in a parameter's shape."""
    rows, *columns = shape
    leading = [1] if names[0] == OUTPUT_BIAS or names[0].endswith(".ds_query_init") else []
    parts = [state.tensor(name, *leading, rows // len(names), *columns) for name in names]
    return torch.cat(parts).reshape(shape)


def is_unused(name: str, side: Side) -> bool:
    """Whether the authors' model never uses this tensor: every checkpoint holds some."""
    unit = UNIT.match(name)
    return unit is not None and (unit[1] not in SIDES[side] or UNUSED_IN_UNIT.search(name) is not None)


def card(checkpoint: Path, model: Transformer, text: TextPipeline | None) -> str:
    """The README.md of the folder."""
    config, memory = model.config, model.config.memory
    with checkpoint.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    about_memory = "none, a model of sentences"
    if memory is not None:
        about_memory = f"{memory.slots} slots, side {memory.side}, layers {', '.join(map(str, memory.layers))}"
    about_text = "the folder has no `text.json`, so it works on the ids of the vocabulary it was trained with"
    if text is not None:
        about_text = (
            f"{text.source_language} to {text.target_language}, tokenised with Moses but not truecased: the authors'"
            " files bring no truecaser"
        )
    return (
        "# A model of the paper's authors\n\n"
        f"Made by `tram import authors` from `{checkpoint.name}` (sha256 {digest}).\n\n"
        f"- {config.encoder_layers} + {config.decoder_layers} layers, width {config.d_model}, {config.heads} heads,"
        f" feed-forward {config.feed_forward}, vocabulary {model.vocabulary}\n"
        f"- memory: {about_memory}\n"
        "- ids: 0 padding, 1 begin of sentence, 2 end of sentence\n"
        f"- text: {about_text}\n"
    )

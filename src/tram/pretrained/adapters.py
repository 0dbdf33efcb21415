"""Adapters: the context modules of a finetuned model, without the base that they were finetuned on.

    export_adapter(Path("run"), Path("adapter"))               # memory_config.json, memory.safetensors, README.md
    model = load_with_adapter(Path("base"), Path("adapter"))

An adapter fits exactly one base, which it names by the fingerprint of its weights. The paper's memory has about 16 d²
parameters per side: 8.4 million for both sides of a model of width 512, which is 17 MB in float16.
"""

from pathlib import Path

import torch
from pydantic import Field

from tram.config import Config, ContextConfig, FinetuneConfig, ModelConfig, Section, checked
from tram.errors import InputError
from tram.files import exists, is_file, replacing_folder, write_json
from tram.model.folder import (
    WEIGHTS,
    check_exact,
    check_text,
    find_model,
    load_known_weights,
    load_model,
    load_text,
    parameter_shapes,
    read_model_file,
    tensors_fingerprint,
    weights,
)
from tram.model.tensors import check_shapes, save_tensors, tensor_shapes
from tram.model.transformer import Transformer
from tram.pretrained.folders import check_output_folder
from tram.pretrained.hub import read_json
from tram.yaml_files import short_repr

VERSION = 1
CONFIG_FILE, WEIGHTS_FILE = "memory_config.json", "memory.safetensors"


class AdapterFile(Section):
    """The contents of memory_config.json."""

    version: int = Field(VERSION, ge=1)
    base_model: str = Field(description="name of the base")
    revision: str | None = Field(None, description="its commit, if it was fetched")
    licence: str | None = Field(None, description="licence of the base")
    base: str = Field(description="fingerprint of the base's weights")
    text: str | None = Field(None, description="fingerprint of the text pipeline that it was finetuned with")
    context: ContextConfig


def context_names(model: Transformer) -> set[str]:
    """Return the names of the parameters that belong to context modules."""
    inside = {id(parameter) for context in model.contexts().values() for parameter in context.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in inside}


def base_fingerprint(model: Transformer) -> str:
    """Return the fingerprint of a model without its context modules."""
    names = context_names(model)
    return tensors_fingerprint({name: value for name, value in weights(model).items() if name not in names})


def export_adapter(run: Path, out: Path, base: Path | None = None, dtype: torch.dtype = torch.float16) -> AdapterFile:
    """Write the context modules of a run or a model folder as an adapter.

    base: the model that the run started from; by default that of the run's config. The other weights of the run must
    equal those of the base, so that the adapter works with it.
    """
    check_output_folder(out)
    folder = find_model(run)
    check_exact(folder)
    check_text(folder)
    model = load_model(folder)
    context = model.config.context
    if context is None:
        raise InputError(f"{folder}: has no context module; finetune one first (finetune.context)")
    if replaced := parameter_shapes(model.config.without_context(), model.vocabulary).keys() - weights(model).keys():
        raise InputError(
            f"{folder}: its context {context.kind} replaces `{min(replaced)}` of the base, so it cannot be an adapter; "
            "export the whole model with `tram export tram`"
        )
    names = context_names(model)
    start = base or start_of(run)
    fingerprint = base_fingerprint(model)
    if start is not None:
        check_exact(find_model(start))
    if start is not None and base_fingerprint(load_model(start)) != fingerprint:
        raise InputError(
            f"{folder}: its other weights are not those of {start}, because they were trained, too; set "
            "finetune.freeze: base for an adapter, or export the whole model with `tram export tram`"
        )
    text = load_text(folder)
    origin = None if text is None or text.pretrained is None else text.pretrained.origin
    about = AdapterFile(
        base_model=origin.name if origin else (start or folder).resolve().name,
        revision=origin.commit if origin else None,
        licence=origin.licence if origin else None,
        base=fingerprint,
        text=None if text is None else text.fingerprint,
        context=context,
    )
    context_weights = {name: value.to(dtype) for name, value in weights(model).items() if name in names}
    with replacing_folder(out.resolve()) as temporary:
        save_tensors(temporary / WEIGHTS_FILE, context_weights)
        write_json(temporary / CONFIG_FILE, about.model_dump(mode="json"))
        size = (temporary / WEIGHTS_FILE).stat().st_size
        (temporary / "README.md").write_text(adapter_card(about, model.config, size), encoding="utf-8")
    return about


def start_of(run: Path) -> Path | None:
    """Return the model that a run's second stage started from, if it is still there."""
    if not exists(run / "config.yaml") or exists(run / WEIGHTS):
        return None
    finetune: FinetuneConfig | None = Config.load(run / "config.yaml").finetune
    if finetune is None or str(finetune.start) == "nothing":
        return None
    start = run / "train" / "model" if str(finetune.start) == "train" else finetune.start
    return find_model(start) if exists(start) else None


def read_adapter(folder: Path) -> AdapterFile:
    """Return the contents of an adapter's memory_config.json."""
    path = folder / CONFIG_FILE
    if not is_file(path):
        raise InputError(
            f"{folder}: is not an adapter (no {CONFIG_FILE}); give a folder written by `tram export adapter`"
        )
    values = read_json(path)
    version = values.get("version", VERSION)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{folder}: was written by a newer tram (version {short_repr(version)}); update tram")
    return checked(AdapterFile, values, str(path))


def load_with_adapter(base: Path, adapter: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    """Return a base with the context modules of an adapter, in evaluation mode; refuse a base that does not match."""
    about, folder = read_adapter(adapter), find_model(base)
    check_exact(folder)
    base_file = read_model_file(folder)
    if base_file.model.context is not None:
        raise InputError(f"{folder}: has a context module of its own; give the sentence model that {adapter} is for")
    settings = checked(
        ModelConfig, base_file.model.model_dump() | {"context": about.context}, str(adapter / CONFIG_FILE)
    )
    _check_weights(adapter / WEIGHTS_FILE, settings, base_file.vocabulary)
    model = Transformer(settings, base_file.vocabulary).to(dtype)
    load_known_weights(model, folder / WEIGHTS)
    actual = base_fingerprint(model)
    if actual != about.base:
        raise InputError(
            f"{adapter}: is for the base {about.base_model} (fingerprint {about.base}), not for {folder} ({actual}); "
            "give that base"
        )
    load_known_weights(model, adapter / WEIGHTS_FILE)
    return model.eval()


def _check_weights(path: Path, settings: ModelConfig, vocabulary: int) -> None:
    """Refuse weights that do not match the names and shapes of an adapter's config, before allocating memory."""
    stored, whole = tensor_shapes(path), parameter_shapes(settings, vocabulary)
    base = parameter_shapes(settings.without_context(), vocabulary)
    check_shapes(path, stored, {name: value for name, value in whole.items() if name not in base})


def adapter_card(about: AdapterFile, config: ModelConfig, size: int) -> str:
    """Return the README.md of an adapter."""
    licence = "" if about.licence is None else f"license: {about.licence}\n"
    commit = "" if about.revision is None else f" (commit {about.revision})"
    return (
        f"---\nbase_model: {about.base_model}\n{licence}library_name: tram-mt\n---\n\n"
        f"# A context module for {about.base_model}\n\n"
        f"An adapter for tram-mt: context `{about.context.kind}` on side {about.context.side}, {size / 1e6:.1f} MB. "
        f"With it, the sentence-level model {about.base_model}{commit} translates with the context of earlier "
        "sentences.\n\n"
        "    tram import hf BASE base\n"
        "    tram translate document.txt --model base --adapter .\n\n"
        f"Base: weights {about.base}, width {config.d_model}; another base is refused. "
        f"Licence of the base: {about.licence or 'not stated'}; it also applies to derived models.\n"
    )

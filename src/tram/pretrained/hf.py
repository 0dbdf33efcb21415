"""`tram import hf`: convert Hugging Face translation models to tram model folders.

    import_hf("Helsinki-NLP/opus-mt-en-de", Path("opus"))                    # or a folder
    import_hf("facebook/nllb-200-distilled-600M", Path("nllb"), source="en", target="de")

The result is an ordinary model folder; only `text.json` records where it came from.
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import save

from tram.config import ModelConfig
from tram.errors import InputError
from tram.model.folder import WEIGHTS, replacing_model
from tram.pretrained import bart, m2m100, marian, mbart
from tram.pretrained.family import Family, model_config, unused_settings
from tram.pretrained.folders import check_output_folder
from tram.pretrained.hub import ModelFiles, find_model_files
from tram.pretrained.names import SHARED
from tram.pretrained.tensor_files import open_tensors, write_tensors
from tram.pretrained.weight_map import Checkpoint
from tram.text.languages import check_language
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import Origin

FAMILIES = {module.FAMILY.model_type: module.FAMILY for module in (marian, bart, mbart, m2m100)}
UNUSED = "unused.safetensors"  # a token table that the network does not use
OTHER_LAYERS = {"num_experts": "mixtures of experts", "is_decoder": "decoders without an encoder"}


@dataclass(frozen=True)
class Imported:
    """An imported model: its text pipeline, and notes for the user."""

    text: TextPipeline
    notes: list[str]


def import_hf(
    model: str,
    out: Path,
    source: str | None = None,
    target: str | None = None,
    revision: str | None = None,
) -> Imported:
    """Write a Hugging Face model as a model folder, or refuse it and write nothing.

    model: a folder or the name of a repository. source, target: languages, in the model's own codes or those of
    ISO 639; of a model with several languages they can also be chosen when it is loaded.
    """
    check_output_folder(out)
    files = find_model_files(model, revision)
    family = family_of(files)
    settings = model_config(family, files)
    text = family.text(files, source, target)
    assert text.pretrained is not None
    for side, language in (("source", text.source_language), ("target", text.target_language)):
        if side not in text.pretrained.template.open:  # else it is one of the model's own codes
            check_language(language)
    checkpoint = Checkpoint(family, files, open_tensors(files.folder))
    settings = checkpoint.settings(settings)
    if (unused := checkpoint.unused_table()) is not None:
        text = text.with_file(UNUSED, save({SHARED: unused}))
    assert text.pretrained is not None
    if not text.fits(text.vocabulary, settings.source_vocabulary):
        raise InputError(
            f"{files.folder}: its source tokens have {settings.source_vocabulary} rows, its tokeniser has "
            f"{text.subwords('source').size} ids; copy the tokeniser of this model"
        )
    entries = checkpoint.entries(settings, text.vocabulary)
    card = model_card(text.pretrained.origin, settings, text)
    with replacing_model(out.resolve(), settings, text.vocabulary, text, card) as folder:
        write_tensors(folder / WEIGHTS, entries, lambda name: checkpoint.parameter(name, entries[name]))
    return Imported(text, notes(files, text))


def family_of(files: ModelFiles) -> Family:
    """Return the family of a model; refuse other families, and variants of the known ones."""
    kind = files.config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise files.refusal("model_type", f"is {kind!r}; {known} can be imported")
    for key, what in OTHER_LAYERS.items():
        if files.config.get(key):
            raise files.refusal(key, f"is {files.config[key]!r}; {what} cannot be imported")
    return FAMILIES[kind]


def notes(files: ModelFiles, text: TextPipeline) -> list[str]:
    """Return notes for the user: the licence, languages to choose, settings without effect."""
    assert text.pretrained is not None
    origin, result = text.pretrained.origin, []
    if origin.non_commercial:
        result.append(f"licence {origin.licence}: this model and models derived from it are not for commercial use")
    if origin.licence is None:
        result.append("licence: README.md states none; look it up before you publish anything derived from this model")
    try:
        _ = text.special
    except InputError as error:
        result.append(str(error))
    if unused := unused_settings(files):
        result.append(f"generation settings without effect in tram: {', '.join(unused)}")
    return result


def model_card(origin: Origin, config: ModelConfig, text: TextPipeline) -> str:
    """Return the README.md of an imported model folder."""
    assert text.pretrained is not None
    licence = "" if origin.licence is None else f"license: {origin.licence}\n"
    languages = text.pretrained.languages
    known = f"{len(languages)} languages; " if languages else ""
    warning = "\nThe licence forbids commercial use.\n" if origin.non_commercial else ""
    return (
        f"---\nbase_model: {origin.name}\n{licence}---\n\n"
        f"# {origin.name} as a tram model\n\n"
        f"{origin.describe()} Imported by `tram import hf`; its weights are unchanged.\n{warning}\n"
        f"- {config.encoder_layers} + {config.decoder_layers} layers, width {config.d_model}, {config.heads} heads,"
        f" feed-forward {config.feed_forward}, vocabulary {text.vocabulary - 1:,}\n"
        f"- {known}{text.source_language} to {text.target_language}\n"
        "- ids: those of the original plus 1; 0 is padding\n"
        "- the folder `origin` holds its configs and tokeniser files\n"
    )

"""What `tram import hf` accepts, what it refuses in one sentence, and what it says about a model."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from conftest import Done, contents, refused
from pretrained_models import make, sentencepiece, sentences
from tram.errors import InputError
from tram.fingerprints import bytes_fingerprint
from tram.model.folder import WEIGHTS, load_tensors, read_model_file
from tram.pretrained.export import export_hf
from tram.pretrained.hf import import_hf
from tram.pretrained.tensor_files import BLOCK, open_tensors
from tram.text.languages import find_language, short_code
from tram.text.pipeline import TextPipeline, _File
from tram.translation.translator import Translator

Command = Callable[..., Done]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("originals")
    return {family: make(family, folder / family).folder for family in ("marian", "m2m100", "nllb")}


@pytest.fixture
def marian(originals: dict[str, Path], tmp_path: Path) -> Path:
    """A Marian model that a test may damage."""
    return copied(originals["marian"], tmp_path / "foreign")


def copied(folder: Path, place: Path) -> Path:
    place.mkdir()
    for name, content in contents(folder).items():
        (place / name).write_bytes(content)
    return place


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


# The weights of one model in several forms.


def shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"model-0000{number % 2 + 1}-of-00002.safetensors" for number, name in enumerate(names)}
    for place in set(places.values()):
        save_file({name: tensors[name] for name in names if places[name] == place}, folder / place)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def torch_file(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    # As in old files: all copies of tied tensors, and sinusoids
    tensors |= {name: tensors["model.shared.weight"].clone() for name in ("lm_head.weight",)}
    tensors["model.encoder.embed_positions.weight"] = torch.zeros(96, 24)
    torch.save(tensors, folder / "pytorch_model.bin")


def torch_shards(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"pytorch_model-0000{1 + (name < 'model.e')}-of-00002.bin" for name in tensors}
    for place in set(places.values()):
        torch.save({name: tensors[name] for name in tensors if places[name] == place}, folder / place)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))


def old_torch_file(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def without_first_part(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name.removeprefix("model."): value for name, value in tensors.items() if name != "final_logits_bias"},
        folder / "model.safetensors",
    )


@pytest.mark.parametrize("form", [shards, torch_file, torch_shards, old_torch_file])
def test_every_format_of_the_weights_loads_as_the_same_model(
    form: Callable[[Path], None], marian: Path, tmp_path: Path
) -> None:
    import_hf(str(marian), tmp_path / "expected")
    form(marian)
    import_hf(str(marian), tmp_path / "found")
    expected, found = (load_tensors(tmp_path / name / WEIGHTS) for name in ("expected", "found"))
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_weights_saved_without_an_output_layer_are_imported(marian: Path, tmp_path: Path) -> None:
    without_first_part(marian)
    import_hf(str(marian), tmp_path / "found")
    bias = load_tensors(tmp_path / "found" / WEIGHTS)["bias"]
    assert bias[0] == -1e4
    assert not bias[1:].any()


def test_a_mapped_file_can_be_read_again(tmp_path: Path) -> None:
    values = torch.randn(3 * BLOCK // 2)
    torch.save({"mapped": values, "turned": values.reshape(3, -1).T}, tmp_path / "pytorch_model.bin")
    tensors = open_tensors(tmp_path)
    for name, expected in (("mapped", values), ("turned", values.reshape(3, -1).T.reshape(-1)), ("mapped", values)):
        assert torch.equal(torch.cat([block.clone() for block in tensors.blocks(name)]), expected)


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(1).expand(2**40), torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(), 1.5],
    ids=["repeated", "meta", "sparse", "number"],
)
def test_a_pytorch_file_with_something_else_than_values_is_refused(tensor: Any, tmp_path: Path) -> None:
    torch.save({"good": torch.zeros(2), "bad": tensor}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="`bad` is not a tensor with values"):
        open_tensors(tmp_path)


@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64])
def test_weights_of_a_type_that_no_model_has_are_refused(dtype: torch.dtype, marian: Path, tmp_path: Path) -> None:
    weights = marian / "model.safetensors"
    torch.save({name: value.to(dtype) for name, value in load_file(weights).items()}, marian / "pytorch_model.bin")
    weights.unlink()
    with pytest.raises(InputError, match=f"contains {str(dtype)[6:]} values; give a model that is not quantised"):
        import_hf(str(marian), tmp_path / "out")


def test_a_source_table_of_another_size_than_its_tokeniser_is_refused(tmp_path: Path) -> None:
    folder = make("marian", tmp_path / "foreign", separate=True).folder
    tensors = load_file(folder / "model.safetensors")
    name = "model.encoder.embed_tokens.weight"
    save_file(tensors | {name: tensors[name][:-5].clone()}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="its source tokens have"):
        import_hf(str(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_is_not_read_is_named(
    number: int, marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "target.spm":
            raise OSError(number, os.strerror(number))  # without the name of the file, as after `open`
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)  # file modes mean nothing to root
    with pytest.raises(InputError, match=rf"target\.spm: cannot be read \({os.strerror(number)}\)"):
        import_hf(str(marian), tmp_path / "out")


def test_shapes_of_a_model_need_no_compiler() -> None:
    """It would take a fifth of the memory of importing an OPUS-MT model, and seconds of every start."""
    program = (
        "import sys; from tram.config import MemoryConfig, ModelConfig; from tram.model.folder import parameter_shapes;"
        "parameter_shapes(ModelConfig(positions='sinusoidal', context=MemoryConfig()), 58_101);"
        "parameter_shapes(ModelConfig(positions='sinusoidal-fairseq', norm='pre'), 58_101);"
        "print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.fixture
def sentencepiece_alone(tmp_path: Path) -> Path:
    """An mBART model with the tokeniser files that mBART-50 is published with."""
    made = make("mbart", tmp_path / "foreign")
    lines = [line for side in sentences() for line in side]
    (made.folder / "sentencepiece.bpe.model").write_bytes(sentencepiece(lines, "unigram", 300))
    (made.folder / "tokenizer.json").unlink()
    return made.folder


def test_a_tokeniser_of_a_sentencepiece_model_alone(sentencepiece_alone: Path, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    from transformers import AutoTokenizer

    import_hf(str(sentencepiece_alone), tmp_path / "out")
    text, tokenizer = TextPipeline.load(tmp_path / "out"), AutoTokenizer.from_pretrained(sentencepiece_alone)
    lines = sentences()[0]
    ids = [text.special.source(ids) for ids in text.encode(lines, "source")]
    assert ids == [[number + 1 for number in row] for row in tokenizer(lines)["input_ids"]]


def test_a_missing_package_for_such_a_tokeniser_is_named(
    sentencepiece_alone: Path, tmp_path: Path, tram: Command, monkeypatch: Any
) -> None:
    import transformers

    def without_protobuf(*_: Any, **__: Any) -> Any:
        raise ValueError("`tiktoken` is required")  # transformers' own guess

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", without_protobuf)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    refused(tram("import", "hf", sentencepiece_alone, tmp_path / "out"), "protobuf", "pip install")


def test_half_precision_stays_half_precision(marian: Path, tmp_path: Path) -> None:
    tensors = {name: value.half() for name, value in load_file(marian / "model.safetensors").items()}
    save_file(tensors, marian / "model.safetensors")
    import_hf(str(marian), tmp_path / "found")
    found = load_tensors(tmp_path / "found" / WEIGHTS)
    assert {value.dtype for value in found.values()} == {torch.float16}
    assert torch.equal(found["tokens.weight"][1:], tensors["model.shared.weight"])


# Refusals.


def test_what_tram_cannot_compute_is_refused_by_its_key(marian: Path, tmp_path: Path, tram: Command) -> None:
    config = marian / "config.json"
    original = config.read_text()
    for key, value in {
        "model_type": "t5",
        "activation_function": "gelu_new",
        "bad_words_ids": True,
        "suppress_tokens": ["x"],
        "decoder_ffn_dim": 48,
        "decoder_attention_heads": 4,
        "num_experts": 8,
        "d_model": "wide",
        "eos_token_id": [0, 1],
        "scale_embedding": "false",
        "tie_word_embeddings": 0,
    }.items():
        config.write_text(original)
        change(config, **{key: value})
        (marian / "generation_config.json").unlink(missing_ok=True)
        refused(tram("import", "hf", marian, tmp_path / "out"), str(config), f"`{key}`")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("key", ["model_type", "activation_function"])
def test_a_list_in_the_place_of_a_name_is_refused(key: str, marian: Path, tmp_path: Path) -> None:
    change(marian / "config.json", **{key: []})
    with pytest.raises(InputError, match=f"`{key}`"):
        import_hf(str(marian), tmp_path / "out")


def test_a_tokeniser_without_a_file_of_its_own_is_refused(
    originals: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers returns for a BART folder whose tokeniser files are those of M2M100."""
    from transformers import AutoTokenizer

    slow = AutoTokenizer.from_pretrained(str(originals["m2m100"]), local_files_only=True)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: slow)
    folder = make("bart", tmp_path / "bart").folder
    with pytest.raises(InputError, match=r"`tokenizer_class`: M2M100Tokenizer has no tokenizer\.json"):
        import_hf(str(folder), tmp_path / "out")


@pytest.mark.parametrize("name", ["config.json", "source.spm", "target.spm", "vocab.json", "model.safetensors"])
def test_a_missing_file_is_named(name: str, marian: Path, tmp_path: Path, tram: Command) -> None:
    (marian / name).unlink()
    refused(tram("import", "hf", marian, tmp_path / "out"), name)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["config.json", "source.spm", "vocab.json", "model.safetensors"])
def test_a_damaged_file_is_named(name: str, marian: Path, tmp_path: Path, tram: Command) -> None:
    (marian / name).write_bytes((marian / name).read_bytes()[:100])
    refused(tram("import", "hf", marian, tmp_path / "out"), name)
    assert not (tmp_path / "out").exists()


def test_shards_that_are_missing_or_damaged_are_named(marian: Path, tmp_path: Path, tram: Command) -> None:
    shards(marian)
    second = marian / "model-00002-of-00002.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:-1000])
    refused(tram("import", "hf", marian, tmp_path / "out"), second.name, "truncated")
    second.unlink()
    refused(tram("import", "hf", marian, tmp_path / "out"), second.name, "missing")
    first = load_file(marian / "model-00001-of-00002.safetensors")
    save_file(first, second)
    refused(tram("import", "hf", marian, tmp_path / "out"), second.name, "lacks the tensor")
    assert not (tmp_path / "out").exists()


def test_a_torch_file_with_code_is_refused(marian: Path, tmp_path: Path, tram: Command) -> None:
    (marian / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Path("/")}, marian / "pytorch_model.bin")
    refused(tram("import", "hf", marian, tmp_path / "out"), "pytorch_model.bin", "could run code")


def test_values_that_are_not_finite_are_refused_and_nothing_is_left(
    marian: Path, tmp_path: Path, tram: Command
) -> None:
    tensors = load_file(marian / "model.safetensors")
    tensors["model.decoder.layers.0.fc2.bias"][3] = torch.nan
    save_file(tensors, marian / "model.safetensors")
    refused(tram("import", "hf", marian, tmp_path / "out"), "model.decoder.layers.0.fc2.bias", "finite")
    assert [path.name for path in tmp_path.iterdir()] == ["foreign"]


def test_a_tokeniser_of_another_model_is_refused(
    originals: dict[str, Path], marian: Path, tmp_path: Path, tram: Command
) -> None:
    vocabulary = json.loads((marian / "vocab.json").read_text())
    del vocabulary["<pad>"]
    smaller = [token for token in vocabulary if vocabulary[token] < 100]
    for tokens in ([*vocabulary, "more", "<pad>"], [*smaller, "<pad>"]):
        (marian / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        refused(tram("import", "hf", marian, tmp_path / "out"), "config.json", "tokeniser")
    nllb = copied(originals["nllb"], tmp_path / "nllb")
    change(nllb / "config.json", vocab_size=300)
    refused(tram("import", "hf", nllb, tmp_path / "out"), "`vocab_size`", "tokeniser")


def test_weights_of_another_shape_are_refused(marian: Path, tmp_path: Path, tram: Command) -> None:
    change(marian / "config.json", encoder_layers=3)
    refused(tram("import", "hf", marian, tmp_path / "out"), "lack the tensor `model.encoder.layers.2.")
    change(marian / "config.json", encoder_layers=1)
    refused(tram("import", "hf", marian, tmp_path / "out"), "unknown tensor `model.encoder.layers.1.")
    change(marian / "config.json", encoder_layers=2, encoder_ffn_dim=48, decoder_ffn_dim=48)
    refused(tram("import", "hf", marian, tmp_path / "out"), "has shape [40, 24]", "[48, 24]")


def test_places_that_are_no_models(marian: Path, tmp_path: Path, tram: Command, monkeypatch: Any) -> None:
    refused(tram("import", "hf", tmp_path / "nothing" / "there", tmp_path / "out"), "neither a folder nor")
    refused(tram("import", "hf", marian, tmp_path / "out", "--revision", "main"), "--revision")
    refused(tram("import", "hf", marian, marian), "is not empty")

    def no_network(*_: Any, **__: Any) -> Any:
        raise ConnectionError("Name or service not known")

    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", no_network)
    refused(tram("import", "hf", "Helsinki-NLP/opus-mt-en-de", tmp_path / "out"), "could not be fetched", "network")
    assert not (tmp_path / "out").exists()


def test_a_repository_is_fetched_without_weights_in_other_formats(
    marian: Path, tmp_path: Path, tram: Command, monkeypatch: Any
) -> None:
    import huggingface_hub

    snapshot = tmp_path / "snapshots" / "0123abc"
    snapshot.parent.mkdir()
    marian.rename(snapshot)
    asked: dict[str, Any] = {}

    def files(_: Any, repository: str, revision: str | None = None) -> list[str]:
        return ["config.json", "model.safetensors", "pytorch_model.bin", "tf_model.h5"]

    def download(repository: str, **options: Any) -> str:
        asked.update(options)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", files)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert tram("import", "hf", "Helsinki-NLP/opus-mt-en-de", tmp_path / "out", "--revision", "v1").code == 0
    assert asked["revision"] == "v1"
    assert "model*.safetensors" in asked["allow_patterns"]
    assert not any(pattern.endswith((".bin", ".h5")) for pattern in asked["allow_patterns"])
    assert "commit 0123abc" in (tmp_path / "out" / "README.md").read_text()
    text = TextPipeline.load(tmp_path / "out")
    assert (text.source_language, text.target_language) == ("en", "de")


def test_a_changed_tokeniser_file_of_a_model_folder_is_refused(marian: Path, tmp_path: Path) -> None:
    import_hf(str(marian), tmp_path / "out")
    place = tmp_path / "out" / "origin" / "vocab.json"
    place.write_text(place.read_text() + " ")
    with pytest.raises(InputError, match=r"vocab\.json: is not the file"):
        Translator.load(tmp_path / "out")
    place.unlink()
    with pytest.raises(InputError, match=r"vocab\.json: cannot be read"):
        Translator.load(tmp_path / "out")
    os.mkfifo(place)  # would block
    with pytest.raises(InputError, match=r"vocab\.json: is a named pipe"):
        Translator.load(tmp_path / "out")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_tokeniser_file_with_an_impossible_name_is_refused(name: str, marian: Path, tmp_path: Path) -> None:
    import_hf(str(marian), tmp_path / "out")
    place = tmp_path / "out" / "text.json"
    place.write_text(json.dumps(json.loads(place.read_text().replace('"vocab.json"', json.dumps(name)))))
    with pytest.raises(InputError, match=r"cannot be read|pipeline|choose another name"):
        Translator.load(tmp_path / "out")


def replace_origin(folder: Path, name: str, content: bytes) -> None:
    """Replace a tokeniser file of a model folder, as whoever writes text.json and config.yaml anew would."""
    (folder / "origin" / name).write_bytes(content)
    path, config = folder / "text.json", folder / "config.yaml"
    about = json.loads(path.read_text())
    about["pretrained"]["files"][name] = bytes_fingerprint(content)
    path.write_text(json.dumps(about))
    before = read_model_file(folder).text
    assert before is not None
    config.write_text(config.read_text().replace(before, _File.model_validate(about, strict=False).fingerprint))


def test_tokeniser_files_that_do_not_fit_the_model_are_refused(originals: dict[str, Path], tmp_path: Path) -> None:
    import_hf(str(originals["nllb"]), tmp_path / "out", "en", "de")
    name = next(path.name for path in (tmp_path / "out" / "origin").iterdir() if path.name == "tokenizer.json")
    good = (tmp_path / "out" / "origin" / name).read_bytes()
    tokeniser = json.loads(good)
    tokeniser["added_tokens"].append({**tokeniser["added_tokens"][-1], "id": 9999, "content": "<beyond>"})
    vocabulary = tokeniser["model"]["vocab"]
    vocabulary[next(iter(vocabulary))] = 9999
    replace_origin(tmp_path / "out", name, json.dumps(tokeniser).encode())
    with pytest.raises(InputError, match=r"tokenizer\.json cannot be read as a tokeniser \(it has the id 9,999"):
        Translator.load(tmp_path / "out")
    only = {"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"}, "added_tokens": []}
    replace_origin(tmp_path / "out", name, json.dumps(only).encode())
    translator = Translator.load(tmp_path / "out")
    with pytest.raises(InputError, match="cannot split a text into subwords"):
        translator.translate(["A fox."])


@pytest.mark.parametrize("prefix", ["x", "longer than a piece"])
def test_a_tokeniser_at_which_its_library_panics_is_refused(
    prefix: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """A panic is no `Exception`; with some prefixes it ends the process."""
    nllb = copied(originals["nllb"], tmp_path / "foreign")
    import_hf(str(nllb), tmp_path / "out", "en", "de")
    tokeniser = json.loads((nllb / "tokenizer.json").read_text())
    normaliser = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    prefixed = tokeniser["model"] | {"continuing_subword_prefix": prefix}
    for damaged in (tokeniser | {"normalizer": normaliser}, tokeniser | {"model": prefixed}):
        content = json.dumps(damaged).encode()
        (nllb / "tokenizer.json").write_bytes(content)
        with pytest.raises(InputError, match="its tokeniser cannot be loaded"):
            import_hf(str(nllb), tmp_path / "again", "en", "de")
        replace_origin(tmp_path / "out", "tokenizer.json", content)
        with pytest.raises(InputError, match=r"tokenizer\.json cannot be read as a tokeniser"):
            Translator.load(tmp_path / "out")
    replace_origin(
        tmp_path / "out",
        "tokenizer.json",
        json.dumps(tokeniser | {"pre_tokenizer": {"type": "FixedLength", "length": 0}}).encode(),
    )
    with pytest.raises(InputError, match="cannot split a text into subwords"):
        Translator.load(tmp_path / "out").translate(["A fox."])


def test_a_vocabulary_in_which_two_pieces_are_one_is_refused(marian: Path, tmp_path: Path) -> None:
    """Without that, a model would translate with the wrong words."""
    path = marian / "vocab.json"
    good = path.read_text()
    one, other = list(json.loads(good))[5:7]
    change(path, **{one: json.loads(good)[other]})
    with pytest.raises(InputError, match=r"vocab\.json is not a vocabulary"):
        import_hf(str(marian), tmp_path / "out")
    path.write_text(good.replace("{", '{"' + one + '": 7, ', 1))
    with pytest.raises(InputError, match=r"vocab\.json is not a vocabulary"):
        import_hf(str(marian), tmp_path / "out")


def test_names_with_a_lone_surrogate_are_refused(marian: Path, tmp_path: Path) -> None:
    """They could not be written into the model folder."""
    config, vocabulary = marian / "tokenizer_config.json", marian / "vocab.json"
    good = config.read_text()
    change(config, eos_token="\ud800")
    with pytest.raises(InputError, match=r"tokenizer_config\.json: contains a lone surrogate"):
        import_hf(str(marian), tmp_path / "out")
    config.write_text(good)
    change(vocabulary, **{">>\ud800<<": 7})
    with pytest.raises(InputError, match=r"vocab\.json is not a vocabulary"):
        import_hf(str(marian), tmp_path / "out")


def test_an_origin_that_names_no_family_is_not_exported(marian: Path, tmp_path: Path) -> None:
    import_hf(str(marian), tmp_path / "out")
    replace_origin(tmp_path / "out", "config.json", b'{"model_type": "t5"}')
    with pytest.raises(InputError, match=r"config\.json: names no family"):
        export_hf(tmp_path / "out", tmp_path / "exported")


def test_a_language_that_the_model_does_not_list_is_refused(originals: dict[str, Path], tmp_path: Path) -> None:
    import_hf(str(originals["nllb"]), tmp_path / "out", "en", "de")
    text = TextPipeline.load(tmp_path / "out")
    assert text.pretrained is not None
    wrong = replace(text, pretrained=text.pretrained.model_copy(update={"target": "xxx_Latn"}))
    with pytest.raises(InputError, match="chooses xxx_Latn as the target language, which it does not list"):
        _ = wrong.special


# Languages, licences and defaults.


def test_a_target_language_is_chosen_at_load(originals: dict[str, Path], tmp_path: Path, tram: Command) -> None:
    change(copied(originals["nllb"], tmp_path / "foreign") / "tokenizer_config.json", tgt_lang=None)
    done = tram("import", "hf", tmp_path / "foreign", tmp_path / "out")
    assert "choose one with --target" in done.err
    (tmp_path / "lines.txt").write_text("The old miller waits.\n")
    options = ("translate", tmp_path / "lines.txt", "--lines", "--model", tmp_path / "out")
    refused(tram(*options), "choose one with --target")
    refused(tram(*options, "--target", "deu_Lat"), "'deu_Lat'", "deu_Latn")
    refused(tram(*options, "--target", "zh"), "several", "zho_Hans", "zho_Hant")
    assert tram(*options, "--target", "de").code == 0
    translator = Translator.load(tmp_path / "out", target="fra_Latn", source="de")
    assert (translator.text.source_language, translator.text.target_language) == ("de", "fr")
    languages = translator.text.pretrained.languages  # type: ignore[union-attr]
    assert translator.special.target_prefix == (languages["fra_Latn"],)
    assert translator.special.source_prefix == (languages["deu_Latn"],)


def test_one_pair_of_languages_cannot_be_changed(marian: Path, tmp_path: Path) -> None:
    import_hf(str(marian), tmp_path / "out")
    assert Translator.load(tmp_path / "out", target="deu").text.target_language == "de"
    with pytest.raises(InputError, match="its target language is de, not fr"):
        Translator.load(tmp_path / "out", target="fr")


@pytest.mark.parametrize(
    ("code", "short"), [("deu_Latn", "de"), ("de_DE", "de"), ("cmn-Hans", "zh"), ("ace_Latn", "ace"), ("en", "en")]
)
def test_long_codes_have_short_ones(code: str, short: str) -> None:
    assert short_code(code) == short


def test_an_unknown_language_is_refused_with_the_nearest_ones() -> None:
    assert find_language("pt", ["pt_XX", "pl_PL"], "model") == "pt_XX"
    with pytest.raises(InputError, match="model: language 'dee' is not a language of this model; give"):
        find_language("dee", ["de", "fr", "nl"], "model")


def test_licences_are_kept_and_forbidding_ones_are_printed(marian: Path, tmp_path: Path, tram: Command) -> None:
    (marian / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-nc-4.0\n---\n\n# Model\n")
    done = tram("import", "hf", marian, tmp_path / "out")
    assert "note: licence cc-by-nc-4.0" in done.err
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith("---\nbase_model: foreign\nlicense: cc-by-nc-4.0\n---\n")
    assert "forbids commercial use" in card
    Translator.load(tmp_path / "out").save(tmp_path / "again")
    assert "licence cc-by-nc-4.0" in (tmp_path / "again" / "README.md").read_text()


def test_defaults_of_the_search_are_those_of_the_model(marian: Path, tmp_path: Path, tram: Command) -> None:
    change(marian / "generation_config.json", length_penalty=0.6, no_repeat_ngram_size=3)
    done = tram("import", "hf", marian, tmp_path / "out")
    assert "no_repeat_ngram_size" in done.err
    translator = Translator.load(tmp_path / "out")
    assert (translator.beam, translator.length_penalty) == (4, 0.6)
    translator = Translator.load(tmp_path / "out", beam=2, length_penalty=1.5)
    assert (translator.beam, translator.length_penalty) == (2, 1.5)
    change(marian / "generation_config.json", num_beams=True)
    assert tram("import", "hf", marian, tmp_path / "another").code == 0
    change(marian / "generation_config.json", bad_words_ids=[[1, 2]])
    refused(tram("import", "hf", marian, tmp_path / "other"), "`bad_words_ids`")

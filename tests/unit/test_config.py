"""Configs: a written config is read back unchanged, and a wrong key or value is refused by its name."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tram.config import Config, FinetuneConfig, MemoryConfig, ModelConfig, TrainConfig, checked, write_yaml
from tram.config.contexts import ContextConfig, HANConfig
from tram.errors import InputError
from tram.yaml_files import read_yaml

NEEDED = "data: prepared\noutput: run\n"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(NEEDED + "seed: 7\nmodel:\n  d_model: 64\n  heads: 4\ntrain:\n  lr: 0.001\n", encoding="utf-8")
    return path


def written(folder: Path, text: str) -> Path:
    path = folder / "written.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, *overrides: str) -> str:
    """Return the error message for a config, which must be one line."""
    with pytest.raises(InputError) as caught:
        Config.load(path, list(overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message


def first_stage(config: Config) -> TrainConfig:
    assert config.train is not None
    return config.train


def configs() -> st.SearchStrategy[Config]:
    names = st.text(st.characters(categories=["L", "N"], include_characters=" -_.:#'\""), min_size=1, max_size=12)
    fractions = st.floats(0, 1, exclude_max=True)
    model = st.builds(
        lambda heads, width, **values: ModelConfig(heads=heads, d_model=heads * width, **values),
        heads=st.integers(1, 16),
        width=st.sampled_from([2, 4, 64]),
        norm=st.sampled_from(["post", "pre"]),
        activation=st.sampled_from(["relu", "gelu", "swish"]),
        positions=st.sampled_from(["learned", "sinusoidal"]),
        embedding_scale=st.booleans(),
    )
    train = st.builds(
        TrainConfig,
        lr=st.floats(1e-9, 10),
        betas=st.tuples(fractions, fractions),
        dropout=fractions,
        updates=st.integers(1, 10**7),
        precision=st.sampled_from(["auto", "float32", "bfloat16"]),
    )
    memory = st.builds(
        MemoryConfig,
        slots=st.integers(1, 64),
        layers=st.lists(st.integers(-6, 5), min_size=1, max_size=3).map(tuple),
        depth=st.one_of(st.integers(1, 9), st.just("full")),
        read=st.sampled_from(["add", "scaled"]),  # fit post-norm and pre-norm
    )
    finetune = st.builds(
        FinetuneConfig, context=st.none() | memory, window=st.sampled_from(["document", (1, 5), (3, 3)])
    )
    paths = names.map(Path)
    return st.builds(
        Config,
        data=paths,
        output=paths,
        seed=st.integers(0, 2**31),
        model=model,
        train=train,
        finetune=st.none() | finetune,
    )


@given(config=configs())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_written_config_reads_back_as_the_same_config(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "again.yaml"
    write_yaml(path, config)
    assert Config.load(path) == config


def test_the_file_overrides_the_defaults_and_leaves_the_others(config_file: Path) -> None:
    config = Config.load(config_file)
    assert (config.data, config.seed) == (Path("prepared"), 7)
    assert (config.model.d_model, config.model.heads, first_stage(config).lr) == (64, 4, 0.001)
    assert config.model.feed_forward == ModelConfig().feed_forward
    assert first_stage(config).warmup == TrainConfig().warmup


@pytest.mark.parametrize("text", ["3e-4", "3.0e-4", "0.0003", ".0003"])
def test_an_override_may_write_a_number_in_any_usual_way(config_file: Path, text: str) -> None:
    assert first_stage(Config.load(config_file, [f"train.lr={text}"])).lr == 3e-4


def test_overrides_reach_nested_keys_lists_words_and_truth_values(config_file: Path) -> None:
    overrides = ["train.betas=[0.8, 0.95]", "model.norm=pre", "model.embedding_norm=false", "seed=11", "data=a=b"]
    config = Config.load(config_file, overrides)
    assert first_stage(config).betas == (0.8, 0.95)
    assert (config.model.norm, config.model.embedding_norm, config.seed) == ("pre", False, 11)
    assert config.data == Path("a=b")
    assert config.model.d_model == 64, "an override of one key leaves its neighbours"


def test_an_override_makes_a_section_that_the_file_does_not_have(tmp_path: Path) -> None:
    assert first_stage(Config.load(written(tmp_path, NEEDED), ["train.updates=5"])).updates == 5


def test_the_last_of_two_overrides_of_a_key_wins(config_file: Path) -> None:
    assert Config.load(config_file, ["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("override", ["train.lr", "seed", "=3", ""])
def test_an_override_without_key_or_sign_is_refused_with_an_example(config_file: Path, override: str) -> None:
    message = refused(config_file, override)
    assert f"`{override}`" in message
    assert "key=value" in message


def test_an_override_below_a_plain_value_is_refused(config_file: Path) -> None:
    message = refused(config_file, "seed.deep=3")
    assert "seed.deep=3" in message
    assert "not a section" in message


def test_an_override_that_is_not_yaml_is_refused(config_file: Path) -> None:
    assert "train.betas=[0.9" in refused(config_file, "train.betas=[0.9")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("train.warm_up", "train.warmup"),
        ("model.d_modle", "model.d_model"),
        ("train.labelsmoothing", "train.label_smoothing"),
        ("sed", "seed"),
    ],
)
def test_an_unknown_key_is_refused_with_the_closest_valid_one(config_file: Path, wrong: str, right: str) -> None:
    message = refused(config_file, f"{wrong}=1")
    assert str(config_file) in message
    assert f"unknown key `{wrong}`" in message
    assert f"did you mean `{right}`?" in message


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("finetune.memory.slot=1", "unknown key `finetune.context.slot`; did you mean `finetune.context.slots`?"),
        ("finetune.context={kind: han, slots: 1}", "unknown key `finetune.context.slots`; did you mean `finetune."),
        ("finetune.context={kind: hann}", "`finetune.context.kind`: there is no kind `hann`; did you mean `han`?"),
        ("finetune.context={kind: xl}", "did you mean `transformer_xl`?"),
        ("finetune.context={kind: g-transformer}", "did you mean `g_transformer`?"),
        ("finetune.context={kind: zhang}", "did you mean `zheng`?"),
        ("finetune.context={kind: selective_attention}", "did you mean `selective`?"),
        ("finetune.context={kind: selective, side: both}", "`finetune.context.side`"),
        ("finetune.context={kind: g_transformer}", "context.tokens (512) must not exceed max_positions (256), because"),
        ("finetune.context={kind: g_transformer, tokens: 128}", "context.tokens (128) must exceed max_length (128)"),
        ("finetune.context={kind: g_transformer, tokens: 256, cross: 7}", "context.cross (7): there are 6 layers"),
        (
            "finetune={context: {kind: zheng}, window: [2, 4]}",
            "reads the whole source, so a document must not be cut; ",
        ),
        ("finetune.context={slots: 4}", "the key `finetune.context.kind` is missing; add it"),
        ("finetune.context=memory", "`finetune.context`"),
        ("finetune.context={kind: memory, slots: 0}", "`finetune.context.slots`"),
    ],
)
def test_a_context_is_chosen_by_its_kind(config_file: Path, override: str, problem: str) -> None:
    assert problem in refused(config_file, override)


def test_the_memory_of_earlier_versions_is_a_kind_of_context(config_file: Path) -> None:
    former = Config.load(config_file, ["finetune.memory.slots=5"])
    assert former == Config.load(config_file, ["finetune.context={kind: memory, slots: 5}"])
    assert ModelConfig.model_validate({"memory": {"slots": 5}}) == ModelConfig(context=MemoryConfig(slots=5))
    assert ModelConfig.model_validate({"memory": None}) == ModelConfig()
    control = Config.load(config_file, ["finetune.memory=null"])
    assert control.finetune is not None
    assert control.finetune.context is None


def test_a_context_of_another_kind_replaces_the_one_that_it_extends(tmp_path: Path) -> None:
    path = write_files(
        tmp_path,
        child="extends: base.yaml\nfinetune: {context: {kind: han, sentences: 2}}\n",
        base=NEEDED + "finetune: {memory: {slots: 8}}\n",
    )
    finetune = Config.load(path).finetune
    assert finetune is not None
    assert finetune.context == HANConfig(sentences=2)


def test_an_unknown_key_without_a_similar_one_is_refused_with_the_list_of_keys(config_file: Path) -> None:
    message = refused(config_file, "ŷŷŷŷ=1")
    assert "model.d_model" in message
    assert "train.lr" in message


@pytest.mark.parametrize(
    ("override", "key", "found"),
    [
        ("model.d_model=wide", "model.d_model", "'wide'"),
        ("model.d_model=0", "model.d_model", "0"),
        ("model.norm=middle", "model.norm", "'middle'"),
        ("train.dropout=1", "train.dropout", "1"),
        ("train.lr=-1", "train.lr", "-1"),
        ("train.betas=[0.9]", "train.betas", ""),
        ("train=5", "train", "5"),
    ],
)
def test_an_ill_typed_value_is_refused_by_key_and_value(config_file: Path, override: str, key: str, found: str) -> None:
    message = refused(config_file, override)
    assert str(config_file) in message
    assert re.search(rf"`{re.escape(key)}(\.\d)?`", message), message
    assert found in message


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "data: prepared\n")
    message = refused(path)
    assert str(path) in message
    assert "`output` is missing" in message


def test_heads_must_divide_the_width(config_file: Path) -> None:
    message = refused(config_file, "model.heads=5")
    assert "`model`" in message
    assert "heads (5) must divide d_model (64)" in message


def test_a_sentence_must_fit_the_position_table(config_file: Path) -> None:
    assert "max_length (300) must not exceed max_positions (256)" in refused(config_file, "model.max_length=300")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"memory": {"layers": [0, 6]}}, "there is no layer 6, the model has 0 to 5"),
        ({"memory": {"layers": [-4], "side": "target"}, "decoder_layers": 3}, "there is no layer -4"),
        ({"memory": {"depth": 0}}, "with depth 0 no gradient"),
        ({"memory": {"layers": []}}, "`context.layers`"),
        ({"memory": {"slots": 0}}, "`context.slots`"),
        ({"memory": {}, "norm": "pre"}, "context.read: scaled or add"),
    ],
)
def test_an_impossible_memory_is_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        checked(ModelConfig, values, "model/config.yaml")


def test_only_the_side_with_the_memory_needs_its_layers() -> None:
    values = {"memory": {"layers": [5], "side": "source"}, "decoder_layers": 3}
    assert checked(ModelConfig, values, "model/config.yaml").decoder_layers == 3


def test_memory_layers_count_from_either_end_and_once_each() -> None:
    assert MemoryConfig(layers=(-1, 0, 5)).layer_numbers(6) == [0, 5]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (["train=null"], "at least one of them"),
        (["train=null", "finetune={}"], "there is no first stage"),
        (["model.memory={}"], "set finetune.context"),
        (["finetune.window=[5, 2]"], "the minimum (5) is greater than the maximum (2)"),
        (["finetune.accumulate=2"], "leave it at 1"),
    ],
)
def test_stages_that_do_not_fit_together_are_refused(config_file: Path, overrides: list[str], complaint: str) -> None:
    assert complaint in refused(config_file, *overrides)


def test_keys_of_earlier_versions_are_renamed_or_ignored_if_they_had_no_effect(config_file: Path) -> None:
    former = ["train.keep=7", "finetune.keep=8", "finetune.like=4", "finetune.foretell=0", "finetune.memory_dropout="]
    config = Config.load(config_file, former)
    assert config.finetune is not None
    assert first_stage(config).keep_checkpoints == 7
    assert (config.finetune.keep_checkpoints, config.finetune.max_length_gap) == (8, 4)
    for overrides in (["finetune.foretell=0.5"], ["finetune.like=4", "finetune.max_length_gap=5"]):
        key = overrides[0].partition("=")[0]
        assert f"unknown key `{key}`" in refused(config_file, *overrides)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.yaml"
    message = refused(path)
    assert str(path) in message
    assert "no such file" in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NEEDED + "model: [1, 2\ntrain: {}\n", 4),
        (NEEDED + "  seed: 1\n", 3),
        ("data: a\noutput: *nothing\n", 2),
        (NEEDED + "seed: 0x_\n", 3),
        (NEEDED + "train:\n  lr: 2026-11-31\n", 4),
        (NEEDED + "train:\n  lr: !!timestamp x\n", 4),
        (NEEDED + "seed: " + "[" * 5000 + "\n", 3),
        (NEEDED + "seed: \x07\n", 3),
        (NEEDED + 'seed: "\\U00110000"\n', 3),
        (NEEDED + 'seed: "\\Uffffffff"\n', 3),
    ],
)
def test_broken_yaml_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    path = written(tmp_path, text)
    message = refused(path)
    assert message.startswith(f"{path}:{line}:")
    assert "not valid YAML" in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NEEDED + "---\nseed: 1\n", ":3: is not valid YAML (expected a single document"),
        ("data: &a x\noutput: &a y\n", ":2: is not valid YAML (found duplicate anchor 'a')"),
    ],
)
def test_broken_yaml_is_refused_with_the_whole_problem(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in refused(written(tmp_path, text))


@pytest.mark.parametrize("text", ["", "just words\n", "- a\n- b\n"])
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    assert str(path) in refused(path)


def test_a_file_that_is_not_text_and_a_folder_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x81")
    for path in (binary, tmp_path):
        assert str(path) in refused(path)


def test_a_config_cannot_be_changed(config_file: Path) -> None:
    config = Config.load(config_file)
    with pytest.raises(ValidationError):
        config.seed = 3  # type: ignore[misc]
    with pytest.raises(ValidationError):
        config.model.heads = 2  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    contexts = get_args(get_args(ContextConfig)[0])
    for section in (Config, ModelConfig, TrainConfig, FinetuneConfig, *contexts):
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name} has no description"


def test_a_written_config_is_plain_yaml_with_every_key(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    write_yaml(path, ModelConfig(norm="pre"))
    values = read_yaml(path)
    assert set(values) == set(ModelConfig.model_fields)
    assert values["norm"] == "pre"


# extends


def write_files(folder: Path, **texts: str) -> Path:
    """Write NAME.yaml for every name and return the path of the first."""
    paths = [folder / f"{name}.yaml" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths[0]


def test_a_file_that_extends_another_has_its_settings_and_its_own_win(tmp_path: Path) -> None:
    path = write_files(
        tmp_path,
        child="extends: base.yaml\noutput: own\ntrain: {lr: 0.25}\nfinetune: {memory: {slots: 4}}\n",
        base=NEEDED + "seed: 9\ntrain: {lr: 0.5, warmup: 7}\nfinetune: {memory: {slots: 8, depth: 3}}\n",
    )
    config = Config.load(path, ["train.updates=5"])
    assert (config.data, config.output, config.seed) == (Path("prepared"), Path("own"), 9)
    assert (first_stage(config).lr, first_stage(config).warmup, first_stage(config).updates) == (0.25, 7, 5)
    assert config.finetune is not None
    assert config.finetune.memory == MemoryConfig(slots=4, depth=3)


def test_null_and_lists_replace_what_they_extend(tmp_path: Path) -> None:
    path = write_files(
        tmp_path,
        child="extends: base.yaml\ntrain: null\nfinetune: {start: nothing, betas: [0.5, 0.6]}\n",
        base=NEEDED + "train: {lr: 0.5}\nfinetune: {betas: [0.1, 0.2], lr: 0.5}\n",
    )
    config = Config.load(path)
    assert config.train is None
    assert config.finetune is not None
    assert (config.finetune.betas, config.finetune.lr) == ((0.5, 0.6), 0.5)


def test_a_chain_goes_through_folders_and_the_path_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write_files(tmp_path, base=NEEDED + "seed: 9\n")
    write_files(tmp_path / "deep", middle="extends: ../base.yaml\nmodel: {d_model: 64}\n")
    path = write_files(tmp_path, child="extends: deep/middle.yaml\nmodel: {heads: 2}\n")
    config = Config.load(path)
    assert (config.seed, config.model.d_model, config.model.heads) == (9, 64, 2)


@given(config=configs(), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_extending_a_config_changes_nothing_else_and_the_stored_config_stands_alone(
    tmp_path: Path, config: Config, seed: int
) -> None:
    write_yaml(tmp_path / "base.yaml", config)
    extended = Config.load(write_files(tmp_path, child=f"extends: base.yaml\nseed: {seed}\n"))
    assert extended == config.model_copy(update={"seed": seed})
    write_yaml(tmp_path / "stored.yaml", extended)
    assert "extends" not in read_yaml(tmp_path / "stored.yaml")
    (tmp_path / "base.yaml").unlink()
    assert Config.load(tmp_path / "stored.yaml") == extended


def test_a_cycle_is_refused_with_its_files(tmp_path: Path) -> None:
    message = refused(write_files(tmp_path, a="extends: b.yaml\n", b="extends: c.yaml\n", c="extends: a.yaml\n"))
    assert "cycle" in message
    assert all(f"{name}.yaml" in message for name in "abc")
    assert "cycle" in refused(write_files(tmp_path, alone="extends: ./alone.yaml\n"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("none.yaml", "there is no file"),
        ("..", "there is no file"),
        ("[a.yaml, b.yaml]", "one YAML file"),
        ("3", "one YAML file"),
    ],
)
def test_a_file_that_cannot_be_extended_is_refused(tmp_path: Path, value: str, words: str) -> None:
    message = refused(write_files(tmp_path, child=f"extends: {value}\n"))
    assert words in message
    assert "child.yaml: `extends" in message


def test_a_wrong_key_is_refused_with_the_files_it_may_stand_in(tmp_path: Path) -> None:
    message = refused(write_files(tmp_path, child="extends: base.yaml\n", base=NEEDED + "sed: 3\n"))
    assert re.search(r"child\.yaml \(extends .*base\.yaml\): unknown key `sed`; did you mean `seed`", message)


# Values that are no settings.

STRANGE = {
    "a date that does not exist": "2026-11-31",
    "no digits": "0x_",
    "an empty integer": "!!int ''",
    "a character beyond Unicode": '"\\U00110000"',
    "five thousand digits": "9" * 5000,
    "deep nesting": "[" * 5000,
    "an unknown tag": "!!python/object:os.system x",
    "an empty float": "!!float ''",
    "a merge key": "{a: &a {b: 1}, <<: *a}",
}


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE.keys())
def test_a_value_that_yaml_cannot_read_is_one_sentence(value: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: d\noutput: o\n")
    with pytest.raises(InputError) as caught:
        Config.load(path, [f"output={value}"])
    assert len(str(caught.value)) < 1000
    path.write_text(f"data: d\noutput: {value}\n")
    with pytest.raises(InputError, match="is not valid YAML"):
        Config.load(path)


@pytest.mark.parametrize("value", ['"a\\0b"', '"a\\ud800b"', "a" * 300, "a/" * 5000])
def test_a_path_that_no_file_can_have_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"data: d\noutput: {value}\n")
    with pytest.raises(InputError, match="`output`: the path contains"):
        Config.load(path)
    path.write_text(f"data: d\noutput: o\nextends: {value}\n")
    with pytest.raises(InputError, match="`extends`"):
        Config.load(path)


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: d\noutput: ''\n")
    with pytest.raises(InputError, match="`output`: the path is empty"):
        Config.load(path)


def test_an_alias_bomb_is_a_short_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    path.write_text("\n".join(lines) + "\ndata: *a9\noutput: o\n")
    with pytest.raises(InputError) as caught:
        Config.load(path)
    assert len(str(caught.value)) < 2000
    path.write_text("\n".join(lines).replace("a0: &a0", "extends: &a0", 1))
    with pytest.raises(InputError) as caught:
        Config.load(path)
    assert len(str(caught.value)) < 2000


ENDLESS = {
    "lists": "[&a0 [x], " + ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)) + "]",
    "a long text": f"[&a {'x' * 10_000}{', *a' * 1000}]",
    "a section in itself": "&a {b: *a}",
    "a list in itself": "&a [[*a]]",
    "a key in itself": "{? &a [*a] : 1}",
}


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS.keys())
def test_aliases_that_grow_without_end_are_refused_by_every_reader(value: str, tmp_path: Path) -> None:
    base = write_files(tmp_path, base=f"model: {value}\n")
    child = write_files(tmp_path, child=f"extends: base.yaml\nmodel: {value}\n")
    for path in (base, child):
        assert re.search(r"\.yaml:[12]: is not valid YAML \(.*alias", refused(path))
    with pytest.raises(InputError, match="alias"):
        read_yaml(base)
    assert "alias" in refused(written(tmp_path, NEEDED), f"model={value}")


def test_modest_aliases_stay(tmp_path: Path) -> None:
    values = read_yaml(written(tmp_path, "train: &a {lr: 0.1}\nfinetune: *a\nx: [*a, *a]\n"))
    assert values == {"train": {"lr": 0.1}, "finetune": {"lr": 0.1}, "x": [{"lr": 0.1}] * 2}


def test_a_file_of_megabytes_is_no_config(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: 1\n" * 10**6)
    with pytest.raises(InputError, match="longer than"):
        Config.load(path)


def numbers(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a section and its subsections, with its default."""
    for name, field in kind.model_fields.items():
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            yield prefix + name, field.default
        if isinstance(field.default, BaseModel):
            yield from numbers(type(field.default), f"{prefix}{name}.")


NUMBERS = {
    **dict(numbers(Config)),
    **dict(numbers(FinetuneConfig, "finetune.")),
    "finetune.context.layers.0": 0,
    "finetune.window.0": 1,
}


@pytest.mark.parametrize("value", [10**18, -(10**18), float("inf"), float("-inf"), float("nan"), 1e300])
@pytest.mark.parametrize("key", sorted(NUMBERS))
def test_every_number_has_bounds(key: str, value: float) -> None:
    values: dict[str, Any] = {"data": "d", "output": "o", "seed": 1, "train": {}, "model": {}}
    values["finetune"] = {"window": [1, 2], "context": {"kind": "memory", "layers": [0]}}
    parts = key.split(".")
    *outer, last = [int(part) if part.isdigit() else part for part in parts]
    place: Any = values
    for part in outer:
        place = place[part]
    place[last] = value
    # Any seed that torch takes is a good one; a learning rate that is far too high stops the training.
    if value == 10**18 and key.rpartition(".")[2] in {"seed", "lr", "lr_new", "clip"}:
        Config.model_validate(values)
        return
    with pytest.raises(InputError, match=r"config\.yaml"):
        checked(Config, values, "config.yaml")


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "0b" + "1" * 20_000, "59:" * 3000 + "59"])
def test_an_integer_that_python_does_not_write_is_one_short_sentence(
    config_file: Path, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)  # pydantic cannot write such an integer, and says so
    for key in ("seed", "train.lr", "output", "finetune.window"):
        message = refused(config_file, f"{key}={number}")
        assert re.search(rf"{key}.*an integer of [\d,]+ bits", message)
        assert len(message) < 1000
    assert not ignored


@pytest.mark.parametrize("target", ["base.yaml", "/dev/zero"], ids=["itself", "a device"])
def test_a_link_that_leads_to_no_file_is_not_extended(tmp_path: Path, target: str) -> None:
    (tmp_path / "base.yaml").symlink_to(target)
    assert "base.yaml" in refused(written(tmp_path, f"extends: base.yaml\n{NEEDED}"))


def test_a_config_may_be_a_pipe_that_a_shell_opened() -> None:
    reading, writing = os.pipe()
    os.write(writing, NEEDED.encode())
    os.close(writing)
    assert Config.load(f"/dev/fd/{reading}").output == Path("run")
    os.close(reading)


def test_a_key_that_appears_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: d\noutput: o\ntrain:\n  lr: 1.0e-3\n  lr: 1.0e-4\n")
    with pytest.raises(InputError, match=r"config.yaml:5: .*`lr` appears twice"):
        Config.load(path)


@pytest.mark.parametrize("override", ["train.updates=yes", "train.weight_decay=true", "seed=false", "train.clip=on"])
def test_yes_and_no_are_not_numbers(override: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("data: d\noutput: o\n")
    with pytest.raises(InputError, match="also yes, no"):
        Config.load(path, [override])
    assert Config.load(path, ["model.embedding_norm=no"]).model.embedding_norm is False


def test_an_endless_chain_of_files_is_refused(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    with pytest.raises(InputError, match="chain of 21 files"):
        Config.load(tmp_path / "0.yaml")

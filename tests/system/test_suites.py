"""`tram suite`, `tram contrast` and the measures of `tram evaluate`, as a user calls them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Corpus, Done, refused

Tram = Callable[..., Done]

NOUNS = {"Brief": ("letter", "Der"), "Paket": ("parcel", "Das"), "Lampe": ("lamp", "Die")}
LINES = [(f"The {noun} is very old.", f"{article} {name} ist sehr alt.") for name, (noun, article) in NOUNS.items()]
LINES += [("It stands in the hall.", "Sie steht in der Halle."), ("It weighs two pounds.", "Er wiegt zwei Pfund.")]
LINES += [(f"We have waited {n} hours.", f"Wir haben {n} Stunden gewartet.") for n in range(4)]
LINES += [("I like the lamp, and a lamp.", "Ich mag die Lampe, und eine Lampe an der Lampe.")]
LINES += [("It is in the kitchen.", "Sie ist in der Küche.")]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "some.en", tmp_path / "some.de"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{line[side]}\n" for line in LINES))
    return paths


def test_an_agreement_probe_is_made_and_run(tram: Tram, pair: tuple[Path, Path], run: Path, tmp_path: Path) -> None:
    out, results = tmp_path / "probe.jsonl", tmp_path / "results.json"
    done = tram("suite", "agreement", *pair, out, "--items", "6", "--words", "all")
    assert done.code == 0, done.err
    assert done.out == f"{out}: 12 items\n"
    done = tram("contrast", out, "--model", run, "--json", results)
    assert done.code == 0, done.err
    assert "own" in done.out
    value = json.loads(results.read_text())
    assert len(value["items"]) == 12
    assert value["by_distance"].keys() == {"1", "3"}
    done = tram("contrast", out, "--model", run, "--context", "own", "--beam", "1", "--baseline", results)
    assert done.code in {0, 2}  # a random model may show no gender at all
    assert done.code == 0 or "no item is judged" in done.err


def test_a_pronoun_suite_is_made_and_run(tram: Tram, pair: tuple[Path, Path], run: Path, tmp_path: Path) -> None:
    out = tmp_path / "pronouns.jsonl"
    done = tram("suite", "pronouns", *pair, out, "--genders", pair[1])
    assert done.code == 0, done.err
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert [item["reference"] for item in items] == ["Sie steht in der Halle.", "Sie ist in der Küche."]
    assert len(items[1]["source_context"]) == len(LINES) - 1
    done = tram("contrast", out, "--model", run, "--json", "-")
    assert done.code == 0, done.err
    value = json.loads(done.out)
    assert value["contexts"]["all"].keys() == {"items", "own", "other", "none"}
    assert value["overall"]["items"] == 2


def test_documents_of_several_files_are_read_together(tram: Tram, pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "pronouns.jsonl"
    done = tram("suite", "pronouns", *pair, out, "--add", f"{pair[0]},{pair[1]}")
    assert done.code == 0, done.err
    assert len(out.read_text().splitlines()) == 4


def test_bad_input_is_refused_with_a_sentence(tram: Tram, corpus: Corpus, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    refused(tram("suite", "pronouns", *corpus.dev, out), "no suitable pronoun", "more documents")
    refused(tram("suite", "agreement", *corpus.dev, out), "give more documents")
    refused(tram("suite", "agreement", *corpus.dev, out, "--add", "one"), "--add one", "a comma")
    refused(tram("suite", "pronouns", *corpus.dev, out, "--target-language", "xx"), "no rules for the language 'xx'")
    refused(tram("suite", "pronouns", *corpus.dev, out, "--target-language", "en"), "en.yaml", "has no")
    assert not out.exists()
    refused(tram("contrast", "agreement", "--model", run, "--history", "gold"), "--history gold", "use generated")
    refused(
        tram("contrast", "agreement", "--model", run, "--baseline", tmp_path / "no.json"), "no.json", "no such file"
    )
    refused(tram("contrast", tmp_path / "missing.jsonl", "--model", run), "missing.jsonl")


def test_measures_come_with_an_evaluation(tram: Tram, corpus: Corpus, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.json"
    done = tram("evaluate", *corpus.dev, "--model", run, "--context", "all", "--no-perplexity", "--json", out)
    assert done.code == 0, done.err
    assert "Form of address" in done.out
    value = json.loads(out.read_text())["measures"]
    assert value.keys() == {"address", "terms"}
    assert value["address"].keys() == {"reference", "own", "other", "none"}
    done = tram("evaluate", *corpus.dev, "--model", run, "--baseline", out, "--no-perplexity")
    assert done.code == 0, done.err
    assert "minus the baseline" in done.out
    done = tram("evaluate", *corpus.dev, "--model", run, "--measures", "none", "--no-perplexity")
    assert "Form of address" not in done.out
    refused(tram("evaluate", *corpus.dev, "--model", run, "--measures", "style", "--no-perplexity"), "--measures style")

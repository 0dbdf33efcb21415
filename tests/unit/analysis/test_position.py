"""s-BLEU difference by position: bins, scores, intervals, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from conftest import Done, made_up, refused, write_pair
from tram.analysis.position import MIN_DOCUMENTS, bin_starts, breakdown, position
from tram.data.corpus import Document, ParallelDocument, write_documents, write_parallel
from tram.errors import InputError

DRAWS = 40


def sentence(document: int, index: int) -> str:
    return f"the {document} small boats wait near bridge {index} for the evening train ."


def reference_documents(lengths: list[int]) -> list[list[str]]:
    return [[sentence(d, i) for i in range(length)] for d, length in enumerate(lengths)]


def wrong_from(documents: list[list[str]], start: int) -> list[list[str]]:
    """Replace two words in all sentences from `start` on."""
    return [[s.replace("evening train", "red fox") if i >= start else s for i, s in enumerate(d)] for d in documents]


def test_every_bin_is_reached_by_enough_documents() -> None:
    assert bin_starts([25] * 5, 10) == [1, 11, 21]
    assert bin_starts([25] * 4 + [15] * 5, 10) == [1, 11]  # only four documents reach sentence 21
    assert bin_starts([400] * 5, 10)[-1] == 101  # one bin for all later sentences


def test_documents_too_few_or_too_short_are_refused() -> None:
    with pytest.raises(InputError, match="at least 5"):
        bin_starts([50] * (MIN_DOCUMENTS - 1), 10)
    with pytest.raises(InputError, match="smaller --bin"):
        bin_starts([10] * 8, 10)


@given(st.lists(st.integers(1, 60), min_size=MIN_DOCUMENTS, max_size=20), st.integers(1, 12))
def test_bins_partition_the_sentences(lengths: list[int], size: int) -> None:
    try:
        starts = bin_starts(lengths, size)
    except InputError:
        assert sum(length > size for length in lengths) < MIN_DOCUMENTS
        return
    assert starts == [1 + size * k for k in range(len(starts))]
    assert all(sum(length >= first for length in lengths) >= MIN_DOCUMENTS for first in starts)


def test_the_difference_is_that_of_the_corpus_bleu_of_the_bin() -> None:
    gold = reference_documents([12, 15, 20, 11, 18, 30])
    found = breakdown(gold, wrong_from(gold, 10), gold, bootstrap=DRAWS)
    assert [each.label for each in found.bins] == ["1–10", "11+"]
    first, later = found.bins
    assert (first.difference, first.low, first.high) == (0, 0, 0)
    base, reference = ([s for d in documents for s in d[10:]] for documents in (wrong_from(gold, 10), gold))
    assert later.baseline == pytest.approx(sacrebleu.corpus_bleu(base, [reference]).score)
    assert later.system == pytest.approx(100)
    assert 0 < later.low <= later.difference <= later.high
    assert (later.documents, later.sentences) == (6, sum(len(d) - 10 for d in gold))
    assert found.trend.value == pytest.approx(later.difference)
    assert found.trend.low > 0


def test_swapping_the_systems_changes_the_sign() -> None:
    gold = reference_documents([12, 15, 20, 11, 18])
    bad = wrong_from(gold, 5)
    there, back = (breakdown(a, b, gold, size=5, bootstrap=DRAWS) for a, b in ((gold, bad), (bad, gold)))
    assert [b.difference for b in there.bins] == pytest.approx([-b.difference for b in back.bins])
    assert [b.low for b in there.bins] == pytest.approx([-b.high for b in back.bins])


def test_the_text_claims_only_what_the_intervals_support() -> None:
    gold = reference_documents([12] * 6)
    text = position(gold, gold, gold, bootstrap=DRAWS).text
    assert "higher" not in text
    assert "lower" not in text
    assert "neither clearly grows nor clearly shrinks" in text
    text = position(wrong_from(gold, 10), gold, gold, bootstrap=DRAWS).text
    assert "Sentences 11+: system scores lower" in text
    assert "shrinks with the index" in text


def test_translations_that_are_not_aligned_are_refused() -> None:
    gold = reference_documents([12] * 6)
    with pytest.raises(InputError, match="document 6"):
        breakdown([*gold[:-1], gold[-1][:-1]], gold, gold)


def test_the_command_compares_two_files(tmp_path: Path, tram: Callable[..., Done]) -> None:
    gold = reference_documents([12] * 6)
    pair = tmp_path / "a.en", tmp_path / "a.de"
    write_parallel(*pair, [ParallelDocument(d, d) for d in gold])
    write_documents(tmp_path / "base.de", [Document(d) for d in wrong_from(gold, 10)])
    out = tmp_path / "out"
    hypothesis, base = ["--hypothesis", pair[1]], ["--baseline-hypothesis", tmp_path / "base.de"]
    done = tram("analyze", "position", *pair, *hypothesis, *base, "--output", out)
    assert done.code == 0, done.err
    numbers = json.loads((out / "position.json").read_text())
    assert numbers["bins"][1]["difference"] > 0
    assert {path.name for path in out.iterdir()} == {f"position.{s}" for s in ("json", "md", "png", "svg")}
    refused(tram("analyze", "position", *pair, *hypothesis, "--output", out), "--baseline DIR", "--baseline-hypothesis")
    refused(tram("analyze", "position", *pair, *base, "--output", out), "--model DIR")


def test_documents_too_few_are_named_before_any_translation(tmp_path: Path, tram: Callable[..., Done]) -> None:
    pair = write_pair(tmp_path, "few", made_up([12] * (MIN_DOCUMENTS - 1), seed=1))
    systems = ["--model", tmp_path / "none", "--baseline", tmp_path / "none"]
    done = tram("analyze", "position", *pair, *systems, "--output", tmp_path / "out")
    refused(done, f"{pair[1]}: {MIN_DOCUMENTS - 1} documents are too few")

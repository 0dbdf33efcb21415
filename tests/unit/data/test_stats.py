"""Corpus statistics agree with manual counts in every format."""

import json
import statistics
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tram.data.corpus import ParallelDocument, write_parallel
from tram.data.stats import corpus_stats, stats_table
from tram.errors import InputError

DOCUMENTS = [
    ParallelDocument(["One two.", "", "Three four five."], ["Eins zwei.", "Nichts", "Drei"], "a"),
    ParallelDocument(["Six."], ["Sechs sieben acht neun."], "b"),
]


def test_counts_of_both_sides(tmp_path):
    write_parallel(tmp_path / "x.en", tmp_path / "x.de", DOCUMENTS, "d")
    stats = corpus_stats(tmp_path / "x.en", tmp_path / "x.de")
    assert stats.as_dict() == {
        "documents": 2,
        "sentences": 4,
        "sentences_per_document": 2.0,
        "median_document": 2.0,
        "longest_document": 3,
        "source": {"words": 6, "words_per_sentence": 1.5, "longest_sentence": 3, "empty_sentences": 1},
        "target": {"words": 8, "words_per_sentence": 2.0, "longest_sentence": 4, "empty_sentences": 0},
    }
    assert json.loads(json.dumps(stats.as_dict())) == stats.as_dict()


def test_one_file_with_both_sides_counts_as_two_files_do(tmp_path):
    write_parallel(tmp_path / "x.en", tmp_path / "x.de", DOCUMENTS, "d")
    expected = corpus_stats(tmp_path / "x.en", tmp_path / "x.de")
    for name in ("x.tsv", "x.jsonl", "x.xml"):
        write_parallel(tmp_path / name, None, DOCUMENTS)
        assert corpus_stats(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x.tsv", "x.xml"])
def test_one_side_alone_has_no_target(tmp_path, name):
    write_parallel(tmp_path / name, tmp_path / "other", DOCUMENTS[1:])
    stats = corpus_stats(tmp_path / name)
    assert (stats.source.words, stats.target) == (1, None)


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_the_streamed_median_is_the_median(lengths):
    documents = [ParallelDocument(["a"] * n, ["b"] * n) for n in lengths]
    with tempfile.TemporaryDirectory() as name:
        write_parallel(Path(name) / "x.en", Path(name) / "x.de", documents)
        stats = corpus_stats(Path(name) / "x.en", Path(name) / "x.de")
    assert stats.median_document == statistics.median(lengths)
    assert stats.sentences_per_document == pytest.approx(statistics.mean(lengths))


def test_the_table_shows_every_count(tmp_path):
    write_parallel(tmp_path / "x.tsv", None, DOCUMENTS)
    lines = [line.split() for line in stats_table(corpus_stats(tmp_path / "x.tsv")).split("\n")]
    assert ["documents", "2"] in lines
    assert ["source", "target"] in lines
    assert ["words", "6", "8"] in lines
    assert ["longest", "sentence,", "words", "3", "4"] in lines
    assert ["empty", "sentences", "1", "0"] in lines


def test_an_empty_corpus_has_no_statistics(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="contains no sentences"):
        corpus_stats(tmp_path / "x")

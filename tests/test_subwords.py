"""BPE that brings every string back, and the text pipeline as one file."""

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.subwords import BOS, BPE, BYTES, EOS, PAD, SPECIALS, TextPipeline
from tram.text import moses

ENGLISH = [
    "The miller's daughter carries the flour to the old mill.",
    "Where does she carry it? The mill is old, the flour is fresh.",
    "Read /etc/mill.conf and press Ctrl+M, then the mill starts.",
    "A daughter of the miller is never late.",
] * 5
GERMAN = [
    "Die Tochter des Müllers trägt das Mehl in die alte Mühle.",
    "Wohin trägt sie es? Die Mühle ist alt, das Mehl ist frisch.",
    "Lesen Sie /etc/mill.conf und drücken Sie Strg+M, dann läuft die Mühle.",
    "Eine Tochter des Müllers kommt nie zu spät.",
] * 5
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def learned(pipeline: str, merges: int = 150) -> TextPipeline:
    assert pipeline in ("moses", "raw")
    return TextPipeline.learn(ENGLISH, GERMAN, "en", "de", pipeline=pipeline, merges=merges)  # type: ignore[arg-type]


RAW, MOSES = learned("raw"), learned("moses")


@given(ANY_TEXT)
@example("  two  blanks \t\r\n\u2028 and\x00 controls ")
@example("<pad><s></s><0x41> ▁ 👩‍👩‍👧 e\u0301 \ufffd")
def test_raw_text_comes_back_exactly(text: str) -> None:
    assert RAW.decode(RAW.encode([text], "source")) == [text]


@given(st.lists(st.sampled_from(["the ", "Mühle", " ", "\n", "<pad>", "<0x41>", "mill", "日"])).map("".join))
def test_text_of_known_words_comes_back_exactly(text: str) -> None:
    assert RAW.bpe.decode(RAW.bpe.encode(text)) == text


def test_what_looks_like_a_special_piece_stays_text_even_if_frequent() -> None:
    lines = [f"{letter}<pad>{letter}<s>{letter}</s>{letter}<0x41>" for letter in "abcdefgh"] * 5
    bpe = BPE.learn(lines, merges=200)
    assert bpe.decode(bpe.encode(lines[0])) == lines[0]
    assert not set(range(3)) & set(bpe.encode(lines[0]))
    assert len(set(bpe.pieces(range(bpe.size)))) == bpe.size


@pytest.mark.parametrize("merges", [0, 1, 60, 150])
def test_merges_are_counted_exactly(merges: int) -> None:
    bpe = BPE.learn(ENGLISH + GERMAN, merges)
    assert len(bpe.merges) == merges
    assert bpe.size == len(SPECIALS) + 256 + len(bpe.alphabet) + len({a + b for a, b in bpe.merges})


def test_more_merges_give_shorter_sentences() -> None:
    lengths = [len(learned("raw", merges).bpe.encode(ENGLISH[0])) for merges in (0, 60, 150)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == len(ENGLISH[0]) + 1 > lengths[-1]


def test_a_frequent_word_is_one_piece_wherever_it_stands() -> None:
    ids = RAW.bpe.encode("the old the")
    assert RAW.bpe.pieces(ids)[0] == "▁the"
    assert ids[0] == ids[-1]


def test_rare_characters_are_spelled_in_bytes() -> None:
    bpe = BPE.learn([*ENGLISH, "ŋ"], merges=10)
    assert "ŋ" not in bpe.alphabet
    assert bpe.pieces(bpe.encode("ŋ")) == ["▁", "<0xC5>", "<0x8B>"]


def test_broken_bytes_of_a_model_do_no_harm() -> None:
    first_byte = len(SPECIALS) + BYTES.index("<0xC5>")
    assert RAW.bpe.decode([BOS, first_byte, *RAW.bpe.encode("mill"), EOS, PAD]) == "\ufffd mill"


def test_special_ids_are_passed_over() -> None:
    ids = MOSES.encode(GERMAN[:2], "target")
    padded = [[BOS, *sentence, EOS, PAD, PAD] for sentence in ids]
    assert MOSES.decode(padded) == MOSES.decode(ids) == GERMAN[:2]


def test_a_lone_surrogate_is_refused_in_one_sentence() -> None:
    for text in (RAW, MOSES):
        with pytest.raises(InputError, match=r"sentence 2 .*U\+D83D"):
            text.encode(["good", "bad \ud83d"], "source")
    with pytest.raises(InputError, match="half a character"):
        BPE.learn(["\udc00"])


def test_nothing_to_learn_from_leaves_bytes() -> None:
    bpe = BPE.learn([])
    assert bpe.size == len(SPECIALS) + 256
    assert bpe.decode(bpe.encode("still ✓")) == "still ✓"


@pytest.mark.parametrize("text", ["x" * 200_000, "ab c" * 50_000, " " * 200_000])
def test_giant_lines_come_back(text: str) -> None:
    assert RAW.bpe.decode(RAW.bpe.encode(text)) == text


def test_moses_text_comes_back_normalised() -> None:
    for sentences, side, language in ((ENGLISH, "source", "en"), (GERMAN, "target", "de")):
        expected = [moses(language).normalize(sentence) for sentence in sentences]
        assert MOSES.decode(MOSES.encode(sentences, side), side) == expected  # type: ignore[arg-type]


def test_tokens_are_tokenised_and_truecased() -> None:
    assert MOSES.tokens("The mill, old.", "source") == "the mill , old ."
    assert MOSES.tokens("Die Mühle.", "target") == "die Mühle ."
    assert MOSES.preprocess("The mill.", "source") == "the mill ."
    assert RAW.preprocess("The mill.", "source") == "The mill."
    assert RAW.tokens("The mill.", "source") == "The mill ."


def test_an_empty_sentence_is_empty_on_both_ways() -> None:
    for text in (RAW, MOSES):
        assert text.decode(text.encode([""], "source")) == [""]
        assert text.decode([[]]) == [""]
        assert text.encode([], "source") == []


@pytest.mark.parametrize("name", ["model", "model/text.json", "other.json"])
@pytest.mark.parametrize("text", [RAW, MOSES], ids=["raw", "moses"])
def test_saved_and_loaded_is_the_same(tmp_path: Path, name: str, text: TextPipeline) -> None:
    text.save(tmp_path / name)
    loaded = TextPipeline.load(tmp_path / name)
    assert loaded.fingerprint == text.fingerprint
    assert loaded.vocabulary == text.vocabulary
    assert loaded.encode(GERMAN, "target") == text.encode(GERMAN, "target")
    assert loaded.tokens(ENGLISH[0], "source") == text.tokens(ENGLISH[0], "source")


def test_learning_twice_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        learned("moses").save(tmp_path / name)
    assert (tmp_path / "a/text.json").read_bytes() == (tmp_path / "b/text.json").read_bytes()


def test_other_text_gives_another_fingerprint() -> None:
    assert len({RAW.fingerprint, MOSES.fingerprint, learned("raw", merges=149).fingerprint}) == 3


def test_a_pipeline_goes_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(MOSES))
    assert copy.encode(ENGLISH, "source") == MOSES.encode(ENGLISH, "source")


def broken(path: Path, **changes: object) -> Path:
    MOSES.save(path)
    value = json.loads((path / "text.json").read_text())
    (path / "text.json").write_text(json.dumps(value | changes))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "version 99.*newer tram"),
        ({"format": "other"}, "format.*tram prepare"),
        ({"merges": 3}, "merges.*tram prepare"),
        ({"merges": [["q", "zz"]]}, "merges do not fit"),
        ({"alphabet": "aa", "merges": []}, "do not fit its alphabet"),
        ({"unknown": 1}, "unknown.*tram prepare"),
    ],
)
def test_a_foreign_or_broken_file_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        TextPipeline.load(broken(tmp_path, **changes))
    assert str(caught.value).startswith(f"{tmp_path / 'text.json'}: ")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1}'])
def test_a_file_that_is_no_pipeline_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.json").write_bytes(content)
    with pytest.raises(InputError, match=r"text\.json: is not .*: take it"):
        TextPipeline.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/text\.json: there is no such file"):
        TextPipeline.load(tmp_path / "nowhere")

"""BPE restores every string, and a text pipeline is one file."""

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.fingerprints import fingerprint
from tram.text.bpe import BPE, BYTES, SPECIALS, Merge
from tram.text.moses import moses
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import PAD, SpecialIds
from tram.text.word_end_bpe import WordEndBPE

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
BOS, EOS = SpecialIds().start, SpecialIds().end
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def learned(pipeline: str, merges: int = 150) -> TextPipeline:
    assert pipeline in ("moses", "raw")
    return TextPipeline.learn(ENGLISH, GERMAN, "en", "de", pipeline=pipeline, merges=merges)  # type: ignore[arg-type]


RAW, MOSES = learned("raw"), learned("moses")

SIGNS = sorted({sign for line in [*ENGLISH, *GERMAN, '"'] for sign in line} - {" "})
LETTERS = [*SIGNS, *(f"{sign}@@" for sign in SIGNS)]
MILL: list[Merge] = [("m", "i"), ("l", "l"), ("mi", "ll</w>"), ("l", "l</w>"), ("mi", "ll"), ("e", "r</w>")]
FOREIGN = TextPipeline("moses", "en", "de", WordEndBPE([*SPECIALS, *LETTERS, "mi@@", "ll", "mill", "mill@@"], MILL))


@given(ANY_TEXT)
@example("  two  blanks \t\r\n\u2028 and\x00 controls ")
@example("<pad><s></s><0x41> ▁ 👩‍👩‍👧 e\u0301 \ufffd")
def test_raw_text_is_restored_exactly(text: str) -> None:
    assert RAW.decode(RAW.encode([text], "source")) == [text]


@given(st.lists(st.sampled_from(["the ", "Mühle", " ", "\n", "<pad>", "<0x41>", "mill", "日"])).map("".join))
def test_text_of_known_words_is_restored_exactly(text: str) -> None:
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


def test_more_merges_result_in_shorter_sentences() -> None:
    lengths = [len(learned("raw", merges).bpe.encode(ENGLISH[0])) for merges in (0, 60, 150)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == len(ENGLISH[0]) + 1 > lengths[-1]


def test_a_frequent_word_is_one_piece_at_any_position() -> None:
    ids = RAW.bpe.encode("the old the")
    assert RAW.bpe.pieces(ids)[0] == "▁the"
    assert ids[0] == ids[-1]


def test_rare_characters_are_encoded_as_bytes() -> None:
    bpe = BPE.learn([*ENGLISH, "ŋ"], merges=10)
    assert "ŋ" not in bpe.alphabet
    assert bpe.pieces(bpe.encode("ŋ")) == ["▁", "<0xC5>", "<0x8B>"]


def test_invalid_bytes_from_a_model_are_replaced() -> None:
    first_byte = len(SPECIALS) + BYTES.index("<0xC5>")
    assert RAW.bpe.decode([BOS, first_byte, *RAW.bpe.encode("mill"), EOS, PAD]) == "\ufffd mill"


def test_special_ids_are_skipped() -> None:
    ids = MOSES.encode(GERMAN[:2], "target")
    padded = [[BOS, *sentence, EOS, PAD, PAD] for sentence in ids]
    assert MOSES.decode(padded) == MOSES.decode(ids) == GERMAN[:2]


def test_a_lone_surrogate_is_refused_in_one_sentence() -> None:
    for text in (RAW, MOSES, FOREIGN):
        with pytest.raises(InputError, match=r"sentence 2 .*U\+D83D"):
            text.encode(["good", "bad \ud83d"], "source")
    with pytest.raises(InputError, match="lone surrogate"):
        BPE.learn(["\udc00"])


def test_without_training_text_everything_is_bytes() -> None:
    bpe = BPE.learn([])
    assert bpe.size == len(SPECIALS) + 256
    assert bpe.decode(bpe.encode("still ✓")) == "still ✓"


@pytest.mark.parametrize("text", ["x" * 200_000, "ab c" * 50_000, " " * 200_000])
def test_giant_lines_are_restored(text: str) -> None:
    assert RAW.bpe.decode(RAW.bpe.encode(text)) == text


def test_moses_text_is_restored_normalised() -> None:
    for sentences, side, language in ((ENGLISH, "source", "en"), (GERMAN, "target", "de")):
        expected = [moses(language).normalize(sentence) for sentence in sentences]
        assert MOSES.decode(MOSES.encode(sentences, side), side) == expected  # type: ignore[arg-type]


def test_tokens_are_tokenised_and_truecased() -> None:
    assert MOSES.tokens("The mill, old.", "source") == "the mill , old ."
    assert MOSES.tokens("Die Mühle.", "target") == "die Mühle ."
    assert MOSES.preprocess("The mill.", "source") == "the mill ."
    assert RAW.preprocess("The mill.", "source") == "The mill."
    assert RAW.tokens("The mill.", "source") == "The mill ."


def test_an_empty_sentence_stays_empty_in_both_directions() -> None:
    for text in (RAW, MOSES, FOREIGN):
        assert text.decode(text.encode([""], "source")) == [""]
        assert text.decode([[]]) == [""]
        assert text.encode([], "source") == []


@pytest.mark.parametrize("name", ["model", "model/text.json", "other.json"])
@pytest.mark.parametrize("text", [RAW, MOSES, FOREIGN], ids=["raw", "moses", "foreign"])
def test_a_saved_pipeline_is_loaded_unchanged(tmp_path: Path, name: str, text: TextPipeline) -> None:
    text.save(tmp_path / name)
    loaded = TextPipeline.load(tmp_path / name)
    assert loaded.fingerprint == text.fingerprint
    assert loaded.vocabulary == text.vocabulary
    assert loaded.encode(GERMAN, "target") == text.encode(GERMAN, "target")
    assert loaded.tokens(ENGLISH[0], "source") == text.tokens(ENGLISH[0], "source")


def test_learning_twice_results_in_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        learned("moses").save(tmp_path / name)
    assert (tmp_path / "a/text.json").read_bytes() == (tmp_path / "b/text.json").read_bytes()


def test_another_pipeline_has_another_fingerprint() -> None:
    swapped = WordEndBPE([*SPECIALS, *reversed(LETTERS), "mi@@", "ll", "mill", "mill@@"], MILL)
    fewer = WordEndBPE([*SPECIALS, *LETTERS, "mi@@", "ll", "mill", "mill@@"], MILL[:-1])
    others = [TextPipeline("moses", "en", "de", bpe).fingerprint for bpe in (swapped, fewer)]
    known = [RAW.fingerprint, MOSES.fingerprint, FOREIGN.fingerprint, learned("raw", merges=149).fingerprint]
    assert len({*known, *others}) == 6


def test_files_without_a_kind_load_and_keep_their_fingerprint(tmp_path: Path) -> None:
    old = {
        "format": "tram-text",
        "version": 1,
        "pipeline": "raw",
        "source_language": "en",
        "target_language": "de",
        "source_truecase": "",
        "target_truecase": "",
        "alphabet": " abc",
        "merges": [["a", "b"]],
    }
    (tmp_path / "text.json").write_text(json.dumps(old))
    text = TextPipeline.load(tmp_path)
    assert text.bpe.pieces(text.encode(["abc"], "source")[0]) == ["▁", "ab", "c"]
    assert text.fingerprint == fingerprint(old)
    text.save(tmp_path)
    assert json.loads((tmp_path / "text.json").read_text()) == old


@pytest.mark.parametrize("text", [MOSES, FOREIGN], ids=["ours", "foreign"])
def test_a_pipeline_can_be_pickled(text: TextPipeline) -> None:
    copy = pickle.loads(pickle.dumps(text))
    assert copy.encode(ENGLISH, "source") == text.encode(ENGLISH, "source")


def broken(path: Path, text: TextPipeline, **changes: object) -> Path:
    text.save(path)
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
        ({"kind": "other"}, "kind.*tram prepare"),
    ],
)
def test_a_foreign_or_broken_file_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        TextPipeline.load(broken(tmp_path, MOSES, **changes))
    assert str(caught.value).startswith(f"{tmp_path / 'text.json'}: ")


@pytest.mark.parametrize(
    "changes",
    [
        *({"tokens": tokens} for tokens in ("", "<pad> <s>", "<pad> <s> </s> a a", "<pad> <s> </s> a  b")),
        {"merges": [["a", ""]]},
    ],
)
def test_a_file_with_a_broken_vocabulary_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"text\.json: its tokens or merges are damaged: copy it"):
        TextPipeline.load(broken(tmp_path, FOREIGN, **changes))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1}'])
def test_a_file_that_is_not_a_pipeline_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.json").write_bytes(content)
    with pytest.raises(InputError, match=r"text\.json: is not .*: copy it"):
        TextPipeline.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/text\.json: there is no such file"):
        TextPipeline.load(tmp_path / "nowhere")


# BPE of subword-nmt ---------------------------------------------------------------------------------


@st.composite
def made_merges(draw: st.DrawFn) -> list[Merge]:
    """Draw merges that build on each other, as learned ones do, but in any order and with repetitions."""
    inner, final = list("ab@<"), [f"{letter}</w>" for letter in "ab@<"]
    merges: list[Merge] = []
    for ends in draw(st.lists(st.booleans(), max_size=12)):
        left, right = draw(st.sampled_from(inner)), draw(st.sampled_from(final if ends else inner))
        (final if ends else inner).append(left + right)
        merges.append((left, right))
    return draw(st.permutations(merges)) if draw(st.booleans()) else merges


def reference(word: str, merges: list[Merge]) -> list[str]:
    """Return the pieces of a word by subword-nmt's rule: apply the first fitting merge everywhere, and repeat."""
    symbols = [*word[:-1], word[-1] + "</w>"]
    while fitting := [merge for merge in merges if merge in pairwise(symbols)]:
        left, right = fitting[0]
        place = 0
        while place < len(symbols) - 1:
            if symbols[place] == left and symbols[place + 1] == right:
                symbols[place : place + 2] = [left + right]
            place += 1
    return symbols


def as_token(symbol: str) -> str:
    return symbol.removesuffix("</w>") if symbol.endswith("</w>") else f"{symbol}@@"


def split_back(symbol: str, merges: list[Merge], known: set[str]) -> list[str]:
    """Return the tokens of a symbol in a vocabulary that may lack it."""
    sources = [merge for merge in merges if "".join(merge) == symbol]
    if as_token(symbol) in known or not sources:
        return [as_token(symbol) if as_token(symbol) in known else "<unk>"]
    return [token for part in sources[0] for token in split_back(part, merges, known)]


WORDS = st.text("ab@<", min_size=1, max_size=9)


@given(made_merges(), st.lists(WORDS, max_size=4), st.sets(st.integers(0, 40)))
def test_words_are_split_as_by_subword_nmt(merges: list[Merge], words: list[str], lost: set[int]) -> None:
    symbols = [*"ab@<", *(f"{letter}</w>" for letter in "ab@<"), *map("".join, merges)]
    # A token that ends its word and ends in "@@" cannot be distinguished from one that does not end its word.
    whole = dict.fromkeys(as_token(symbol) for symbol in symbols if not symbol.endswith("@@</w>"))
    tokens = [token for place, token in enumerate(whole) if place not in lost]
    bpe = WordEndBPE([*SPECIALS, "<unk>", *tokens], merges)
    expected = [
        token for word in words for symbol in reference(word, merges) for token in split_back(symbol, merges, {*tokens})
    ]
    ids = bpe.encode(" ".join(words))
    assert [bpe.tokens[number] for number in ids] == expected
    if "<unk>" not in expected:
        assert bpe.decode(ids) == " ".join(words)


def cut(bpe: WordEndBPE, text: str) -> list[str]:
    return [bpe.tokens[number] for number in bpe.encode(text)]


def test_the_merge_that_was_learnt_first_is_applied_first() -> None:
    bpe = FOREIGN.bpe
    assert isinstance(bpe, WordEndBPE)
    # "miller": mi + l + l…: "ll" comes before "mi ll", and "e r</w>" has no token, so it is split into letters.
    assert cut(bpe, "mill miller milli") == ["mill", "mill@@", "e@@", "r", "mill@@", "i"]
    assert bpe.pieces(bpe.encode("mill miller")) == ["▁mill", "▁mill", "e", "r"]


def test_a_pair_is_merged_at_all_positions_before_its_product_is_merged() -> None:
    merges = [("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "a"), ("a", "bc")]
    bpe = WordEndBPE([*SPECIALS, "abc@@", "x", "abca@@", "bc@@"], merges)
    assert cut(bpe, "abcabcx") == ["abc@@", "abc@@", "x"]


def test_letters_without_a_token_are_unknown_or_dropped() -> None:
    with_unknown, without = (WordEndBPE([*SPECIALS, *more, "a@@", "b"], []) for more in (["[UNK]"], []))
    assert with_unknown.encode("ab axb ba") == [4, 5, 4, 3, 5, 3, 3]
    assert with_unknown.decode([4, 3, 3, 5]) == "a[UNK] [UNK] b"
    assert without.encode("ab axb ba") == [3, 4, 3, 4]


def test_text_is_never_encoded_as_special_tokens() -> None:
    letters = [token for letter in "<pad>unk/s" for token in (letter, f"{letter}@@")]
    merges = [("<", "s"), ("<s", "></w>"), ("<", "p"), ("<p", "a"), ("<pa", "d"), ("<pad", "></w>")]
    bpe = WordEndBPE([*SPECIALS, "<unk>", *dict.fromkeys(letters)], merges)
    ids = bpe.encode("<s> <pad> <unk> </s>")
    assert min(ids) > 3
    assert bpe.decode([BOS, *ids, EOS, PAD]) == "<s> <pad> <unk> </s>"


def test_text_is_escaped_if_the_vocabulary_is() -> None:
    letters = [token for letter in "&amposqut;#0123456789lgabc" for token in (letter, f"{letter}@@")]
    bpe = WordEndBPE([*SPECIALS, *dict.fromkeys(letters), "&apos;"], [*zip("&ap", "pos", strict=True)])
    assert "".join(cut(bpe, "<")).replace("@@", "") == "&lt;"
    text = "a 's [b] &amp; & | \" <c> &#91;"
    assert bpe.decode(bpe.encode(text)) == text


def test_text_is_not_escaped_if_the_vocabulary_is_not() -> None:
    bpe = WordEndBPE([*SPECIALS, "'@@", "s", "&@@", ";"], [])
    assert cut(bpe, "'s &;") == ["'@@", "s", "&@@", ";"]


def test_word_end_bpe_restores_the_same_text_as_bpe() -> None:
    for sentences, side in ((ENGLISH, "source"), (GERMAN, "target")):
        ours = MOSES.decode(MOSES.encode(sentences, side), side)  # type: ignore[arg-type]
        assert FOREIGN.decode(FOREIGN.encode(sentences, side), side) == ours  # type: ignore[arg-type]


@given(st.text([*SIGNS, " "]))
@example("''a '' \"c")
def test_text_with_known_letters_is_only_normalised(text: str) -> None:
    scripts = moses("en")
    expected = " ".join(scripts.tokenize(scripts.normalize(text)))
    assert FOREIGN.bpe.decode(FOREIGN.encode([text], "source")[0]) == expected


def test_a_giant_word_is_restored() -> None:
    word = "miller" * 20_000
    assert FOREIGN.bpe.decode(FOREIGN.bpe.encode(word)) == word

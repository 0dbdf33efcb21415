"""Vocabularies and codes of other tools: every line is read correctly or refused with its number."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tram.errors import InputError
from tram.pretrained.subword_files import SPECIAL_NAMES, read_merges, read_text_pipeline, read_tokens
from tram.text.word_end_bpe import UNKNOWN

LISTED = ["<pad>", "<s>", "</s>"]


def file(folder: Path, content: str | bytes) -> Path:
    path = folder / "file.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused_tokens(folder: Path, content: str | bytes, rows: int) -> str:
    with pytest.raises(InputError) as caught:
        read_tokens(file(folder, content), rows)
    return sentence(caught.value, folder)


def refused_merges(folder: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read_merges(file(folder, content))
    return sentence(caught.value, folder)


def sentence(error: InputError, folder: Path) -> str:
    """Return the message after the name of the file; it must be one line with a remedy after a semicolon."""
    text = str(error)
    assert text.startswith(f"{folder / 'file.txt'}:")
    assert "\n" not in text
    assert "; " in text
    return text.removeprefix(f"{folder / 'file.txt'}:")


@pytest.mark.parametrize(
    ("content", "rows", "expected"),
    [
        ("<pad>\n<s>\n</s>\nmill\nmi@@\n", 5, [*LISTED, "mill", "mi@@"]),
        ("[PAD] 0\n[BOS] 0\n[EOS] 0\n[UNK] 0\nmill 12\n", 5, ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "mill"]),
        ("mill 12\nmi@@ 3\n", 5, [*LISTED, "mill", "mi@@"]),
        ("<unk>\nmill\n", 5, [*LISTED, "<unk>", "mill"]),
        ("mill 12\n3 3\n7\n", 7, [*LISTED, "<unk>", "mill", "3", "7"]),
        ("</s> 9\nmill 5", 6, [*LISTED, "<unk>", "</s>", "mill"]),
        ("\ufeffmill\r\nmi@@ 3\r\n", 5, [*LISTED, "mill", "mi@@"]),
        ("a\u2028b\n\x85c\n", 5, [*LISTED, "a\u2028b", "\x85c"]),
    ],
    ids=["listed", "listed with counts", "offset 3", "own unknown", "offset 4", "tags", "windows", "odd line ends"],
)
def test_the_number_of_rows_decides_which_special_tokens_the_file_omits(
    tmp_path: Path, content: str, rows: int, expected: list[str]
) -> None:
    assert read_tokens(file(tmp_path, content), rows) == expected


ordinary = st.text(st.characters(codec="utf-8", exclude_characters=" \t\r\n\ufeff"), min_size=1).filter(
    lambda token: token.lower() not in (*SPECIAL_NAMES[0], *UNKNOWN)
)


@given(
    st.lists(ordinary, unique=True),
    st.sampled_from([3, 4]),
    st.booleans(),
)
def test_any_vocabulary_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[str], omitted: int, counted: bool
) -> None:
    path = file(tmp_path_factory.mktemp("any"), "".join(f"{token}{' 7' * counted}\n" for token in tokens))
    assert read_tokens(path, len(tokens) + omitted)[omitted:] == tokens


@pytest.mark.parametrize("rows", [2, 4, 5, 8, 100])
def test_a_vocabulary_of_the_wrong_size_is_refused_with_both_numbers(tmp_path: Path, rows: int) -> None:
    assert f" has 3 tokens, the model has {rows}, " in refused_tokens(tmp_path, "a 1\nb 1\nc 1\n", rows)


@pytest.mark.parametrize(
    ("content", "rows", "fault"),
    [
        ("<s>\n<pad>\n</s>\na\n", 4, "1 is `<s>`, where the authors' models have `<pad>`"),
        ("<pad>\n<s>\na\n</s>\n", 4, "3 is `a`, where the authors' models have `</s>`"),
        ("a\nb\n", 2, "1 is `a`, where"),
        ("<pad>\n<s>\n</s>\na\n", 7, "1 is `<pad>`, but with 4 tokens for 7 rows"),
        ("a\n<unk>\n", 6, "2 is `<unk>`, but with 2 tokens for 6 rows"),
        ("a\nb\na\n", 6, "3 repeats the token of line 1"),
        ("a\nb c\n", 5, "2 is not a token"),
        ("a\n\nb\n", 6, "2 is not a token"),
        ("a 1 2\n", 4, "1 is not a token"),
        ("a\t1\n", 4, "1 is not a token"),
        (b"a\nb\n\xff\n", 6, "3 is not UTF-8"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, content: str | bytes, rows: int, fault: str) -> None:
    assert refused_tokens(tmp_path, content, rows).startswith(fault)


@pytest.mark.parametrize(
    "content",
    ["#version: 0.2\nm i\nmi ll</w>\n", "m i 90\nmi ll</w> 7\n", "m i\r\nmi ll</w> 7", "m i \nmi ll</w>\n"],
    ids=["subword-nmt", "fastBPE", "windows", "trailing space"],
)
def test_codes_of_both_tools_are_read(tmp_path: Path, content: str) -> None:
    assert read_merges(file(tmp_path, content)) == [("m", "i"), ("mi", "ll</w>")]


def test_characters_of_the_format_may_be_pieces(tmp_path: Path) -> None:
    content = "# #</w>\n#version: 0.2\n1 2 3\n</w </w\n"
    assert read_merges(file(tmp_path, content)) == [("#", "#</w>"), ("#version:", "0.2"), ("1", "2"), ("</w", "</w")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("m i\nmill\n", "2 is not a merge"),
        ("m i\nm i l\n", "2 is not a merge"),
        ("m i 3 4\n", "1 is not a merge"),
        ("m  i\n", "1 is not a merge"),
        ("m i\n\nm l\n", "2 is not a merge"),
        ("#version: 0.1\nm i\ne </w>\n", "3 merges `</w>` as a piece of its own"),
        ("m i\n\xff\n".encode("latin-1"), "2 is not UTF-8"),
        ("", " has no merges"),
        ("#version: 0.2\n", " has no merges"),
    ],
)
def test_codes_that_do_not_fit_are_named(tmp_path: Path, content: str | bytes, fault: str) -> None:
    assert refused_merges(tmp_path, content).startswith(fault)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.txt: there is no such file; check the name"):
        read_tokens(tmp_path / "nothing.txt", 4)


def test_both_files_together_are_a_pipeline(tmp_path: Path) -> None:
    vocab, codes = tmp_path / "dict.txt", tmp_path / "codes"
    vocab.write_text("mill 5\nr 4\nmill@@ 3\ne@@ 3\n&apos; 2\n. 2\n")
    codes.write_text("#version: 0.2\nm i\nl l\nl l</w>\nmi ll\nmi ll</w>\n& a\n&a p\n&ap o\n&apo s\n&apos ;</w>\n")
    text = read_text_pipeline(vocab, codes, 10, "de", "en")
    assert (text.source_language, text.target_language, text.vocabulary) == ("de", "en", 10)
    # Not truecased: "Mill" is split into M, i and ll, none of which has a token, and neither do the letters of ll.
    assert text.encode(["mill 'miller' Mill."], "source") == [[4, 8, 6, 7, 5, 8, 3, 3, 3, 3, 9]]
    assert text.decode([[1, 4, 6, 7, 5, 9, 2, 0]]) == ["Mill miller."]

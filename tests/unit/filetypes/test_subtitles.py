"""Subtitles: sentences over several cues, and cues that never change in number or time."""

import re

import pytest
import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from filetype_samples import SRT, VTT
from tram.errors import InputError
from tram.filetypes import Rendition, Segment, translate_document
from tram.filetypes.inline_tree import word_spans
from tram.filetypes.registry import read_bytes
from tram.filetypes.subtitles import split_by_share


def translated(name: str, content: str, new: dict[str, str]) -> str:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(new.get(s.text, s.text)) for s in d] for d in documents]

    return translate_document(read_bytes(name, content.encode()), translate)[0].decode()


def test_a_sentence_over_two_cues_is_split_back_with_tags_and_lines() -> None:
    source = "This sentence goes on over two cues and ends here."
    written = translated("x.srt", SRT, {source: "Dieser Satz geht über zwei Untertitel und endet hier."})
    cues = list(srt.parse(written))
    assert cues[0].content == "{\\an8}<i>Dieser Satz geht über</i>"
    assert cues[1].content == "<i>zwei Untertitel</i> und <b>endet</b>\nhier. Another one."
    assert cues[1].proprietary == "X1:40"
    assert [cue.index for cue in cues] == [1, 2, 7, 8]


def test_voices_classes_and_times_inside_a_cue_stay() -> None:
    source = "Fish & chips are what we all want today."
    written = translated("x.vtt", VTT, {source: "Fisch & Pommes sind, was wir alle heute wollen."})
    assert "<v Bob>Fisch &amp; Pommes sind, " in written
    assert written.count("<c.loud>") == written.count("</c>") == written.count("<00:03.000>") == 1
    assert "STYLE\n::cue { color: red }\n\nNOTE a comment\nthat is not text\n\nintro\n00:01.000" in written


def test_a_pause_and_a_new_speaker_end_a_sentence() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nand so\n\n2\n00:00:09,000 --> 00:00:10,000\nit is\n- or not\n"
    segments = read_bytes("x.srt", content.encode()).documents[0]
    assert [s.text for s in segments] == ["and so", "it is", "or not"]


def test_a_voice_that_goes_on_does_not_end_a_sentence() -> None:
    said = ["<v Bob>Where is the dog", "<v Bob>that we saw", "<v Ann>I do not", "know"]
    cues = [f"00:0{i}.000 --> 00:0{i + 1}.000\n{text}" for i, text in enumerate(said)]
    segments = read_bytes("x.vtt", "\n\n".join(["WEBVTT", *cues]).encode()).documents[0]
    assert [s.text for s in segments] == ["Where is the dog that we saw", "I do not know"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_its_mark_is_read_and_written(encoding: str) -> None:
    for name, text in (("x.srt", SRT.replace("\n", "\r\n")), ("x.vtt", VTT)):
        content = "\ufeff".encode(encoding) + text.encode(encoding)
        written, _ = translate_document(read_bytes(name, content), lambda d: [[Rendition("Ä") for _ in d[0]]])
        assert written.decode(encoding).startswith("\ufeff" + text[:6])
        assert "Ä" in written.decode(encoding)


def test_a_cue_for_which_no_word_is_left_says_so() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nOh my\n\n2\n00:00:02,000 --> 00:00:03,000\ndear God!\n"
    cues = list(srt.parse(translated("x.srt", content, {"Oh my dear God!": "Oje!"})))
    assert [cue.content for cue in cues] == ["Oje!", "…"]


PIECES = [
    "One",
    "two",
    "ends.",
    "<i>",
    "</i>",
    "{\\an8}",
    "\n",
    "- Who?",
    "♪",
    "<b>bold</b>",
    "5 > 3",
    "It's",
    "Dr.",
    "…",
]
payloads = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map(
    lambda pieces: re.sub(r"\s*\n\s*", "\n", " ".join(pieces)).strip() or "x"
)
texts = st.lists(st.sampled_from(["Wort", "und", "漢字", "&", "<", "1", "00:00:01,000", "-->", "a,"]), max_size=7).map(
    " ".join
)


def srt_file(cues: list[str]) -> str:
    times = [f"00:00:{2 * i:02},000 --> 00:00:{2 * i + 1:02},500" for i in range(len(cues))]
    return "".join(f"{i + 1}\n{time}\n{text}\n\n" for i, (time, text) in enumerate(zip(times, cues, strict=True)))


def vtt_file(cues: list[str]) -> str:
    body = srt_file([re.sub(r"\{.*?\}", "", cue).replace("5 >", "5 &gt;").strip() or "x" for cue in cues])
    return "WEBVTT\n\n" + re.sub(r",(\d{3})(?=\n| -->)", r".\1", body)


@given(st.lists(payloads, min_size=1, max_size=6), st.lists(texts, min_size=1, max_size=5))
def test_number_and_timing_of_cues_never_change(cues: list[str], new: list[str]) -> None:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition]]:
        return [[Rendition(new[i % len(new)]) for i, _ in enumerate(d)] for d in documents]

    content = srt_file(cues)
    before = list(srt.parse(content))
    written = translate_document(read_bytes("x.srt", content.encode()), translate)[0].decode()
    after = list(srt.parse(written))
    assert [(c.index, c.start, c.end) for c in after] == [(c.index, c.start, c.end) for c in before]
    assert [sorted(re.findall(r"</?i>|\{.*?\}", c.content)) for c in after] == [
        sorted(re.findall(r"</?i>|\{.*?\}", c.content)) for c in before
    ]
    content = vtt_file(cues)
    written = translate_document(read_bytes("x.vtt", content.encode()), translate)[0].decode()
    both = [webvtt.WebVTT.from_string(text).captions for text in (content, written)]
    assert [(c.start, c.end) for c in both[0]] == [(c.start, c.end) for c in both[1]]


@given(st.lists(payloads, min_size=1, max_size=6))
def test_generated_files_come_back_byte_for_byte(cues: list[str]) -> None:
    for name, content in (("x.srt", srt_file(cues)), ("x.vtt", vtt_file(cues))):
        assert translated(name, content, {}) == content


@given(texts, st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_parts_are_in_order_lose_nothing_and_cut_no_word(text: str, shares: list[int]) -> None:
    parts = split_by_share(text, shares)
    assert len(parts) == len(shares)
    assert "".join(text[a:b] for a, b in parts).replace(" ", "") == text.replace(" ", "")
    assert not any(a < cut < b for a, b in word_spans(text) for _, cut in parts)
    if len(text.split()) >= len(shares):
        assert all(a < b for a, b in parts)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.srt", "no cue\n"),
        ("x.srt", ""),
        ("x.srt", "rubbish\n\n" + SRT),
        ("x.vtt", "x\n"),
        ("x.vtt:3", "WEBVTT\n\n00:01,000 --> 00:02,000\nA comma in the time.\n"),
        ("x.vtt:6", "WEBVTT\n\nNOTE a --> b\n\n00:01.000 --> 00:02.000\nAn arrow --> here.\n"),
    ],
)
def test_a_wrong_file_is_refused(name: str, content: str) -> None:
    with pytest.raises(InputError, match=name):
        read_bytes(name.partition(":")[0], content.encode())


def test_an_endless_number_is_refused_at_once() -> None:
    content = f"1\n00:00:01,000 --> 00:00:02,000\nA X1:40{'9' * 5000} word.\n".encode()
    with pytest.raises(InputError, match=r"film\.srt:3: has a number of 200 digits or more"):
        read_bytes("film.srt", content)


def test_a_private_character_is_kept() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nA \U0010f000 word.\n".encode()
    written, report = translate_document(
        read_bytes("film.srt", content), lambda _: [[Rendition("Ein Wort \U0010f000.")]]
    )
    assert "Ein Wort \U0010f000." in written.decode()
    assert report.sentences[0].source == "A \U0010f000 word."


def test_a_sentence_that_is_broken_off_ends() -> None:
    texts = ["I don't know--", "What? -No. -Yes!", "Because I—", "think so."]
    cues = (f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{text}\n" for i, text in enumerate(texts, 1))
    document = read_bytes("x.srt", "\n".join(cues).encode())
    assert [s.text for s in document.documents[0]] == ["I don't know--", "What?", "No.", "Yes!", "Because I— think so."]

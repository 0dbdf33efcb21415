"""What every file type must do: give files back unchanged, put translations in their places, refuse bad files."""

import random
import re

import pytest

from filetype_samples import SAMPLES, VARIANTS, Sample
from tram.errors import InputError
from tram.filetypes import FileDocument, Rendition, Segment, Translation, detect, translate_document
from tram.filetypes.inline_tree import word_spans
from tram.filetypes.registry import FILETYPES, find, read_bytes

ACCENTS = str.maketrans("aeiouAEIOU", "äéíöüÄÉÍÖÜ")  # a translation that keeps words, cases and sentence ends


@pytest.fixture(params=[*SAMPLES, *VARIANTS])
def sample(request: pytest.FixtureRequest) -> Sample:
    return {**SAMPLES, **VARIANTS}[request.param]()


def opened(sample: Sample, content: bytes | None = None, format: str | None = None) -> FileDocument:
    return read_bytes(sample.name, sample.content if content is None else content, format, sample.options)


def accented(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
    def translated(segment: Segment) -> Rendition:
        words = len(word_spans(segment.text))
        return Rendition(segment.text.translate(ACCENTS), [(i, i) for i in range(words)])

    return [[translated(segment) if segment.translate else None for segment in document] for document in documents]


def reversed_words(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
    return [[Rendition(" ".join(reversed(s.text.split()))) for s in document] for document in documents]


def test_every_type_has_a_sample() -> None:
    assert set(SAMPLES) == {filetype.name for filetype in FILETYPES}


def test_a_file_is_recognised_by_its_name_and_its_format_can_be_named(sample: Sample) -> None:
    filetype = detect(sample.name, sample.content)
    assert SAMPLES[filetype.name]().name == sample.name
    assert find(filetype.name) is filetype


def test_the_expected_sentences_are_offered_in_order(sample: Sample) -> None:
    document = opened(sample)
    offered = iter([s.readable for sentences in document.documents for s in sentences])
    assert all(any(sentence == found for found in offered) for sentence in sample.sentences), sample.sentences


def test_without_translations_a_file_comes_back_byte_for_byte(sample: Sample) -> None:
    document = opened(sample)
    assert document.write([[None] * len(sentences) for sentences in document.documents]) == sample.content


def test_an_identity_translation_gives_the_file_back(sample: Sample) -> None:
    document = opened(sample)
    identity = [[Translation(s.text, s.tags) if s.translate else None for s in d] for d in document.documents]
    written = document.write(identity)
    if not sample.bilingual:
        assert written == sample.content
    again = opened(sample, written)
    assert [[s.readable for s in d] for d in again.documents] == [[s.readable for s in d] for d in document.documents]
    if sample.bilingual:
        for before, after in zip(document.documents, again.documents, strict=True):
            expected = [s.target or s.readable if s.translate or s.target else None for s in before]
            assert [s.target for s in after] == expected


def test_translations_and_tags_are_where_the_sentences_were(sample: Sample) -> None:
    document = opened(sample)
    written, report = translate_document(document, accented)
    assert report.translated > 0
    again = opened(sample, written)
    for before, after in zip(document.documents, again.documents, strict=True):
        if sample.bilingual:
            new = [Segment(s.text.translate(ACCENTS), opaque=s.opaque).readable for s in before]
            expected = [s.target or (text if s.translate else None) for s, text in zip(before, new, strict=True)]
            assert [s.target for s in after] == expected
        else:
            changed = [s.text.translate(ACCENTS) if s.translate else s.text for s in before]
            assert [s.text for s in after] == changed
            assert [[(t.kind, t.position) for t in s.tags] for s in after] == [
                [(t.kind, t.position) for t in s.tags] for s in before
            ]
            assert [s.opaque for s in after] == [s.opaque for s in before]


def test_a_reordered_translation_loses_nothing(sample: Sample) -> None:
    document = opened(sample)
    written, report = translate_document(document, reversed_words)
    assert report.repaired == 0
    again = opened(sample, written)
    if not sample.bilingual:
        before, after = ([s for d in doc.documents for s in d] for doc in (document, again))
        # A piece without a letter, such as code with a full stop, is no sentence of its own.
        words = [sorted(w for s in segments for w in re.findall(r"\w+", s.text)) for segments in (before, after)]
        assert words[0] == words[1]


def test_the_number_of_translations_must_match(sample: Sample) -> None:
    document = opened(sample)
    with pytest.raises(ValueError, match="segments"):
        document.write([[*([None] * len(document.documents[0])), None]])


def test_damaged_files_are_read_or_refused_in_one_sentence(sample: Sample) -> None:
    rng = random.Random(0)
    content = sample.content
    damaged = [b"", content[: len(content) // 2], content[len(content) // 2 :], b"\xff\xfe\0" + content, b"\0" * 10]
    for _ in range(40):
        wrong = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(wrong))
            wrong[at : at + rng.choice([0, 1, 5])] = bytes(rng.choices(b"<>&\"'\xc3\n\0a/]", k=rng.randint(0, 3)))
        damaged.append(bytes(wrong))
    name = detect(sample.name, sample.content).name
    messages = []
    for wrong in damaged:
        try:
            document = opened(sample, wrong, name)
        except InputError as error:
            messages.append(str(error))
        else:
            assert document.write([[None] * len(sentences) for sentences in document.documents]) == wrong
    assert all(sample.name in message and "\n" not in message for message in messages)


def test_a_file_survives_empty_translations(sample: Sample) -> None:
    """As of a model that has not learnt anything yet."""
    document = opened(sample)

    def empty(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition("") if segment.translate else None for segment in each] for each in documents]

    written, _ = translate_document(document, empty)
    read = opened(sample, written)
    assert len([s for d in read.documents for s in d]) <= len([s for d in document.documents for s in d])

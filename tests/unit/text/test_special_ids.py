"""Special ids: templates around a sentence, and writing to and reading from text.json."""

from pathlib import Path
from typing import Any

import pytest

from tram.errors import InputError
from tram.text.bpe import BPE
from tram.text.pipeline import TextPipeline
from tram.text.special_ids import MASK, RESERVED_CHARACTERS, SENTINELS, SEPARATOR, SpecialIds

NLLB = SpecialIds(start=2, end=2, source_prefix=(9,), source_suffix=(2,), target_prefix=(8,), banned=(0, 1, 3))


def test_templates_surround_a_sentence_and_leave_an_empty_one_empty() -> None:
    assert NLLB.source([5, 6]) == [9, 5, 6, 2]
    assert NLLB.target([5]) == [2, 8, 5, 2]
    assert NLLB.decoder_input([5]) == [2, 8, 5]
    assert NLLB.source([]) == NLLB.target([]) == []
    assert NLLB.decoder_input([]) == [2, 8]


def test_what_fits_beside_the_longer_template() -> None:
    assert SpecialIds().longest(32) == 30
    assert NLLB.longest(32) == 29
    assert (NLLB.source_extra, NLLB.target_extra) == (2, 3)


def test_json_brings_them_back() -> None:
    assert SpecialIds.from_dict(NLLB.as_dict()) == NLLB


def pipeline(special: SpecialIds | None = None, reserved: str = "") -> TextPipeline:
    bpe = BPE(" abc", [("a", "b")], reserved)
    return TextPipeline("raw", "en", "de", bpe, special_ids=special)


def test_they_are_stored_with_the_pipeline_and_change_its_fingerprint(tmp_path: Path) -> None:
    own, foreign = pipeline(), pipeline(NLLB)
    for number, each in enumerate((own, foreign)):
        each.save(tmp_path / f"{number}.json")
        loaded = TextPipeline.load(tmp_path / f"{number}.json")
        assert loaded.special == each.special
        assert loaded.fingerprint == each.fingerprint
    assert own.fingerprint != foreign.fingerprint
    assert "special_ids" not in (tmp_path / "0.json").read_text()


def test_an_unknown_special_id_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    pipeline(NLLB).save(path)
    path.write_text(path.read_text().replace('"banned"', '"forbidden"'))
    with pytest.raises(InputError, match="special_ids"):
        TextPipeline.load(path)


@pytest.mark.parametrize("value", ["7", "null", '["x"]', "{}", "true"])
def test_a_special_id_of_another_type_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    pipeline(NLLB).save(path)
    path.write_text(path.read_text().replace('"banned":[0,1,3]', f'"banned":{value}'))
    with pytest.raises(InputError, match="special_ids"):
        TextPipeline.load(path)


@pytest.mark.parametrize(
    "ids",
    [
        *({"end": -1}, {"source_prefix": (99,)}, {"reserved": (10,)}, {"banned": (2**70,)}),  # beyond the vocabulary
        *({"start": 0}, {"end": 0}, {"source_suffix": (2, 0)}, {"target_prefix": (0,)}, {"reserved": (0,)}),  # padding
        *({"banned": (0, 2)}, {"banned": (1,)}, {"banned": ()}),  # the end; not padding
    ],
)
def test_ids_that_no_model_has_do_not_fit(ids: dict[str, Any]) -> None:
    assert SpecialIds().fit(10)
    assert not SpecialIds(**ids).fit(10)


def test_reserved_characters_have_the_last_ids_and_come_back() -> None:
    text = pipeline(reserved=RESERVED_CHARACTERS)
    size = text.vocabulary
    assert text.special.reserved == tuple(range(size - 32, size))
    sentence = f"ab {SENTINELS[3]}c {SEPARATOR}{MASK}"
    (ids,) = text.encode([sentence], "source")
    assert [number for number in ids if number in text.special.reserved] == [size - 29, size - 16, size - 15]
    assert text.decode([ids]) == [sentence]


@pytest.mark.parametrize("sentence", ["Open {0} and {1}.", "({0})", "{0}-Menü", "Is {0}, {1} there?", '"{0}"'])
def test_the_moses_scripts_leave_sentinels_whole(sentence: str) -> None:
    given = sentence.format(*SENTINELS)
    lines = ["Open the menu and close it.", "Is this there?"] * 3
    learned = TextPipeline.learn(lines, lines, "en", "de", merges=5)
    bpe = learned.bpe
    assert isinstance(bpe, BPE)
    text = TextPipeline("moses", "en", "de", BPE(bpe.alphabet, bpe.merges, RESERVED_CHARACTERS))
    (ids,) = text.encode([given], "source")
    assert sum(number in text.special.reserved for number in ids) == sum(given.count(s) for s in SENTINELS)
    assert text.decode([ids], "source") == [given]


def test_a_reserved_character_that_has_an_id_already_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    pipeline(reserved="x").save(path)
    path.write_text(path.read_text().replace('"reserved":"x"', '"reserved":"a"'))
    with pytest.raises(InputError, match="reserved"):
        TextPipeline.load(path)

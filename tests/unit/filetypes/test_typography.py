import pytest

from tram.filetypes.inline_tree import word_spans
from tram.filetypes.typography import restored_signs


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        ("Save as…", "Speichern unter...", "Speichern unter…"),
        ("Wait... and see…", "Warte... ab...", "Warte... ab..."),
        ("It rains — often.", "Es regnet - oft.", "Es regnet – oft."),
        ("He said “no” and “yes”.", 'Er sagte "nein" und "ja".', "Er sagte „nein“ und „ja“."),
        ("He said “no”.", 'Er sagte nein".', 'Er sagte nein".'),
        ('He said "no".', 'Er sagte "nein".', 'Er sagte "nein".'),
        ("I don’t know.", "Ich weiß's nicht.", "Ich weiß’s nicht."),
    ],
)
def test_a_translation_has_the_signs_of_its_source(source: str, target: str, wanted: str) -> None:
    assert restored_signs(source, target, "de") == wanted
    assert len(wanted.split()) == len(target.split())
    assert word_spans(wanted)[0] == word_spans(target)[0]

"""Directives that programs fill in: numbered while they are translated, and checked afterwards."""

import pytest

from tram.filetypes.format_directives import numbered, restored

C = {"c-format"}
PYTHON = {"python-format"}
BRACES = {"python-brace-format"}


@pytest.mark.parametrize(
    ("text", "kinds", "expected"),
    [
        ("%s of %s", C, "%1$s of %2$s"),
        ("%-10s %5.2f (%d%%)", C, "%1$-10s %2$5.2f (%3$d%%)"),
        ("{} of {:d}", BRACES, "{0} of {1:d}"),
        ("Only %s", C, "Only %s"),
        ("%2$s, %1$s", C, "%2$s, %1$s"),
        ("%(name)s, %(name)s", PYTHON, "%(name)s, %(name)s"),
        ("%*d of %s", C, "%*d of %s"),
        ("%s of %s", set(), "%s of %s"),
        ("%s of %s", BRACES, "%s of %s"),
    ],
)
def test_several_directives_are_numbered(text: str, kinds: set[str], expected: str) -> None:
    assert numbered(text, kinds) == expected


@pytest.mark.parametrize(
    ("source", "translation", "kinds", "expected"),
    [
        ("%s of %s", "%1$s von %2$s", C, ("%s von %s", True)),
        ("%s of %s", "%2$s: %1$s", C, ("%2$s: %1$s", True)),
        ("%s (%d%%)", "%1$s (%2$d%%)", C, ("%s (%d%%)", True)),
        ("%1$s, %2$s", "%1$s, %2$s", C, ("%1$s, %2$s", True)),
        ("%d files", "%s Dateien", C, ("%s Dateien", False)),
        ("%d files", "Dateien", C, ("Dateien", False)),
        ("100% of %s", "100% der %s", C, ("100% der %s", False)),  # "% o" is a directive to gettext
        ("%s by %s", "%1$s von %2$s", PYTHON, ("%s von %s", True)),
        ("%s by %s", "%2$s: %1$s", PYTHON, ("%s: %s", False)),  # Python has no numbers
        ("{} of {:d}", "{0} von {1:d}", BRACES, ("{} von {:d}", True)),
        ("{} of {:d}", "{1:d}: {0}", BRACES, ("{1:d}: {0}", True)),
        ("{name}", "{}", BRACES, ("{}", False)),
        ("100% sure", "100% der", set(), ("100% der", True)),
    ],
)
def test_numbers_stay_only_where_the_order_has_changed(
    source: str, translation: str, kinds: set[str], expected: tuple[str, bool]
) -> None:
    assert restored(source, translation, kinds) == expected

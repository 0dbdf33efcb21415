"""The languages that files name, such as `de-AT` or `pt_BR`, and those of a model."""

import re

from tram.errors import InputError
from tram.filetypes.base import ReadOptions
from tram.text.languages import CODES

# The region that office programs expect behind a language.
REGIONS = {
    **{"cs": "CZ", "da": "DK", "el": "GR", "en": "US", "et": "EE", "ja": "JP", "ko": "KR", "nb": "NO", "sl": "SI"},
    **{"sv": "SE", "uk": "UA", "vi": "VN", "zh": "CN", "ar": "SA", "he": "IL", "hi": "IN"},
}


def region(language: str) -> str:
    """Return the region of a language code, or the one where the language is at home: `DE` of `de`."""
    parts = re.split("[-_]", language)
    return parts[-1] if len(parts) > 1 else REGIONS.get(language.lower(), language.upper())


def base_language(code: str) -> str:
    """Return a code without region, script and variant: `de` of `de-AT`."""
    return re.split(r"[-_.@]", code.strip().lower(), maxsplit=1)[0]


def is_same(code: str, other: str) -> bool:
    """Return whether two codes name the same language, whatever the region."""
    return base_language(code) == base_language(other)


def check_source(name: str, code: str, options: ReadOptions) -> None:
    """Refuse a file that says that its text is in another language than the one that is translated."""
    if differ(code, options.source_language):
        raise InputError(
            f"{name}: its source language is {code!r}, not {options.source_language!r}; use a model for its languages"
        )


def check_target(name: str, code: str, options: ReadOptions) -> None:
    """Refuse a file that holds translations into another language; a copy of the source language is a placeholder."""
    if options.target_language is None or is_same(code, options.source_language):
        return
    if differ(code, options.target_language):
        raise InputError(
            f"{name}: its target language is {code!r}, not {options.target_language!r};"
            " use a model for its languages, or correct the language in the file"
        )


def differ(code: str, other: str) -> bool:
    """Return whether both are languages that are known, and not the same."""
    return {base_language(code), base_language(other)} <= CODES and not is_same(code, other)

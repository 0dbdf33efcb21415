"""Glossaries: a tab-separated file of terms with their translations, and of terms that are not translated.

    rules = read_glossary(Path("terms.tsv"))         # a line: source TAB target; a source alone: not translated

Blank lines and lines that begin with # are comments.
"""

from pathlib import Path

from tram.errors import InputError
from tram.files import MAX_TEXT, readable_file
from tram.text.verbatim import VerbatimRules


def read_glossary(path: Path) -> VerbatimRules:
    """Return rules with the terms of a file, besides the spans that are always kept."""
    terms: dict[str, str | None] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) > 2:
            raise InputError(f"{path}:{number}: has {len(columns)} columns; give a term, a tab and its translation")
        if not all(columns):
            raise InputError(f"{path}:{number}: an entry is empty; give a term, or a term, a tab and its translation")
        term, target = columns[0], columns[1] if len(columns) == 2 else None
        if terms.setdefault(term, target) != target:
            raise InputError(f"{path}:{number}: {term!r} has another entry already; keep one of them")
    keep = tuple(term for term, target in terms.items() if target is None)
    return VerbatimRules(keep, {term: target for term, target in terms.items() if target is not None})


def _lines(path: Path) -> list[str]:
    try:
        content = readable_file(path, MAX_TEXT).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a tab-separated text file") from None
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: is not valid UTF-8; convert it to UTF-8") from None

"""`tram translate`: where the translations go, and how they are written."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tram.cli.translate_lines import STDIN
from tram.errors import InputError

STDOUT = "-"


def find_outputs(sources: list[str], output: str | None, language: str, overwrite: bool) -> list[Path | None]:
    """Return where the translations go; None: to standard output. Refuse at once what could not be written later.

    output: as given; a name that ends in a slash is a folder, - is standard output.
    """
    if len(sources) == 1 and not _is_folder(output):
        return [_single(sources[0], output, language, overwrite)]
    if output == STDOUT:
        raise InputError(f"--output -: {len(sources)} translations would be printed as one; give a folder instead")
    if sources == [STDIN]:
        raise InputError(f"{output}: is a folder, and standard input has no name; give the name of a file in it")
    folder = None if output is None else Path(output)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{output}: is a file, but there are {len(sources)} translations; give a folder")
    places = [_translated_name(Path(source), folder, language) for source in sources]
    if len(set(places)) < len(places):
        raise InputError("two files would get the same name; translate them into different folders")
    for source, place in zip(sources, places, strict=True):
        _check(source, place, overwrite)
    return list(places)


def _is_folder(output: str | None) -> bool:
    return output is not None and output != STDOUT and (output.endswith("/") or Path(output).is_dir())


def _single(source: str, output: str | None, language: str, overwrite: bool) -> Path | None:
    """Return where the translation of one file goes: to the file that was named, which may exist, or is printed."""
    from tram.filetypes.registry import FILETYPES

    packages = {suffix for filetype in FILETYPES if filetype.is_package for suffix in filetype.suffixes}
    is_package = source != STDIN and Path(source).suffix.lower() in packages
    if output is None and is_package:
        place = _translated_name(Path(source), None, language)
        _check(source, place, overwrite)
        return place
    named = named_output(source, output)
    if named is None and is_package and sys.stdout.isatty():
        raise _not_for_terminals(source)
    return named


def named_output(source: str, output: str | None) -> Path | None:
    """Return the file that was named for a translation; None: it is printed."""
    if output is None or output == STDOUT:
        return None
    _check(source, Path(output), overwrite=True)
    return Path(output)


def _check(source: str, place: Path, overwrite: bool) -> None:
    from tram.files import check_writable

    if place.exists() and source != STDIN and place.resolve() == Path(source).resolve():
        raise InputError(f"{place}: is the original; choose another name for the translation")
    if place.exists() and not overwrite:
        raise InputError(f"{place}: exists already; remove it, or replace it with --overwrite")
    check_writable(place)


def _translated_name(source: Path, folder: Path | None, language: str) -> Path:
    """letter.txt → letter.de.txt."""
    return (folder or source.parent) / f"{source.stem}.{language}{source.suffix}"


def _not_for_terminals(source: str) -> InputError:
    return InputError(f"{source}: its translation is a package, not text to be printed; name a file with --output")


@contextmanager
def writer(output: Path | None, source: str = "standard input") -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which appears only when it is complete, or to standard output.

    source: whose translation it is, for messages.
    """
    from tram.files import replacing

    if output is None:
        yield lambda content: _print(content, source)
        sys.stdout.flush()
        return
    with replacing(output) as temporary, temporary.open("wb") as file:
        yield file.write


def _print(content: bytes, source: str) -> None:
    if content.startswith(b"PK\x03\x04") and sys.stdout.isatty():
        raise _not_for_terminals(source)
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:  # standard output that was replaced by a text stream
        sys.stdout.write(content.decode())

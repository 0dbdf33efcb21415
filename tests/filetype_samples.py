"""One small file of each type with everything that the type should keep, for the tests of `tram.filetypes`."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """A file: its name, its content and some of the sentences that it must offer for translation."""

    name: str
    content: bytes
    sentences: tuple[str, ...]
    bilingual: bool = False


def plain_text() -> Sample:
    text = "Dear Ms Smith,\r\n\r\n- The first item. And more.\r\n- The second item\r\n\r\n***\r\n"
    return Sample("letter.txt", b"\xef\xbb\xbf" + text.encode(), ("The first item.", "And more.", "The second item"))


SAMPLES: dict[str, Callable[[], Sample]] = {
    "text": plain_text,
}

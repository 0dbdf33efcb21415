"""Packages: ZIP files of which some parts are translated and all others are copied."""

import copy
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable

from tram.errors import InputError
from tram.filetypes.encoding import Decoded, check_size, count_marks
from tram.filetypes.xml_source import decode_xml

MAX_PART = 1 << 26  # bytes of a part that is read
MAX_TOTAL = 1 << 30  # bytes of all parts together, unpacked
MAX_PARTS = 20_000
MAX_RATIO = 300  # of unpacked to packed size, for parts over MIN_BOMB
MIN_BOMB = 1 << 24
# What zipfile raises for packages that are damaged or made to confuse it.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


class Package:
    """An open package; nothing is ever unpacked to the disk."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.content = content
        self._sizes: dict[str, tuple[int, int]] = {}  # bytes and marks of the parts that were read
        if content.startswith(b"\xd0\xcf\x11\xe0"):
            raise InputError(
                f"{name}: is password-protected or an old Office file; save it as .docx without a password"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except DAMAGED as error:
            raise InputError(f"{name}: is damaged or not a ZIP package ({error}); get it again") from None
        self._check()
        self._check_contents()

    def _check(self) -> None:
        infos = self._zip.infolist()
        if any(info.flag_bits & 1 for info in infos):
            raise InputError(f"{self.name}: is password-protected; save it without a password")
        names = [info.filename for info in infos]
        if len(infos) > MAX_PARTS or len(set(names)) != len(names):
            raise InputError(f"{self.name}: has too many parts, or two with one name; save it again")
        bombs = (i for i in infos if i.file_size > MIN_BOMB and i.file_size > MAX_RATIO * max(i.compress_size, 1))
        if sum(info.file_size for info in infos) > MAX_TOTAL or any(bombs):
            raise InputError(f"{self.name}: unpacks to far more than its size, like a ZIP bomb; it is not read")

    def _check_contents(self) -> None:
        """Refuse parts that overlap or are damaged now, not when the translation is written."""
        end = 0
        for info in sorted(self._zip.infolist(), key=lambda info: info.header_offset):
            if info.header_offset < end:
                raise InputError(f"{self.name}: has parts that overlap, like a ZIP bomb; it is not read")
            end = info.header_offset + info.compress_size
            try:
                with self._zip.open(info) as file:
                    while file.read(1 << 20):
                        pass
            except DAMAGED as error:
                raise InputError(f"{self.name}: its part {info.filename} is damaged ({error}); get it again") from None

    @property
    def parts(self) -> list[str]:
        """The names of all parts."""
        return self._zip.namelist()

    def read(self, part: str) -> bytes:
        """Return the content of a part."""
        try:
            info = self._zip.getinfo(part)
            if info.file_size > MAX_PART:
                raise InputError(f"{self.name}: its part {part} is larger than {MAX_PART >> 20} MB; split it")
            with self._zip.open(info) as file:
                content = file.read(MAX_PART)
        except KeyError:
            raise InputError(f"{self.name}: has no part {part}; save it again") from None
        except DAMAGED as error:
            raise InputError(f"{self.name}: its part {part} is damaged ({error}); get it again") from None
        if part not in self._sizes:
            self._sizes[part] = len(content), count_marks(content)
            check_size(self.name, *map(sum, zip(*self._sizes.values(), strict=True)))  # of all parts together
        return content

    def read_xml(self, part: str) -> Decoded:
        """Return the text of an XML part."""
        return decode_xml(f"{self.name} ({part})", self.read(part))

    def writer(self, texts: dict[str, Decoded], finish: Callable[[str], str] = str) -> Callable[[list[str]], bytes]:
        """Return a function that makes a package of new texts of parts, given in the order of `texts`.

        finish: a last change to every new text.
        """

        def write(written: list[str]) -> bytes:
            pairs = zip(texts.items(), written, strict=True)
            return self.write({part: old.encode(finish(new), references=True) for (part, old), new in pairs})

        return write

    def write(self, new: dict[str, bytes]) -> bytes:
        """Return the package with new contents of some parts; the same bytes if none differs."""
        new = {part: content for part, content in new.items() if content != self.read(part)}
        if not new:
            return self.content
        result = io.BytesIO()
        with zipfile.ZipFile(result, "w") as written:
            written.comment = self._zip.comment
            for info in self._zip.infolist():
                content = new[info.filename] if info.filename in new else self._zip.read(info)
                written.writestr(copy.copy(info), content, compress_type=info.compress_type)
        return result.getvalue()


def peek(content: bytes, part: str) -> bytes | None:
    """Return the first bytes of a part of a package; None if content is no package or has no such part."""
    if not content.startswith(b"PK"):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package, package.open(part) as file:
            return file.read(256)
    except (KeyError, *DAMAGED):
        return None

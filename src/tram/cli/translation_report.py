"""Reports of `tram translate` besides the translations: warnings, alignments, JSON."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tram.errors import InputError
from tram.progress import plain_warnings

if TYPE_CHECKING:
    from tram.filetypes.translate import FileReport, SentenceReport
    from tram.translation.documents import Remarks

STANDARD_OUTPUT = "-"


@dataclass(frozen=True)
class ReportFiles:
    """Files to write reports to; None: no report."""

    alignment: Path | None = None
    json: Path | None = None

    def check(self, prints: bool) -> None:
        """Refuse, before the work begins, files that cannot be written or would be mixed with a printed translation."""
        from tram.files import check_writable

        for option, path in (("--alignment", self.alignment), ("--json", self.json)):
            if path is None:
                continue
            if str(path) == STANDARD_OUTPUT:
                if prints:
                    raise InputError(f"{option} -: the translation is printed there; name a file for it with --output")
            else:
                check_writable(path)
        if self.json is not None and self.json == self.alignment:
            raise InputError(f"--json and --alignment: both are {self.json}; give two files")


@dataclass
class Reports:
    """Reports on all files of one call."""

    places: ReportFiles
    files: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # alignments

    @property
    def wanted(self) -> bool:
        """Whether any report was asked for, so that alignments are needed."""
        return self.places.alignment is not None or self.places.json is not None

    def add_file(self, source: str, output: Path | None, report: "FileReport") -> None:
        """Add a translated file."""
        counts = {name: value for name, value in vars(report).items() if name != "sentences"}
        self.add(source, output, report.sentences, counts)

    def add(
        self, source: str, output: Path | None, sentences: "Iterable[SentenceReport]", counts: dict[str, int]
    ) -> None:
        """Add the sentences of a file, and its counts."""
        from tram.text.words import pharaoh

        sentences = list(sentences)
        if self.places.alignment is not None:
            self.lines += [pharaoh(sentence.alignment or ()) for sentence in sentences]
        if self.places.json is not None:
            name = None if output is None else str(output)
            warnings = Counter(warning for sentence in sentences for warning in sentence.warnings)
            values = {"source": source, "output": name, **counts, "warnings": warnings}
            self.files.append({**values, "sentences": [_values(sentence) for sentence in sentences]})

    def add_failure(self, source: str, message: str) -> None:
        """Add a file that could not be translated."""
        if self.places.json is not None:
            self.files.append({"source": source, "output": None, "error": message})

    def write(self, remarks: "Remarks") -> None:
        """Write the requested reports."""
        if self.places.alignment is not None:
            _write(self.places.alignment, "".join(f"{line}\n" for line in self.lines))
        if self.places.json is not None:
            import json

            value = {"files": self.files, "counts": remarks.counts()}
            _write(self.places.json, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _values(sentence: "SentenceReport") -> dict[str, Any]:
    from tram.text.words import pharaoh

    alignment = None if sentence.alignment is None else pharaoh(sentence.alignment)
    return {**asdict(sentence), "alignment": alignment}


def _write(path: Path, text: str) -> None:
    from tram.files import write_text

    if str(path) == STANDARD_OUTPUT:
        sys.stdout.write(text)
    else:
        write_text(path, text)


@contextmanager
def counted_remarks() -> Iterator["Remarks"]:
    """Yield counters of doubtful translations, and print them at the end as plain warnings."""
    from tram.translation.documents import Remarks

    remarks = Remarks()
    with plain_warnings():
        yield remarks
        remarks.warn()

"""The text processing of an imported model as data: tokeniser files, templates, languages and search defaults.

`TextPipeline.pretrained` holds a `PretrainedText`, the key `pretrained` of text.json; the files that it names are in
the folder `origin` beside text.json. This module is independent of model families; `tram.pretrained` fills it in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from tram.errors import InputError
from tram.files import MAX_TEXT, regular_file
from tram.fingerprints import bytes_fingerprint
from tram.json_text import parse_json
from tram.text.languages import find_language, short_code
from tram.text.sentencepieces import SentencePieces
from tram.text.special_ids import PAD, SpecialIds
from tram.text.subwords import UNKNOWN, Subwords
from tram.text.tokenizer_file import TokenizerFile

FOLDER = "origin"  # beside text.json
Files = Mapping[str, bytes]
LanguageSide = Literal["source", "target"]  # in a template: the language of that side
AGAIN = "copy the whole model folder again, or import it again with `tram import hf`"


class Data(BaseModel):
    """Data of an imported model: frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SubwordFiles(Data):
    """The tokeniser files of one side.

    model: a tokenizer.json or a sentencepiece model; vocabulary: JSON with the ids of the sentencepiece model's pieces;
    rows: of the token table; special: pieces of the vocabulary that are not text
    """

    kind: Literal["sentencepiece", "tokenizer"]
    model: str
    vocabulary: str | None = None
    rows: int = Field(ge=1, le=10**9)
    special: tuple[str, ...] = ()

    def load(self, files: Files, where: str) -> Subwords:
        """Load the subwords; where: prefix of the error message for damaged files."""
        try:
            if self.kind == "tokenizer":
                return TokenizerFile(files[self.model], self.rows)
            vocabulary = parse_json(files[self.vocabulary or ""])
            if not _is_vocabulary(vocabulary, self.rows):
                raise InputError(f"{where}: {self.vocabulary} is not a vocabulary of {self.rows} ids; {AGAIN}")
            return SentencePieces(files[self.model], vocabulary, self.rows, self.special)
        except InputError:
            raise
        except Exception as error:  # the libraries raise many kinds, some of them bare `Exception`
            raise InputError(f"{where}: {self.model} cannot be read as a tokeniser ({error}); {AGAIN}") from None


class Template(Data):
    """The special ids around a sentence, with placeholders for the languages; see `SpecialIds`."""

    start: int
    end: int
    source_prefix: tuple[int | LanguageSide, ...] = ()
    source_suffix: tuple[int | LanguageSide, ...] = ()
    target_prefix: tuple[int | LanguageSide, ...] = ()
    banned: tuple[int, ...] = (PAD,)

    @property
    def open(self) -> set[str]:
        """The sides whose language must be chosen."""
        return {
            part for part in (*self.source_prefix, *self.source_suffix, *self.target_prefix) if isinstance(part, str)
        }


class SearchDefaults(Data):
    """Default search settings of the model; None: tram's default."""

    beam: int | None = Field(None, ge=1, le=1000)
    length_penalty: float | None = Field(None, ge=-10, le=10)


class Origin(Data):
    """Origin of an imported model; model cards of it and of everything derived from it contain it."""

    family: str
    name: str  # of the repository or the folder
    commit: str | None = None
    licence: str | None = None

    @property
    def non_commercial(self) -> bool:
        """Whether the licence forbids commercial use."""
        return self.licence is not None and "nc" in self.licence.lower().split("-")

    def describe(self) -> str:
        """Return a line for a model card."""
        commit = "" if self.commit is None else f" (commit {self.commit})"
        return f"Base model: {self.name}{commit}, {self.family}, licence {self.licence or 'not stated'}."


class PretrainedText(Data):
    """The key `pretrained` of text.json.

    files: fingerprint of every file in the folder `origin`; languages: id of every language code of the model, empty
    if it translates one pair; source, target: the codes in use.
    """

    source_subwords: SubwordFiles
    target_subwords: SubwordFiles
    files: dict[str, str]
    template: Template
    languages: dict[str, int] = {}
    source: str | None = None
    target: str | None = None
    search: SearchDefaults = SearchDefaults()
    origin: Origin

    def special_ids(self) -> SpecialIds:
        """Return the special ids for the chosen languages."""
        chosen: dict[str, str | None] = {"source": self.source, "target": self.target}
        for side in sorted(self.template.open):
            if chosen[side] is None:
                raise InputError(
                    f"this model knows {len(self.languages)} languages; choose one with --{side} ({side}= in Python), "
                    f"for example {', '.join(sorted(self.languages)[:3])}"
                )
            if chosen[side] not in self.languages:
                raise InputError(
                    f"text.json chooses {chosen[side]} as the {side} language, which it does not list; {AGAIN}"
                )

        def filled(parts: tuple[int | LanguageSide, ...]) -> tuple[int, ...]:
            return tuple(part if isinstance(part, int) else self.languages[chosen[part] or ""] for part in parts)

        template = self.template
        return SpecialIds(
            start=template.start,
            end=template.end,
            source_prefix=filled(template.source_prefix),
            source_suffix=filled(template.source_suffix),
            target_prefix=filled(template.target_prefix),
            banned=template.banned,
        )

    def choose(self, side: LanguageSide, code: str, where: str) -> Self:
        """Return the same model with another language on one side."""
        return self.model_copy(update={side: find_language(code, self.languages, where)})

    def language(self, side: LanguageSide) -> str | None:
        """Return the short code of the chosen language of a side."""
        code = self.source if side == "source" else self.target
        return None if code is None else short_code(code)

    def load_files(self, folder: Path) -> dict[str, bytes]:
        """Return the contents of all files; refuse a missing or changed one."""
        contents = {}
        for name, expected in self.files.items():
            path = folder / FOLDER / name
            if Path(name).name != name:
                raise InputError(f"{folder}: text.json names the file {name!r}, which is not a plain name; {AGAIN}")
            try:
                contents[name] = regular_file(path, MAX_TEXT).read_bytes()
            except (OSError, ValueError) as error:  # ValueError: a name that no file can have
                reason = getattr(error, "strerror", None) or error
                raise InputError(f"{path}: cannot be read ({reason}); {AGAIN}") from None
            if bytes_fingerprint(contents[name]) != expected:
                raise InputError(f"{path}: is not the file that text.json was written with; {AGAIN}")
        return contents


def _is_vocabulary(value: Any, rows: int) -> bool:
    return (
        isinstance(value, dict)
        and UNKNOWN in value
        and all(type(number) is int and 0 <= number < rows for number in value.values())
        and len(set(value.values())) == len(value)  # else one of two pieces would be read as the other one
    )

"""The text pipeline of a model, between text and ids, stored beside the model as `text.json`.

    text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
    ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, split into subwords
    text.decode(ids, "source")                        # and back
    text.save(folder)                                 # TextPipeline.load(folder)

The subwords are those of `BPE`, of `WordEndBPE` in models trained with other tools, or those of an imported model,
whose tokeniser files lie in the folder `origin` beside text.json (see `text.pretrained`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tram.errors import InputError, check_types
from tram.files import is_folder, read_text, replacing, write_text
from tram.fingerprints import bytes_fingerprint, fingerprint
from tram.text.bpe import BPE, SPECIALS, _usable
from tram.text.languages import short_code
from tram.text.moses import moses
from tram.text.pretrained import FOLDER, Files, LanguageSide, PretrainedText
from tram.text.special_ids import SpecialIds
from tram.text.subwords import Subwords
from tram.text.truecasing import Truecaser, count_cases, detruecase
from tram.text.word_end_bpe import WordEndBPE

VERSION = 3
SECOND_VERSION = 2  # without `pretrained`
FIRST_VERSION = 1  # without special ids: still written where they are tram's own, so that fingerprints do not change


Side = Literal["source", "target"]


class _Header(BaseModel):
    """The keys of text.json that all versions share."""

    format: Literal["tram-text"] = "tram-text"
    version: int = VERSION


class _File(_Header):
    """The content of text.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["tram", "subword-nmt", "pretrained"] = "tram"  # whose subwords
    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    source_truecase: str = ""  # words separated by spaces: a list would double the size of the file
    target_truecase: str = ""
    alphabet: str = ""  # tram
    tokens: str = ""  # subword-nmt: separated by spaces
    merges: list[tuple[str, str]] = []
    reserved: str = ""  # tram: characters whose ids come after all others
    special_ids: dict[str, int | list[int]] | None = None  # None: tram's own
    pretrained: PretrainedText | None = None

    @property
    def unwritten(self) -> set[str]:
        """Keys that are omitted from the file if they have no effect, so that old fingerprints do not change."""
        if self.kind == "pretrained":
            return set(_File.model_fields) - {
                *("format", "version", "kind", "pipeline", "source_language", "target_language", "pretrained")
            }
        unwritten = {"kind", "tokens"} if self.kind == "tram" else {"alphabet"}
        return unwritten | {key for key in ("reserved", "special_ids", "pretrained") if not getattr(self, key)}

    @property
    def fingerprint(self) -> str:
        """Twelve digits that identify everything that affects ids or text."""
        values = self.model_dump(mode="json", exclude=self.unwritten)
        if self.pretrained is not None:
            del values["pretrained"]["origin"]
        return fingerprint(values)


@dataclass(frozen=True)
class TextPipeline:
    """The conversion between text and ids for both sides of a model.

    A `moses` pipeline normalises, tokenises and truecases the text before BPE; a `raw` pipeline applies BPE to the
    text as it is. A truecaser without words changes nothing; `WordEndBPE` pipelines always have such ones.

    bpe: subwords of the source and, unless `target_bpe` is set, of the target
    pretrained, files: of an imported model; its special ids follow from its template and its languages
    """

    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    bpe: Subwords
    source_truecaser: Truecaser = field(default_factory=lambda: Truecaser([]))
    target_truecaser: Truecaser = field(default_factory=lambda: Truecaser([]))
    special_ids: SpecialIds | None = None  # None: tram's own
    target_bpe: Subwords | None = None
    pretrained: PretrainedText | None = None
    files: Files = field(default_factory=dict, repr=False)

    @cached_property
    def special(self) -> SpecialIds:
        """The ids around a sentence, and those that a search may not produce."""
        if self.pretrained is not None:
            return self.pretrained.special_ids()
        return self.special_ids or SpecialIds(reserved=self.bpe.reserved_ids)

    @classmethod
    def learn(
        cls,
        source: Iterable[str],
        target: Iterable[str],
        source_language: str,
        target_language: str,
        *,
        pipeline: Literal["moses", "raw"] = "moses",
        merges: int = 30_000,
    ) -> Self:
        """Learn truecasing and joint BPE from the sentences of both sides, in this process."""
        if pipeline == "raw":
            return cls("raw", source_language, target_language, BPE.learn(chain(source, target), merges))
        sides = [_tokenize(source, source_language), _tokenize(target, target_language)]
        truecasers = [Truecaser.learn(count_cases(sentences)) for sentences in sides]
        lines = [
            " ".join(truecaser.truecase(tokens))
            for sentences, truecaser in zip(sides, truecasers, strict=True)
            for tokens in sentences
        ]
        return cls(pipeline, source_language, target_language, BPE.learn(lines, merges), truecasers[0], truecasers[1])

    @classmethod
    def of_pretrained(cls, data: PretrainedText, files: Files, languages: tuple[str, str], where: str) -> Self:
        """Return the pipeline of an imported model; where: prefix of error messages."""
        source, target = data.source_subwords, data.target_subwords
        bpe = source.load(files, where)
        target_bpe = None if target == source else target.load(files, where)
        return cls("raw", *languages, bpe, target_bpe=target_bpe, pretrained=data, files=files)

    def with_languages(self, source: str | None, target: str | None, where: str) -> Self:
        """Return the pipeline for other languages of the same model; None: keep the current language.

        where: prefix of error messages
        """
        pipeline = self
        for side, code in (("source", source), ("target", target)):
            if code is not None:
                pipeline = pipeline._with_language("source" if side == "source" else "target", code, where)
        return pipeline

    def _with_language(self, side: LanguageSide, code: str, where: str) -> Self:
        if self.pretrained is None or side not in self.pretrained.template.open:
            current = self._language(side)
            if short_code(current) != short_code(code):
                raise InputError(f"{where}: its {side} language is {current}, not {code}; leave out --{side}")
            return self
        pretrained = self.pretrained.choose(side, code, where)
        language = {f"{side}_language": pretrained.language(side)}
        return replace(self, pretrained=pretrained, **language)  # type: ignore[arg-type]

    def with_file(self, name: str, content: bytes) -> Self:
        """Return the pipeline of an imported model with one more file of its origin."""
        assert self.pretrained is not None
        names = self.pretrained.files | {name: bytes_fingerprint(content)}
        pretrained = self.pretrained.model_copy(update={"files": names})
        return replace(self, pretrained=pretrained, files={**self.files, name: content})

    @property
    def vocabulary(self) -> int:
        """The number of ids of the target; the source has the same ones, except in some imported models."""
        return self.subwords("target").size

    def fits(self, vocabulary: int, source_vocabulary: int | None) -> bool:
        """Return whether tables of these sizes have a row for every id; source None: both sides have one table.

        A table of the target has no other rows: a search would choose ids that stand for nothing.
        """
        source = vocabulary if source_vocabulary is None else source_vocabulary
        return vocabulary == self.vocabulary and source >= self.subwords("source").size

    def subwords(self, side: Side) -> Subwords:
        """Return the subwords of one side."""
        return self.bpe if side == "source" or self.target_bpe is None else self.target_bpe

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that identify everything that affects ids or text."""
        return self._file().fingerprint

    def tokens(self, sentence: str, side: Side) -> str:
        """Return the tokenised and truecased sentence, with spaces between the tokens, whatever the pipeline."""
        scripts = moses(self._language(side))
        return " ".join(self.truecaser(side).truecase(scripts.tokenize(scripts.normalize(sentence))))

    def preprocess(self, sentence: str, side: Side) -> str:
        """Return the sentence in the form to which BPE is applied."""
        return self.tokens(sentence, side) if self.pipeline == "moses" else sentence

    def encode(self, sentences: list[str], side: Side) -> list[list[int]]:
        """Return the ids of sentences, without special ids."""
        check_types(sentences=(sentences, list | tuple))
        check_types(**{f"sentence {number}": (sentence, str) for number, sentence in enumerate(sentences, start=1)})
        return self.subwords(side).encode_batch([self.preprocess(sentence, side) for sentence in sentences])

    def decode(self, ids: Iterable[Iterable[int]], side: Side = "target") -> list[str]:
        """Return the running text of ids; special ids are skipped."""
        subwords = self.subwords(side)
        texts = [subwords.decode(sentence) for sentence in ids]
        if self.pipeline == "raw":
            return texts
        scripts = moses(self._language(side))
        return [scripts.detokenize(detruecase(text.split())) for text in texts]

    def save(self, path: Path) -> None:
        """Write the pipeline to a .json file, or to `text.json` in a folder; its files go to `origin` beside it."""
        file, path = self._file(), _file_path(path)
        for name, content in self.files.items():
            with replacing(path.parent / FOLDER / name) as temporary:
                temporary.write_bytes(content)
        write_text(path, file.model_dump_json(exclude=file.unwritten) + "\n")

    @property
    def file_names(self) -> list[str]:
        """The files that `save` writes, relative to the folder."""
        return ["text.json", *(f"{FOLDER}/{name}" for name in self.files)]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a pipeline that `save` wrote."""
        path = _file_path(path)
        file = _read(path)
        if file.pretrained is not None:
            languages = file.source_language, file.target_language
            return cls.of_pretrained(file.pretrained, file.pretrained.load_files(path.parent), languages, str(path))
        source, target = (Truecaser(words.split()) for words in (file.source_truecase, file.target_truecase))
        special = None if file.special_ids is None else _special_ids(file.special_ids, path)
        return cls(file.pipeline, file.source_language, file.target_language, _bpe(file, path), source, target, special)

    def _file(self) -> _File:
        if not isinstance(self.bpe, BPE | WordEndBPE):
            return _File(
                kind="pretrained",
                pipeline=self.pipeline,
                source_language=self.source_language,
                target_language=self.target_language,
                pretrained=self.pretrained,
            )
        return _File(
            kind="tram" if isinstance(self.bpe, BPE) else "subword-nmt",
            pipeline=self.pipeline,
            source_language=self.source_language,
            target_language=self.target_language,
            source_truecase=" ".join(self.source_truecaser.words),
            target_truecase=" ".join(self.target_truecaser.words),
            alphabet=self.bpe.alphabet if isinstance(self.bpe, BPE) else "",
            tokens="" if isinstance(self.bpe, BPE) else " ".join(self.bpe.tokens),
            merges=self.bpe.merges,
            reserved=self.bpe.reserved if isinstance(self.bpe, BPE) else "",
            special_ids=None if self.special_ids is None else self.special_ids.as_dict(),
            version=FIRST_VERSION if self.special_ids is None else SECOND_VERSION,
        )

    def _language(self, side: Side) -> str:
        return self.source_language if side == "source" else self.target_language

    def truecaser(self, side: Side) -> Truecaser:
        """Return the truecaser of one side; that of a `raw` pipeline changes nothing."""
        return self.source_truecaser if side == "source" else self.target_truecaser


def _tokenize(sentences: Iterable[str], language: str) -> list[list[str]]:
    scripts = moses(language)
    return [scripts.tokenize(scripts.normalize(sentence)) for sentence in sentences]


def _file_path(path: Path) -> Path:
    """Return the path of text.json, given that path or its folder."""
    return path if path.suffix == ".json" and not is_folder(path) else path / "text.json"


def _bpe(file: _File, path: Path) -> BPE | WordEndBPE:
    remedy = "copy it from the original model again"
    if file.kind == "pretrained":
        raise InputError(f"{path}: lacks the key `pretrained`: {remedy}")
    if file.kind == "tram":
        merges = _usable(file.merges, file.alphabet)
        if len(merges) != len(file.merges) or len(set(file.alphabet)) != len(file.alphabet):
            raise InputError(f"{path}: its merges do not fit its alphabet: {remedy}")
        known = {*file.alphabet, *(left + right for left, right in merges)}
        if len(set(file.reserved)) != len(file.reserved) or not known.isdisjoint(file.reserved):
            raise InputError(f"{path}: a reserved character has another id already: {remedy}")
        return BPE(file.alphabet, merges, file.reserved)
    tokens = file.tokens.split(" ")
    words = tokens[len(SPECIALS) :]
    if len(tokens) < len(SPECIALS) or len(set(words)) != len(words) or "" in chain(words, *file.merges):
        raise InputError(f"{path}: its tokens or merges are damaged: {remedy}")
    return WordEndBPE(tokens, file.merges)


def _special_ids(values: dict[str, int | list[int]], path: Path) -> SpecialIds:
    """Return the special ids; `SpecialIds.fit` checks them where the size of the vocabulary is known."""
    remedy = "copy it from the original model again"
    for key, value in SpecialIds().as_dict().items():
        if type(values.get(key, value)) is not type(value):
            kind = "a list of ids" if isinstance(value, list) else "an id"
            raise InputError(f"{path}: `special_ids.{key}` is not {kind}: {remedy}")
    try:
        return SpecialIds.from_dict(values)
    except TypeError:
        raise InputError(f"{path}: `special_ids` has an unknown key: {remedy}") from None


def _read(path: Path) -> _File:
    remedy = "copy it from the original model again or regenerate it with `tram prepare`"
    try:
        text = read_text(path)
        header = _Header.model_validate_json(text)
        if header.version > VERSION:
            raise InputError(
                f"{path}: has version {header.version}, this tram reads up to {VERSION}: install a newer tram"
            )
        return _File.model_validate_json(text)
    except FileNotFoundError as error:
        raise InputError(
            f"{path}: there is no such file: give a model folder or a folder with prepared data"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: {remedy}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise InputError(f"{path}: is not a tram text pipeline ({where}: {problem['msg']}): {remedy}") from error

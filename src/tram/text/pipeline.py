"""Subwords: joint BPE for both languages, and the text pipeline that lies beside every model as `text.json`.

text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, cut into subwords
text.decode(ids, "source")                        # and back
text.save(folder); TextPipeline.load(folder)

`BPE` is ours, `WordEndBPE` that of models made with other tools.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tram.errors import InputError
from tram.files import fingerprint, write_text
from tram.text.bpe import BPE, SPECIALS, _usable
from tram.text.moses import moses
from tram.text.truecasing import Truecaser, count_cases, detruecase
from tram.text.word_end_bpe import WordEndBPE

VERSION = 1


Side = Literal["source", "target"]


class _Header(BaseModel):
    """How text.json begins, in all versions."""

    format: Literal["tram-text"] = "tram-text"
    version: int = VERSION


class _File(_Header):
    """What stands in text.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["tram", "subword-nmt"] = "tram"  # whose BPE
    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    source_truecase: str  # words with blanks between them: a list would double the file
    target_truecase: str
    alphabet: str = ""  # tram
    tokens: str = ""  # subword-nmt: with blanks between them
    merges: list[tuple[str, str]]

    @property
    def unwritten(self) -> set[str]:
        """What stays out of the file. Our own was first, without a kind: its fingerprints must not change."""
        return {"kind", "tokens"} if self.kind == "tram" else {"alphabet"}


@dataclass(frozen=True)
class TextPipeline:
    """All that lies between text and ids, for both sides of a model.

    `moses`: normalised, tokenised and truecased, then cut by BPE. `raw`: BPE on the text as it is. Without words to
    know, a truecaser changes nothing: so with `WordEndBPE`, whose files bring no truecaser.
    """

    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    bpe: BPE | WordEndBPE
    source_truecaser: Truecaser = field(default_factory=lambda: Truecaser([]))
    target_truecaser: Truecaser = field(default_factory=lambda: Truecaser([]))

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
        return cls(pipeline, source_language, target_language, BPE.learn(lines, merges), *truecasers)

    @property
    def vocabulary(self) -> int:
        """The number of ids, the same for both sides."""
        return self.bpe.size

    @cached_property
    def fingerprint(self) -> str:
        """Twelve digits that stand for all that changes ids or text."""
        file = self._file()
        return fingerprint(file.model_dump(mode="json", exclude=file.unwritten))

    def tokens(self, sentence: str, side: Side) -> str:
        """The sentence tokenised and truecased, with blanks between the tokens, whatever the pipeline."""
        scripts = moses(self._language(side))
        return " ".join(self.truecaser(side).truecase(scripts.tokenize(scripts.normalize(sentence))))

    def preprocess(self, sentence: str, side: Side) -> str:
        """The sentence as BPE sees it."""
        return self.tokens(sentence, side) if self.pipeline == "moses" else sentence

    def encode(self, sentences: list[str], side: Side) -> list[list[int]]:
        """The ids of sentences, without BOS and EOS."""
        return self.bpe.encode_batch([self.preprocess(sentence, side) for sentence in sentences])

    def decode(self, ids: Iterable[Iterable[int]], side: Side = "target") -> list[str]:
        """The text of ids, as running text; special ids are passed over."""
        texts = [self.bpe.decode(sentence) for sentence in ids]
        if self.pipeline == "raw":
            return texts
        scripts = moses(self._language(side))
        return [scripts.detokenize(detruecase(text.split())) for text in texts]

    def save(self, path: Path) -> None:
        """Write `text.json`, under that name if `path` is a folder."""
        file = self._file()
        write_text(_place(path), file.model_dump_json(exclude=file.unwritten) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        path = _place(path)
        file = _read(path)
        source, target = (Truecaser(words.split()) for words in (file.source_truecase, file.target_truecase))
        return cls(file.pipeline, file.source_language, file.target_language, _bpe(file, path), source, target)

    def _file(self) -> _File:
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
        )

    def _language(self, side: Side) -> str:
        return self.source_language if side == "source" else self.target_language

    def truecaser(self, side: Side) -> Truecaser:
        """The truecaser of one side; one that changes nothing if the pipeline is `raw`."""
        return self.source_truecaser if side == "source" else self.target_truecaser


def _tokenize(sentences: Iterable[str], language: str) -> list[list[str]]:
    scripts = moses(language)
    return [scripts.tokenize(scripts.normalize(sentence)) for sentence in sentences]


def _place(path: Path) -> Path:
    return path if path.suffix == ".json" and not path.is_dir() else path / "text.json"


def _bpe(file: _File, path: Path) -> BPE | WordEndBPE:
    again = "take it from the model's source again"
    if file.kind == "tram":
        merges = _usable(file.merges, file.alphabet)
        if len(merges) != len(file.merges) or len(set(file.alphabet)) != len(file.alphabet):
            raise InputError(f"{path}: its merges do not fit its alphabet: {again}")
        return BPE(file.alphabet, merges)
    tokens = file.tokens.split(" ")
    words = tokens[len(SPECIALS) :]
    if len(tokens) < len(SPECIALS) or len(set(words)) != len(words) or "" in chain(words, *file.merges):
        raise InputError(f"{path}: its tokens or merges are damaged: {again}")
    return WordEndBPE(tokens, file.merges)


def _read(path: Path) -> _File:
    anew = "take it from the model's source again or make it anew with `tram prepare`"
    try:
        text = path.read_text(encoding="utf-8")
        header = _Header.model_validate_json(text)
        if header.version > VERSION:
            raise InputError(f"{path}: is of version {header.version}, this tram reads {VERSION}: install a newer tram")
        return _File.model_validate_json(text)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file: name a folder of a model or of prepared data") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text: {anew}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise InputError(f"{path}: is not a text pipeline of tram ({where}: {problem['msg']}): {anew}") from error

"""Subwords: joint BPE for both languages, and the text pipeline that lies beside every model as `text.json`.

text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, cut into subwords
text.decode(ids, "source")                        # and back
text.save(folder); TextPipeline.load(folder)
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE as BPEModel
from tokenizers.pre_tokenizers import Split
from tokenizers.trainers import BpeTrainer

from tram.errors import InputError
from tram.files import fingerprint, write_text
from tram.text import Truecaser, count_cases, detruecase, moses

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
RESERVED = frozenset(SPECIALS + BYTES)
FIRST_CHARACTER = len(SPECIALS) + len(BYTES)

WORD = r" ?\S+|\s"  # a blank belongs to the word behind it; what a run of blanks has more stands alone
RARE = 5  # characters seen less often are spelled in bytes
MARGIN = 20_000  # room for the alphabet, unknown before the one pass, and for merges that cannot be used
VERSION = 1

Side = Literal["source", "target"]
Merge = tuple[str, str]


class BPE:
    """Byte-pair encoding that brings back every string exactly.

    Each sentence gets one blank in front, so that its first word is cut like any other. Ids: `SPECIALS`, the
    256 bytes for what the alphabet lacks, the alphabet, one for each merge. The tokeniser does not know the
    first two kinds as special tokens: "<pad>" in a text is five characters.
    """

    def __init__(self, alphabet: str, merges: Iterable[Merge]) -> None:
        self.alphabet = alphabet
        self.merges = [(left, right) for left, right in merges]
        products = dict.fromkeys(left + right for left, right in self.merges)  # some arise from two merges
        self._pieces = [*SPECIALS, *BYTES, *alphabet, *products]
        self._bytes = [b""] * len(SPECIALS) + [bytes([byte]) for byte in range(256)]
        self._bytes += [piece.encode() for piece in self._pieces[FIRST_CHARACTER:]]
        vocabulary = {piece: number for number, piece in enumerate(self._pieces)}
        self._tokenizer = Tokenizer(BPEModel(vocab=vocabulary, merges=self.merges, byte_fallback=True))
        self._tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")

    def __reduce__(self) -> tuple[type["BPE"], tuple[str, list[Merge]]]:
        return BPE, (self.alphabet, self.merges)

    @classmethod
    def learn(cls, lines: Iterable[str], merges: int = 30_000, rare: int = RARE) -> Self:
        """Learn `merges` merges in one pass; characters seen less than `rare` times are left to bytes."""
        counts: Counter[str] = Counter()
        learned = _train(_counted(lines, counts), merges + MARGIN)
        alphabet = "".join(sorted(character for character, count in counts.items() if count >= rare))
        return cls(alphabet, _usable(learned, alphabet)[:merges])

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of many texts, without BOS and EOS."""
        check_unicode(texts)
        encodings = self._tokenizer.encode_batch_fast(
            [" " + text if text else "" for text in texts], add_special_tokens=False
        )
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special ids are passed over, bytes that are no UTF-8 become U+FFFD."""
        text = b"".join([self._bytes[number] for number in ids]).decode("utf-8", "replace")
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as a reader wants to see it, with "▁" for the blank."""
        return [self._pieces[number].replace(" ", "▁") for number in ids]


def _counted(lines: Iterable[str], counts: Counter[str]) -> Iterator[str]:
    """Pass lines on as they are encoded and count their characters on the way."""
    for number, line in enumerate(lines, 1):
        check_unicode([line], number)
        counts.update(" " + line)
        yield " " + line


def _train(lines: Iterator[str], pieces: int) -> list[Merge]:
    tokenizer = Tokenizer(BPEModel())
    tokenizer.pre_tokenizer = Split(Regex(WORD), "isolated")
    trainer = BpeTrainer(vocab_size=pieces, min_frequency=2, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return [(left, right) for left, right in json.loads(tokenizer.to_str())["model"]["merges"]]


def _usable(merges: list[Merge], alphabet: str) -> list[Merge]:
    """Leave out merges of rare characters or into special or byte pieces, and those that build on them."""
    known = set(alphabet)
    usable = []
    for left, right in merges:
        if left in known and right in known and left + right not in RESERVED:
            known.add(left + right)
            usable.append((left, right))
    return usable


def check_unicode(texts: list[str], first: int = 1) -> None:
    """Refuse half characters, which no UTF-8 file can hold; `first` is the number of the first text."""
    for number, text in enumerate(texts, first):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"sentence {number} holds half a character (U+{ord(text[error.start]):04X}, a"
                " lone surrogate): read the text as UTF-8 or remove it"
            ) from error


class _Header(BaseModel):
    """How text.json begins, in all versions."""

    format: Literal["tram-text"] = "tram-text"
    version: int = VERSION


class _File(_Header):
    """What stands in text.json."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    source_truecase: str  # words with blanks between them: a list would double the file
    target_truecase: str
    alphabet: str
    merges: list[tuple[str, str]]


@dataclass(frozen=True)
class TextPipeline:
    """All that lies between text and ids, for both sides of a model.

    `moses`: normalised, tokenised and truecased, then cut by BPE. `raw`: BPE on the text as it is.
    """

    pipeline: Literal["moses", "raw"]
    source_language: str
    target_language: str
    bpe: BPE
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
        return fingerprint(self._file().model_dump(mode="json"))

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
        write_text(_place(path), self._file().model_dump_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        path = _place(path)
        file = _read(path)
        merges = _usable(file.merges, file.alphabet)
        if len(merges) != len(file.merges) or len(set(file.alphabet)) != len(file.alphabet):
            raise InputError(f"{path}: its merges do not fit its alphabet: take it from the model's source again")
        source, target = (Truecaser(words.split()) for words in (file.source_truecase, file.target_truecase))
        bpe = BPE(file.alphabet, merges)
        return cls(file.pipeline, file.source_language, file.target_language, bpe, source, target)

    def _file(self) -> _File:
        return _File(
            pipeline=self.pipeline,
            source_language=self.source_language,
            target_language=self.target_language,
            source_truecase=" ".join(self.source_truecaser.words),
            target_truecase=" ".join(self.target_truecaser.words),
            alphabet=self.bpe.alphabet,
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

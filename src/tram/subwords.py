"""Subwords: joint BPE for both languages, and the text pipeline that lies beside every model as `text.json`.

text = TextPipeline.learn(source_lines, target_lines, "en", "de", merges=30_000)
ids = text.encode(["A sentence."], "source")      # normalised, tokenised, truecased, cut into subwords
text.decode(ids, "source")                        # and back
text.save(folder); TextPipeline.load(folder)

`BPE` is ours, `WordEndBPE` that of models made with other tools.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, pairwise
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

# subword-nmt and fastBPE: how a merge marks the end of a word, and a token the lack of one.
WORD_END = "</w>"
JOINER = "@@"
UNKNOWN = ("<unk>", "[unk]")  # in any case of letters
END = " "  # stands for WORD_END inside symbols: a word may hold "</w>" as text, but no blank
LETTER = re.compile("[^ ] ?")
# A word, with the blank behind it. Merging takes quadratic time: what no language calls a word is merged in stretches.
STRETCH = re.compile("[^ ]{1,500} ?")
CACHED = 100_000  # words whose ids are kept
UNESCAPES = {"&amp;": "&", "&#124;": "|", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"',
             "&#91;": "[", "&#93;": "]"}  # fmt: skip
ESCAPES = {ord(sign): escaped for escaped, sign in UNESCAPES.items()}
ESCAPED = re.compile("|".join(UNESCAPES))

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
        """Each id as a reader wants to see it, with "▁" for the blank, which is where a word starts."""
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


class WordEndBPE:
    """The BPE of subword-nmt and fastBPE, which marks ends of words, with the ids of a vocabulary.

    tokens: one for each id, the first three those of `SPECIALS` whatever they are called; a piece that does not end
    its word is the token `piece@@`. merges: in the order of learning, `</w>` at an end of a word. A piece without a
    token is split back into those it was merged from; what is left is `<unk>`, or passed over if there is no such
    token. If the tokens are in the escaped form of Moses (`&apos;`), text is escaped, too.

    Not built on `tokenizers`: that merges one place at a time, subword-nmt the best pair in all places at once, and
    where two merges give the same piece the results may differ.
    """

    def __init__(self, tokens: Iterable[str], merges: Iterable[Merge]) -> None:
        self.tokens = list(tokens)
        self.merges = [(left, right) for left, right in merges]
        self._ranks: dict[Merge, int] = {}
        self._parts: dict[str, Merge] = {}
        for rank, (left, right) in enumerate(self.merges):
            if right.endswith(WORD_END):
                right = right.removesuffix(WORD_END) + END
            self._ranks.setdefault((left, right), rank)
            self._parts.setdefault(left + right, (left, right))
        unknown = [n for n, token in enumerate(self.tokens) if token.lower() in UNKNOWN]
        self._unknown = unknown[:1]
        special = {*range(len(SPECIALS)), *unknown}
        self._ids = {_symbol(token): n for n, token in enumerate(self.tokens) if n not in special}
        self._escapes = any("&apos;" in token or "&quot;" in token for token in self.tokens)
        self._word_ids = lru_cache(CACHED)(self._encode_word)

    def __reduce__(self) -> tuple[type["WordEndBPE"], tuple[list[str], list[Merge]]]:
        return WordEndBPE, (self.tokens, self.merges)

    @property
    def size(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The ids of one tokenised text, without BOS and EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of many tokenised texts, without BOS and EOS."""
        check_unicode(texts)
        if self._escapes:
            texts = [text.translate(ESCAPES) for text in texts]
        lines = ["".join(f"{word}{END}" for word in text.split()) for text in texts]
        return [[number for word in STRETCH.findall(line) for number in self._word_ids(word)] for line in lines]

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids with blanks between them; padding, begin and end are passed over."""
        tokens = "".join(f"{self.tokens[number]} " for number in ids if number > EOS)
        text = tokens.replace(f"{JOINER} ", "").removesuffix(" ")
        return ESCAPED.sub(lambda escaped: UNESCAPES[escaped[0]], text) if self._escapes else text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each id as a reader wants to see it, with "▁" where a word starts."""
        pieces, starts = [], True
        for number in ids:
            token = self.tokens[number]
            pieces.append("▁" * (starts and number > EOS) + token.removesuffix(JOINER))
            starts = not token.endswith(JOINER)
        return pieces

    def _encode_word(self, word: str) -> tuple[int, ...]:
        waiting = self._merged(LETTER.findall(word))[::-1]
        ids: list[int] = []
        while waiting:
            symbol = waiting.pop()
            if symbol in self._ids:
                ids.append(self._ids[symbol])
            elif symbol in self._parts:
                waiting += reversed(self._parts[symbol])
            else:
                ids += self._unknown
        return tuple(ids)

    def _merged(self, symbols: list[str]) -> list[str]:
        """Merge the pair that was learnt first, in all its places from the left, until no merge is left."""
        never = len(self.merges)
        while len(symbols) > 1:
            best = min(pairwise(symbols), key=lambda pair: self._ranks.get(pair, never))
            if best not in self._ranks:
                break
            merged: list[str] = []
            for symbol in symbols:
                if merged and (merged[-1], symbol) == best:
                    merged[-1] += symbol
                else:
                    merged.append(symbol)
            symbols = merged
        return symbols


def _symbol(token: str) -> str:
    """A token as merges make it: one that ends its word ends in `END`."""
    return token.removesuffix(JOINER) if token.endswith(JOINER) else token + END


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

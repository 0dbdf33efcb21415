"""`tram prepare`: convert raw parallel documents to memory-mapped ids, on all cores.

    prepare(Path("prepared"), train=[("train.en", "train.de")], dev=[("dev.en", "dev.de")])

Three passes, none of which loads the corpus into memory: tokenise into a cache (the expensive part), learn truecasers
and BPE from it, encode it. Some training documents are held out to monitor training, so that dev remains for
reporting. A second call skips finished work; after a kill, finished caches are reused.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from tram.data.arrays import VERSION, SplitWriter
from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.data.prepared_folder import check_places, file_names, install, is_complete, make_cache
from tram.data.workers import Workers
from tram.errors import InputError, write_problem
from tram.files import check_folder_writable, locked, read_json, remove, replacing, write_json, writing
from tram.fingerprints import checksums, content_fingerprint, fingerprint, has_checksum
from tram.progress import Progress
from tram.text.bpe import BPE
from tram.text.languages import check_language
from tram.text.moses import moses
from tram.text.pipeline import Side, TextPipeline
from tram.text.special_ids import HISTORY, RESERVED_CHARACTERS
from tram.text.truecasing import Truecaser, count_cases

CHUNK = 500  # sentences per worker task
MAX_MERGES = 1_000_000
MAX_WORKERS = 1_000
MAX_CHARACTERS = 5_000  # longer lines are not sentences and would be cut in training anyway
X = TypeVar("X")
FilePair = tuple[Path, Path]
DocumentSides = tuple[list[str], list[str]]  # both sides of one document


@dataclass(frozen=True)
class PrepareSettings:
    """The settings that determine the result, besides the files."""

    source_language: str = "en"
    target_language: str = "de"
    pipeline: Literal["moses", "raw"] = "moses"
    merges: int = 30_000
    held_out: float = 0.01  # fraction of the training sentences, in whole documents
    most_held_out: int = 3_000  # sentences; field names are part of the key in prepared.json
    seed: int = 1
    format: str | None = None
    reserved: bool = False  # ids for copy sentinels, the separator of sentences and the mask

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the key depends on, without `reserved` if false: keys of older folders stay the same."""
        return {name: value for name, value in vars(self).items() if name != "reserved" or value}

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise InputError(f"held-out fraction {self.held_out}: give a number from 0 to below 1, for example 0.01")
        if not 0 <= self.merges <= MAX_MERGES:
            raise InputError(f"merges {self.merges}: give a number from 0 to {MAX_MERGES:,}, for example 30000")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed {self.seed}: give 0 or more, for example 1")
        for language in (self.source_language, self.target_language):
            check_language(language)


@dataclass
class Tokenised:
    """The cache of one pair of files: documents of tokenised sentences, one JSON line each."""

    path: Path
    sentences: list[int] = field(default_factory=list)  # number per document
    cut: int = 0  # number of sentences that were too long

    @property
    def cases(self) -> Path:
        """The file with the counts that truecasers are learnt from."""
        return self.path.with_suffix(".cases")

    def documents(self) -> Iterator[DocumentSides]:
        """Yield both sides of each document."""
        with self.path.open(encoding="utf-8") as file:
            for line in file:
                source, target = json.loads(line)
                yield source, target


def prepare(
    out: Path,
    train: Sequence[FilePair],
    dev: Sequence[FilePair],
    settings: PrepareSettings | None = None,
    text: Path | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Write a prepared folder and return the content of its `prepared.json`."""
    settings = settings or PrepareSettings()
    existing = TextPipeline.load(text) if text else None
    if existing:  # it determines how text is tokenised
        _ = existing.special  # raises if the languages of a multilingual model are not chosen
        for language in (existing.source_language, existing.target_language):
            check_language(language, f"{text}: ")
        settings = replace(
            settings,
            pipeline=existing.pipeline,
            source_language=existing.source_language,
            target_language=existing.target_language,
        )
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"workers {workers}: give a number of processes from 1 to {MAX_WORKERS:,}")
    key = fingerprint([_identity(train), _identity(dev), settings.identity, existing and existing.fingerprint])
    with locked(out):
        about = _read_json(out / "prepared.json")
        cache = out / ".cache"
        if about.get("key") == key and is_complete(out):
            with writing(cache):
                remove(cache)  # killed in its removal
            return about | {"skipped": True}
        check_folder_writable(out)
        check_places(out, file_names(("train", "held", "dev"), existing))
        try:
            make_cache(cache)
            with Workers(workers or os.cpu_count() or 1) as processes:
                about = {"version": VERSION, "key": key}
                about |= _prepare(cache, train, dev, settings, existing, key, processes)
            install(cache, out, about)
        except OSError as error:
            raise InputError(write_problem(out, error)) from error
    return about


def _prepare(
    cache: Path,
    train: Sequence[FilePair],
    dev: Sequence[FilePair],
    settings: PrepareSettings,
    existing: TextPipeline | None,
    key: str,
    workers: Workers,
) -> dict[str, Any]:
    """Write all files to the cache, and return their description for `prepared.json`."""
    tokenised = [_tokenise(cache, pair, settings, workers, count=existing is None) for pair in train]
    tokenised_dev = [_tokenise(cache, pair, settings, workers, count=False) for pair in dev]
    held_out = _choose_held_out([n for part in tokenised for n in part.sentences], settings)
    pipeline = existing or _learn(cache, tokenised, held_out, settings, key)
    pipeline.save(cache)
    documents = {
        "train": _select(_documents(tokenised), held_out, False),
        "held": _select(_documents(tokenised), held_out, True),
        "dev": _documents(tokenised_dev),
    }
    splits = _encode(cache, documents, pipeline, workers)
    write_parallel(cache / "held.jsonl", None, _select(_raw(train, settings), held_out, True), format="jsonl")
    write_parallel(cache / "dev.jsonl", None, _raw(dev, settings), format="jsonl")
    return {
        "text": pipeline.fingerprint,
        "vocabulary": pipeline.vocabulary,
        **({} if pipeline.target_bpe is None else {"source_vocabulary": pipeline.bpe.size}),
        "splits": splits,
        "cut": sum(part.cut for part in tokenised + tokenised_dev),
    }


def _identity(pairs: Sequence[FilePair]) -> list[Any]:
    """Return what identifies the files, wherever they are: their names, which determine the format, and contents."""
    try:
        return [[path.name, content_fingerprint(path)] for pair in pairs for path in pair]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}); give the path of a text file") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        about = read_json(path)
    except (OSError, ValueError, InputError):
        return {}
    return about if isinstance(about, dict) else {}


# First pass: tokenise.


def _tokenise(cache: Path, pair: FilePair, settings: PrepareSettings, workers: Workers, count: bool) -> Tokenised:
    """Tokenise a pair of files into the cache, unless the cache already contains it."""
    languages = (settings.source_language, settings.target_language)
    key = fingerprint([_identity([pair]), settings.pipeline, *languages, settings.format, count])
    result = Tokenised(cache / f"{key}.jsonl")
    about = cache / f"{key}.json"
    files = [result.path.name, *([result.cases.name] if count else [])]
    counts = _read_json(about)
    checksum = counts.pop("checksum", None)
    if checksum == fingerprint(counts) and _are_whole(cache, files, counts.get("files")):
        result.sentences, result.cut = counts["sentences"], counts["cut"]
        return result
    cases = (Counter[str](), Counter[str]())
    options = (settings.pipeline, *languages, count)
    documents = read_parallel(*pair, format=settings.format)
    with (
        replacing(result.path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
        Progress(f"tokenising {pair[0].name}", unit="sentences") as progress,
    ):
        for chunk in workers.ordered(_tokenise_chunk, ((options, chunk) for chunk in _chunks(documents))):
            for document in chunk.documents:
                file.write(json.dumps(document, ensure_ascii=False) + "\n")
                result.sentences.append(len(document[0]))
                progress.advance(len(document[0]))
            result.cut += chunk.cut
            for total, part in zip(cases, chunk.cases, strict=True):
                total.update(part)
    if result.cut:
        cut = f"{result.cut} sentences of {pair[0].name}"
        progress.say(f"warning: {cut} are longer than {MAX_CHARACTERS:,} characters and are cut")
    if count:
        write_json(result.cases, [dict(part) for part in cases])
    counts = {"sentences": result.sentences, "cut": result.cut, "files": checksums(cache, files)}
    write_json(about, counts | {"checksum": fingerprint(counts)})
    return result


def _are_whole(cache: Path, names: Iterable[str], known: Any) -> bool:
    """Return whether files of the cache are as they were written, by their checksums: damaged ones are not reused."""
    try:
        return all(has_checksum(cache / name, known[name]) for name in names)
    except (OSError, InputError, KeyError, TypeError):
        return False


@dataclass
class _Chunk:
    documents: list[DocumentSides]
    cases: tuple[Counter[str], Counter[str]]
    cut: int


def _tokenise_chunk(task: tuple[tuple[str, str, str, bool], list[DocumentSides]]) -> _Chunk:
    (pipeline, *languages, count), documents = task
    result = _Chunk([], (Counter(), Counter()), 0)
    for document in documents:
        sides = []
        for side, (language, sentences) in enumerate(zip(languages, document, strict=True)):
            result.cut += sum(len(sentence) > MAX_CHARACTERS for sentence in sentences)
            marks, sentences = _split_marks([sentence[:MAX_CHARACTERS] for sentence in sentences])
            if pipeline == "moses":
                script = moses(str(language))
                tokens = [script.tokenize(script.normalize(sentence)) for sentence in sentences]
                if count:
                    result.cases[side].update(count_cases(tokens))
                sentences = [" ".join(words) for words in tokens]
            sides.append([mark + sentence for mark, sentence in zip(marks, sentences, strict=True)])
        result.documents.append((sides[0], sides[1]))
    return result


def _chunks(documents: Iterable[ParallelDocument]) -> Iterator[list[DocumentSides]]:
    """Group documents into lists of at least `CHUNK` sentences."""
    chunk: list[DocumentSides] = []
    size = 0
    for document in documents:
        chunk.append((document.source, document.target))
        size += len(document.source)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


# Second pass: learn.


def _choose_held_out(sentences: list[int], settings: PrepareSettings) -> set[int]:
    """Return the numbers of the training documents to hold out; at least one document remains for training."""
    wanted = min(settings.held_out * sum(sentences), settings.most_held_out)
    held_out: set[int] = set()
    size = 0
    for document in np.random.default_rng(settings.seed).permutation(len(sentences)).tolist():
        if size >= wanted or len(held_out) == len(sentences) - 1:
            break
        held_out.add(document)
        size += sentences[document]
    return held_out


def _learn(
    cache: Path, tokenised: list[Tokenised], held_out: set[int], settings: PrepareSettings, key: str
) -> TextPipeline:
    """Learn truecasers and BPE from the training documents, or reuse what was learnt before a kill."""
    path, about = cache / f"{key}.text.json", cache / f"{key}.checksums.json"
    if _are_whole(cache, [path.name], _read_json(about)):
        with suppress(InputError):  # of another version
            return TextPipeline.load(path)
    cases = [Counter[str](), Counter[str]()]
    for part in tokenised:
        for total, counted in zip(cases, read_json(part.cases), strict=True):
            total.update(counted)
    truecasers = [Truecaser.learn(total) for total in cases]
    with Progress("learning BPE", unit="sentences") as progress:

        def lines() -> Iterator[str]:
            for source, target in _select(_documents(tokenised), held_out, False):
                progress.advance(len(source))
                for truecaser, side in zip(truecasers, (source, target), strict=True):
                    yield from _truecased(truecaser, side) if settings.pipeline == "moses" else side

        bpe = BPE.learn(lines(), settings.merges)
        if settings.reserved:
            bpe = BPE(bpe.alphabet, bpe.merges, RESERVED_CHARACTERS)
    languages = settings.source_language, settings.target_language
    pipeline = TextPipeline(settings.pipeline, *languages, bpe, truecasers[0], truecasers[1])
    pipeline.save(path)
    write_json(about, checksums(cache, [path.name]))
    return pipeline


def _truecased(truecaser: Truecaser, sentences: list[str]) -> list[str]:
    return [" ".join(truecaser.truecase(sentence.split(" "))) for sentence in sentences]


# Third pass: encode.


def _encode(
    folder: Path,
    splits: dict[str, Iterator[DocumentSides]],
    text: TextPipeline,
    workers: Workers,
) -> dict[str, dict[str, int]]:
    """Write the ids of all splits and return their sizes."""
    sizes = {}
    pipeline = (folder / "text.json", text.fingerprint)
    for name, documents in splits.items():
        writer = SplitWriter(folder, name, max(text.vocabulary, text.bpe.size))
        with Progress(f"encoding {name}", unit="sentences") as progress:
            pairs = (ParallelDocument(source, target) for source, target in documents)
            for chunk in workers.ordered(_encode_chunk, ((pipeline, chunk) for chunk in _chunks(pairs))):
                for source, target in chunk:
                    writer.add(source, target)
                    progress.advance(len(source))
        sizes[name] = writer.close()
    return sizes


@lru_cache(maxsize=1)
def _load_pipeline(path: Path, fingerprint: str) -> TextPipeline:
    """Load the pipeline once per worker process: loading it takes longer than encoding a chunk."""
    return TextPipeline.load(path)


def _encode_chunk(
    task: tuple[tuple[Path, str], list[DocumentSides]],
) -> list[tuple[list[list[int]], list[list[int]]]]:
    pipeline, documents = task
    text = _load_pipeline(*pipeline)

    def ids(sentences: list[str], side: Side) -> list[list[int]]:
        marks, sentences = _split_marks(sentences)
        if text.pipeline == "moses":
            sentences = _truecased(text.truecaser(side), sentences)
        encoded = text.subwords(side).encode_batch(sentences)
        history = text.special.history
        if side == "source" or not any(marks):
            return encoded
        if history is None:
            raise InputError(
                "a target sentence is marked as history, for which the text pipeline has no id; remove the marks or "
                "prepare with --reserved"
            )
        return [[history, *each] if mark and each else each for mark, each in zip(marks, encoded, strict=True)]

    return [(ids(source, "source"), ids(target, "target")) for source, target in documents]


# Helpers.


def _split_marks(sentences: list[str]) -> tuple[list[str], list[str]]:
    """Return the mark of history, or nothing, before each sentence, and the sentences without it."""
    marks = [sentence[:1] if sentence.startswith(HISTORY) else "" for sentence in sentences]
    return marks, [sentence[len(mark) :] for mark, sentence in zip(marks, sentences, strict=True)]


def _documents(tokenised: list[Tokenised]) -> Iterator[DocumentSides]:
    return chain.from_iterable(part.documents() for part in tokenised)


def _raw(pairs: Sequence[FilePair], settings: PrepareSettings) -> Iterator[ParallelDocument]:
    return chain.from_iterable(read_parallel(*pair, format=settings.format) for pair in pairs)


def _select(documents: Iterable[X], numbers: set[int], inside: bool) -> Iterator[X]:
    """Return the documents whose number is in `numbers`, or, if not `inside`, those whose number is not."""
    return (document for number, document in enumerate(documents) if (number in numbers) == inside)

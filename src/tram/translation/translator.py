"""The public face of tram: text in, translations out.

    translator = Translator.load()                             # the small model of tram; or the output of `tram train`
    translator.translate(["First sentence.", "Second."])       # a document: list in, list of the same length out
    translator.translate_documents([["…"], ["…", "…"]])        # many documents in lockstep
    state = translator.start()                                 # goes on later: fixed size, save(), load(), fork()
    translator.translate(["Next."], state=state)
    translator.read(source=["…"], target=["…"], state=state)   # context that is not itself translated

One translation comes out for every sentence that goes in, in the same order; an empty one for an empty one, which
leaves the state as it is.
"""

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import torch

from tram.data.batches import decoder_input, padded_ids
from tram.errors import InputError
from tram.model.folder import find_model, load_model, read_model_file, save_model, weights
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.document_state import DocumentState
from tram.translation.lockstep import Cursor, History, Lockstep, document_ids, length_limit
from tram.translation.search import search

BATCH = 32  # sentences, or documents, searched at once
SHIPPED = Path(__file__).parents[1] / "shipped"  # the small model that comes with tram


@dataclass(frozen=True)
class Translation:
    """One way to translate a sentence; score: log-probability / length^penalty."""

    text: str
    score: float


class Translator:
    """A model, its text pipeline and the settings of the search."""

    def __init__(
        self,
        model: Transformer,
        text: TextPipeline | None = None,
        beam: int = 5,
        length_penalty: float = 1.0,
        batch: int = BATCH,
    ) -> None:
        self.model = model.eval()
        self._text = text
        self.folder: Path | None = None
        self.beam = beam
        self.length_penalty = length_penalty
        self.batch = batch

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        beam: int = 5,
        length_penalty: float = 1.0,
    ) -> Self:
        """Read a model folder; without a path, the small model that comes with tram. No text.json: ids only."""
        if path is None and not SHIPPED.exists():
            raise InputError("this tram has no model of its own; give a model folder or the output of `tram train`")
        folder = find_model(SHIPPED if path is None else path)
        model = load_model(folder, dtype).to(device)
        text = TextPipeline.load(folder) if (folder / "text.json").exists() else None
        if text is not None and text.fingerprint != (wanted := read_model_file(folder).text):
            raise InputError(
                f"{folder / 'text.json'}: is pipeline {text.fingerprint}, the model was trained with {wanted}"
            )
        translator = cls(model, text, beam, length_penalty)
        translator.folder = folder
        return translator

    def save(self, path: Path | str) -> None:
        """Write a model folder that `load` reads."""
        save_model(self.model, path, self._text)

    @property
    def text(self) -> TextPipeline:
        """The text pipeline; a model folder without one is asked for ids, not text."""
        if self._text is None:
            where = self.folder or "this model"
            raise InputError(
                f"{where}: has no text.json, so it cannot take text; copy the text.json it was trained with"
            )
        return self._text

    @cached_property
    def fingerprint(self) -> str:
        """Stands for the weights: states of documents know by it whose they are."""
        digest = hashlib.sha256()
        for name, value in sorted(weights(self.model).items()):
            digest.update(name.encode() + value.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:12]

    def start(self) -> DocumentState:
        """The state before the first sentence of a document."""
        with torch.inference_mode():
            return DocumentState(self.model.complete(None, 1), self.fingerprint)

    def translate(self, sentences: list[str], state: DocumentState | None = None) -> list[str]:
        """Translate a document, or go on with one: then `state` moves with it."""
        return self.translate_documents([sentences], states=None if state is None else [state])[0]

    def translate_documents(
        self,
        documents: list[list[str]],
        advance: Callable[[int], None] | None = None,
        states: list[DocumentState] | None = None,
        history: History = "generated",
        gold: list[list[str]] | None = None,
    ) -> list[list[str]]:
        """Translate many documents; `advance` is told how many sentences more are done.

        history: what the memory takes in of the target: what is generated here, `gold` (the right translations,
        which must be given), or none at all.
        """
        for state in states or []:
            self.checked(state)
        if not self.model.has_context:
            flat = [sentence for document in documents for sentence in document]
            best = iter([options[0].text for options in self.n_best(flat, 1, advance)])
            return [[next(best) for _ in document] for document in documents]
        parts = self._parts(documents)
        states = states or [self.start() for _ in documents]
        cursors = [Cursor(i, part.ids, state.carried)
                   for i, (part, state) in enumerate(zip(parts, states, strict=True))]  # fmt: skip
        if history == "gold":
            for cursor, part, document in zip(cursors, parts, aligned(gold, documents), strict=True):
                cursor.gold = part.gold(document)
        found: list[list[list[tuple[list[int], float]]]] = [[] for _ in documents]
        lockstep = Lockstep(self.model, self.beam, self.length_penalty, self.batch, history=history)
        for cursor, hypotheses in lockstep.run(cursors):
            found[cursor.number].append([(hypotheses[0].ids, hypotheses[0].score)])
            if advance is not None:
                advance(1)
        for cursor, state in zip(cursors, states, strict=True):
            state.carried = cursor.carried
            state.sentences += len(cursor.sentences)
        return [[best[0].text for best in part.join(each, 1)] for part, each in zip(parts, found, strict=True)]

    def read(self, source: list[str], target: list[str], state: DocumentState) -> None:
        """Take in sentences and their translations as context: a corrected sentence, an earlier chapter."""
        if len(source) != len(target):
            raise InputError(f"{len(source)} source and {len(target)} target sentences; give each its translation")
        self.checked(state)
        longest = self.model.config.max_length - 2
        sources, targets = self.text.encode(source, "source"), self.text.encode(target, "target")
        pairs = [(s[:longest], t[:longest]) for s, t in zip(sources, targets, strict=True) if s and t]
        device = self.model.tokens.weight.device
        with torch.inference_mode():
            for start in range(0, len(pairs), BATCH):
                block = pairs[start : start + BATCH]
                encoded = self.model.encode(document_ids([[s for s, _ in block]]).to(device), state.carried)
                gold = decoder_input(document_ids([[t for _, t in block]]).to(device))
                decoded = self.model.decode(gold, encoded, state.carried)
                state.carried = state.carried | encoded.carried | decoded.carried
        state.sentences += len(pairs)

    def checked(self, state: DocumentState) -> DocumentState:
        """Refuse the state of another model; one that was loaded comes to this model's device."""
        if state.model != self.fingerprint:
            raise InputError(f"this state belongs to the model {state.model}, not to {self.fingerprint}; start anew")
        device = self.model.tokens.weight.device
        state.carried = {
            name: {key: value.to(device) for key, value in unit.items()} for name, unit in state.carried.items()
        }
        return state

    def _parts(self, documents: list[list[str]]) -> "list[_Parts]":
        parts = [_Parts(self.text, document, self.model.config.max_length - 2) for document in documents]
        if split := sum(part.split for part in parts):
            warnings.warn(f"{split} sentences were too long and were split for translation", stacklevel=3)
        return parts

    def n_best(
        self, sentences: list[str], n: int = 5, advance: Callable[[int], None] | None = None
    ) -> list[list[Translation]]:
        """The n best translations of every sentence, best first; n at most the beam."""
        if not 1 <= n <= self.beam:
            raise InputError(f"{n} translations were asked for, the beam holds {self.beam}; give a larger beam")
        (parts,) = self._parts([sentences])
        found: list[list[tuple[list[int], float]]] = [[] for _ in parts.ids]
        order = sorted(range(len(parts.ids)), key=lambda i: len(parts.ids[i]))
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            for i, hypotheses in zip(batch, self.translate_ids([parts.ids[i] for i in batch]), strict=True):
                found[i] = hypotheses
            if advance is not None:
                advance(len(batch))
        return parts.join(found, n)

    def translate_ids(self, sentences: list[list[int]]) -> list[list[tuple[list[int], float]]]:
        """The hypotheses (ids, score) of one batch of sentences, given as ids without bos and eos, none empty."""
        device = self.model.tokens.weight.device
        with torch.inference_mode():
            encoded = self.model.encode(padded_ids(sentences)[None].to(device))
        limits = [length_limit(len(ids), self.model.config.max_positions) for ids in sentences]
        found = search(self.model, encoded, limits, self.beam, self.length_penalty)
        return [[(hypothesis.ids, hypothesis.score) for hypothesis in hypotheses] for hypotheses in found]


class _Parts:
    """Sentences as ids, those too long for the model in several parts, and the way back."""

    def __init__(self, text: TextPipeline, sentences: list[str], longest: int) -> None:
        self.text = text
        self.longest = longest
        self.ids: list[list[int]] = []
        self.places: list[range] = []  # the parts of every sentence
        self.split = 0
        for ids in text.encode(sentences, "source"):
            start = len(self.ids)
            self.ids += split_ids(ids, longest, text.bpe.pieces(ids)) if len(ids) > longest else [ids] * bool(ids)
            self.places.append(range(start, len(self.ids)))
            self.split += len(self.places[-1]) > 1

    def gold(self, targets: list[str]) -> list[list[int]]:
        """Ids of the right translations, in as many parts as their sources have; cut where the model ends."""
        gold: list[list[int]] = []
        for place, ids in zip(self.places, self.text.encode(targets, "target"), strict=True):
            size = -(-len(ids) // len(place)) if len(place) else 0
            gold += [ids[i * size : (i + 1) * size][: self.longest] for i in range(len(place))]
        return gold

    def join(self, found: list[list[tuple[list[int], float]]], n: int) -> list[list[Translation]]:
        """N-best lists of the sentences from those of their parts; a split sentence has only its best."""
        results = []
        for place in self.places:
            if len(place) == 0:
                results.append([Translation("", 0.0)])
            elif len(place) == 1:
                options = found[place[0]][:n]
                texts = self.text.decode([ids for ids, _ in options])
                results.append([Translation(text, score) for text, (_, score) in zip(texts, options, strict=True)])
            else:
                best = [found[part][0] for part in place]
                texts = self.text.decode([ids for ids, _ in best])
                results.append([Translation(" ".join(texts), sum(score for _, score in best) / len(best))])
        return results


def aligned(gold: list[list[str]] | None, documents: list[list[str]]) -> list[list[str]]:
    """The right translations, if there is one for each sentence."""
    if gold is None or [len(document) for document in gold] != [len(document) for document in documents]:
        raise InputError("a gold history needs one right translation for each sentence; give them as `gold`")
    return gold


def split_ids(ids: list[int], longest: int, pieces: list[str]) -> list[list[int]]:
    """Cut ids into parts of at most `longest`, where a word starts if that leaves no tiny part."""
    starts = [i for i, piece in enumerate(pieces) if piece.startswith("▁")]
    parts, start, words = [], 0, 0
    while len(ids) - start > longest:
        cut = start + longest
        while words < len(starts) and starts[words] <= cut:
            words += 1
        if words and starts[words - 1] > start + longest // 2:
            cut = starts[words - 1]
        parts.append(ids[start:cut])
        start = cut
    return [*parts, ids[start:]]

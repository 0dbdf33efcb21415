"""Paths through a memory: which word of an earlier sentence affects which later word, and through which slot.

    trace = trace_document(translator, document)             # sentence by sentence
    search_by_effect(trace, ["encoder.5.self"], reach=3)     # strongest first

The effect of a path from word a in sentence i to word b in sentence j > i is what b loses if a is hidden:

    effect(a, b) = log p(b) − log p(b | the memory unit does not see a in its update with sentence i)       in nats

Everything else stays the same: the updates between i and j are recomputed, and all other memory units keep their
states. The slot of a path is the one that restores most of the effect if it alone sees a. All this is exact, at any
distance. Attention weights only show what a unit attends to, not whether b needs it, nor what a slot still stores after
an update.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from tram.analysis.encoded import EncodedDocument, encode_document, memory_units
from tram.data.corpus import ParallelDocument
from tram.model.contexts.memory import Maps, Memory
from tram.model.stacks import Encoded
from tram.model.state import State, tensor
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.text.pipeline import Side, TextPipeline
from tram.translation.translator import Translator

SEARCHED_SENTENCES = 20  # per document: those that the memory helps most


@dataclass(frozen=True)
class WordSpan:
    """A word of a sentence and the positions of its subwords."""

    text: str
    positions: list[int]


@dataclass(frozen=True)
class MemoryPath:
    """Word `a` of sentence `i` → slot → word `b` of sentence `j`; sentences are counted from 0 in the encoded document.

    value: what paths are ranked by; slot_value: the part of it that the slot alone restores, if known; document: its
    number in the file.
    """

    unit: str
    i: int
    j: int
    a: WordSpan
    b: WordSpan
    value: float
    slot: int = 0
    slot_value: float | None = None
    document: int = 1


@dataclass(frozen=True)
class DocumentTrace:
    """A document and what a model did with it: the state before each sentence and the input of each unit's update."""

    model: Transformer
    text: TextPipeline
    document: EncodedDocument
    units: dict[str, Memory]
    states: list[State]  # before each sentence
    update_inputs: list[dict[str, Tensor]]  # for each sentence, h of each unit: (tokens, d_model)
    number: int = 1  # of the document in its file

    def memory(self, unit: str, sentence: int) -> Tensor:
        """Return M of a unit before a sentence: (1, slots, d_model)."""
        return tensor(self.states[sentence][unit]["M"])

    def update_words(self, unit: str, sentence: int) -> list[WordSpan]:
        """Return the words of a sentence that a unit's update attends to."""
        side = self.document.decoder_input if is_target(unit) else self.document.source
        return sentence_words(self.text, side[0, sentence], "target" if is_target(unit) else "source")

    def output_words(self, unit: str, sentence: int) -> list[WordSpan]:
        """Return the words of a sentence that attend to a unit's slots; in the decoder, where they are predicted."""
        return self.predicted_words(sentence) if is_target(unit) else self.update_words(unit, sentence)

    def predicted_words(self, sentence: int) -> list[WordSpan]:
        """Return the words of the target sentence, at the positions where they are predicted."""
        return sentence_words(self.text, self.document.labels[0, sentence], "target")

    def maps(self, unit: str, sentence: int) -> Maps:
        """Return update attention (heads, slots, tokens) and output attention (heads, tokens, slots) of a sentence."""
        memory, h, M = self.units[unit], self.update_inputs[sentence][unit], self.memory(unit, sentence)[0]
        with torch.inference_mode():
            update = memory.update_attention.weights(memory.positions(M), h)
            return Maps(sentence, update, memory.output_attention.weights(h, M))

    @cached_property
    def token_gains(self) -> list[Tensor]:
        """For each sentence, the nats that each token gains over a document that begins with it: (tokens,) each."""
        with torch.inference_mode():
            fresh = self.model.initial_state(1)
        return [
            (log_probabilities(self, j, self.states[j]) - log_probabilities(self, j, fresh))[0]
            for j in range(len(self.document))
        ]


def is_target(unit: str) -> bool:
    """Return whether a unit is in the decoder."""
    return unit.startswith("decoder")


@torch.inference_mode()
def trace_document(translator: Translator, document: ParallelDocument, number: int = 1) -> DocumentTrace:
    """Read a document with its reference translation, sentence by sentence, and record states and update inputs."""
    model, units, encoded = translator.model, memory_units(translator), encode_document(translator, document)
    states, update_inputs = [], []
    state = model.initial_state(1)
    with recorded_update_inputs(units) as recorded:
        for j in range(len(encoded)):
            states.append(state)
            state = model.forced_decode(encoded.source[:, j : j + 1], encoded.decoder_input[:, j : j + 1], state).state
            update_inputs.append(dict(recorded))
    return DocumentTrace(model, translator.text, encoded, units, states, update_inputs, number)


@contextmanager
def recorded_update_inputs(units: dict[str, Memory]) -> Iterator[dict[str, Tensor]]:
    """Record, in the dictionary that the context yields, the latest update input of each unit: (tokens, d_model)."""
    recorded: dict[str, Tensor] = {}

    def register(name: str, unit: Memory) -> Any:
        def record(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            recorded[name] = unit.update_input(arguments[0], arguments[1])

        return unit.register_forward_pre_hook(record)

    handles = [register(name, unit) for name, unit in units.items()]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def sentence_words(text: TextPipeline, ids: Tensor, side: Side) -> list[WordSpan]:
    """Return the words of one sentence without special tokens and punctuation; ids: (tokens,)."""
    bpe, special = text.subwords(side), text.special.control
    groups: list[list[int]] = []
    numbers = ids.tolist()
    for position, (number, piece) in enumerate(zip(numbers, bpe.pieces(numbers), strict=True)):
        if number in special:
            continue
        if piece.startswith("▁") or not groups:
            groups.append([])
        groups[-1].append(position)
    words = [WordSpan(bpe.decode(numbers[position] for position in group).strip(), group) for group in groups]
    return [word for word in words if any(character.isalnum() for character in word.text)]


@torch.inference_mode()
def log_probabilities(trace: DocumentTrace, j: int, state: State) -> Tensor:
    """Return the log-probability of every reference token of sentence j, for every document of `state`.

    → (documents, tokens).
    """
    model, document = trace.model, trace.document
    encoder, decoder = (state.only(n for n in state.units if is_target(n) is side) for side in (False, True))
    source, decoder_input = document.source[:, j : j + 1], document.decoder_input[:, j : j + 1]
    labels = document.labels[0, j]
    labels = labels[labels != 0]
    count = max(len(tensor(unit["M"])) for unit in state.units.values())
    if all(len(tensor(unit["M"])) == 1 for unit in encoder.units.values()):  # the source is the same for all
        one = model.encode(source, encoder)
        encoded = Encoded(one.states.repeat(count, 1), model.layout(source.expand(count, -1, -1)), State.empty())
    else:
        encoded = model.encode(source.expand(count, -1, -1), _expanded(encoder, count))
    decoded = model.forced_decode(encoded, decoder_input.expand(count, -1, -1), _expanded(decoder, count))
    return model.token_log_probs(decoded.states, labels.repeat(count)).view(count, len(labels))


def _expanded(state: State, documents: int) -> State:
    return state.map(lambda value: value.expand(documents, *value.shape[1:]))


@torch.inference_mode()
def masked_log_probabilities(trace: DocumentTrace, unit: str, i: int, j: int, visible: Tensor) -> Tensor:
    """Return the log-probabilities of sentence j if a unit's update sees only part of sentence i: (variants, tokens).

    visible: (variants, slots or 1, tokens of sentence i), True where a slot sees a token.
    """
    memory, inputs = trace.units[unit], trace.update_inputs
    M = trace.memory(unit, i).expand(len(visible), -1, -1)
    for t in range(i, j):
        keys_values = memory.update_attention.key_value(inputs[t][unit]).expand(len(visible), -1, -1)
        M = memory.update(M, keys_values, visible[:, None] if t == i else None)
    return log_probabilities(trace, j, trace.states[j] | State({unit: {"M": M}}))


def word_effects(trace: DocumentTrace, unit: str, i: int, j: int) -> list[MemoryPath]:
    """Return effect(a, b) for all words a of sentence i and b of sentence j; `with_slot` adds the slots."""
    earlier, later = trace.update_words(unit, i), trace.predicted_words(j)
    if not earlier or not later:
        return []
    visible = torch.ones(len(earlier), 1, len(trace.update_inputs[i][unit]), dtype=torch.bool)
    for row, word in zip(visible, earlier, strict=True):
        row[:, word.positions] = False
    whole = log_probabilities(trace, j, trace.states[j])
    lost = whole - masked_log_probabilities(trace, unit, i, j, visible.to(whole.device))
    return [
        MemoryPath(unit, i, j, a, b, float(row[b.positions].sum()), document=trace.number)
        for a, row in zip(earlier, lost, strict=True)
        for b in later
    ]


def with_slot(trace: DocumentTrace, path: MemoryPath) -> MemoryPath:
    """Return the path with its slot: the one that restores most of the effect if it alone sees `a`.

    Hiding a word from a single slot costs next to nothing, because the other slots store it as well.
    """
    slots = trace.memory(path.unit, path.i).shape[1]
    visible = torch.ones(slots + 1, slots, len(trace.update_inputs[path.i][path.unit]), dtype=torch.bool)
    visible[:, :, path.a.positions] = torch.eye(slots + 1, slots, dtype=torch.bool)[..., None]  # last row: no slot
    log_probs = masked_log_probabilities(trace, path.unit, path.i, path.j, visible.to(trace.document.source.device))
    log_probs = log_probs[:, path.b.positions].sum(1)
    restored = log_probs[:-1] - log_probs[-1]
    best = int(restored.argmax())
    return replace(path, slot=best, slot_value=float(restored[best]))


def search_by_effect(trace: DocumentTrace, units: Sequence[str], reach: int, limit: int = 20) -> list[MemoryPath]:
    """Return the paths with the largest effects on the sentences that the memory helps most, strongest first."""
    gains = [max(float(gain.max()), 0.0) for gain in trace.token_gains]
    sentences = sorted(range(1, len(gains)), key=lambda j: -gains[j])[:SEARCHED_SENTENCES]
    paths: list[MemoryPath] = []
    with Progress(f"searching paths, document {trace.number}", len(sentences) * len(units), "sentences") as progress:
        for j in sentences:
            for unit in units:
                for i in range(max(0, j - reach), j):
                    paths += word_effects(trace, unit, i, j)
                progress.advance(1)
    return [with_slot(trace, path) for path in best_per_word_pair(paths)[:limit]]


def search_by_weight(
    trace: DocumentTrace, units: Sequence[str], lift: bool, limit: int | None = 20
) -> list[MemoryPath]:
    """Return the paths with the largest attention weights between neighbouring sentences, strongest first.

    weight = U[s, a] · O[b, s], averaged over heads: the update attention of slot s to word a (summed over its subwords)
    times the output attention of word b (averaged over its subwords) to slot s. lift: U is divided by its mean over
    slots, O by its mean over words. Neighbouring sentences only, because no attention weight shows what a slot keeps
    over several updates.
    """
    paths: list[MemoryPath] = []
    for unit in units:
        for j in range(1, len(trace.document)):
            paths += _weighted_paths(trace, unit, j, lift)
    return best_per_word_pair(paths)[:limit]


def _weighted_paths(trace: DocumentTrace, unit: str, j: int, lift: bool) -> list[MemoryPath]:
    earlier, later = trace.update_words(unit, j - 1), trace.output_words(unit, j)
    if not earlier or not later:
        return []
    update, output = trace.maps(unit, j - 1).update.mean(0), trace.maps(unit, j).output.mean(0)
    updates = torch.stack([update[:, word.positions].sum(1) for word in earlier])  # U: (words, slots)
    outputs = torch.stack([output[word.positions].mean(0) for word in later])  # O: (words, slots)
    if lift:
        updates, outputs = updates / updates.mean(1, keepdim=True), outputs / outputs.mean(0)
    values, slots = (updates[:, None] * outputs).max(-1)
    return [
        MemoryPath(unit, j - 1, j, a, b, float(values[m, n]), int(slots[m, n]), document=trace.number)
        for m, a in enumerate(earlier)
        for n, b in enumerate(later)
    ]


def best_per_word_pair(paths: Sequence[MemoryPath]) -> list[MemoryPath]:
    """Return the strongest path of every pair of words, strongest first."""
    best: dict[tuple[str, str], MemoryPath] = {}
    for path in sorted(paths, key=lambda path: -path.value):
        best.setdefault((path.a.text.casefold(), path.b.text.casefold()), path)
    return list(best.values())

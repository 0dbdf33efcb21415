"""Which word of an earlier sentence reaches which later word, and through which slot: token → slot → token.

    reading = read_document(translator, document)          # sentence by sentence
    search_effects(reading, ["encoder.5.self"], reach=3)   # best first

The effect of a path from word a in sentence i to word b in sentence j > i is what b loses if a is withheld:

    effect(a, b) = log p(b) − log p(b | the memory unit does not see a in its update with sentence i)       in nats

with everything else as it was: the updates between i and j are done again, all other memories hold what they held. The
slot of a path is the one that gives b most back if it alone sees a. All this is exact, at any distance. Attention
weights only say where a unit looks, not whether b needs what is there, nor what a slot still holds after an update.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from tram.analysis.encoded import EncodedDocument, encode, memories
from tram.data.corpus import ParallelDocument
from tram.model.contexts.memory import Maps, Memory
from tram.model.stacks import Encoded
from tram.model.state import State, tensor
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.text.pipeline import TextPipeline
from tram.translation.translator import Translator

SEARCHED = 20  # sentences of a document whose words are traced back: those that the memory helps most


@dataclass(frozen=True)
class Word:
    """A word of a sentence and the places of its subwords."""

    text: str
    places: list[int]


@dataclass(frozen=True)
class Path:
    """Word `a` of sentence `i` → slot → word `b` of sentence `j`; sentences counted from 0 in the encoded document.

    value: what paths are ranked by; slot_value: the part of it that is withheld with this slot alone, where known;
    document: its number in the file.
    """

    unit: str
    i: int
    j: int
    a: Word
    b: Word
    value: float
    slot: int = 0
    slot_value: float | None = None
    document: int = 1


@dataclass(frozen=True)
class Reading:
    """A document as a model has read it: for every sentence what was carried into it, and what each unit took in."""

    model: Transformer
    text: TextPipeline
    document: EncodedDocument
    units: dict[str, Memory]
    before: list[State]
    taken: list[dict[str, Tensor]]  # h of each unit, (tokens, d_model)
    number: int = 1  # of the document in its file

    def memory(self, unit: str, sentence: int) -> Tensor:
        """M of a unit before a sentence: (1, slots, d_model)."""
        return tensor(self.before[sentence][unit]["M"])

    def written(self, unit: str, sentence: int) -> list[Word]:
        """The words that a unit's update sees in a sentence."""
        side = self.document.decoder_input if is_target(unit) else self.document.source
        return words(self.text, side[0, sentence])

    def read(self, unit: str, sentence: int) -> list[Word]:
        """The words at which a unit is read: in the decoder, where they are predicted."""
        side = self.document.labels if is_target(unit) else self.document.source
        return words(self.text, side[0, sentence])

    def predicted(self, sentence: int) -> list[Word]:
        """The words of the target, at the places where they are predicted."""
        return words(self.text, self.document.labels[0, sentence])

    def maps(self, unit: str, sentence: int) -> Maps:
        """Update attention (heads, slots, tokens) and output attention (heads, tokens, slots) of a sentence."""
        memory, h, M = self.units[unit], self.taken[sentence][unit], self.memory(unit, sentence)[0]
        with torch.inference_mode():
            update = memory.update_attention.weights(memory.positions(M), h)
            return Maps(sentence, update, memory.output_attention.weights(h, M))

    @cached_property
    def gains(self) -> list[Tensor]:
        """What the memory is worth to every predicted token: nats more than if the document began at its sentence."""
        with torch.inference_mode():
            fresh = self.model.initial_state(1)
        return [
            (log_probabilities(self, j, self.before[j]) - log_probabilities(self, j, fresh))[0]
            for j in range(len(self.document))
        ]


def is_target(unit: str) -> bool:
    """Whether a unit sits in the decoder."""
    return unit.startswith("decoder")


@torch.inference_mode()
def read_document(translator: Translator, document: ParallelDocument, number: int = 1) -> Reading:
    """Read a document with its right translation, sentence by sentence."""
    model, units, encoded = translator.model, memories(translator), encode(translator, document)
    before, taken = [], []
    state = model.initial_state(1)
    with taken_in(units) as kept:
        for j in range(len(encoded)):
            before.append(state)
            state = model.forced_decode(encoded.source[:, j : j + 1], encoded.decoder_input[:, j : j + 1], state).state
            taken.append(dict(kept))
    return Reading(model, translator.text, encoded, units, before, taken, number)


@contextmanager
def taken_in(units: dict[str, Memory]) -> Iterator[dict[str, Tensor]]:
    """Inside, the states that each unit was last given to take in."""
    kept: dict[str, Tensor] = {}

    def watch(name: str, unit: Memory) -> Any:
        def look(module: nn.Module, given: tuple[Any, ...]) -> None:
            kept[name] = unit.update_input(given[0], given[1])

        return unit.register_forward_pre_hook(look)

    handles = [watch(name, unit) for name, unit in units.items()]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def words(text: TextPipeline, ids: Tensor) -> list[Word]:
    """The words of one sentence, without specials and without punctuation."""
    bpe, specials = text.bpe, text.special.control
    groups: list[list[int]] = []
    numbers = ids.tolist()
    for place, (number, piece) in enumerate(zip(numbers, bpe.pieces(numbers), strict=True)):
        if number in specials:
            continue
        if piece.startswith("▁") or not groups:
            groups.append([])
        groups[-1].append(place)
    found = [Word(bpe.decode(numbers[place] for place in group).strip(), group) for group in groups]
    return [word for word in found if any(character.isalnum() for character in word.text)]


@torch.inference_mode()
def log_probabilities(reading: Reading, j: int, state: State) -> Tensor:
    """Return the log-probability of every reference token of sentence j, for every document of `state`.

    → (documents, tokens).
    """
    model, document = reading.model, reading.document
    encoder, decoder = (state.only(n for n in state.units if is_target(n) is side) for side in (False, True))
    source, given = document.source[:, j : j + 1], document.decoder_input[:, j : j + 1]
    labels = document.labels[0, j]
    labels = labels[labels != 0]
    count = max(len(tensor(unit["M"])) for unit in state.units.values())
    if all(len(tensor(unit["M"])) == 1 for unit in encoder.units.values()):  # all see the same source: encoded once
        one = model.encode(source, encoder)
        encoded = Encoded(one.states.repeat(count, 1), model.layout(source.expand(count, -1, -1)), State.empty())
    else:
        encoded = model.encode(source.expand(count, -1, -1), _expanded(encoder, count))
    done = model.forced_decode(encoded, given.expand(count, -1, -1), _expanded(decoder, count))
    return model.token_log_probs(done.states, labels.repeat(count)).view(count, len(labels))


def _expanded(state: State, documents: int) -> State:
    return state.map(lambda value: value.expand(documents, *value.shape[1:]))


@torch.inference_mode()
def without(reading: Reading, unit: str, i: int, j: int, seen: Tensor) -> Tensor:
    """Log-probabilities of sentence j if a unit sees less of sentence i: (variants, tokens).

    seen: (variants, slots or 1, tokens of sentence i), True where a slot sees a token.
    """
    memory, taken = reading.units[unit], reading.taken
    M = reading.memory(unit, i).expand(len(seen), -1, -1)
    for t in range(i, j):
        keys_values = memory.update_attention.key_value(taken[t][unit]).expand(len(seen), -1, -1)
        M = memory.update(M, keys_values, seen[:, None] if t == i else None)
    return log_probabilities(reading, j, reading.before[j] | State({unit: {"M": M}}))


def word_effects(reading: Reading, unit: str, i: int, j: int) -> list[Path]:
    """effect(a, b) of all words a of sentence i and b of sentence j; the slots are not yet known."""
    given, asked = reading.written(unit, i), reading.predicted(j)
    if not given or not asked:
        return []
    seen = torch.ones(len(given), 1, len(reading.taken[i][unit]), dtype=torch.bool)
    for row, word in zip(seen, given, strict=True):
        row[:, word.places] = False
    whole = log_probabilities(reading, j, reading.before[j])
    lost = whole - without(reading, unit, i, j, seen.to(whole.device))
    return [
        Path(unit, i, j, a, b, float(row[b.places].sum()), document=reading.number)
        for a, row in zip(given, lost, strict=True)
        for b in asked
    ]


def with_slot(reading: Reading, path: Path) -> Path:
    """The path with its slot: the one that gives `b` most back if it alone sees `a`, which is withheld from all others.

    Withheld from one slot alone, a word costs next to nothing: the other slots hold it too.
    """
    slots = reading.memory(path.unit, path.i).shape[1]
    seen = torch.ones(slots + 1, slots, len(reading.taken[path.i][path.unit]), dtype=torch.bool)
    seen[:, :, path.a.places] = torch.eye(slots + 1, slots, dtype=torch.bool)[..., None]  # the last row: no slot at all
    found = without(reading, path.unit, path.i, path.j, seen.to(reading.document.source.device))
    found = found[:, path.b.places].sum(1)
    given = found[:-1] - found[-1]
    best = int(given.argmax())
    return replace(path, slot=best, slot_value=float(given[best]))


def search_effects(reading: Reading, units: Sequence[str], reach: int, most: int = 20) -> list[Path]:
    """The paths with the largest effects, best first, into the sentences that the memory helps most."""
    worth = [max(float(gain.max()), 0.0) for gain in reading.gains]
    sentences = sorted(range(1, len(worth)), key=lambda j: -worth[j])[:SEARCHED]
    found: list[Path] = []
    with Progress(f"searching paths, document {reading.number}", len(sentences) * len(units), "sentences") as progress:
        for j in sentences:
            for unit in units:
                for i in range(max(0, j - reach), j):
                    found += word_effects(reading, unit, i, j)
                progress.advance(1)
    return [with_slot(reading, path) for path in best_of_pairs(found)[:most]]


def search_weights(reading: Reading, units: Sequence[str], lift: bool, most: int | None = 20) -> list[Path]:
    """The paths with the largest attention weights between neighbouring sentences, best first.

    weight = U[s, a] · O[b, s], heads averaged: update attention of slot s on word a (its subwords added up) and output
    attention of word b (its subwords averaged) on slot s. lift: U relative to its mean over slots, O to its mean over
    words. Only neighbours: what a slot keeps over several updates no attention weight tells.
    """
    found: list[Path] = []
    for unit in units:
        for j in range(1, len(reading.document)):
            found += _weights(reading, unit, j, lift)
    return best_of_pairs(found)[:most]


def _weights(reading: Reading, unit: str, j: int, lift: bool) -> list[Path]:
    given, asked = reading.written(unit, j - 1), reading.read(unit, j)
    if not given or not asked:
        return []
    update, output = reading.maps(unit, j - 1).update.mean(0), reading.maps(unit, j).output.mean(0)
    written = torch.stack([update[:, word.places].sum(1) for word in given])  # U: (words, slots)
    read = torch.stack([output[word.places].mean(0) for word in asked])  # O: (words, slots)
    if lift:
        written, read = written / written.mean(1, keepdim=True), read / read.mean(0)
    values, slots = (written[:, None] * read).max(-1)
    return [
        Path(unit, j - 1, j, a, b, float(values[m, n]), int(slots[m, n]), document=reading.number)
        for m, a in enumerate(given)
        for n, b in enumerate(asked)
    ]


def best_of_pairs(paths: Sequence[Path]) -> list[Path]:
    """One path for every pair of words, best first."""
    best: dict[tuple[str, str], Path] = {}
    for path in sorted(paths, key=lambda path: -path.value):
        best.setdefault((path.a.text.casefold(), path.b.text.casefold()), path)
    return list(best.values())

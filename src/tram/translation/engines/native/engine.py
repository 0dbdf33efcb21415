"""The native library behind the interface of engines."""

import ctypes
from collections.abc import Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from tram.errors import InputError
from tram.model.contexts.memory import Memory
from tram.model.packing import Layout
from tram.model.quantised import is_quantised
from tram.model.stacks import Encoded
from tram.model.state import State, tensor
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds
from tram.translation.engines.base import Candidates, Decoding, Engine, Finished, Forced, Step, weight_versions
from tram.translation.engines.native import library
from tram.translation.engines.native.library import Array, NativeError, address, addresses, check, load_library
from tram.translation.engines.native.weights import NativeModel, array, memory_names, why_unsupported

__all__ = ["NativeEngine", "why_unavailable", "why_unsupported"]


def why_unavailable() -> str | None:
    """Return why this installation has no native engine, in a few words; None: it has one, and its self-test passes."""
    if not library.PATH.exists():
        return "it was not compiled when tram was installed (a C++ compiler is needed)"
    try:
        found = library.kernels()
    except (OSError, AttributeError) as error:
        return f"its library cannot be loaded ({error})"
    if found is None and library.KERNELS:
        return f"TRAM_NATIVE_KERNELS is {library.KERNELS!r}, which cannot run here"
    return None if found else "its self-test failed on this processor"


class NativeEngine(Engine):
    """Computes with the native library.

    kernels: those of an instruction set by name; empty: the default. rescoring: whether searches in float32 look for
    likely tokens with an int8 copy of the output layer first, where that is faster.
    """

    can_force = True

    def __init__(
        self,
        model: Transformer,
        precision: str = "float32",
        threads: int | None = None,
        kernels: str = "",
        rescoring: bool = True,
    ) -> None:
        super().__init__(model)
        self.precision, self.kernels, self.rescoring = precision, kernels or library.KERNELS, rescoring
        self.threads = torch.get_num_threads() if threads is None else threads
        self.name = "native int8" if precision == "int8" or is_quantised(model) else "native"
        self._packed: tuple[NativeModel, list[int]] | None = None
        self._sides = {
            side: memory_names(stack.contexts())
            for side, stack in (("encoder", model.encoder), ("decoder", model.decoder))
        }
        self.packed()

    def packed(self) -> NativeModel:
        """Return the model as the library holds it, packed again if a weight was changed since."""
        versions = weight_versions(self.model)
        packed = self._packed
        if packed is None or packed[1] != versions:
            if (reason := why_unsupported(self.model)) is not None:
                raise InputError(f"engine native: the model was changed, and {reason}; make a new Translator of it")
            settings = (self.precision, self.threads, self.kernels, self.rescoring)
            packed = self._packed = NativeModel(self.model, *settings), versions
        return packed[0]

    def encode(self, ids: Tensor, state: State | None = None, context: Tensor | None = None) -> Encoded:
        """Encode some sentences of each document."""
        layout = self.model.layout(ids)
        documents, steps, _ = layout.shape
        names = self._sides["encoder"]
        memories = self._memories(names, state, documents)
        states = torch.empty((layout.tokens, self.model.config.d_model))
        tokens = array(layout.ids)
        lengths = layout.counts.astype(np.int32)
        native = self.packed()  # kept: another thread may pack the model again meanwhile
        check(
            load_library().tram_encode(
                native.handle,
                address(tokens),
                address(lengths),
                documents,
                steps,
                addresses(memories),
                states.data_ptr(),
            )
        )
        return Encoded(states, layout, _state(names, memories))

    def start(self, encoded: Encoded, state: State | None, special: SpecialIds, beam: int) -> "NativeDecoding":
        """Begin a search in every sentence of a batch."""
        memories = self._memories(self._sides["decoder"], state, encoded.layout.lengths.numel())
        return NativeDecoding(self.packed(), self.model, encoded, memories, self._sides["decoder"], special)

    def force(
        self, encoded: Encoded, translations: Sequence[Sequence[int]], state: State, special: SpecialIds
    ) -> list[Forced]:
        """Read translations of consecutive sentences of one document, in one pass."""
        names, d_model = self._sides["decoder"], self.model.config.d_model
        given = [special.decoder_input(list(ids)) for ids in translations]
        lengths = np.array([len(ids) for ids in given], dtype=np.int32)
        tokens = int(lengths.sum())
        source_lengths = encoded.layout.counts.astype(np.int32)
        states = _floats(encoded.states, int(source_lengths.sum()), d_model)
        memories = self._memories(names, state, 1)
        inputs = [np.empty((tokens, d_model), dtype=np.float32) for _ in names]
        best, scores = np.empty(tokens, dtype=np.int32), np.empty(tokens, dtype=np.float32)
        ids = np.array([each for sentence in given for each in sentence], dtype=np.int64)
        banned = np.array(special.banned, dtype=np.int32)
        native = self.packed()
        check(
            load_library().tram_force(
                native.handle,
                *map(address, (states, source_lengths, ids, lengths)),
                len(given),
                *(address(banned), len(banned)),
                *(addresses(memories), addresses(inputs), address(best), address(scores)),
            )
        )
        found, start = [], 0
        for length in lengths.tolist():
            rows = slice(start, start + length)
            chosen = slice(start + len(special.target_start) - 1, start + length)
            update = {name: torch.from_numpy(values[rows]) for name, values in zip(names, inputs, strict=True)}
            found.append(Forced(best[chosen].tolist(), scores[chosen].tolist(), update))
            start += length
        return found

    def advance(self, update_inputs: dict[str, Tensor], layout: Layout, state: State) -> State:
        """Return the state after one more decoded sentence of each document."""
        names = self._sides["decoder"]
        lengths = layout.counts.astype(np.int32)
        memories = self._memories(names, state, len(lengths))
        d_model = self.model.config.d_model
        inputs = [_floats(update_inputs[name], int(lengths.sum()), d_model) for name in names]
        native = self.packed()
        check(
            load_library().tram_advance(
                native.handle, addresses(inputs), address(lengths), len(lengths), addresses(memories)
            )
        )
        return state | _state(names, memories)

    def _memories(self, names: list[str], state: State | None, documents: int) -> list[Array]:
        """Return copies of the memories of some layers: (documents, slots, d_model) each."""
        found = []
        for name in names:
            memory = self.model.contexts()[name]
            assert isinstance(memory, Memory)
            values = state[name] if state is not None and name in state else memory.initial_state(documents)
            slots, d_model = memory.table.shape
            found.append(_floats(tensor(values["M"]), documents, slots, d_model).copy())
        return found


def _floats(values: Tensor, *shape: int) -> Array:
    """Return values as float32; refuse another shape than this, which the library would read beyond its end."""
    if tuple(values.shape) != shape:
        raise NativeError(f"values of the shape {tuple(values.shape)} instead of {shape}")
    return array(values.float())


def _state(names: list[str], memories: list[Array]) -> State:
    return State({name: {"M": torch.from_numpy(values)} for name, values in zip(names, memories, strict=True)})


class NativeDecoding(Decoding):
    """A search of the library; keys, values and lines of ancestors are kept there."""

    def __init__(
        self,
        native: NativeModel,
        model: Transformer,
        encoded: Encoded,
        memories: list[Array],
        names: list[str],
        special: SpecialIds,
    ) -> None:
        self._library = load_library()
        self._native = native  # must live as long as the search
        self._model, self._names, self._special = model, names, special
        self._width, self._steps = 1, 0
        self._handle: int | None = None
        lengths = encoded.layout.counts.astype(np.int32)
        self.sentences = len(lengths)
        states = _floats(encoded.states, int(lengths.sum()), model.config.d_model)
        banned = np.array(special.banned, dtype=np.int32)
        self._handle = self._library.tram_search_new(
            native.handle,
            address(states),
            address(lengths),
            len(lengths),
            addresses(memories),
            address(banned),
            len(banned),
            special.end,
        )
        check(self._handle is None)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._library.tram_search_free(self._handle)
            self._handle = None

    def step(self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]] | None = None) -> "NativeStep":
        """Process one more token of every hypothesis."""
        ids = np.array(tokens, dtype=np.int32)
        lines = None if parents is None else np.array(parents, dtype=np.int32)
        check(self._library.tram_search_step(self._handle, address(ids), address(lines), ids.shape[1]))
        self._width = ids.shape[1]
        self._steps += 1
        return NativeStep(self)

    def update_inputs(self, row: int, hypothesis: int) -> dict[str, Tensor]:
        """Return what the context modules read of a hypothesis."""
        values = [np.empty((self._steps, self._model.config.d_model), dtype=np.float32) for _ in self._names]
        check(self._library.tram_search_update_inputs(self._handle, row, hypothesis, addresses(values)))
        return {name: torch.from_numpy(each) for name, each in zip(self._names, values, strict=True)}

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these sentences."""
        kept = np.array(rows, dtype=np.int32)
        check(self._library.tram_search_select(self._handle, address(kept), len(kept)))
        self.sentences = len(kept)

    def run(self, limits: Sequence[int], beam: int, length_penalty: float) -> list[list[Finished]]:
        """Return the hypotheses of every sentence after a whole search without constraints, the best first."""
        n = self.sentences
        start = np.array(self._special.target_start, dtype=np.int32)
        most = np.array(limits, dtype=np.int32)
        counts = np.empty(n, dtype=np.int32)
        tokens, states = ctypes.c_int64(), ctypes.c_int64()
        call = (address(start), len(start), address(most), beam, length_penalty, address(counts), tokens, states)
        check(self._library.tram_search_run(self._handle, *call))
        total = int(counts.sum())
        ids = np.empty(tokens.value, dtype=np.int32)
        lengths = np.empty(total, dtype=np.int32)
        scores = np.empty(total, dtype=np.float64)
        values = [np.empty((states.value, self._model.config.d_model), dtype=np.float32) for _ in self._names]
        found = (address(ids), address(lengths), address(scores), addresses(values))
        check(self._library.tram_search_found(self._handle, *found))
        return self._results(counts.tolist(), ids.tolist(), lengths.tolist(), scores.tolist(), values)

    def _results(
        self, counts: list[int], ids: list[int], lengths: list[int], scores: list[float], values: list[Array]
    ) -> list[list[Finished]]:
        inputs = [torch.from_numpy(each) for each in values]
        template = len(self._special.target_start)
        results: list[list[Finished]] = []
        each = zip(lengths, scores, strict=True)
        token = state = 0
        for count in counts:
            own = []
            for length, score in islice(each, count):
                rows = slice(state, state + template + length)
                update = {name: values[rows] for name, values in zip(self._names, inputs, strict=True)}
                own.append(Finished(ids[token : token + length], score, update))
                token, state = token + length, rows.stop
            results.append(own)
        return results


class NativeStep(Step):
    """One step of a search of the library."""

    def __init__(self, decoding: NativeDecoding) -> None:
        self._decoding = decoding

    def best(
        self, scores: Sequence[Sequence[float]], wanted: int, must_end: Sequence[bool] | None = None
    ) -> Candidates:
        """Return the best continuations of every sentence."""
        decoding = self._decoding
        known = np.array(scores, dtype=np.float32)
        ends = None if must_end is None else np.array(must_end, dtype=np.uint8)
        totals = np.empty((decoding.sentences, wanted), dtype=np.float32)
        parents, ids = (np.empty((decoding.sentences, wanted), dtype=np.int32) for _ in range(2))
        found = (address(totals), address(parents), address(ids))
        check(decoding._library.tram_search_best(decoding._handle, address(known), address(ends), wanted, *found))
        return Candidates(totals.tolist(), parents.tolist(), ids.tolist())

    def logits(self) -> Tensor:
        """Return the logits of all tokens."""
        decoding = self._decoding
        values = torch.empty((decoding.sentences, decoding._width, decoding._model.vocabulary))
        check(decoding._library.tram_search_logits(decoding._handle, values.data_ptr()))
        return values

"""The contract of an engine: what search and lockstep ask of whatever computes a translation.

    encoded = engine.encode(ids, state)                       # some sentences of each document
    decoding = engine.start(encoded, state, special, beam)    # one search in each of `sentences` sentences
    for token in special.target_start[:-1]:
        decoding.step([[token]] * sentences)                  # a forced prefix: the result is not asked for
    step = decoding.step([[last]] * sentences)                # one hypothesis per sentence at first
    best = step.best(scores, wanted)                          # continuations, the best first
    decoding.update_inputs(row, hypothesis)                   # of a hypothesis that has ended: for `advance`
    decoding.select(rows)                                     # sentences that are done leave the batch
    decoding.step(tokens, parents)                            # … and so on, with up to `beam` hypotheses
    state = engine.advance(update_inputs, layout, state)      # the state after the sentence

Who owns what. An engine belongs to one model, may pack its weights, and holds nothing of a translation: several threads
may use it at once. `encode`, `start` and `advance` use the present weights of the model, also if it was trained since
the engine was made. A `Decoding` belongs to one search in one thread; keys, values and the line of ancestors of every
hypothesis are its own business, and the caller only says which hypothesis each new one continues. Values that cross
this seam are Python lists where search does book-keeping with them, else tensors of the model's device and data type.
Teacher-forced passes (gold histories, alignments, scores of given translations) are no business of an engine: they use
`engine.model`. States may go from one engine to another at any sentence.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.model.transformer import Transformer
from tram.text.special_ids import SpecialIds


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best continuations of each sentence, the best first: (sentences, wanted) each.

    totals: score of the hypothesis so far plus the log-probability of the token; parents: the hypothesis that is
    continued, counted from 0 within its sentence; ids: the token.
    """

    totals: list[list[float]]
    parents: list[list[int]]
    ids: list[list[int]]


@dataclass(frozen=True, slots=True)
class Finished:
    """A hypothesis that has ended. ids: chosen ones, without the end; score: divided by length^penalty.

    update_inputs: what the context modules read of it, as `Decoding.update_inputs` returns it.
    """

    ids: list[int]
    score: float
    update_inputs: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Forced:
    """What a model says of a given translation.

    ids: the most likely one at each place, that of the end included, −1 where probabilities are not numbers; scores:
    their log-probabilities; update_inputs: as in `Finished`.
    """

    ids: list[int]
    scores: list[float]
    update_inputs: dict[str, Tensor]


class Step(ABC):
    """The next token of every hypothesis; valid until the next call of its `Decoding`."""

    @abstractmethod
    def best(
        self, scores: Sequence[Sequence[float]], wanted: int, must_end: Sequence[bool] | None = None
    ) -> Candidates:
        """Return the `wanted` best continuations of every sentence, all of its hypotheses together.

        Log-probabilities are those of the vocabulary without `SpecialIds.banned`, whose own are −∞.
        scores: (sentences, width), of the hypotheses so far, −∞ for one that is impossible; wanted: at most width ·
        vocabulary. must_end: sentences that may only be continued with the end; all else has −∞, and the probability
        of the end is not made larger by it.
        """

    @abstractmethod
    def logits(self) -> Tensor:
        """Return the logits of all tokens, banned ones too: (sentences, width, vocabulary); the caller may change them.

        For constraints and given prefixes; `best` may be much faster.
        """


class Decoding(ABC):
    """A search in progress in some sentences, one token at a time."""

    @abstractmethod
    def step(self, tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]] | None = None) -> Step:
        """Process one more token of every hypothesis.

        tokens: (sentences, width), the last token of each hypothesis. parents: (sentences, width), the hypothesis of
        the step before that each one continues; several may continue the same. None: each continues the one in its own
        place. The width is that of the step before unless there are parents, and at most the `beam` of the search.
        """

    @abstractmethod
    def update_inputs(self, row: int, hypothesis: int) -> dict[str, Tensor]:
        """Return what the decoder's context modules read of a hypothesis of the last step, by the names of their seats.

        (tokens so far, width) each, copied: the inputs of all steps on its line, that of the last step included.
        """

    def run(self, limits: Sequence[int], beam: int, length_penalty: float) -> list[list[Finished]] | None:
        """Search from the first token to the last by the rules of `tram.translation.search`, without constraints.

        For engines whose own book-keeping is faster. limits: as in `search`. → the hypotheses of every sentence, the
        best first, none where probabilities are not numbers; None: the engine leaves the search to the caller.
        """
        return None

    @abstractmethod
    def select(self, rows: Sequence[int]) -> None:
        """Keep only these sentences, in this order; rows are counted anew from 0. Not between `step` and its result."""


class Engine(ABC):
    """What computes translations with a model.

    name: for people, such as `native int8`; can_force: whether it has `force`.
    """

    name: str
    can_force = False

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @abstractmethod
    def encode(self, ids: Tensor, state: State | None = None, context: Tensor | None = None) -> Encoded:
        """Encode some sentences of each document, as `Transformer.encode` does: same shapes, same states.

        ids: (documents, sentences, tokens), 0 = padding; state: of the documents before them; context: for
        Flat-Transformer.
        """

    @abstractmethod
    def start(self, encoded: Encoded, state: State | None, special: SpecialIds, beam: int) -> Decoding:
        """Begin a search in every sentence of a batch of shape (1, sentences, tokens) or (documents, 1, tokens).

        state: of the documents before it, without that of the sentence; what it lacks is as before a first sentence.
        """

    def force(
        self, encoded: Encoded, translations: Sequence[Sequence[int]], state: State, special: SpecialIds
    ) -> list[Forced]:
        """Read translations of consecutive sentences of one document in one pass, each with the state after the last.

        encoded: (1, sentences, tokens); translations: ids of text; state: before the first of them.
        """
        raise NotImplementedError

    @abstractmethod
    def advance(self, update_inputs: dict[str, Tensor], layout: Layout, state: State) -> State:
        """Return the state after one more decoded sentence of each document.

        update_inputs: of the chosen hypotheses, one after the other, (real tokens, width) each; layout: of their
        decoder inputs, (documents, 1, tokens).
        """


def merge(values: Tensor, ids: Tensor, base: Tensor, wanted: int) -> Candidates:
    """Return the best continuations of every sentence, given the best of each of its hypotheses.

    values: logits, (sentences, width, k); ids: the tokens they belong to; base: (sentences, width), what is added to
    all of a hypothesis: its score so far less the log of the sum of all exponentials.
    """
    k = values.shape[-1]
    best = (values + base[..., None]).flatten(1).topk(wanted, dim=-1)
    parents = best.indices.div(k, rounding_mode="floor")
    return Candidates(best.values.tolist(), parents.tolist(), ids.flatten(1).gather(1, best.indices).tolist())


def weight_versions(model: torch.nn.Module) -> list[int]:
    """Return what changes when a weight of the model is replaced or changed in place; asked for at every sentence.

    Buffers count too: int8 matrices are some. Written for speed: of each weight its identity, its version, and where
    its values are, which `module.half()` and `vector_to_parameters` change alone. `weight.data.mul_(…)` is not seen.
    """
    found: list[int] = []
    modules = [model]
    for module in modules:  # grows on the way
        for weights in (module._parameters, module._buffers):
            for weight in weights.values():
                if weight is not None:
                    found += id(weight), 0 if weight.is_inference() else weight._version, weight.data_ptr()
        modules += [part for part in module._modules.values() if part is not None]
    return found

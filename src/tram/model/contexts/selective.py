"""Selective attention (Maruf et al. 2019): on top of a stack, each token picks sentences, then words in them.

With x the query of a token, base its state, and K_l, V_l keys and values of the words of sentence l, detached:

    a   = sparsemax_l((W_Qs x) · (W_Ks mean(K_l)) / √e)             over the other sentences; online: the earlier ones
    b_l = softmax_j((W_Qw x) · (W_Kw K_lj) / √e)                    inside each sentence, or sparsemax
    c   = LN_2(FFN(LN_1(W_O Σ_l a_l Σ_j b_lj W_V V_lj)))            no residual connections
    λ   = σ(C_s base + C_c c);   out = λ ∘ base + (1 − λ) ∘ c

On the source side x = base = K = V: the states of the encoder, without start and end. On the target side x and K are
the states of the last layer behind its attention to the source (through the final layer norm of a pre-norm model), base
and V those on top of it. The words there are the decoder's inputs of *first translations*, which the model itself makes
of every sentence alone (`Transformer.with_first_translations`), so that later sentences can be read before they are
translated. A pass that is not told of any reads the target that it is given.

A sentence without another one to read has out = base, so that the model translates single sentences as its sentence
model does. In the original, the first sentence of a document spreads its attention over all of it, the future included
(online), and a document of one sentence reads itself; both are not built. Its contexts are computed once, with the
weights of the sentence model; here with the current ones.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.contexts import SelectiveConfig
from tram.errors import InputError
from tram.model.contexts.base import FirstPassContext, Result
from tram.model.document_rows import CarriedAndNew, Numbers
from tram.model.layers import FeedForward
from tram.model.packing import Layout
from tram.model.state import DAMAGED, DIGIT, ContextState, Ragged, number_of, ragged, tensor

SCORES = 1 << 22  # of words, that one step of whole documents computes at once


class Selective(FirstPassContext):
    """Attention to sentences, then to words. State: `words` of all sentences, and for each of the `sentences` how many.

    A sentence whose first translation is known and that is not decoded yet is there, too, marked as not read.
    """

    def __init__(self, config: ModelConfig, settings: SelectiveConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.heads = config.heads
        self.target = settings.on("target")
        self.online = settings.online
        self.sparse_words = settings.words == "sparsemax"
        self.sentence_query, self.sentence_key, self.word_query, self.word_key, self.value, self.output = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(6)
        )
        self.attention_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, config.feed_forward, config.activation)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.base_gate, self.context_gate = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))  # C_s, C_c
        self.special: Tensor
        self.register_buffer("special", torch.tensor(settings.special), persistent=False)

    def initial_state(self, documents: int) -> ContextState:
        """Return no words."""
        like = self.output.weight
        width = like.repeat(1, 2) if self.target else like
        return {"words": Ragged.empty(documents, width), "sentences": Ragged.empty(documents, like.new_empty(0, 3))}

    def forward(self, states: Tensor, layout: Layout, state: ContextState, middle: Tensor | None = None) -> Result:
        """Let all sentences read the others. states: (real tokens, d_model); middle: see `StackContext`."""
        library = Library(layout, self.is_word(layout), self.known(state))
        query = states if middle is None or not self.target else middle
        words = library.join(ragged(state["words"]).values, self.words(states, query))
        after: ContextState = {"words": library.kept(words), "sentences": self.counted(library.after)}
        if not layout.tokens:
            return Result(states, after)
        keys, values = words.chunk(2, -1) if self.target else (words, words)
        parts = []
        for document, rows in enumerate(library.rows):
            own = library.own_of(document)
            shelf = self.shelve([keys[rows]], [values[rows]], [library.after[document]])
            step = max(SCORES // max(self.heads * shelf.slots[0].numel(), 1), 1)
            tokens = library.tokens[document]
            for start in range(tokens.start, tokens.stop, step):
                part = slice(start, min(start + step, tokens.stop))
                numbers = own[part.start - tokens.start : part.stop - tokens.start]
                allowed = self.allowed(shelf, torch.as_tensor(numbers, device=states.device)[None])
                parts.append(self.read(states[None, part], query[None, part], shelf, allowed)[0])
        return Result(torch.cat(parts), after)

    def is_word(self, layout: Layout) -> Numbers:
        """Return which tokens are words: on the target side all, since each is followed by one or by the end."""
        if self.target:
            return np.ones(layout.tokens, dtype=bool)
        found: Numbers = (~torch.isin(layout.ids, self.special)).cpu().numpy()
        return found

    def words(self, states: Tensor, query: Tensor) -> Tensor:
        """Return what is read of tokens by others: (…, d_model), or keys and values side by side, (…, 2 · d_model)."""
        return torch.cat([query, states], dim=-1).detach() if self.target else states.detach()

    def shelve(self, keys: list[Tensor], values: list[Tensor], sentences: "list[list[Sentence]]") -> "Shelf":
        """Return the words of some documents, (words, d_model) each, in the form in which they are read."""
        counts = [[each.words for each in document] for document in sentences]
        most, widest = max(map(len, counts)), max((n for document in counts for n in document), default=0)
        slots = np.zeros((len(counts), max(most, 1), max(widest, 1)), dtype=np.int64)
        real = np.zeros_like(slots, dtype=bool)
        longest = max(*map(len, keys), 1)
        places = np.zeros((len(counts), longest), dtype=np.int64)
        for row, document in enumerate(counts):
            start = 0
            for number, count in enumerate(document):
                slots[row, number, :count] = range(start, start + count)
                real[row, number, :count] = True
                places[row, start : start + count] = number * slots.shape[2] + np.arange(count)
                start += count
        device = keys[0].device
        indices, mask, back = (torch.as_tensor(each, device=device) for each in (slots, real, places))
        all_keys, all_values = (_padded(each, longest) for each in (keys, values))
        rows = indices.flatten(1)[..., None].expand(-1, -1, all_keys.shape[-1])
        grid = all_keys.gather(1, rows).unflatten(1, indices.shape[1:])
        means = (grid * mask[..., None]).sum(2) / mask.sum(2).clamp(min=1)[..., None]
        return Shelf(self.word_key(all_keys), self.value(all_values), self.sentence_key(means), indices, mask, back)

    def allowed(self, shelf: "Shelf", own: Tensor) -> Tensor:
        """Return which sentences may be read, (documents, tokens, sentences); own: (documents, tokens), the current."""
        numbers = torch.arange(shelf.slots.shape[1], device=own.device)
        others = numbers < own[..., None] if self.online else numbers != own[..., None]
        return others & shelf.real.any(-1)[:, None]

    def read(self, base: Tensor, query: Tensor, shelf: "Shelf", allowed: Tensor) -> Tensor:
        """Return the states with their context. base, query: (documents, tokens, d_model)."""
        scale = math.sqrt(query.shape[-1] // self.heads)
        by_sentence = self.split(self.sentence_query(query)) @ self.split(shelf.sentence_keys).transpose(-1, -2)
        chosen = sparsemax(by_sentence / scale, allowed[:, None])  # a: (documents, heads, tokens, sentences)
        by_word = self.split(self.word_query(query)) @ self.split(shelf.word_keys).transpose(-1, -2) / scale
        shape = *by_word.shape[:3], -1
        slots = shelf.slots.flatten(1)[:, None, None].expand(shape)
        grid = by_word.gather(-1, slots).unflatten(-1, shelf.slots.shape[1:])
        real = (shelf.real | ~shelf.real.any(-1, keepdim=True))[:, None, None]
        weights = sparsemax(grid, real) if self.sparse_words else grid.masked_fill(~real, -torch.inf).softmax(-1)
        weights = (weights * chosen[..., None]).flatten(-2).gather(-1, shelf.places[:, None, None].expand(shape))
        weights = weights * shelf.filled[:, None, None]
        found = (weights @ self.split(shelf.values)).transpose(-2, -3).flatten(-2)
        context = self.feed_forward_norm(self.dropout(self.feed_forward(self.attention_norm(self.output(found)))))
        gate = torch.sigmoid(self.base_gate(base) + self.context_gate(context))
        return torch.where(allowed.any(-1, keepdim=True), gate * base + (1 - gate) * context, base)

    def split(self, states: Tensor) -> Tensor:
        """(documents, tokens, d_model) → (documents, heads, tokens, head width)."""
        return states.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def prepare(self, states: Tensor, middle: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the state with first translations of the sentences that follow. states: (real tokens, d_model)."""
        read = [[each for each in document if each.read] for document in self.known(state)]
        library = Library(layout, self.is_word(layout), read)
        carried = [
            rows[: sum(each.words for each in document)]
            for rows, document in zip(ragged(state["words"]).documents(), read, strict=True)
        ]
        words = library.join(torch.cat(carried), self.words(states, middle))
        first = [
            document[: len(before)] + [Sentence(each.words, read=False) for each in document[len(before) :]]
            for document, before in zip(library.after, read, strict=True)
        ]
        return {"words": library.kept(words), "sentences": self.counted(first)}

    def precompute(self, state: ContextState) -> ContextState:
        """Return the words of each document, and which sentences the next one may read."""
        known = self.known(state)
        rows = [each.chunk(2, -1) if self.target else (each, each) for each in ragged(state["words"]).documents()]
        shelf = self.shelve([keys for keys, _ in rows], [values for _, values in rows], known)
        own = torch.tensor([[sum(each.read for each in document)] for document in known], device=shelf.values.device)
        return shelf.tensors() | {"allowed": self.allowed(shelf, own)}

    def update_input(self, states: Tensor, middle: Tensor | None = None) -> Tensor:
        """Return what others read of a token."""
        return self.words(states, states if middle is None else middle)

    def step(self, states: Tensor, precomputed: ContextState, middle: Tensor | None = None) -> Tensor:
        """Let the next token of every hypothesis read the other sentences."""
        allowed = tensor(precomputed["allowed"])
        shelf = Shelf(*(tensor(precomputed[name]) for name in Shelf.NAMES))
        return self.read(states, states if middle is None or not self.target else middle, shelf, allowed)

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the state after one more sentence; the words of its first translation stay, if there was one."""
        library = Library(layout, self.is_word(layout), self.known(state))
        words = library.join(ragged(state["words"]).values, update_inputs)
        return {"words": library.kept(words), "sentences": self.counted(library.after)}

    @staticmethod
    def known(state: ContextState) -> "list[list[Sentence]]":
        """Return the sentences of each document."""
        rows = [each.tolist() for each in ragged(state["sentences"]).documents()]
        found = [[Sentence(number_of(high, low), bool(read)) for high, low, read in each] for each in rows]
        if [sum(each.words for each in document) for document in found] != ragged(state["words"]).lengths.tolist():
            raise InputError(DAMAGED)
        return found

    def counted(self, documents: "list[list[Sentence]]") -> Ragged:
        """Return the sentences of each document in the form in which they are carried."""
        rows = [[(*divmod(each.words, DIGIT), each.read) for each in document] for document in documents]
        return Ragged.of([self.output.weight.new_tensor(each).view(-1, 3) for each in rows])


@dataclass(frozen=True)
class Sentence:
    """A sentence that others may read: how many words it has, and whether it is decoded already."""

    words: int
    read: bool = True


@dataclass(frozen=True)
class Shelf:
    """The words of some documents, projected. word_keys, values: (documents, words, d_model).

    sentence_keys: (documents, sentences, d_model); slots: (documents, sentences, words of a sentence), the word in each
    place, real where there is one; places: (documents, words), where a word is in `slots`.
    """

    NAMES = ("word_keys", "values", "sentence_keys", "slots", "real", "places")

    word_keys: Tensor
    values: Tensor
    sentence_keys: Tensor
    slots: Tensor
    real: Tensor
    places: Tensor

    @property
    def filled(self) -> Tensor:
        """Whether a row is a word and not padding, (documents, words)."""
        words = torch.arange(self.places.shape[1], device=self.places.device)
        return words < self.real.sum((1, 2))[:, None]

    def tensors(self) -> ContextState:
        """Return all parts by name."""
        return {name: getattr(self, name) for name in self.NAMES}


class Library:
    """The sentences that a pass may read: those that are known before it, and its own where they are not.

    after: of each document, all sentences after the pass, all of the pass read; rows, tokens: where the words and the
    tokens of each document are.
    """

    def __init__(self, layout: Layout, is_word: Numbers, known: list[list[Sentence]]) -> None:
        documents, sentences, _ = layout.shape
        self.layout = layout
        self.own: Numbers = np.zeros(
            documents * sentences, dtype=np.int64
        )  # the place of each sentence in its document
        self.after: list[list[Sentence]] = []
        new = np.zeros(documents * sentences, dtype=bool)
        counts = np.bincount(np.repeat(np.arange(len(self.own)), layout.counts), is_word, len(self.own)).astype(
            np.int64
        )
        for document, earlier in enumerate(known):
            found, place = list(earlier), sum(each.read for each in earlier)
            for sentence in range(document * sentences, (document + 1) * sentences):
                self.own[sentence] = place
                if not layout.counts[sentence]:
                    continue
                if place < len(found):
                    found[place] = Sentence(found[place].words)
                else:
                    found.append(Sentence(int(counts[sentence])))
                    new[sentence] = True
                place += 1
            self.after.append(found)
        chosen = np.repeat(new, layout.counts) & is_word
        self._words = torch.as_tensor(np.flatnonzero(chosen), device=layout.device)
        added = np.where(new, counts, 0).reshape(documents, sentences).sum(1)
        before = np.array([sum(each.words for each in document) for document in known], dtype=np.int64)
        self._rows = CarriedAndNew(before, added, layout.device)
        stops = self._rows.first + before + added
        self.rows = [slice(*each) for each in zip(self._rows.first.tolist(), stops.tolist(), strict=True)]
        ends = np.cumsum(layout.counts.reshape(documents, sentences).sum(1)).tolist()
        self.tokens = [slice(*each) for each in zip([0, *ends[:-1]], ends, strict=True)]

    def join(self, carried: Tensor, new: Tensor) -> Tensor:
        """Return all words, document by document. carried: those known before; new: of all tokens of the pass."""
        return self._rows.join(carried, new.index_select(0, self._words))

    def kept(self, words: Tensor) -> Ragged:
        """Return the words of each document."""
        return Ragged(words, torch.tensor([rows.stop - rows.start for rows in self.rows], device=words.device))

    def own_of(self, document: int) -> Numbers:
        """Return the place of its sentence for every token of a document."""
        part = slice(document * self.layout.shape[1], (document + 1) * self.layout.shape[1])
        found: Numbers = np.repeat(self.own[part], self.layout.counts[part])
        return found


def _padded(documents: list[Tensor], longest: int) -> Tensor:
    """Return rows of documents, (rows, d_model) each, as (documents, longest, d_model)."""
    return torch.stack([F.pad(rows, (0, 0, 0, longest - len(rows))) for rows in documents])


def sparsemax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return the projection of scores onto probabilities (Martins and Astudillo 2016), along the last dimension.

    Only what is allowed counts; where nothing is, the result is without meaning.
    """
    best = scores.masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True)
    shifted = scores - best.clamp(min=torch.finfo(scores.dtype).min)
    shifted = torch.where(allowed, shifted, -2.0)  # 1 or more below the best is outside of the support
    ordered = shifted.sort(-1, descending=True).values
    sums = ordered.cumsum(-1)
    ranks = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    support = (1 + ranks * ordered > sums).sum(-1, keepdim=True).clamp(min=1)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return (shifted - threshold).clamp(min=0)

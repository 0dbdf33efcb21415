"""Hierarchical attention (Miculicich et al. 2018): on top of a stack, each token reads the last k sentences.

With q the states of this sentence and c_j those of the words of the sentence j before it, before their own context was
added, both detached in (1) to (3):

    (1) w_j = LN_w(MHA_word(LN_qw(q); c_j))                    for each sentence j = 1 … k
    (2) s   = MHA_sent(LN_qs(q); [w_1 … w_k])                  each token over its own k vectors
    (3) s   = s + FFN(LN_f(s))
    (4) l   = σ(W [q; s] + b);   out = LN_s((1 − l) ∘ q + l ∘ s)

So the layers below learn through (4) only, and no gradient goes into other sentences. The first sentence of a document
has nothing to read: out = LN_s(q).

Faults of the original that are not here: the first sentence reads another document's, or its own future words; which
states are words is decided by the ids of the target vocabulary on both sides (here `special`, which both sides share);
while decoding, earlier translations are run again without their start id, so that their states are not those of
training (here the states of the search itself are kept); the weights of HAN_enc are never loaded into HAN_join.
"""

import numpy as np
import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.contexts import HANConfig
from tram.model.attention import Attention
from tram.model.contexts.base import Result, StackContext
from tram.model.document_rows import Numbers, ranges
from tram.model.layers import FeedForward
from tram.model.packing import Layout, Rectangles, by_length
from tram.model.state import ContextState, Ragged, ragged, tensor


class HAN(StackContext):
    """Attention to the words of the k sentences before. State: `sentence.1` … `sentence.k`, the words of each."""

    def __init__(self, config: ModelConfig, settings: HANConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.reach: int = settings.sentences
        self.word_query_norm = nn.LayerNorm(d_model)
        self.word_attention = Attention(d_model, config.heads)
        self.word_norm = nn.LayerNorm(d_model)
        self.sentence_query_norm = nn.LayerNorm(d_model)
        self.sentence_attention = Attention(d_model, config.heads)
        self.feed_forward_norm = nn.LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, config.feed_forward, config.activation)
        self.gate = nn.Linear(2 * d_model, d_model)
        self.output_norm = nn.LayerNorm(d_model)
        self.special: Tensor
        self.register_buffer("special", torch.tensor(settings.special), persistent=False)

    def initial_state(self, documents: int) -> ContextState:
        """Return no words for every sentence."""
        return {self.key(j): Ragged.empty(documents, self.gate.bias[None]) for j in range(1, self.reach + 1)}

    @staticmethod
    def key(distance: int) -> str:
        """Return the name of the words of the sentence so many before."""
        return f"sentence.{distance}"

    def forward(self, states: Tensor, layout: Layout, state: ContextState, middle: Tensor | None = None) -> Result:
        """Let all sentences read the words of the sentences before them. states: (real tokens, d_model)."""
        history = _History(layout, self._words(layout), [self._carried(state, j) for j in self._distances()])
        words = torch.cat([states.detach(), *(self._carried(state, j).values for j in self._distances())])
        after = history.after(words)
        kept: ContextState = {self.key(j): after[j - 1] for j in self._distances()}
        if not layout.tokens:
            return Result(states, kept)
        first, stop = history.first, history.stop
        longest = (stop - first).max(1)
        groups = by_length(layout.counts, np.maximum(layout.counts, longest))
        rectangles = Rectangles(layout, groups)
        keys_values = self.word_attention.key_value(words)
        results = []
        for group, queries in zip(groups, rectangles.pad(states), strict=True):
            rows, real = ranges((first[group].ravel(), stop[group].ravel()))
            slots = torch.as_tensor(history.order[rows], device=layout.device)
            seen = keys_values.index_select(0, slots.flatten()).unflatten(0, (len(group), self.reach, -1))
            mask = torch.as_tensor(real, device=layout.device).unflatten(0, (len(group), self.reach))
            result = self.read(queries.unflatten(0, (len(group), -1)), seen, mask)
            results.append(result.flatten(0, 1))
        return Result(rectangles.unpad(results), kept)

    def read(self, states: Tensor, keys_values: Tensor, real: Tensor) -> Tensor:
        """Return the states with their context.

        states: (sentences, tokens, d_model); keys_values: of the words of k sentences, (sentences, k, words, 2 ·
        d_model); real: (sentences, k, words), True at words.
        """
        present = real.any(-1)  # (sentences, k)
        if not bool(present.any()):
            result: Tensor = self.output_norm(states)
            return result
        query = states.detach()
        words = self.attend_words(query, keys_values, real | ~present[..., None])
        context = self.attend_sentences(query, words, present)
        context = context + self.dropout(self.feed_forward(self.feed_forward_norm(context)))
        gate = torch.sigmoid(self.gate(torch.cat([states, context], dim=-1)))
        gate = gate * present.any(-1)[:, None, None]
        result = self.output_norm((1 - gate) * states + gate * context)
        return result

    def attend_words(self, query: Tensor, keys_values: Tensor, mask: Tensor) -> Tensor:
        """Return w, (sentences, tokens, k, d_model): what each token reads in each of the k sentences."""
        attention = self.word_attention
        q = attention.split(attention.query(self.word_query_norm(query)))[:, None]  # (sentences, 1, heads, tokens, e)
        keys, values = (attention.split(part) for part in keys_values.chunk(2, -1))
        q = q.expand(-1, keys.shape[1], -1, -1, -1)
        attended = attention.output(attention.attend(q, keys, values, mask[:, :, None, None]))
        words: Tensor = self.word_norm(self.dropout(attended))
        return words.transpose(1, 2)

    def attend_sentences(self, query: Tensor, words: Tensor, present: Tensor) -> Tensor:
        """Return s, (sentences, tokens, d_model), of what each token has read in each sentence."""
        attention = self.sentence_attention
        q = attention.split(attention.query(self.sentence_query_norm(query))[:, :, None])
        keys, values = (attention.split(part) for part in attention.key_value(words).chunk(2, -1))
        mask = present | ~present.any(-1, keepdim=True)  # where nothing is present, the result is not used
        attended = attention.attend(q, keys, values, mask[:, None, None, None])
        result: Tensor = self.dropout(attention.output(attended.squeeze(2)))
        return result

    def precompute(self, state: ContextState) -> ContextState:
        """Return keys and values of the words that are carried, (documents, k, words, 2 · d_model)."""
        carried = [self._carried(state, j) for j in self._distances()]
        starts, parts = 0, []
        for value in carried:
            lengths = value.lengths.cpu().numpy()
            stops = starts + np.cumsum(lengths)
            parts.append((stops - lengths, stops))
            starts += len(value.values)
        first, stop = (np.stack(each, axis=1) for each in zip(*parts, strict=True))  # (documents, k)
        rows, real = ranges((first.ravel(), stop.ravel()))
        keys_values = self.word_attention.key_value(torch.cat([value.values for value in carried]))
        slots = torch.as_tensor(rows, device=keys_values.device)
        seen = keys_values.index_select(0, slots.flatten()).unflatten(0, (len(first), self.reach, slots.shape[1]))
        mask = torch.as_tensor(real, device=slots.device).unflatten(0, (len(first), self.reach))
        return {"keys_values": seen, "real": mask}

    def update_input(self, states: Tensor, middle: Tensor | None = None) -> Tensor:
        """Return the state before its own context is added."""
        return states

    def step(self, states: Tensor, precomputed: ContextState, middle: Tensor | None = None) -> Tensor:
        """Let the next token of every hypothesis read the sentences before."""
        return self.read(states, tensor(precomputed["keys_values"]), tensor(precomputed["real"]))

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the words of the last k sentences, with one more. update_inputs: (real tokens, d_model)."""
        carried = [self._carried(state, j) for j in self._distances()]
        history = _History(layout, self._words(layout), carried)
        after = history.after(torch.cat([update_inputs, *(value.values for value in carried)]))
        return {self.key(j): after[j - 1] for j in self._distances()}

    def _distances(self) -> range:
        return range(1, self.reach + 1)

    def _carried(self, state: ContextState, distance: int) -> Ragged:
        return ragged(state[self.key(distance)])

    def _words(self, layout: Layout) -> Numbers:
        """Return where the tokens are words."""
        found: Numbers = (~torch.isin(layout.ids, self.special)).cpu().numpy()
        return found


class _History:
    """The words that each sentence reads: those carried, and those of the sentences before it in this pass.

    Rows are numbered as in (tokens of the pass, words carried at distance 1, …, at distance k). order: the rows that
    are words, document by document, in the order of the text; first, stop: (documents · sentences, k), the ranges of
    `order` that a sentence reads at each distance. An empty sentence reads nothing and is not read.
    """

    def __init__(self, layout: Layout, words: Numbers, carried: list[Ragged]) -> None:
        documents, sentences = layout.shape[:2]
        reach = len(carried)
        self.device = layout.device
        self.first, self.stop = (np.zeros((documents * sentences, reach), dtype=np.int64) for _ in range(2))
        self._parts: list[Numbers] = []
        self._size = 0
        self._kept: list[list[range]] = []  # of each document, the last `reach` sentences
        earlier = self._carried_rows(layout.tokens, carried)
        for document in range(documents):
            past = [self._add(earlier[j][document]) for j in reversed(range(reach))]
            kept = past[-reach:]
            for number in range(sentences):
                sentence = document * sentences + number
                start, count = int(layout.starts[sentence]), int(layout.counts[sentence])
                if count:
                    read = past[: -reach - 1 : -1]  # the nearest first
                    self.first[sentence], self.stop[sentence] = [r.start for r in read], [r.stop for r in read]
                    past.append(self._add(start + np.flatnonzero(words[start : start + count])))
                if number < sentences - layout.reread:
                    kept = past[-reach:]
            self._kept.append(kept)
        self.order: Numbers = np.concatenate([*self._parts, np.zeros(1, dtype=np.int64)])  # the last: for padding alone

    @staticmethod
    def _carried_rows(start: int, carried: list[Ragged]) -> list[list[Numbers]]:
        """Return the rows that are carried, by distance and document."""
        found = []
        for value in carried:
            lengths = value.lengths.cpu().numpy()
            found.append(np.split(start + np.arange(len(value.values)), np.cumsum(lengths)[:-1]))
            start += len(value.values)
        return found

    def _add(self, rows: Numbers) -> range:
        self._parts.append(rows)
        self._size += len(rows)
        return range(self._size - len(rows), self._size)

    def after(self, rows: Tensor) -> list[Ragged]:
        """Return the words of the last sentences at each distance. rows: (tokens and carried words, d_model)."""
        found = []
        for nearest in range(1, len(self.first[0]) + 1):
            places = [self.order[kept[-nearest].start : kept[-nearest].stop] for kept in self._kept]
            lengths = torch.tensor([len(each) for each in places], device=self.device)
            found.append(
                Ragged(rows.index_select(0, torch.as_tensor(np.concatenate(places), device=self.device)), lengths)
            )
        return found

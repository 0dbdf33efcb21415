"""The encoder-decoder Transformer.

    model = Transformer(ModelConfig(), vocabulary=30_000)
    logits = model(source, decoder_input)    # ids (documents, sentences, tokens), 0 = padding, start first, no end
    # → (documents, sentences, target tokens, vocabulary)

    done = model.forced_decode(source, decoder_input, state)      # some sentences of each document, then the next ones
    done.states, done.layout, done.state

Without context modules, every sentence is translated independently. `contexts.base` describes context modules and their
seats; `State` is what they carry from sentence to sentence.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.config.contexts import SegmentRule
from tram.errors import InputError
from tram.model.attention import Attention, KeyValues
from tram.model.cache import DecodingCache
from tram.model.contexts.base import Context, FirstPassContext, Passage
from tram.model.contexts.memory import Maps, Memory
from tram.model.contexts.placing import place_contexts
from tram.model.document_rows import SourceRows
from tram.model.layers import Embeddings, FeedForward, Residual
from tram.model.packing import Layout
from tram.model.stacks import DECODER_TOP, ENCODER_SEGMENT, Decoded, Decoder, Encoded, Encoder
from tram.model.state import State, ragged


@dataclass(frozen=True)
class ForcedDecoding:
    """The result of a teacher-forced pass over source and target sentences.

    states: of the decoder, before the output projection, (real target tokens, d_model); layout: of the decoder input;
    state: of all context modules after these sentences; loss: extra loss of the decoder's, (real target tokens).
    """

    source: Encoded
    states: Tensor
    layout: Layout
    state: State
    loss: Tensor | None = None


class Transformer(nn.Module):
    """Encoder, decoder and token tables; usually source, target and output share one table."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        self.tokens = self.new_table(vocabulary)
        self.source_tokens = None if config.source_vocabulary is None else self.new_table(config.source_vocabulary)
        self.output = None if config.tied_output else nn.Linear(config.d_model, vocabulary, bias=False)
        self.encoder = Encoder(config, self.tokens if self.source_tokens is None else self.source_tokens)
        self.decoder = Decoder(config, self.tokens)
        self.bias = None
        if config.output_bias:
            self.bias = nn.Parameter(torch.zeros(vocabulary), requires_grad=config.output_bias != "fixed")
        place_contexts(self.encoder, self.decoder, config)

    def new_table(self, rows: int) -> nn.Embedding:
        """Return a token table with random values."""
        table = nn.Embedding(rows, self.config.d_model)
        nn.init.normal_(table.weight, std=self.config.d_model**-0.5 if self.config.embedding_scale else 0.02)
        return table

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the states; int8 matrices are multiplied in it, too."""
        return next(self.parameters()).dtype

    @property
    def output_weight(self) -> Tensor:
        """The weight of the output layer, (vocabulary, d_model): usually the token table of the target."""
        return self.tokens.weight if self.output is None else self.output.weight

    @property
    def has_context(self) -> bool:
        """Whether the model has a context module."""
        return bool(self.contexts())

    def contexts(self) -> dict[str, Context]:
        """Return the context modules of both sides by the names of their seats."""
        return self.encoder.contexts() | self.decoder.contexts()

    def without_context(self) -> "Transformer":
        """Return the underlying sentence model: the same layers without context modules."""
        alone = Transformer(self.config.without_context(), self.vocabulary)
        alone.to(self.device, self.dtype).train(self.training)
        missing = alone.load_state_dict(self.state_dict(), strict=False).missing_keys  # ignores the contexts' tensors
        if missing:
            raise InputError(f"there is no sentence model inside this model: it lacks `{missing[0]}`; give another one")
        return alone

    # Whole sentences.

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Return teacher-forced logits of whole documents.

        source, decoder_input: ids (documents, sentences, tokens), 0 = padding; decoder_input begins with the start id
        and has no end id. → (documents, sentences, target tokens, vocabulary), zeros at the padding.
        """
        decoded = self.forced_decode(source, decoder_input)
        return decoded.layout.grid(self.logits(decoded.states))

    def forced_decode(
        self, source: Tensor | Encoded, decoder_input: Tensor, state: State | None = None, reread: int = 0
    ) -> ForcedDecoding:
        """Read source and target of some sentences of each document, continuing from `state`.

        source: ids (documents, sentences, tokens), or the encoded sentences; decoder_input: ids.
        reread: number of last sentences that the next call reads again; the returned state is the one before them.
        """
        state = state or State.empty()
        encoded = source if isinstance(source, Encoded) else self.encode(source, state, reread)
        decoded = self.decode(decoder_input, encoded, state, reread)
        after = state | encoded.state | decoded.state
        return ForcedDecoding(encoded, decoded.states, decoded.layout, after, decoded.loss)

    def encode(
        self, source: Tensor, state: State | None = None, reread: int = 0, context: Tensor | None = None
    ) -> Encoded:
        """Encode some sentences of each document; `state` and `reread` as in `forced_decode`.

        context: (documents, sentences), the number of context tokens at the start of each; for Flat-Transformer.
        """
        initial = state or State.empty()
        encoded: Encoded = self.encoder(self.layout(source, reread), initial, context)
        if self.segment_rule is None:
            return encoded
        # The decoder's state belongs to the open segment and is reset when a new segment starts.
        decoder = initial.only(self.decoder.contexts())
        return replace(encoded, state=self.in_new_segments(encoded, decoder) | encoded.state)

    def encoded_before(self, states: Tensor, source: Tensor, state: State | None) -> Encoded:
        """Return sentences that `encode` encoded in an earlier pass, one per document.

        states: (real tokens, d_model); source: ids (documents, 1, tokens); state: after that pass, None if it started
        without one. In models that read the whole source, that pass must have ended in the sentences' segment.
        """
        rows, segment = None, self.encoder.open_segment
        if state is not None and segment is not None and segment.keeps_rows:
            rows = SourceRows.of_documents(ragged(state[ENCODER_SEGMENT]["rows"]))
        return Encoded(states, Layout(source), State.empty(), rows=rows)

    def segment_lengths(self, state: State) -> list[int]:
        """Return the source tokens of each sentence in the open segment of one document."""
        if self.encoder.open_segment is None or ENCODER_SEGMENT not in state:
            return []
        return self.encoder.open_segment.carried(state[ENCODER_SEGMENT])[0]

    def in_new_segments(self, encoded: Encoded, decoder: State) -> State:
        """Return the state of the decoder at the last sentences: the initial one where they are in a new segment."""
        segments = encoded.layout.segments
        if segments is None or not decoder:
            return decoder
        new = segments.numbers.reshape(encoded.layout.shape[:2])[:, -1].nonzero()[0]
        documents = torch.as_tensor(new, device=encoded.states.device)
        return decoder.put(documents, self.initial_state(len(new)).only(decoder.units)) if len(new) else decoder

    @property
    def makes_first_translations(self) -> bool:
        """Whether a context module reads first-pass translations, which `with_first_translations` adds to the state."""
        return isinstance(self.decoder.context, FirstPassContext)

    @torch.no_grad()
    def with_first_translations(self, encoded: Encoded, decoder_input: Tensor, state: State) -> State:
        """Return the state with first-pass translations of the sentences to decode next.

        encoded: their source; decoder_input: ids (documents, sentences, tokens) of the translations. The state of the
        encoder is that of `encoded`.
        """
        context = self.decoder.context
        assert isinstance(context, FirstPassContext)
        layout = self.layout(decoder_input)
        before = self.initial_state(len(decoder_input)) | state | encoded.state
        states, middle = self.decoder.run_layers(layout, encoded, Passage(State.empty(), len(decoder_input)))
        assert middle is not None
        return before | State({DECODER_TOP: context.prepare(states, middle, layout, before[DECODER_TOP])})

    @property
    def segment_rule(self) -> SegmentRule | None:
        """The rule that splits a document into segments whose source is read as a whole; None: no look-ahead."""
        return None if self.config.context is None else self.config.context.segment

    def decode(self, decoder_input: Tensor, source: Encoded, state: State, reread: int) -> Decoded:
        """Decode given sentences whose source is encoded; `forced_decode` also merges the states of both sides."""
        return self.decoder(self.layout(decoder_input, reread), source, state)

    def layout(self, ids: Tensor, reread: int = 0) -> Layout:
        """Return the layout of a batch; refuse a sentence that is longer than the position table."""
        layout = Layout(ids, reread)
        longest = int(layout.counts.max(initial=0))
        if longest > self.config.max_positions:
            raise ValueError(f"a sentence of {longest} tokens; the model knows {self.config.max_positions} positions")
        return layout

    def logits(self, states: Tensor) -> Tensor:
        """(…, d_model) → (…, vocabulary)."""
        return F.linear(states, self.output_weight, self.bias)

    def token_log_probs(self, states: Tensor, labels: Tensor, chunk: int = 512) -> Tensor:
        """Return the log-probability of every label; at most `chunk` rows of logits are in memory at once.

        states: (tokens, d_model); labels: (tokens) → (tokens), at least float32.
        """
        accurate = torch.promote_types(states.dtype, torch.float32)
        parts = zip(states.split(chunk), labels.split(chunk), strict=True)
        return torch.cat(
            [-F.cross_entropy(self.logits(part).to(accurate), gold, reduction="none") for part, gold in parts]
        )

    # One token at a time.

    def initial_state(self, documents: int) -> State:
        """Return the state before the first sentence of each document."""
        states = {name: context.initial_state(documents) for name, context in self.contexts().items()}
        return State({name: state for name, state in states.items() if state})

    def start_decoding(self, encoded: Encoded, state: State | None = None) -> DecodingCache:
        """Begin a search in every sentence of a batch of shape (1, sentences, tokens) or (documents, 1, tokens)."""
        documents, sentences, tokens = encoded.layout.shape
        state = self.initial_state(documents * sentences) | (state or State.empty())
        state = self.in_new_segments(encoded, state.only(self.decoder.contexts()))
        cache = DecodingCache(past=[], source=[], precomputed=self.decoder.precompute(state, encoded), update_inputs={})
        lengths = encoded.layout.lengths.flatten()
        mask = None
        if bool((lengths < tokens).any()):
            mask = (torch.arange(tokens, device=lengths.device) < lengths[:, None])[:, None, None]
        for layer in self.decoder.layers:
            attention = layer.cross_attention.attention
            grid = encoded.layout.grid(attention.key_value(encoded.states)).flatten(0, 1)
            keys, values = (attention.split(part).contiguous() for part in grid.chunk(2, -1))
            cache.source.append(KeyValues(keys, values, mask))
            empty = keys.new_empty(documents * sentences, attention.heads, 0, keys.shape[-1])
            cache.past.append(KeyValues(empty, empty))
        return cache

    def step(self, ids: Tensor, cache: DecodingCache, mask: Tensor | None = None) -> Tensor:
        """Return the logits of the next token of every hypothesis, (sentences, beam, vocabulary).

        ids: (sentences, beam), the last tokens. mask: (sentences, 1, beam, slots), True where a slot (this step's
        included) holds an ancestor of the hypothesis; None where there is only one hypothesis per sentence.
        """
        return self.logits(self.decoder.step(ids, cache, mask))

    def advance(self, update_inputs: dict[str, Tensor], layout: Layout, state: State) -> State:
        """Return the state after one more decoded sentence of each document. update_inputs: (real tokens, width)."""
        contexts = {name: context for name, context in self.decoder.contexts().items() if name in state}
        nothing = self.tokens.weight[:0]  # for modules without an update input
        after = {
            name: context.advance(update_inputs.get(name, nothing), layout, state[name])
            for name, context in contexts.items()
        }
        return state | State(after)

    # For analyses and training.

    @torch.no_grad()
    def memory_maps(self, source: Tensor, decoder_input: Tensor) -> dict[str, list[list[Maps]]]:
        """Return update and output attention of every memory, for every sentence of every document.

        source, decoder_input: as in `forward`. → by the name of the sublayer, a list of documents of sentences.
        """
        maps: dict[str, list[list[Maps]]] = {}
        handles = []
        for name, context in self.contexts().items():
            if isinstance(context, Memory):

                def look(memory: nn.Module, given: tuple[Any, ...], name: str = name) -> None:
                    assert isinstance(memory, Memory)
                    _, local, layout, state = given
                    maps[name] = memory.maps(local, layout, state)

                handles.append(context.register_forward_pre_hook(look))
        try:
            self.forced_decode(source, decoder_input)
        finally:
            for handle in handles:
                handle.remove()
        return maps

    def set_dropout(self, residual: float, attention: float = 0.0, activation: float = 0.0) -> None:
        """Set the dropout rates everywhere; context modules have that of residual connections."""
        for module in self.modules():
            if isinstance(module, Attention):
                module.dropout.p = attention
            elif isinstance(module, FeedForward):
                module.dropout.p = activation
            elif isinstance(module, Residual | Embeddings | Context):
                module.dropout.p = residual

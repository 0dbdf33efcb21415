"""Transformer-XL (Dai et al. 2019): every self-attention also reads the layer's inputs of the tokens before.

With x the layer's inputs of this sentence, m the last `memory_length` inputs of the sentences before it, detached, and
u_w, u_r shared by all layers:

    q from x;  k, v from [m; x]                    behind the layer norm in a pre-norm model
    score_ab = ((q_a + u_w) · k_b + (q_a + u_r) · W_r sinus(dist_ab)) / √e

Distances take the place of positions, which the embeddings do not have. The decoder is causal, as in the original; in
the encoder the tokens behind a query have negative distances. The projections are the host's: new are W_r, u_w and
u_r. What n layers carry is n · memory_length vectors; through them, information comes from n · memory_length tokens
back. The original also keeps the outputs of the last layer, which nothing reads.
"""

import torch
from torch import Tensor, nn

from tram.config import ModelConfig
from tram.model.contexts.base import Host, Result
from tram.model.contexts.relative import QueryBiases, Reading, RelativeAttention
from tram.model.document_rows import DocumentRows, Numbers
from tram.model.packing import Layout
from tram.model.positions import sinusoids
from tram.model.state import ContextState, Ragged, ragged


class TransformerXL(RelativeAttention):
    """Self-attention of one layer over the sentence and the tokens before it. State: `inputs` of those tokens."""

    def __init__(self, config: ModelConfig, memory_length: int, biases: QueryBiases) -> None:
        super().__init__(biases)
        self.memory_length = memory_length
        self.heads = config.heads
        self.distance = nn.Linear(config.d_model, config.d_model, bias=False)  # W_r
        nn.init.xavier_uniform_(self.distance.weight)

    def initial_state(self, documents: int) -> ContextState:
        """Return an empty memory."""
        return {"inputs": Ragged.empty(documents, self.distance.weight)}

    def forward(self, inputs: Tensor, host: Host, layout: Layout, state: ContextState) -> Result:
        """Attend from all sentences at once. inputs: (real tokens, d_model)."""
        carried = ragged(state["inputs"])
        rows = DocumentRows(layout, carried.lengths)
        memory = rows.join(carried.values, inputs.detach())
        after = self.kept(layout, rows, memory)
        if not layout.tokens:
            return Result(inputs, after)
        keys, own = memory, rows.starts
        if torch.is_grad_enabled():  # the own tokens once more, with their gradient
            keys, own = torch.cat([memory, inputs]), len(memory) + layout.starts
        reading = layout.memo(
            ("transformer_xl", self.memory_length, host.causal, len(keys), tuple(rows.carried.tolist())),
            lambda: Reading(layout, [self.past(layout, rows)], own, host.causal),
        )
        attention = host.attention
        queries, keys_values = attention.query(host.norm(inputs)), attention.key_value(host.norm(keys))
        return Result(self.read(attention, reading, queries, keys_values), after)

    def past(self, layout: Layout, rows: DocumentRows) -> tuple[Numbers, Numbers]:
        """Return the last `memory_length` rows before each sentence."""
        return (rows.starts - self.memory_length).clip(min=rows.first[rows.document]), rows.starts

    def kept_rows(self, layout: Layout, rows: DocumentRows) -> tuple[Numbers, Numbers]:
        """Return the last `memory_length` rows of each document."""
        return (rows.ends - self.memory_length).clip(min=rows.first), rows.ends

    def kept(self, layout: Layout, rows: DocumentRows, memory: Tensor) -> ContextState:
        """Return the state after a pass."""
        kept, lengths = rows.indices(*self.kept_rows(layout, rows))
        return {"inputs": Ragged(memory.index_select(0, kept), lengths)}

    def distance_keys(self, distances: Tensor) -> Tensor:
        """Return W_r sinus(distance): (distances, heads, head width)."""
        table = sinusoids(distances, self.distance.in_features).to(self.distance.weight.dtype)
        keys: Tensor = self.distance(table)
        return keys.unflatten(-1, (self.heads, -1))

    def precompute(self, state: ContextState, host: Host) -> ContextState:
        """Return the keys and values of the memory."""
        carried = ragged(state["inputs"])
        return self.padded_keys(host.attention, host.attention.key_value(host.norm(carried.values)), [carried.lengths])

    def update_input(self, inputs: Tensor, host: Host) -> Tensor:
        """Return the layer's input, which the sentences that follow read."""
        return inputs

    def advance(self, update_inputs: Tensor, layout: Layout, state: ContextState) -> ContextState:
        """Return the memory after one complete sentence of each document. update_inputs: (real tokens, d_model)."""
        carried = ragged(state["inputs"])
        rows = DocumentRows(layout, carried.lengths)
        return self.kept(layout, rows, rows.join(carried.values, update_inputs))

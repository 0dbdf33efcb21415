#pragma once
#include "model.h"

namespace tram {

// Encodes the sentences of some documents. ids: of all tokens, sentence by sentence; lengths: (documents · steps), 0
// for a sentence that is not there; memories: of the encoder's layers that have one, (documents, slots, d_model) each,
// replaced by those after the last sentence; states: (tokens, d_model).
void encode(const Model&, const int64_t* ids, const int32_t* lengths, int64_t documents, int64_t steps,
            float* const* memories, float* states);

// Decodes given translations of the sentences of one document. source_states: of all source tokens; ids: decoder inputs
// of all sentences; memories: of the decoder's layers that have one, (slots, d_model) each, replaced by those after the
// last sentence; inputs: what these memories read, (tokens, d_model) each; states: (tokens, d_model).
void decode(const Model&, const float* source_states, const int32_t* source_lengths, const int64_t* ids,
            const int32_t* lengths, int64_t sentences, float* const* memories, float* const* inputs, float* states);

// Replaces the decoder's memories by those after one more sentence. inputs: by layer with a memory, (tokens, d_model).
void advance(const Model&, const float* const* inputs, const int32_t* lengths, int64_t documents,
             float* const* memories);

}  // namespace tram

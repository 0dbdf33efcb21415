// Whole sentences, and the memory, which walks through the sentences of each document.
#include "encoder.h"

#include <cstring>
#include <stdexcept>

namespace tram {
namespace {

struct Batch {
  std::vector<Sentence> sentences;   // (documents · steps)
  std::vector<int32_t> sentence_of;  // of every token
  std::vector<int32_t> places;
  int64_t tokens = 0;
};

Batch layout(const int32_t* lengths, int64_t count) {
  Batch batch;
  for (int64_t i = 0; i < count; i++) {
    if (lengths[i] < 0) throw std::invalid_argument("a sentence of negative length");
    batch.sentences.push_back({batch.tokens, lengths[i]});
    for (int32_t place = 0; place < lengths[i]; place++) {
      batch.sentence_of.push_back(static_cast<int32_t>(i));
      batch.places.push_back(place);
    }
    batch.tokens += lengths[i];
  }
  return batch;
}

// causal: tokens see those before them only.
void self_attention(const Model& model, Scratch& scratch, const Layer& layer, const Batch& batch, bool causal, float* x) {
  const Kernels& kernels = model.kernels;
  const int64_t d = model.sizes.d_model, heads = model.sizes.heads;
  float* qkv = scratch.wide.room(batch.tokens * 3 * d);
  float* attended = scratch.attended.room(batch.tokens * d);
  const float* h = before_sublayer(model, scratch, layer.self_norm, x, batch.tokens);
  layer.qkv.run(kernels, scratch.work, h, batch.tokens, d, qkv, 3 * d);
  for (int64_t row = 0; row < batch.tokens; row++) {
    const Sentence& sentence = batch.sentences[batch.sentence_of[row]];
    const float* keys = qkv + sentence.first * 3 * d + d;
    // Slots, as in a search, so that every bit is the same: compilers make two loops of one, with and without slots
    const int32_t* slots = causal ? batch.places.data() + sentence.first : nullptr;
    const int64_t seen = causal ? batch.places[row] + 1 : sentence.count;
    kernels.attend(Query{qkv + row * 3 * d, keys, keys + d, 3 * d, slots, seen, heads, d / heads,
                         scratch.scores.room(heads * seen), attended + row * d});
  }
  layer.self_output.run(kernels, scratch.work, attended, batch.tokens, d, x, d, Then::add);
  after_sublayer(model, layer.self_norm, x, batch.tokens);
}

void cross_attention(const Model& model, Scratch& scratch, const Layer& layer, const Batch& batch, const Batch& source,
                     const float* source_states, float* x) {
  const Kernels& kernels = model.kernels;
  const int64_t d = model.sizes.d_model, heads = model.sizes.heads;
  float* key_values = scratch.wide.room(source.tokens * 2 * d);
  layer.cross_key_value.run(kernels, scratch.work, source_states, source.tokens, d, key_values, 2 * d);
  const float* h = before_sublayer(model, scratch, layer.cross_norm, x, batch.tokens);
  float* query = scratch.query.room(batch.tokens * d);
  float* attended = scratch.attended.room(batch.tokens * d);
  layer.cross_query.run(kernels, scratch.work, h, batch.tokens, d, query, d);
  for (int64_t row = 0; row < batch.tokens; row++) {
    const Sentence& sentence = source.sentences[batch.sentence_of[row]];
    const float* keys = key_values + sentence.first * 2 * d;
    kernels.attend(Query{query + row * d, keys, keys + d, 2 * d, nullptr, sentence.count, heads, d / heads,
                         scratch.scores.room(heads * sentence.count), attended + row * d});
  }
  layer.cross_output.run(kernels, scratch.work, attended, batch.tokens, d, x, d, Then::add);
  after_sublayer(model, layer.cross_norm, x, batch.tokens);
}

// M: (documents, slots, d_model), updated to that after the last sentence; h: what the update reads, (tokens, d_model).
void memory(const Model& model, Scratch& scratch, const Memory& unit, const Batch& batch, int64_t documents,
            int64_t steps, float* x, float* M, float* h) {
  const Kernels& kernels = model.kernels;
  const int64_t d = model.sizes.d_model, size = model.sizes.slots * d;
  Buffer<float> key_value_room, read_room, read_key_value_room;
  if (unit.input_norm)
    unit.input_norm.run(kernels, x, h, batch.tokens);
  else
    std::memcpy(h, x, batch.tokens * d * sizeof(float));
  float* key_values = key_value_room.room(batch.tokens * 2 * d);
  unit.update_key_value.run(kernels, scratch.work, h, batch.tokens, d, key_values, 2 * d);
  float* read = read_room.room(documents * steps * size);  // M^t of every sentence
  for (int64_t step = 0; step < steps; step++) {
    std::vector<Sentence> sentences;
    std::vector<int64_t> present;
    for (int64_t document = 0; document < documents; document++) {
      std::memcpy(read + (document * steps + step) * size, M + document * size, size * sizeof(float));
      const Sentence& sentence = batch.sentences[document * steps + step];
      if (!sentence.count) continue;
      sentences.push_back(sentence);
      present.push_back(document);
    }
    update_memory(model, scratch, unit, key_values, sentences, present, M);
  }
  const int64_t rows = documents * steps * model.sizes.slots;
  float* read_key_values = read_key_value_room.room(rows * 2 * d);
  unit.output_key_value.run(kernels, scratch.work, read, rows, d, read_key_values, 2 * d);
  read_memory(model, scratch, unit, h, read_key_values, batch.sentence_of, batch.tokens, x);
}

}  // namespace

void encode(const Model& model, const int64_t* ids, const int32_t* lengths, int64_t documents, int64_t steps,
            float* const* memories, float* states) {
  const Batch batch = layout(lengths, documents * steps);
  Scratch scratch(model);
  Buffer<float> read;
  embed(model, model.encoder, ids, batch.places.data(), batch.tokens, states);
  size_t unit = 0;
  for (const Layer& layer : model.encoder.layers) {
    self_attention(model, scratch, layer, batch, false, states);
    if (layer.memory)
      memory(model, scratch, *layer.memory, batch, documents, steps, states, memories[unit++],
             read.room(batch.tokens * model.sizes.d_model));
    feed_forward(model, scratch, layer.feed_forward, layer.feed_forward_norm, states, batch.tokens);
  }
  if (model.encoder.norm) model.encoder.norm.run(model.kernels, states, states, batch.tokens);
}

void decode(const Model& model, const float* source_states, const int32_t* source_lengths, const int64_t* ids,
            const int32_t* lengths, int64_t sentences, float* const* memories, float* const* inputs, float* states) {
  const Batch source = layout(source_lengths, sentences), batch = layout(lengths, sentences);
  Scratch scratch(model);
  embed(model, model.decoder, ids, batch.places.data(), batch.tokens, states);
  size_t unit = 0;
  for (const Layer& layer : model.decoder.layers) {
    self_attention(model, scratch, layer, batch, true, states);
    if (layer.memory) {
      memory(model, scratch, *layer.memory, batch, 1, sentences, states, memories[unit], inputs[unit]);
      unit++;
    }
    cross_attention(model, scratch, layer, batch, source, source_states, states);
    feed_forward(model, scratch, layer.feed_forward, layer.feed_forward_norm, states, batch.tokens);
  }
  if (model.decoder.norm) model.decoder.norm.run(model.kernels, states, states, batch.tokens);
}

void advance(const Model& model, const float* const* inputs, const int32_t* lengths, int64_t documents,
             float* const* memories) {
  const int64_t d = model.sizes.d_model;
  std::vector<Sentence> sentences;
  std::vector<int64_t> present;
  int64_t tokens = 0;
  for (int64_t document = 0; document < documents; document++) {
    if (!lengths[document]) continue;
    sentences.push_back({tokens, lengths[document]});
    present.push_back(document);
    tokens += lengths[document];
  }
  Scratch scratch(model);
  Buffer<float> room;
  float* key_values = room.room(tokens * 2 * d);
  size_t unit = 0;
  for (const Layer& layer : model.decoder.layers) {
    if (!layer.memory) continue;
    layer.memory->update_key_value.run(model.kernels, scratch.work, inputs[unit], tokens, d, key_values, 2 * d);
    update_memory(model, scratch, *layer.memory, key_values, sentences, present, memories[unit]);
    unit++;
  }
}

}  // namespace tram

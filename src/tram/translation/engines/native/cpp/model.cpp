#include "model.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace tram {

Model::Model(const Kernels& k, const Sizes& s, float scale, int threads)
    : kernels(k), sizes(s), embedding_scale(scale), team(threads > 1 ? std::make_unique<Team>(threads) : nullptr) {
  for (Stack* stack : {&encoder, &decoder}) {
    const bool target = stack == &decoder;
    const std::string side = target ? "decoder" : "encoder";
    stack->layers = std::vector<Layer>(target ? s.decoder_layers : s.encoder_layers);
    norms[side + ".embedding_norm"] = &stack->embedding_norm;
    norms[side + ".norm"] = &stack->norm;
    for (size_t number = 0; number < stack->layers.size(); number++) {
      Layer& layer = stack->layers[number];
      const std::string name = side + "." + std::to_string(number);
      linears[name + ".qkv"] = &layer.qkv;
      linears[name + ".self_output"] = &layer.self_output;
      linears[name + ".inner"] = &layer.feed_forward.inner;
      linears[name + ".outer"] = &layer.feed_forward.outer;
      norms[name + ".self_norm"] = &layer.self_norm;
      norms[name + ".feed_forward_norm"] = &layer.feed_forward_norm;
      if (target) {
        linears[name + ".cross_query"] = &layer.cross_query;
        linears[name + ".cross_key_value"] = &layer.cross_key_value;
        linears[name + ".cross_output"] = &layer.cross_output;
        norms[name + ".cross_norm"] = &layer.cross_norm;
      }
    }
  }
  linears["output"] = &output;
}

Layer& Model::layer(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string side = name.substr(0, dot);
  Stack& stack = side == "decoder" ? decoder : encoder;
  const int number = dot == std::string::npos ? -1 : std::atoi(name.c_str() + dot + 1);
  if ((side != "decoder" && side != "encoder") || number < 0 || number >= static_cast<int>(stack.layers.size()))
    throw std::invalid_argument("there is no layer " + name);
  return stack.layers[number];
}

void Model::add_memory(const std::string& name) {
  Layer& owner = layer(name);
  owner.memory = std::make_unique<Memory>();
  Memory& memory = *owner.memory;
  memory.positions.assign(static_cast<size_t>(sizes.slots) * sizes.d_model, 0.0f);
  const std::string prefix = name + ".memory.";
  linears[prefix + "update_query"] = &memory.update_query;
  linears[prefix + "update_key_value"] = &memory.update_key_value;
  linears[prefix + "update_output"] = &memory.update_output;
  linears[prefix + "output_query"] = &memory.output_query;
  linears[prefix + "output_key_value"] = &memory.output_key_value;
  linears[prefix + "output_output"] = &memory.output_output;
  linears[prefix + "inner"] = &memory.feed_forward.inner;
  linears[prefix + "outer"] = &memory.feed_forward.outer;
  norms[prefix + "position_norm"] = &memory.position_norm;
  norms[prefix + "input_norm"] = &memory.input_norm;
  norms[prefix + "output_norm"] = &memory.output_norm;
  norms[prefix + "update_norm"] = &memory.update_norm;
  norms[prefix + "feed_forward_norm"] = &memory.feed_forward_norm;
}

void embed(const Model& model, const Stack& stack, const int64_t* ids, const int32_t* places, int64_t rows, float* x) {
  const int64_t d = model.sizes.d_model;
  const Table& table = stack.tokens;
  for (int64_t row = 0; row < rows; row++) {
    float* to = x + row * d;
    const int64_t id = ids[row];
    if (id < 0 || id >= table.rows) throw std::out_of_range("an id beyond the vocabulary");
    if (stack.positions && places[row] >= stack.places) throw std::out_of_range("a sentence beyond the position table");
    if (table.values) {
      const float* from = table.values + id * d;
      for (int64_t i = 0; i < d; i++) to[i] = from[i] * model.embedding_scale;
    } else {
      const int8_t* from = table.small + id * d;
      const float scale = table.scales[id] * model.embedding_scale;
      for (int64_t i = 0; i < d; i++) to[i] = from[i] * scale;
    }
    if (stack.positions) {
      const float* position = stack.positions + places[row] * d;
      for (int64_t i = 0; i < d; i++) to[i] += position[i];
    }
  }
  if (stack.embedding_norm) stack.embedding_norm.run(model.kernels, x, x, rows);
}

const float* before_sublayer(const Model& model, Scratch& scratch, const Norm& norm, const float* x, int64_t rows) {
  if (!model.sizes.pre_norm) return x;
  float* normed = scratch.normed.room(rows * model.sizes.d_model);
  norm.run(model.kernels, x, normed, rows);
  return normed;
}

void after_sublayer(const Model& model, const Norm& norm, float* x, int64_t rows) {
  if (!model.sizes.pre_norm) norm.run(model.kernels, x, x, rows);
}

// x += outer(activation(inner(h)))
static void add_feed_forward(const Model& model, Scratch& scratch, const FeedForward& layer, const float* h, float* x,
                             int64_t rows) {
  const int64_t d = model.sizes.d_model, width = layer.inner.out;
  float* wide = scratch.wide.room(rows * width);
  const auto activation = static_cast<Activation>(model.sizes.activation);
  const bool relu = activation == Activation::relu;
  layer.inner.run(model.kernels, scratch.work, h, rows, d, wide, width, relu ? Then::relu : Then::store);
  if (!relu) model.kernels.activate(wide, rows * width, activation);
  layer.outer.run(model.kernels, scratch.work, wide, rows, width, x, d, Then::add);
}

void feed_forward(const Model& model, Scratch& scratch, const FeedForward& layer, const Norm& norm, float* x,
                  int64_t rows) {
  add_feed_forward(model, scratch, layer, before_sublayer(model, scratch, norm, x, rows), x, rows);
  after_sublayer(model, norm, x, rows);
}

void update_memory(const Model& model, Scratch& scratch, const Memory& memory, const float* key_values,
                   const std::vector<Sentence>& sentences, const std::vector<int64_t>& documents, float* M) {
  const Kernels& kernels = model.kernels;
  const int64_t d = model.sizes.d_model, slots = model.sizes.slots, n = static_cast<int64_t>(documents.size());
  const int64_t rows = n * slots, heads = model.sizes.heads;
  if (!n) return;
  Buffer<float> room;
  float* states = room.room(rows * d);
  int64_t longest = 0;
  for (int64_t i = 0; i < n; i++) {
    longest = std::max(longest, sentences[i].count);
    for (int64_t j = 0; j < slots * d; j++)
      states[i * slots * d + j] = M[documents[i] * slots * d + j] + memory.positions[j];
  }
  if (memory.position_norm) memory.position_norm.run(kernels, states, states, rows);
  float* query = scratch.query.room(rows * d);
  float* attended = scratch.attended.room(rows * d);
  float* scores = scratch.scores.room(heads * longest);
  memory.update_query.run(kernels, scratch.work, states, rows, d, query, d);
  for (int64_t row = 0; row < rows; row++) {
    const Sentence& sentence = sentences[row / slots];
    const float* keys = key_values + sentence.first * 2 * d;
    kernels.attend(Query{query + row * d, keys, keys + d, 2 * d, nullptr, sentence.count, heads, d / heads, scores,
                         attended + row * d});
  }
  memory.update_output.run(kernels, scratch.work, attended, rows, d, states, d, Then::add);
  memory.update_norm.run(kernels, states, states, rows);
  add_feed_forward(model, scratch, memory.feed_forward, states, states, rows);
  memory.feed_forward_norm.run(kernels, states, states, rows);
  for (int64_t i = 0; i < n; i++)
    std::memcpy(M + documents[i] * slots * d, states + i * slots * d, slots * d * sizeof(float));
}

void read_memory(const Model& model, Scratch& scratch, const Memory& memory, const float* h, const float* key_values,
                 const std::vector<int32_t>& memory_of, int64_t rows, float* x) {
  const Kernels& kernels = model.kernels;
  const int64_t d = model.sizes.d_model, slots = model.sizes.slots, heads = model.sizes.heads;
  float* query = scratch.query.room(rows * d);
  float* attended = scratch.attended.room(rows * d);
  float* scores = scratch.scores.room(heads * slots);
  memory.output_query.run(kernels, scratch.work, h, rows, d, query, d);
  for (int64_t row = 0; row < rows; row++) {
    const float* keys = key_values + memory_of[row] * slots * 2 * d;
    kernels.attend(
        Query{query + row * d, keys, keys + d, 2 * d, nullptr, slots, heads, d / heads, scores, attended + row * d});
  }
  if (static_cast<Read>(model.sizes.read) == Read::scaled) {
    memory.output_output.run(kernels, scratch.work, attended, rows, d, query, d);
    for (int64_t row = 0; row < rows; row++) {
      float* to = x + row * d;
      double squares = 0;
      for (int64_t i = 0; i < d; i++) squares += static_cast<double>(to[i]) * to[i];
      const float size = static_cast<float>(std::sqrt(squares / static_cast<double>(d)));
      for (int64_t i = 0; i < d; i++) to[i] += size * query[row * d + i];
    }
  } else {
    memory.output_output.run(kernels, scratch.work, attended, rows, d, x, d, Then::add);
  }
  if (memory.output_norm) memory.output_norm.run(kernels, x, x, rows);
}

}  // namespace tram

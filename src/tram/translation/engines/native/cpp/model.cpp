#include "model.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace tram {

constexpr int32_t LEAST_ROUGH = 1024;  // tokens; an int8 pass over fewer gains nothing

static const Sizes& checked(const Sizes& s) {
  for (const int32_t size : {s.d_model, s.heads, s.feed_forward, s.encoder_layers, s.decoder_layers, s.vocabulary,
                             s.source_vocabulary})
    if (size < 1) throw std::invalid_argument("a size of the model is not positive");
  if (s.d_model % s.heads) throw std::invalid_argument("the heads do not divide d_model");
  if (s.slots < 0) throw std::invalid_argument("a negative number of slots");
  if (s.activation < 0 || s.activation > static_cast<int>(Activation::swish) || s.read < 0 ||
      s.read > static_cast<int>(Read::scaled))
    throw std::invalid_argument("an unknown setting of the model");
  return s;
}

Model::Model(const Kernels& k, const Sizes& s, float scale, int threads)
    : kernels(k),
      sizes(checked(s)),
      embedding_scale(scale),
      team(threads > 1 ? std::make_unique<Team>(threads) : nullptr) {
  const int64_t d = s.d_model;
  for (Stack* stack : {&encoder, &decoder}) {
    const bool target = stack == &decoder;
    const std::string side = target ? "decoder" : "encoder";
    stack->layers = std::vector<Layer>(target ? s.decoder_layers : s.encoder_layers);
    norms_[side + ".embedding_norm"] = {&stack->embedding_norm, false};
    norms_[side + ".norm"] = {&stack->norm, false};
    for (size_t number = 0; number < stack->layers.size(); number++) {
      Layer& layer = stack->layers[number];
      const std::string name = side + "." + std::to_string(number);
      linears_[name + ".qkv"] = {&layer.qkv, 3 * d, d};
      linears_[name + ".self_output"] = {&layer.self_output, d, d};
      linears_[name + ".inner"] = {&layer.feed_forward.inner, s.feed_forward, d};
      linears_[name + ".outer"] = {&layer.feed_forward.outer, d, s.feed_forward};
      norms_[name + ".self_norm"] = {&layer.self_norm, true};
      norms_[name + ".feed_forward_norm"] = {&layer.feed_forward_norm, true};
      if (target) {
        linears_[name + ".cross_query"] = {&layer.cross_query, d, d};
        linears_[name + ".cross_key_value"] = {&layer.cross_key_value, 2 * d, d};
        linears_[name + ".cross_output"] = {&layer.cross_output, d, d};
        norms_[name + ".cross_norm"] = {&layer.cross_norm, true};
      }
    }
  }
  linears_["output"] = {&output.linear, s.vocabulary, d};
}

Layer& Model::layer(const std::string& name) {
  for (Stack* stack : {&encoder, &decoder})
    for (size_t number = 0; number < stack->layers.size(); number++)
      if (name == (stack == &decoder ? "decoder." : "encoder.") + std::to_string(number)) return stack->layers[number];
  throw std::invalid_argument("there is no layer " + name);
}

void Model::add_memory(const std::string& name, const float* positions) {
  if (sizes.slots < 1) throw std::invalid_argument("a memory without slots");
  Layer& owner = layer(name);
  owner.memory = std::make_unique<Memory>();
  Memory& memory = *owner.memory;
  const int64_t d = sizes.d_model;
  memory.positions.assign(positions, positions + sizes.slots * d);
  const std::string prefix = name + ".memory.";
  linears_[prefix + "update_query"] = {&memory.update_query, d, d};
  linears_[prefix + "update_key_value"] = {&memory.update_key_value, 2 * d, d};
  linears_[prefix + "update_output"] = {&memory.update_output, d, d};
  linears_[prefix + "output_query"] = {&memory.output_query, d, d};
  linears_[prefix + "output_key_value"] = {&memory.output_key_value, 2 * d, d};
  linears_[prefix + "output_output"] = {&memory.output_output, d, d};
  linears_[prefix + "inner"] = {&memory.feed_forward.inner, sizes.feed_forward, d};
  linears_[prefix + "outer"] = {&memory.feed_forward.outer, d, sizes.feed_forward};
  norms_[prefix + "position_norm"] = {&memory.position_norm, false};
  norms_[prefix + "input_norm"] = {&memory.input_norm, false};
  norms_[prefix + "output_norm"] = {&memory.output_norm, false};
  norms_[prefix + "update_norm"] = {&memory.update_norm, true};
  norms_[prefix + "feed_forward_norm"] = {&memory.feed_forward_norm, true};
}

Model::NamedLinear& Model::linear(const char* name, int64_t out, int64_t in) {
  const auto found = linears_.find(name);
  if (found == linears_.end()) throw std::invalid_argument(std::string("there is no linear map ") + name);
  if (found->second.out != out || found->second.in != in)
    throw std::invalid_argument(std::string("wrong shape of ") + name);
  return found->second;
}

void Model::set_linear(const char* name, const float* weight, const float* bias, int64_t out, int64_t in) {
  linear(name, out, in).linear->set(kernels, weight, bias, out, in);
}

void Model::set_linear_int8(const char* name, const int8_t* weight, const float* scales, const float* bias,
                            int64_t out, int64_t in, int digits) {
  linear(name, out, in).linear->set_int8(kernels, weight, scales, bias, out, in, digits);
}

void Model::set_rough_output(const float* weight, const int8_t* rounded, const float* scales, const float* bias) {
  if (!output.linear.out) throw std::invalid_argument("no weights of output");
  if (kernels.fast_int8 && sizes.vocabulary >= LEAST_ROUGH) output.set_rough(kernels, weight, rounded, scales, bias);
}

void Model::set_norm(const char* name, const float* gamma_beta) {
  const auto found = norms_.find(name);
  if (found == norms_.end()) throw std::invalid_argument(std::string("there is no layer norm ") + name);
  found->second.norm->set(gamma_beta, sizes.d_model);
}

void Model::set_embeddings(Stack& stack, const Table& tokens, const float* positions, int64_t places) {
  const int64_t rows = &stack == &decoder ? sizes.vocabulary : sizes.source_vocabulary;
  if (tokens.rows != rows || tokens.width != sizes.d_model || (!tokens.values && !(tokens.small && tokens.scales)))
    throw std::invalid_argument("wrong shape of the token table");
  if (places < 0) throw std::invalid_argument("wrong shape of the position table");
  stack.tokens = tokens;
  stack.positions = positions;
  stack.places = places;
}

void Model::check() const {
  for (const auto& [name, each] : linears_)
    if (each.linear->out != each.out) throw std::invalid_argument("no weights of " + name);
  for (const auto& [name, each] : norms_)
    if (each.required && !*each.norm) throw std::invalid_argument("no weights of " + name);
  if (!encoder.tokens.rows || !decoder.tokens.rows) throw std::invalid_argument("no token table");
}

void embed(const Model& model, const Stack& stack, const int64_t* ids, const int32_t* places, int64_t rows, float* x) {
  const int64_t d = model.sizes.d_model;
  const Table& table = stack.tokens;
  for (int64_t row = 0; row < rows; row++) {
    float* to = x + row * d;
    const int64_t id = ids[row];
    if (id < 0 || id >= table.rows) throw std::out_of_range("an id beyond the vocabulary");
    if (stack.positions && (places[row] < 0 || places[row] >= stack.places))
      throw std::out_of_range("a sentence beyond the position table");
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

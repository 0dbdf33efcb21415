// The weights of a model by name, and the sublayers that encoder, decoder and memory are made of.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "linear.h"
#include "output.h"

namespace tram {

enum class Read : int { norm, add, scaled };  // how a memory's output joins the states; see `contexts/memory.py`

struct Sizes {
  int32_t d_model, heads, feed_forward, encoder_layers, decoder_layers, vocabulary, source_vocabulary;
  int32_t pre_norm, activation, slots, read;
};

struct FeedForward {
  Linear inner, outer;
};

// One memory unit; the names are those of `contexts/memory.py`.
struct Memory {
  std::vector<float> positions;  // (slots, d_model)
  Norm position_norm, input_norm, output_norm, update_norm, feed_forward_norm;
  Linear update_query, update_key_value, update_output;
  Linear output_query, output_key_value, output_output;
  FeedForward feed_forward;
};

struct Layer {
  Linear qkv, self_output;
  Norm self_norm, cross_norm, feed_forward_norm;
  Linear cross_query, cross_key_value, cross_output;  // of a decoder
  FeedForward feed_forward;
  std::unique_ptr<Memory> memory;
};

struct Stack {
  std::vector<Layer> layers;
  Table tokens;
  const float* positions = nullptr;  // (places, d_model), the model's offset applied; null: none
  int64_t places = 0;
  Norm embedding_norm, norm;
};

struct Model {
  // Throws if the sizes make no sense together.
  Model(const Kernels&, const Sizes&, float embedding_scale, int threads);
  const Kernels& kernels;
  const Sizes sizes;
  const float embedding_scale;
  Stack encoder, decoder;
  Output output;
  const std::unique_ptr<Team> team;  // null: one thread

  // Weights by name; those that do not fit the sizes of the model are refused.
  void set_linear(const char* name, const float* weight, const float* bias, int64_t out, int64_t in);
  // In int8. digits: of the activations; see `Quantised`.
  void set_linear_int8(const char* name, const int8_t* weight, const float* scales, const float* bias, int64_t out,
                       int64_t in, int digits);
  // After those of `output`, which the caller keeps as long as the model: an int8 pass of them comes first, if the
  // kernels have fast int8 products and the vocabulary is not small.
  void set_rough_output(const float* weight, const int8_t* rounded, const float* scales, const float* bias);
  void set_norm(const char* name, const float* gamma_beta);
  void set_embeddings(Stack&, const Table&, const float* positions, int64_t places);
  void add_memory(const std::string& layer, const float* positions);  // layer: "encoder.0"
  void check() const;  // throws if weights are missing

 private:
  struct NamedLinear {
    Linear* linear;
    int64_t out, in;
  };
  struct NamedNorm {
    Norm* norm;
    bool required;
  };
  NamedLinear& linear(const char* name, int64_t out, int64_t in);
  Layer& layer(const std::string& name);
  std::map<std::string, NamedLinear> linears_;
  std::map<std::string, NamedNorm> norms_;
};

// Memory for the states of one call.
struct Scratch {
  explicit Scratch(const Model& model) { work.team = model.team.get(); }
  Workspace work;
  Buffer<float> normed, wide, attended, scores, query;
};

// Sublayers. x: (rows, d_model), changed in place.
void embed(const Model&, const Stack&, const int64_t* ids, const int32_t* places, int64_t rows, float* x);
const float* before_sublayer(const Model&, Scratch&, const Norm&, const float* x, int64_t rows);
void after_sublayer(const Model&, const Norm&, float* x, int64_t rows);
void feed_forward(const Model&, Scratch&, const FeedForward&, const Norm&, float* x, int64_t rows);

// Memory: M (documents, slots, d_model).
struct Sentence {  // rows of one sentence among packed ones
  int64_t first, count;
};
void update_memory(const Model&, Scratch&, const Memory&, const float* key_values, const std::vector<Sentence>&,
                   const std::vector<int64_t>& documents, float* M);
// Lets rows read memories. h: what they ask with, (rows, d_model); memory_of: number of the memory of each row.
void read_memory(const Model&, Scratch&, const Memory&, const float* h, const float* key_values,
                 const std::vector<int32_t>& memory_of, int64_t rows, float* x);

}  // namespace tram

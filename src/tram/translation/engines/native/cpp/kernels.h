// The inner loops, one set for each instruction set. A set is compiled in a file of its own, with its own flags;
// nothing outside these files may use instructions that every processor of the architecture does not have.
#pragma once
#include <cstdint>

namespace tram {

// What a product does with its result: y = p, y = max(p, 0) or y = y + p, with p = x Wᵀ + bias.
enum class Then : int { store, relu, add };
enum class Activation : int { relu, gelu, swish };

// One product of some rows with the panels [first, last) of packed weights. A panel holds `panel` output columns.
struct Product {
  const float* x;     // (rows, in), rows `x_stride` apart
  int64_t rows, in, x_stride;
  const float* bias;  // (padded out)
  float* y;           // (rows, out − first · panel): the first column is that of panel `first`
  int64_t out, y_stride;
  int64_t first, last;
  Then then;
};

// Activations of a row as whole numbers; `scales`: what one unit stands for. The form is that of the instruction set.
// With one digit they are −127 … 127, with two 254 · first + second: much more exact, for twice as many products.
struct Quantised {
  const void* values;  // (rows, digits, padded in)
  const float* scales;
  int64_t padded;
  int digits;
};
constexpr int32_t DIGIT = 254;

struct Int8Weights {
  const int8_t* values;         // packed
  const float* scales;          // (padded out), one for each output column
  const int32_t* compensation;  // (padded out), what unsigned activations add too much
};

// One query of all heads against n keys: row slots[j] (or j) of `keys` and `values`.
struct Query {
  const float* query;
  const float* keys;
  const float* values;
  int64_t stride;
  const int32_t* slots;
  int64_t n;
  int64_t heads, width;
  float* scores;  // room for `heads` · n numbers; afterwards the attention weights
  float* out;     // (heads · width)
};

struct Candidate {
  float value;
  int32_t id;
};

// What is known of a row of logits after some of its columns: the best ones, and Σ exp(logit − max).
struct RowScan {
  float max, sum;
  float damage;  // not 0 if there was a logit that is no finite number
  int32_t wanted, count;
  Candidate* best;  // sorted, the best first; among equals the lowest id
};

struct Kernels {
  const char* name;
  int64_t panel;        // output columns of a panel
  int64_t unit;         // inputs that an int8 product takes at once: padded inputs are a multiple of it
  int64_t quant_bytes;  // of one quantised activation
  bool fast_int8;       // whether int8 products take much less time than float32 ones, whatever the number of rows
  int64_t (*int8_place)(int64_t out, int64_t in, int64_t padded);  // where a weight lies in packed int8 weights
  void (*multiply)(const Product&, const float* weights);
  void (*multiply_int8)(const Product&, const Int8Weights&, const Quantised&);
  void (*quantise)(const float* x, int64_t rows, int64_t in, int64_t x_stride, void* values, float* scales,
                   int64_t padded, int digits);
  void (*layer_norm)(const float* x, float* y, int64_t rows, int64_t width, const float* gamma, const float* beta);
  void (*activate)(float* x, int64_t n, Activation);
  void (*attend)(const Query&);
  void (*scan)(const float* logits, int64_t n, int32_t first_id, RowScan&);
  // The tokens whose logit is at least `least`, in order; returns how many there are, of which `room` are stored.
  int64_t (*collect)(const float* logits, int64_t n, float least, Candidate* found, int64_t room);
  // Replaces the value of every candidate by x · weights[id] + bias[id]. weights: (vocabulary, in)
  void (*dots)(const float* x, const float* weights, int64_t in, const float* bias, Candidate* candidates, int64_t n);
};

constexpr float norm_epsilon = 1e-5f;

const Kernels* portable_kernels();
#if defined(__x86_64__)
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
#endif

// The best set that this processor has and whose self-test passes; `name`: that one, or null if it cannot run.
const Kernels* choose_kernels(const char* name);

}  // namespace tram

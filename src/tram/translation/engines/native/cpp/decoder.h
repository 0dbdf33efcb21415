// A search in progress: what the decoder keeps of the tokens so far, and one more token of every hypothesis.
#pragma once
#include "model.h"

namespace tram {

struct Total {
  float total;
  int32_t parent, id;
};

class Decoding {
 public:
  // states: of all source tokens; lengths: (sentences); memories: of the decoder's layers that have one.
  Decoding(const Model&, const float* states, const int32_t* lengths, int64_t sentences, const float* const* memories,
           std::vector<int32_t> banned, int32_t end);
  // Processes a token of `width` hypotheses of every sentence; parents: which one of the step before each continues,
  // or null: the one in the same place.
  void step(const int32_t* tokens, const int32_t* parents, int64_t width);
  // After a step: the best continuations of every sentence, (sentences, wanted).
  void best(const float* scores, const uint8_t* must_end, int64_t wanted, Total* found);
  void logits(float* values);
  void select(const int32_t* rows, int64_t count);
  // What the memories read of a hypothesis of the last step: (steps, d_model) each.
  void update_inputs(int64_t row, int64_t hypothesis, float* const* values) const;
  // The same for a line that was taken earlier.
  const int32_t* line(int64_t row, int64_t hypothesis) const {
    return lines_.data() + (row * width_ + hypothesis) * steps_;
  }
  void update_inputs(const int32_t* line, int64_t steps, float* const* values) const;

  int64_t sentences() const { return static_cast<int64_t>(origin_.size()); }
  int64_t width() const { return width_; }
  int64_t steps() const { return steps_; }
  const Model& model() const { return model_; }

 private:
  void layer_step(size_t number, int64_t rows);

  struct Kept {
    std::vector<float> past;  // (rows of all steps, 3 · d_model): queries, keys and values
    Buffer<float> source, memory;  // keys and values: (source tokens, 2 · d_model), (sentences · slots, 2 · d_model)
    std::vector<float> update_inputs;
  };
  const Model& model_;
  Scratch scratch_;
  std::vector<Kept> kept_;
  std::vector<Sentence> source_;     // of each sentence at the start
  std::vector<int32_t> origin_;      // the number that each present sentence had at the start
  std::vector<int32_t> lines_;       // (sentences, width, steps): row of each ancestor, the hypothesis itself last
  std::vector<int32_t> row_origin_;  // of each hypothesis
  std::vector<int32_t> banned_;
  int32_t end_;
  int64_t width_ = 1, steps_ = 0, used_ = 0, longest_ = 0;
  Buffer<float> x_;
  OutputScan scan_;
};

}  // namespace tram

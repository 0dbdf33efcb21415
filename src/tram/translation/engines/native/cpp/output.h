// The output layer: of every row of states the most likely tokens, and Σ exp of the logits of all tokens.
//
// In float32 most of a step is this product. It can be found in two passes: int8 products of all tokens, which are
// several times faster, and float32 products of those tokens that may be among the best ones or are a notable part of
// the sum. How far an int8 product can be from the exact one is known (Cauchy–Schwarz), so the best tokens and their
// logits are exact. The rest of the sum, tokens of little probability, keeps its int8 products. Their activations have
// two digits: one error of the activations would be in the products of all tokens and so in the sum, while those of the
// weights cancel.
#pragma once
#include "linear.h"

namespace tram {

// The results for the rows of one step, and memory for making them.
struct OutputScan {
  std::vector<RowScan> rows;
  std::vector<Candidate> best, likely;
  Buffer<float> logits, gathered;
};

class Output {
 public:
  Linear linear;

  // Adds the int8 weights of the first pass. weight: those of `linear`, which the caller keeps as long as this.
  void set_rough(const Kernels&, const float* weight, const int8_t* rounded, const float* scales, const float* bias);
  // x: (rows, in); `wanted` best tokens of each row; banned ones count as impossible.
  void scan(const Kernels&, Workspace&, const float* x, int64_t rows, int32_t wanted,
            const std::vector<int32_t>& banned, OutputScan&) const;

 private:
  void scan_plain(const Kernels&, Workspace&, const float* x, int64_t rows, const std::vector<int32_t>& banned,
                  RowScan* scans, Buffer<float>& logits) const;
  void scan_rough(const Kernels&, Workspace&, const float* x, int64_t rows, const std::vector<int32_t>& banned,
                  OutputScan&) const;
  bool rescore(const Kernels&, const float* x, const float* logits, float error, RowScan&,
               std::vector<Candidate>& likely) const;

  Linear rough_;
  const float* weight_ = nullptr;  // (vocabulary, in); null: no first pass
  std::vector<float> bias_;
  float rounding_ = 0;   // the largest ‖w − ŵ‖₂ of a token, w being its weights and ŵ those of the first pass
  float magnitude_ = 0;  // the largest ‖ŵ‖₁
};

}  // namespace tram

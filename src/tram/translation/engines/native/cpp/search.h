// Beam search without constraints from beginning to end: the same rules as `translation/search.py`.
#pragma once
#include "decoder.h"

namespace tram {

struct Hypothesis {
  std::vector<int32_t> ids, line;  // line: where the states of its decoder input are
  double score;
};

struct SearchSettings {
  std::vector<int32_t> start;  // what the decoder is given before the first choice
  std::vector<int32_t> limits;
  int64_t beam;
  double penalty;
};

// The hypotheses of every sentence, the best first; none where the model's probabilities are no numbers.
std::vector<std::vector<Hypothesis>> search(Decoding&, const SearchSettings&, int32_t end);

}  // namespace tram

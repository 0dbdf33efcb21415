// The C interface of the library, for ctypes. A function that can fail returns 0, or 1 with the reason in the
// calling thread's `tram_error`. A model must outlive its searches; several threads may use one model.
#include <cmath>
#include <stdexcept>
#include <string>

#include "decoder.h"
#include "encoder.h"
#include "guard.h"
#include "search.h"

using namespace tram;

namespace {

struct Search {
  Decoding decoding;
  int32_t end;
  std::vector<std::vector<Hypothesis>> found;
};

}  // namespace

TRAM_EXPORT const char* tram_error() { return failure.c_str(); }

// The kernels that would run; name: null or empty for the best ones. Null if they cannot run here.
TRAM_EXPORT const char* tram_kernels(const char* name) {
  const Kernels* kernels = nullptr;
  guarded([&] { kernels = choose_kernels(name); });
  return kernels ? kernels->name : nullptr;
}

TRAM_EXPORT Model* tram_model_new(const char* kernels_name, const Sizes* sizes, float embedding_scale,
                                  int threads) {
  Model* model = nullptr;
  guarded([&] {
    const Kernels* kernels = choose_kernels(kernels_name);
    if (!kernels) throw std::invalid_argument("these kernels cannot run here");
    model = new Model(*kernels, *sizes, embedding_scale, threads);
  });
  return model;
}

TRAM_EXPORT void tram_model_free(Model* model) { delete model; }

TRAM_EXPORT int tram_model_memory(Model* model, const char* layer, const float* positions) {
  return guarded([&] { model->add_memory(layer, positions); });
}

TRAM_EXPORT int tram_model_linear(Model* model, const char* name, const float* weight, const float* bias, int64_t out,
                                  int64_t in) {
  return guarded([&] { model->set_linear(name, weight, bias, out, in); });
}

TRAM_EXPORT int tram_model_linear_int8(Model* model, const char* name, const int8_t* weight, const float* scales,
                                       const float* bias, int64_t out, int64_t in, int digits) {
  return guarded([&] { model->set_linear_int8(name, weight, scales, bias, out, in, digits); });
}

// Lets searches look for tokens with int8 weights first, and compute the likely ones in float32. weight is not copied.
TRAM_EXPORT int tram_model_rough_output(Model* model, const float* weight, const int8_t* rounded, const float* scales,
                                        const float* bias) {
  return guarded([&] { model->set_rough_output(weight, rounded, scales, bias); });
}

TRAM_EXPORT int tram_model_norm(Model* model, const char* name, const float* gamma_beta) {
  return guarded([&] { model->set_norm(name, gamma_beta); });
}

// Tables are not copied: the caller keeps them as long as the model. small and scales: instead of values.
TRAM_EXPORT int tram_model_embeddings(Model* model, int decoder, const float* values, const int8_t* small,
                                      const float* scales, int64_t rows, int64_t width, const float* positions,
                                      int64_t places) {
  return guarded([&] {
    Stack& stack = decoder ? model->decoder : model->encoder;
    model->set_embeddings(stack, Table{values, small, scales, rows, width}, positions, places);
  });
}

// Whether the model has all its weights.
TRAM_EXPORT int tram_model_check(const Model* model) {
  return guarded([&] { model->check(); });
}

TRAM_EXPORT int tram_encode(const Model* model, const int64_t* ids, const int32_t* lengths, int64_t documents,
                            int64_t steps, float* const* memories, float* states) {
  return guarded([&] { encode(*model, ids, lengths, documents, steps, memories, states); });
}

// best: the most likely token after each token of the given translations, −1 where probabilities are no numbers;
// scores: its log-probability
TRAM_EXPORT int tram_force(const Model* model, const float* source_states, const int32_t* source_lengths,
                            const int64_t* ids, const int32_t* lengths, int64_t sentences, const int32_t* banned,
                            int64_t n_banned, float* const* memories, float* const* inputs, int32_t* best,
                            float* scores) {
  return guarded([&] {
    int64_t tokens = 0;
    for (int64_t i = 0; i < sentences; i++) tokens += lengths[i];
    Buffer<float> states;
    decode(*model, source_states, source_lengths, ids, lengths, sentences, memories, inputs,
           states.room(tokens * model->sizes.d_model));
    Workspace work;
    work.team = model->team.get();
    OutputScan scan;
    model->output.scan(model->kernels, work, states.data(), tokens, 1, {banned, banned + n_banned}, scan);
    for (int64_t row = 0; row < tokens; row++) {
      const RowScan& found = scan.rows[row];
      const bool damaged = !(found.damage == 0) || !found.count;
      best[row] = damaged ? -1 : found.best[0].id;
      scores[row] = damaged ? 0 : found.best[0].value - (found.max + std::log(found.sum));
    }
  });
}

TRAM_EXPORT int tram_advance(const Model* model, const float* const* inputs, const int32_t* lengths,
                             int64_t documents, float* const* memories) {
  return guarded([&] { advance(*model, inputs, lengths, documents, memories); });
}

TRAM_EXPORT Search* tram_search_new(const Model* model, const float* states, const int32_t* lengths, int64_t sentences,
                                    const float* const* memories, const int32_t* banned, int64_t n_banned,
                                    int32_t end) {
  Search* search = nullptr;
  guarded([&] {
    search = new Search{
        Decoding(*model, states, lengths, sentences, memories, {banned, banned + n_banned}, end), end, {}};
  });
  return search;
}

TRAM_EXPORT void tram_search_free(Search* search) { delete search; }

TRAM_EXPORT int tram_search_step(Search* search, const int32_t* tokens, const int32_t* parents, int64_t width) {
  return guarded([&] { search->decoding.step(tokens, parents, width); });
}

// totals, parents, ids: (sentences, wanted)
TRAM_EXPORT int tram_search_best(Search* search, const float* scores, const uint8_t* must_end, int64_t wanted,
                                 float* totals, int32_t* parents, int32_t* ids) {
  return guarded([&] {
    std::vector<Total> found(search->decoding.sentences() * wanted);
    search->decoding.best(scores, must_end, wanted, found.data());
    for (size_t i = 0; i < found.size(); i++) {
      totals[i] = found[i].total;
      parents[i] = found[i].parent;
      ids[i] = found[i].id;
    }
  });
}

TRAM_EXPORT int tram_search_logits(Search* search, float* values) {
  return guarded([&] { search->decoding.logits(values); });
}

TRAM_EXPORT int tram_search_select(Search* search, const int32_t* rows, int64_t count) {
  return guarded([&] { search->decoding.select(rows, count); });
}

TRAM_EXPORT int tram_search_update_inputs(const Search* search, int64_t row, int64_t hypothesis,
                                          float* const* values) {
  return guarded([&] { search->decoding.update_inputs(row, hypothesis, values); });
}

// The whole search. sizes: for every sentence the number of its hypotheses; their tokens; and the states to copy.
TRAM_EXPORT int tram_search_run(Search* search, const int32_t* start, int64_t n_start, const int32_t* limits,
                                int64_t beam, double penalty, int32_t* hypotheses, int64_t* tokens, int64_t* states) {
  return guarded([&] {
    const int64_t n = search->decoding.sentences();
    search->found = tram::search(
        search->decoding, SearchSettings{{start, start + n_start}, {limits, limits + n}, beam, penalty}, search->end);
    *tokens = *states = 0;
    for (int64_t i = 0; i < n; i++) {
      hypotheses[i] = static_cast<int32_t>(search->found[i].size());
      for (const Hypothesis& each : search->found[i]) {
        *tokens += static_cast<int64_t>(each.ids.size());
        *states += static_cast<int64_t>(each.line.size());
      }
    }
  });
}

// After a whole search. ids, lengths, scores: of all hypotheses, one after the other; values: as in update_inputs.
TRAM_EXPORT int tram_search_found(const Search* search, int32_t* ids, int32_t* lengths, double* scores,
                                  float* const* values) {
  return guarded([&] {
    const int64_t d = search->decoding.model().sizes.d_model;
    std::vector<float*> at;
    for (const Layer& layer : search->decoding.model().decoder.layers)
      if (layer.memory) at.push_back(values[at.size()]);
    for (const auto& sentence : search->found)
      for (const Hypothesis& each : sentence) {
        ids = std::copy(each.ids.begin(), each.ids.end(), ids);
        *lengths++ = static_cast<int32_t>(each.ids.size());
        *scores++ = each.score;
        const auto steps = static_cast<int64_t>(each.line.size());
        search->decoding.update_inputs(each.line.data(), steps, at.data());
        for (float*& place : at) place += steps * d;
      }
  });
}

// Single kernels behind the C interface, for tests.
#include <cmath>
#include <stdexcept>

#include "guard.h"
#include "linear.h"

using namespace tram;

namespace {

const Kernels& kernels_named(const char* name) {
  const Kernels* kernels = choose_kernels(name);
  if (!kernels) throw std::invalid_argument("these kernels cannot run here");
  return *kernels;
}

}  // namespace

// y (rows, out) = x Wᵀ + bias, by `then`. weight: float32, or int8 with `scales`, and activations of some digits.
TRAM_EXPORT int tram_probe_linear(const char* name, const float* x, int64_t rows, int64_t in, const void* weight,
                                  const float* scales, const float* bias, int64_t out, int then, int digits,
                                  float* y) {
  return guarded([&] {
    const Kernels& kernels = kernels_named(name);
    Linear linear;
    if (scales)
      linear.set_int8(kernels, static_cast<const int8_t*>(weight), scales, bias, out, in, digits);
    else
      linear.set(kernels, static_cast<const float*>(weight), bias, out, in);
    Workspace work;
    linear.run(kernels, work, x, rows, in, y, out, static_cast<Then>(then));
  });
}

// values, ids: the `wanted` best of n logits; normaliser: log Σ exp; damaged: whether one is no finite number.
TRAM_EXPORT int tram_probe_scan(const char* name, const float* logits, int64_t n, int32_t wanted, float* values,
                                int32_t* ids, float* normaliser, int* damaged) {
  return guarded([&] {
    const Kernels& kernels = kernels_named(name);
    std::vector<Candidate> best(wanted);
    RowScan scan{-3e38f, 0, 0, wanted, 0, best.data()};
    const int64_t half = n / 2;  // in two parts, as chunks of a large vocabulary
    if (half) kernels.scan(logits, half, 0, scan);
    kernels.scan(logits + half, n - half, static_cast<int32_t>(half), scan);
    for (int32_t i = 0; i < scan.count; i++) values[i] = best[i].value, ids[i] = best[i].id;
    *normaliser = scan.max + std::log(scan.sum);
    *damaged = !(scan.damage == 0);
  });
}

TRAM_EXPORT int tram_probe_attend(const char* name, const float* query, const float* keys, const float* values,
                                  const int32_t* slots, int64_t n, int64_t heads, int64_t width, float* out) {
  return guarded([&] {
    std::vector<float> scores(heads * n);
    kernels_named(name).attend(
        Query{query, keys, values, heads * width, slots, n, heads, width, scores.data(), out});
  });
}

TRAM_EXPORT int tram_probe_activate(const char* name, float* x, int64_t n, int activation) {
  return guarded([&] { kernels_named(name).activate(x, n, static_cast<Activation>(activation)); });
}

// What every processor of the architecture can do: vectors of 4 as the compiler makes them.
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels.h"

namespace tram {
namespace {
constexpr int W = 4, ROWS = 6, VECTORS = 2;
typedef int16_t QUANT;
constexpr int32_t OFFSET = 0;
typedef int32_t I4 __attribute__((vector_size(16)));

inline void store_quantised(int16_t* to, I4 v) {
  for (int i = 0; i < W; i++) to[i] = static_cast<int16_t>(v[i]);
}

int64_t int8_place(int64_t out, int64_t in, int64_t padded) { return ((out / 8) * padded + in) * 8 + out % 8; }

template <int R>
inline void sum_products(I4 (&sums)[R][VECTORS], const Int8Weights& w, const Quantised& q, int64_t row, int64_t panel) {
  int32_t tile[R][8] = {};
  const int16_t* x = static_cast<const int16_t*>(q.values) + row * q.padded;
  const int8_t* at = w.values + panel * 8 * q.padded;
  for (int64_t k = 0; k < q.padded; k++, at += 8)
    for (int r = 0; r < R; r++)
      for (int c = 0; c < 8; c++) tile[r][c] += static_cast<int32_t>(x[r * q.padded + k]) * at[c];
  for (int r = 0; r < R; r++)
    for (int c = 0; c < 8; c++) sums[r][c / 4][c % 4] = tile[r][c];
}

#include "kernels.inl"

constexpr Kernels kernels{"portable", PANEL, 4, 2, false, int8_place, multiply, multiply_int8,
                          quantise, layer_norm, activate, attend, scan, collect, dots};
}  // namespace

const Kernels* portable_kernels() { return &kernels; }
}  // namespace tram

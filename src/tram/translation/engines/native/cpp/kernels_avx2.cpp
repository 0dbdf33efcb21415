// AVX2 with FMA: vectors of 8. Whole numbers are multiplied as 16-bit pairs, which cannot overflow.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"
#define TRAM_AVX2

namespace tram {
namespace {
constexpr int W = 8, ROWS = 6, VECTORS = 2;
typedef int16_t QUANT;
constexpr int32_t OFFSET = 0;
typedef int32_t I8 __attribute__((vector_size(32)));

inline void store_quantised(int16_t* to, I8 v) {
  const __m128i low = _mm256_castsi256_si128((__m256i)v), high = _mm256_extracti128_si256((__m256i)v, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packs_epi32(low, high));
}

int64_t int8_place(int64_t out, int64_t in, int64_t padded) {
  return ((out / 16) * (padded / 2) + in / 2) * 32 + (out % 16) * 2 + in % 2;
}

template <int R>
inline void sum_products(I8 (&sums)[R][VECTORS], const Int8Weights& w, const Quantised& q, int64_t row, int64_t panel) {
  __m256i tile[R][VECTORS];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < VECTORS; j++) tile[r][j] = _mm256_setzero_si256();
  const int16_t* x = static_cast<const int16_t*>(q.values) + row * q.padded;
  const int8_t* at = w.values + panel * 16 * q.padded;
  for (int64_t k = 0; k < q.padded; k += 2, at += 32) {
    __m256i column[VECTORS];
    for (int j = 0; j < VECTORS; j++)
      column[j] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at + j * 16)));
    for (int r = 0; r < R; r++) {
      int32_t two;
      __builtin_memcpy(&two, x + r * q.padded + k, 4);
      const __m256i v = _mm256_set1_epi32(two);
      for (int j = 0; j < VECTORS; j++) tile[r][j] = _mm256_add_epi32(tile[r][j], _mm256_madd_epi16(v, column[j]));
    }
  }
  for (int r = 0; r < R; r++)
    for (int j = 0; j < VECTORS; j++) sums[r][j] = (I8)tile[r][j];
}

#include "kernels.inl"

constexpr Kernels kernels{"avx2", PANEL, 4, 2, false, int8_place, multiply, multiply_int8,
                          quantise, layer_norm, activate, attend, scan, collect, dots};
}  // namespace

const Kernels* avx2_kernels() { return &kernels; }
}  // namespace tram
#endif

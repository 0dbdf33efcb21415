// AVX-512 with VNNI: vectors of 16, u8 × s8 products of four at once.
#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels.h"
#define TRAM_AVX512

namespace tram {
namespace {
constexpr int W = 16, ROWS = 6, VECTORS = 4;
typedef uint8_t QUANT;
constexpr int32_t OFFSET = 128;
typedef int32_t I16 __attribute__((vector_size(64)));

inline void store_quantised(uint8_t* to, I16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)v));
}

int64_t int8_place(int64_t out, int64_t in, int64_t padded) {
  return ((out / 64) * (padded / 4) + in / 4) * 256 + (out % 64) * 4 + in % 4;
}

// Adds four products to each of 16 sums. (With `_mm512_dpbusd_epi32` g++ 12 copies and stores the sums after every
// product, and the loop takes twice as long.)
inline void add_products(__m512i& sums, __m512i activations, __m512i weights) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(activations), "v"(weights));
}

// Loops over a tile are unrolled by request; otherwise g++ 12 keeps the sums in memory.
#define TRAM_UNROLL _Pragma("GCC unroll 8")

template <int R>
inline void sum_products(I16 (&sums)[R][VECTORS], const Int8Weights& w, const Quantised& q, int64_t row, int64_t panel) {
  __m512i tile[R][VECTORS];
  TRAM_UNROLL for (int j = 0; j < VECTORS; j++) {
    const __m512i excess = _mm512_loadu_si512(w.compensation + panel * 64 + j * 16);
    TRAM_UNROLL for (int r = 0; r < R; r++) tile[r][j] = _mm512_sub_epi32(_mm512_setzero_si512(), excess);
  }
  const uint8_t* x = static_cast<const uint8_t*>(q.values) + row * q.padded;
  const int8_t* at = w.values + panel * 64 * q.padded;
  for (int64_t k = 0; k < q.padded; k += 4, at += 256) {
    __m512i column[VECTORS];
    TRAM_UNROLL for (int j = 0; j < VECTORS; j++) column[j] = _mm512_loadu_si512(at + j * 64);
    TRAM_UNROLL for (int r = 0; r < R; r++) {
      int32_t four;
      __builtin_memcpy(&four, x + r * q.padded + k, 4);
      const __m512i v = _mm512_set1_epi32(four);
      TRAM_UNROLL for (int j = 0; j < VECTORS; j++) add_products(tile[r][j], v, column[j]);
    }
  }
  TRAM_UNROLL for (int r = 0; r < R; r++)
    TRAM_UNROLL for (int j = 0; j < VECTORS; j++) sums[r][j] = (I16)tile[r][j];
}

#include "kernels.inl"

constexpr Kernels kernels{"avx512", PANEL, 4, 1, true, int8_place, multiply, multiply_int8,
                          quantise, layer_norm, activate, attend, scan, collect, dots};
}  // namespace

const Kernels* avx512_kernels() { return &kernels; }
}  // namespace tram
#endif

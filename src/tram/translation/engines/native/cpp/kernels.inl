// The kernels in terms of vectors of W floats (compiler vector types). The including file defines, in namespace
// tram and an anonymous namespace: W, ROWS, VECTORS, and the functions marked "of the instruction set".
// No standard header with templates is included here: the linker might keep a copy with the wrong instructions.

typedef float F __attribute__((vector_size(4 * W)));
typedef int32_t I __attribute__((vector_size(4 * W)));
typedef float FU __attribute__((vector_size(4 * W), aligned(4), may_alias));

constexpr int64_t PANEL = W * VECTORS;

inline F load(const float* p) { return *reinterpret_cast<const FU*>(p); }
inline void store(float* p, F v) { *reinterpret_cast<FU*>(p) = v; }
inline F splat(float v) {
#if defined(TRAM_AVX512)
  return (F)_mm512_set1_ps(v);
#elif defined(TRAM_AVX2)
  return (F)_mm256_set1_ps(v);
#else
  return F{} + v;
#endif
}
// If one is not a number: b.
inline F maximum(F a, F b) { return a > b ? a : b; }
inline F minimum(F a, F b) { return a < b ? a : b; }

inline float sum_of(F v) {
#if defined(TRAM_AVX512)
  return _mm512_reduce_add_ps((__m512)v);
#elif defined(TRAM_AVX2)
  __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
  float s = 0;
  for (int i = 0; i < W; i++) s += v[i];
  return s;
#endif
}

inline float max_of(F v) {
#if defined(TRAM_AVX512)
  return _mm512_reduce_max_ps((__m512)v);
#else
  float m = v[0];
  for (int i = 1; i < W; i++) m = v[i] > m ? v[i] : m;
  return m;
#endif
}

inline int32_t max_of(I v) {
#if defined(TRAM_AVX512)
  return _mm512_reduce_max_epi32((__m512i)v);
#else
  int32_t m = v[0];
  for (int i = 1; i < W; i++) m = v[i] > m ? v[i] : m;
  return m;
#endif
}

// Bits of the lanes of a comparison that holds (all ones) or does not (0).
inline uint32_t bits_of(I lanes) {
#if defined(TRAM_AVX512)
  return _mm512_test_epi32_mask((__m512i)lanes, (__m512i)lanes);
#elif defined(TRAM_AVX2)
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)lanes));
#elif defined(__SSE2__)
  return static_cast<uint32_t>(_mm_movemask_ps((__m128)lanes));
#else
  uint32_t bits = 0;
  for (int i = 0; i < W; i++) bits |= static_cast<uint32_t>(lanes[i] != 0) << i;
  return bits;
#endif
}

// Rounded to the nearest whole number, halves to the even one: the same in every instruction set.
inline I rounded(F v) {
#if defined(TRAM_AVX512)
  return (I)_mm512_cvtps_epi32((__m512)v);
#elif defined(TRAM_AVX2)
  return (I)_mm256_cvtps_epi32((__m256)v);
#elif defined(__SSE2__)
  return (I)_mm_cvtps_epi32((__m128)v);
#else
  I r;
  for (int i = 0; i < W; i++) r[i] = static_cast<int32_t>(__builtin_rintf(v[i]));
  return r;
#endif
}

// exp(x) for x ≤ 88; relative error 2e-7. Anything below −87 counts as −87; NaN stays NaN.
inline F exponential(F x) {
  x = maximum(splat(-87.0f), x);
  const F shift = splat(12582912.0f);  // 1.5 · 2²³: adding it rounds to a whole number
  const F n = (x * splat(1.44269504f) + shift) - shift;
  F r = x - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  F p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
#if defined(TRAM_AVX512)
  return (F)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  return p * (F)((__builtin_convertvector(n, I) + 127) << 23);
#endif
}

inline float exponential(float x) {
  F v = splat(x);
  return exponential(v)[0];
}

// Products. A tile is R rows times one panel; the last panel may have fewer than PANEL columns.

template <int R>
inline void finish(F (&tile)[R][VECTORS], const Product& p, int64_t row, int64_t panel) {
  const int64_t column = (panel - p.first) * PANEL;
  const int64_t columns = p.out - panel * PANEL;
  float* y = p.y + row * p.y_stride + column;
  if (columns >= PANEL) {
    for (int r = 0; r < R; r++)
      for (int j = 0; j < VECTORS; j++) {
        float* to = y + r * p.y_stride + j * W;
        F v = tile[r][j];
        if (p.then == Then::relu) v = maximum(F{}, v);
        if (p.then == Then::add) v = v + load(to);
        store(to, v);
      }
    return;
  }
  for (int r = 0; r < R; r++) {
    float line[PANEL];
    for (int j = 0; j < VECTORS; j++) store(line + j * W, tile[r][j]);
    float* to = y + r * p.y_stride;
    for (int64_t c = 0; c < columns; c++) {
      float v = line[c];
      if (p.then == Then::relu) v = 0 > v ? 0 : v;
      if (p.then == Then::add) v += to[c];
      to[c] = v;
    }
  }
}

template <int R>
void tile_float(const Product& p, const float* weights, int64_t row, int64_t panel) {
  F tile[R][VECTORS];
  for (int j = 0; j < VECTORS; j++) {
    const F bias = load(p.bias + panel * PANEL + j * W);
    for (int r = 0; r < R; r++) tile[r][j] = bias;
  }
  const float* x = p.x + row * p.x_stride;
  const float* w = weights + panel * PANEL * p.in;
  for (int64_t k = 0; k < p.in; k++, w += PANEL) {
    F column[VECTORS];
    for (int j = 0; j < VECTORS; j++) column[j] = load(w + j * W);
    for (int r = 0; r < R; r++) {
      const F v = splat(x[r * p.x_stride + k]);
      for (int j = 0; j < VECTORS; j++) tile[r][j] = v * column[j] + tile[r][j];
    }
  }
  finish<R>(tile, p, row, panel);
}

// Calls f<R>(row, panel) so that blocks of rows are as even as possible and none has more than `most`.
#define TRAM_FOR_TILES(p, most, call)                                       \
  for (int64_t panel = (p).first; panel < (p).last; panel++) {              \
    int64_t blocks = ((p).rows + (most)-1) / (most);                        \
    for (int64_t row = 0, rest = (p).rows; blocks; blocks--) {              \
      const int64_t size = (rest + blocks - 1) / blocks;                    \
      switch (size) {                                                       \
        case 1: call(1); break;                                             \
        case 2: call(2); break;                                             \
        case 3: call(3); break;                                             \
        case 4: call(4); break;                                             \
        case 5: call(5); break;                                             \
        default: call(6);                                                   \
      }                                                                     \
      row += size;                                                          \
      rest -= size;                                                         \
    }                                                                       \
  }
static_assert(ROWS == 6, "the cases above");

void multiply(const Product& p, const float* weights) {
#define TRAM_CALL(R) tile_float<R>(p, weights, row, panel)
  TRAM_FOR_TILES(p, ROWS, TRAM_CALL)
#undef TRAM_CALL
}

// Of the instruction set: `sum_products<R>`, which adds the products of whole numbers to `sums`, and `int8_place`.
template <int R, int DIGITS>
void tile_int8(const Product& p, const Int8Weights& w, const Quantised& q, int64_t row, int64_t panel) {
  I sums[R * DIGITS][VECTORS] = {};
  sum_products<R * DIGITS>(sums, w, q, row * DIGITS, panel);
  F tile[R][VECTORS];
  const int64_t column = panel * PANEL;
  for (int r = 0; r < R; r++) {
    const F unit = splat(q.scales[row + r]);
    for (int j = 0; j < VECTORS; j++) {
      F sum = __builtin_convertvector(sums[r * DIGITS][j], F);
      if (DIGITS == 2) sum = sum * splat(DIGIT) + __builtin_convertvector(sums[r * DIGITS + DIGITS - 1][j], F);
      tile[r][j] = sum * (unit * load(w.scales + column + j * W)) + load(p.bias + column + j * W);
    }
  }
  finish<R>(tile, p, row, panel);
}

void multiply_int8(const Product& p, const Int8Weights& w, const Quantised& q) {
#define TRAM_CALL(R) tile_int8<R, 1>(p, w, q, row, panel)
  if (q.digits == 1) {
    TRAM_FOR_TILES(p, ROWS, TRAM_CALL)
    return;
  }
#undef TRAM_CALL
#define TRAM_CALL(R) tile_int8<(R < ROWS / 2 ? R : ROWS / 2), 2>(p, w, q, row, panel)
  TRAM_FOR_TILES(p, ROWS / 2, TRAM_CALL)
#undef TRAM_CALL
}

// Stores whole numbers of one digit, or of two, `padded` apart.
inline void store_digits(QUANT* to, I whole, int64_t padded, int digits) {
  if (digits == 2) {
    const I first = rounded(__builtin_convertvector(whole, F) * splat(1.0f / DIGIT));
    store_quantised(to + padded, whole - first * DIGIT + OFFSET);
    whole = first;
  }
  store_quantised(to, whole + OFFSET);
}

// The largest |x| becomes the largest number. QUANT: the stored type, OFFSET what is added (unsigned activations). A row
// with a number that is not finite becomes zeros whose unit is NaN, so that its products are NaN and not a plausible
// result.
void quantise(const float* x, int64_t rows, int64_t in, int64_t x_stride, void* values, float* scales, int64_t padded,
              int digits) {
  const I sign = I{} + 0x7fffffff;
  const float most_units = digits == 2 ? 127.0f * DIGIT : 127.0f;
  for (int64_t row = 0; row < rows; row++) {
    const float* from = x + row * x_stride;
    QUANT* to = static_cast<QUANT*>(values) + row * digits * padded;
    // Bits of floats without their sign are in the order of the floats as whole numbers, NaN above all others
    I most = I{};
    int64_t i = 0;
    for (; i + W <= in; i += W) {
      const I bits = (I)load(from + i) & sign;
      most = bits > most ? bits : most;
    }
    int32_t largest_bits = max_of(most);
    for (; i < in; i++) {
      int32_t bits;
      __builtin_memcpy(&bits, from + i, 4);
      bits &= 0x7fffffff;
      largest_bits = bits > largest_bits ? bits : largest_bits;
    }
    float largest;
    __builtin_memcpy(&largest, &largest_bits, 4);
    if (largest_bits >= 0x7f800000) {
      scales[row] = __builtin_nanf("");
      for (i = 0; i < digits * padded; i++) to[i] = static_cast<QUANT>(OFFSET);
      continue;
    }
    largest = largest > 1e-20f ? largest : 1e-20f;
    scales[row] = largest / most_units;
    const float inverse = most_units / largest;
    for (i = 0; i + W <= in; i += W) store_digits(to + i, rounded(load(from + i) * inverse), padded, digits);
    for (; i < padded; i += W) {  // the last ones, with zeros after them
      float rest[W] = {};
      QUANT line[2 * W];
      for (int64_t j = 0; j < W && i + j < in; j++) rest[j] = from[i + j];
      store_digits(line, rounded(load(rest) * inverse), W, digits);
      for (int digit = 0; digit < digits; digit++)
        for (int64_t j = 0; j < W && i + j < padded; j++) to[digit * padded + i + j] = line[digit * W + j];
    }
  }
}

void layer_norm(const float* x, float* y, int64_t rows, int64_t width, const float* gamma, const float* beta) {
  for (int64_t row = 0; row < rows; row++, x += width, y += width) {
    F total = F{};
    int64_t i = 0;
    for (; i + W <= width; i += W) total += load(x + i);
    float sum = sum_of(total);
    for (; i < width; i++) sum += x[i];
    const float mean = sum / static_cast<float>(width);
    F squares = F{};
    for (i = 0; i + W <= width; i += W) {
      const F d = load(x + i) - mean;
      squares = d * d + squares;
    }
    float variance = sum_of(squares);
    for (; i < width; i++) variance += (x[i] - mean) * (x[i] - mean);
    const float factor = 1.0f / __builtin_sqrtf(variance / static_cast<float>(width) + norm_epsilon);
    for (i = 0; i + W <= width; i += W) store(y + i, (load(x + i) - mean) * factor * load(gamma + i) + load(beta + i));
    for (; i < width; i++) y[i] = (x[i] - mean) * factor * gamma[i] + beta[i];
  }
}

// erf by Abramowitz and Stegun 7.1.26, absolute error below 2e-7.
inline F gelu(F x) {
  const F z = x * splat(0.70710678f);
  const F size = maximum(z, -z);
  const F t = splat(1.0f) / (splat(1.0f) + splat(0.3275911f) * size);
  F p = splat(1.061405429f);
  p = p * t + splat(-1.453152027f);
  p = p * t + splat(1.421413741f);
  p = p * t + splat(-0.284496736f);
  p = p * t + splat(0.254829592f);
  const F tail = p * t * exponential(-(size * size));  // 1 − erf |z|
  return splat(0.5f) * x * (z > F{} ? splat(2.0f) - tail : tail);
}

inline F swish(F x) { return x / (splat(1.0f) + exponential(minimum(splat(88.0f), -x))); }

void activate(float* x, int64_t n, Activation activation) {
  for (int64_t i = 0; i < n; i += W) {
    float rest[W] = {};
    const int64_t size = n - i < W ? n - i : W;
    float* at = x + i;
    if (size < W) {
      for (int64_t j = 0; j < size; j++) rest[j] = at[j];
      at = rest;
    }
    F v = load(at);
    if (activation == Activation::relu)
      v = maximum(F{}, v);
    else
      v = activation == Activation::gelu ? gelu(v) : swish(v);
    store(at, v);
    if (size < W)
      for (int64_t j = 0; j < size; j++) x[i + j] = rest[j];
  }
}

inline float dot(const float* a, const float* b, int64_t n) {
  F total = F{};
  int64_t i = 0;
  for (; i + W <= n; i += W) total = load(a + i) * load(b + i) + total;
  float sum = i ? sum_of(total) : 0.0f;
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// Softmax of scale · s, in place.
inline void softmax(float* s, int64_t n, float scale) {
  float most = -3e38f;
  F best = splat(most);
  int64_t i = 0;
  for (; i + W <= n; i += W) best = maximum(load(s + i), best);
  if (i) most = max_of(best);
  for (; i < n; i++) most = s[i] > most ? s[i] : most;
  F total = F{};
  for (i = 0; i + W <= n; i += W) {
    const F e = exponential((load(s + i) - most) * scale);
    store(s + i, e);
    total += e;
  }
  float sum = i ? sum_of(total) : 0.0f;
  if (i < n) {
    float rest[W];
    for (int64_t j = 0; j < W; j++) rest[j] = i + j < n ? (s[i + j] - most) * scale : -87.0f;
    store(rest, exponential(load(rest)));
    for (; i < n; i++) {
      s[i] = rest[i % W];
      sum += s[i];
    }
  }
  const float factor = 1.0f / sum;
  for (i = 0; i + W <= n; i += W) store(s + i, load(s + i) * factor);
  for (; i < n; i++) s[i] *= factor;
}

inline int64_t place(const Query& q, int64_t j) { return (q.slots ? q.slots[j] : j) * q.stride; }

// Adds Σ_j weights[j] · values[j] to N vectors of the result.
template <int N>
inline void weigh(const Query& q, const float* weights, int64_t column, float* out) {
  F total[N] = {};
  for (int64_t j = 0; j < q.n; j++) {
    const float* value = q.values + place(q, j) + column;
    const F weight = splat(weights[j]);
    for (int v = 0; v < N; v++) total[v] = weight * load(value + v * W) + total[v];
  }
  for (int v = 0; v < N; v++) store(out + v * W, total[v]);
}

void attend(const Query& q) {
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(q.width));
  for (int64_t head = 0; head < q.heads; head++) {
    const int64_t column = head * q.width;
    float* weights = q.scores + head * q.n;
    for (int64_t j = 0; j < q.n; j++) weights[j] = dot(q.query + column, q.keys + place(q, j) + column, q.width);
    softmax(weights, q.n, scale);
    int64_t i = 0;
    for (; i + 4 * W <= q.width; i += 4 * W) weigh<4>(q, weights, column + i, q.out + column + i);
    for (; i + W <= q.width; i += W) weigh<1>(q, weights, column + i, q.out + column + i);
    for (; i < q.width; i++) {
      float total = 0;
      for (int64_t j = 0; j < q.n; j++) total += weights[j] * q.values[place(q, j) + column + i];
      q.out[column + i] = total;
    }
  }
}

inline void offer(RowScan& row, float value, int32_t id) {
  if (row.count == row.wanted && !(value > row.best[row.count - 1].value)) return;
  int32_t at = row.count < row.wanted ? row.count++ : row.count - 1;
  for (; at > 0 && row.best[at - 1].value < value; at--) row.best[at] = row.best[at - 1];
  row.best[at] = Candidate{value, id};
}

void scan(const float* logits, int64_t n, int32_t first_id, RowScan& row) {
  F best = splat(-3e38f), damage = F{};
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const F v = load(logits + i);
    best = maximum(v, best);
    damage = v * F{} + damage;
  }
  float most = max_of(best);
  float bad = sum_of(damage);
  for (int64_t j = i; j < n; j++) {
    most = logits[j] > most ? logits[j] : most;
    bad += logits[j] * 0.0f;
  }
  row.damage += bad;
  if (most > row.max) {
    row.sum *= exponential(row.max - most);
    row.max = most;
  }
  F total = F{};
  float threshold = row.count == row.wanted ? row.best[row.count - 1].value : -3e38f;
  for (i = 0; i + W <= n; i += W) {
    const F v = load(logits + i);
    total += exponential(v - row.max);
    for (uint32_t bits = bits_of(v > splat(threshold)); bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      offer(row, logits[i + lane], first_id + static_cast<int32_t>(i) + lane);
      if (row.count == row.wanted) threshold = row.best[row.count - 1].value;
    }
  }
  row.sum += sum_of(total);
  for (; i < n; i++) {
    row.sum += exponential(logits[i] - row.max);
    offer(row, logits[i], first_id + static_cast<int32_t>(i));
  }
}

int64_t collect(const float* logits, int64_t n, float least, Candidate* found, int64_t room) {
  const F threshold = splat(least);
  int64_t count = 0, i = 0;
  for (; i + W <= n; i += W)
    for (uint32_t bits = bits_of(load(logits + i) >= threshold); bits; bits &= bits - 1) {
      const int lane = __builtin_ctz(bits);
      if (count < room) found[count] = Candidate{logits[i + lane], static_cast<int32_t>(i) + lane};
      count++;
    }
  for (; i < n; i++)
    if (logits[i] >= least) {
      if (count < room) found[count] = Candidate{logits[i], static_cast<int32_t>(i)};
      count++;
    }
  return count;
}

void dots(const float* x, const float* weights, int64_t in, const float* bias, Candidate* candidates, int64_t n) {
  for (int64_t c = 0; c < n; c++) {
    if (c + 1 < n)  // rows are far from each other: the next one is on its way while this one is computed
      for (int64_t i = 0; i < in; i += 16) __builtin_prefetch(weights + candidates[c + 1].id * in + i);
    candidates[c].value = dot(x, weights + candidates[c].id * in, in) + bias[candidates[c].id];
  }
}

#include "output.h"

#include <cmath>
#include <cstring>

namespace tram {
namespace {

constexpr int64_t CHUNK = 1 << 17;  // logits that are computed before they are looked at: they stay in the cache
constexpr int64_t MOST_LOGITS = 1 << 24;  // of the first pass that are kept at once
constexpr size_t MOST_LIKELY = 1024;  // tokens that are computed again; if there are more, all are
constexpr float NOTABLE = 5;  // tokens whose logit is so much below the largest one count for the sum as they are

void ban(const std::vector<int32_t>& banned, float* logits, int64_t first, int64_t count) {
  for (const int32_t id : banned)
    if (id >= first && id < first + count) logits[id - first] = -1e30f;
}

bool better(const Candidate& a, const Candidate& b) { return a.value != b.value ? a.value > b.value : a.id < b.id; }

}  // namespace

void Output::set_rough(const Kernels& kernels, const float* weight, const int8_t* rounded, const float* scales,
                       const float* bias) {
  const int64_t out = linear.out, in = linear.in;
  bias_.assign(out, 0.0f);
  if (bias) std::copy(bias, bias + out, bias_.begin());
  rough_.set_int8(kernels, rounded, scales, bias, out, in, 2);
  double rounding = 0, magnitude = 0;
  for (int64_t o = 0; o < out; o++) {
    double squares = 0, difference = 0, sum = 0;
    for (int64_t i = 0; i < in; i++) {
      const double exact = weight[o * in + i], near = static_cast<double>(rounded[o * in + i]) * scales[o];
      squares += exact * exact;
      difference += (exact - near) * (exact - near);
      sum += std::fabs(near);
    }
    // The second term is for what float32 products lose themselves
    rounding = std::max(rounding, std::sqrt(difference) + 2e-5 * std::sqrt(squares));
    magnitude = std::max(magnitude, sum);
  }
  rounding_ = static_cast<float>(rounding);
  magnitude_ = static_cast<float>(magnitude);
  weight_ = weight;
}

void Output::scan(const Kernels& kernels, Workspace& work, const float* x, int64_t rows, int32_t wanted,
                  const std::vector<int32_t>& banned, OutputScan& scan) const {
  scan.best.resize(rows * wanted);
  scan.rows.clear();
  for (int64_t row = 0; row < rows; row++)
    scan.rows.push_back(RowScan{-3e38f, 0, 0, wanted, 0, scan.best.data() + row * wanted});
  if (weight_)
    scan_rough(kernels, work, x, rows, banned, scan);
  else
    scan_plain(kernels, work, x, rows, banned, scan.rows.data(), scan.logits);
}

// Some columns at a time.
void Output::scan_plain(const Kernels& kernels, Workspace& work, const float* x, int64_t rows,
                        const std::vector<int32_t>& banned, RowScan* scans, Buffer<float>& logits) const {
  const int64_t panels = std::max<int64_t>(1, std::min(linear.panels, CHUNK / rows / kernels.panel));
  const int64_t stride = panels * kernels.panel;
  float* chunk = logits.room(rows * stride);
  linear.prepare(kernels, work, x, rows, linear.in);
  for (int64_t first = 0; first < linear.panels; first += panels) {
    const int64_t last = std::min(first + panels, linear.panels), start = first * kernels.panel;
    const int64_t columns = std::min(last * kernels.panel, linear.out) - start;
    linear.run_panels(kernels, work, x, rows, linear.in, chunk, stride, Then::store, first, last);
    for (int64_t row = 0; row < rows; row++) {
      ban(banned, chunk + row * stride, start, columns);
      kernels.scan(chunk + row * stride, columns, static_cast<int32_t>(start), scans[row]);
    }
  }
}

void Output::scan_rough(const Kernels& kernels, Workspace& work, const float* x, int64_t rows,
                        const std::vector<int32_t>& banned, OutputScan& scan) const {
  const int64_t in = linear.in, vocabulary = linear.out, stride = rough_.panels * kernels.panel;
  const int64_t group = std::max<int64_t>(1, std::min(rows, MOST_LOGITS / stride));
  const int64_t panels = std::max<int64_t>(1, std::min(rough_.panels, CHUNK / group / kernels.panel));
  float* logits = scan.logits.room(group * stride);
  std::vector<int64_t> left;  // rows that need all products in float32
  for (int64_t from = 0; from < rows; from += group) {
    const int64_t count = std::min(group, rows - from);
    const float* states = x + from * in;
    RowScan* scans = scan.rows.data() + from;
    rough_.prepare(kernels, work, states, count, in);
    for (int64_t first = 0; first < rough_.panels; first += panels) {
      const int64_t last = std::min(first + panels, rough_.panels), start = first * kernels.panel;
      const int64_t columns = std::min(last * kernels.panel, vocabulary) - start;
      rough_.run_panels(kernels, work, states, count, in, logits + start, stride, Then::store, first, last);
      for (int64_t row = 0; row < count; row++) {
        ban(banned, logits + row * stride + start, start, columns);
        kernels.scan(logits + row * stride + start, columns, static_cast<int32_t>(start), scans[row]);
      }
    }
    for (int64_t row = 0; row < count; row++) {
      double squares = 0;
      for (int64_t i = 0; i < in; i++) squares += static_cast<double>(states[row * in + i]) * states[row * in + i];
      // |x·w − x̂·ŵ| ≤ ‖x‖₂ ‖w − ŵ‖₂ + max |x − x̂| ‖ŵ‖₁, and x is rounded by half a unit at most
      const float unit = work.scales.data()[row];
      const float error = 1.001f * (static_cast<float>(std::sqrt(squares)) * rounding_ + 0.5f * unit * magnitude_);
      if (!rescore(kernels, states + row * in, logits + row * stride, error, scans[row], scan.likely))
        left.push_back(from + row);
    }
  }
  if (left.empty()) return;
  const auto n = static_cast<int64_t>(left.size());
  float* gathered = scan.gathered.room(n * in);
  std::vector<RowScan> fresh;
  for (int64_t i = 0; i < n; i++) {
    std::memcpy(gathered + i * in, x + left[i] * in, in * sizeof(float));
    const RowScan& row = scan.rows[left[i]];
    fresh.push_back(RowScan{-3e38f, 0, 0, row.wanted, 0, row.best});
  }
  scan_plain(kernels, work, gathered, n, banned, fresh.data(), scan.logits);
  for (int64_t i = 0; i < n; i++) scan.rows[left[i]] = fresh[i];
}

// The second pass for one row. error: how far the logits may be from exact ones. False: all have to be computed.
bool Output::rescore(const Kernels& kernels, const float* x, const float* logits, float error, RowScan& row,
                     std::vector<Candidate>& likely) const {
  if (!(row.damage == 0) || !std::isfinite(error) || row.count < row.wanted) return false;
  // The exact logits of the tokens that seem best: at least so large is the last of those that are best
  likely.assign(row.best, row.best + row.count);
  kernels.dots(x, weight_, linear.in, bias_.data(), likely.data(), row.count);
  float least = likely[0].value;
  for (const Candidate& each : likely) least = std::min(least, each.value);
  const float threshold = std::min(least - error, row.max - NOTABLE);
  if (!(threshold > -1e29f)) return false;  // banned tokens are below
  likely.resize(MOST_LIKELY);
  const int64_t count = kernels.collect(logits, linear.out, threshold, likely.data(), MOST_LIKELY);
  if (count > static_cast<int64_t>(MOST_LIKELY)) return false;
  likely.resize(count);
  double rest = row.sum, sum = 0;
  for (const Candidate& each : likely) rest -= std::exp(each.value - row.max);
  kernels.dots(x, weight_, linear.in, bias_.data(), likely.data(), count);
  for (const Candidate& each : likely) {
    if (!std::isfinite(each.value)) return false;
    sum += std::exp(each.value - row.max);
  }
  row.sum = static_cast<float>(sum + std::max(rest, 0.0));
  std::partial_sort_copy(likely.begin(), likely.end(), row.best, row.best + row.count, better);
  return true;
}

}  // namespace tram

#include "linear.h"

#include <cstring>
#include <stdexcept>

namespace tram {

constexpr int64_t WORTH_SHARING = 1 << 21;  // multiplications; waking other threads costs more below that
constexpr int64_t MOST_INT8_INPUTS = 1 << 16;  // sums of more products may not fit into 32 bits

void Linear::set_bias(const Kernels& kernels, const float* bias) {
  panels = (out + kernels.panel - 1) / kernels.panel;
  float* to = bias_.room(panels * kernels.panel);
  std::fill(to, to + panels * kernels.panel, 0.0f);
  if (bias) std::copy(bias, bias + out, to);
}

void Linear::set(const Kernels& kernels, const float* weight, const float* bias, int64_t n_out, int64_t n_in) {
  out = n_out, in = n_in, digits_ = 0;
  set_bias(kernels, bias);
  const int64_t panel = kernels.panel, size = panels * panel * in;
  float* to = weights_.room(size);
  std::memset(to, 0, size * sizeof(float));
  for (int64_t o = 0; o < out; o++) {
    float* column = to + (o / panel) * panel * in + o % panel;
    for (int64_t i = 0; i < in; i++) column[i * panel] = weight[o * in + i];
  }
}

void Linear::set_int8(const Kernels& kernels, const int8_t* weight, const float* scales, const float* bias,
                      int64_t n_out, int64_t n_in, int digits) {
  if (n_in > MOST_INT8_INPUTS) throw std::invalid_argument("too many inputs for int8");
  if (digits != 1 && digits != 2) throw std::invalid_argument("activations of one digit or two");
  out = n_out, in = n_in, digits_ = digits;
  padded_ = (in + kernels.unit - 1) / kernels.unit * kernels.unit;
  set_bias(kernels, bias);
  const int64_t columns = panels * kernels.panel;
  int8_t* to = small_.room(columns * padded_);
  float* units = scales_.room(columns);
  int32_t* excess = compensation_.room(columns);
  std::memset(to, 0, columns * padded_);
  std::fill(units, units + columns, 0.0f);
  std::fill(excess, excess + columns, 0);
  for (int64_t o = 0; o < out; o++) {
    units[o] = scales[o];
    for (int64_t i = 0; i < in; i++) {
      const int8_t value = weight[o * in + i];
      to[kernels.int8_place(o, i, padded_)] = value;
      excess[o] += 128 * value;
    }
  }
}

void Linear::prepare(const Kernels& kernels, Workspace& work, const float* x, int64_t rows, int64_t x_stride) const {
  if (!digits_) return;
  unsigned char* values = work.quantised.room(rows * digits_ * padded_ * kernels.quant_bytes);
  kernels.quantise(x, rows, in, x_stride, values, work.scales.room(rows), padded_, digits_);
}

void Linear::run_panels(const Kernels& kernels, Workspace& work, const float* x, int64_t rows, int64_t x_stride,
                        float* y, int64_t y_stride, Then then, int64_t first, int64_t last) const {
  const auto some = [&](int64_t from, int64_t to) {
    float* columns = y + from * kernels.panel;
    const Product product{x, rows, in, x_stride, bias_.data(), columns, out, y_stride, first + from, first + to, then};
    if (!digits_) return kernels.multiply(product, weights_.data());
    kernels.multiply_int8(product, Int8Weights{small_.data(), scales_.data(), compensation_.data()},
                          Quantised{work.quantised.data(), work.scales.data(), padded_, digits_});
  };
  const int64_t size = rows * in * (last - first) * kernels.panel;
  if (work.team && size >= WORTH_SHARING)
    work.team->run(last - first, some);
  else
    some(0, last - first);
}

void Linear::run(const Kernels& kernels, Workspace& work, const float* x, int64_t rows, int64_t x_stride, float* y,
                 int64_t y_stride, Then then) const {
  prepare(kernels, work, x, rows, x_stride);
  run_panels(kernels, work, x, rows, x_stride, y, y_stride, then, 0, panels);
}

void Norm::set(const float* values, int64_t width) {
  gamma.assign(values, values + width);
  beta.assign(values + width, values + 2 * width);
}

void Norm::run(const Kernels& kernels, const float* x, float* y, int64_t rows) const {
  const int64_t width = static_cast<int64_t>(gamma.size());
  kernels.layer_norm(x, y, rows, width, gamma.data(), beta.data());
}

}  // namespace tram

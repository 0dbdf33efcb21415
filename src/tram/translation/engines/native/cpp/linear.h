// Linear maps with packed weights, layer norms and token tables.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels.h"
#include "team.h"

namespace tram {

// Numbers on cache lines of their own, uninitialised. (`std::vector` would fill them first.)
template <class T>
class Buffer {
 public:
  // Room for n numbers; what was there before is lost if it has to grow.
  T* room(size_t n) {
    if (n > size_) {
      if (n > SIZE_MAX / sizeof(T) / 4) throw std::bad_alloc();  // what follows would overflow
      const size_t fresh_size = std::max<size_t>(n, size_ + size_ / 2);
      const size_t bytes = (fresh_size * sizeof(T) + 127) / 64 * 64;
      T* fresh = static_cast<T*>(std::aligned_alloc(64, bytes));
      if (!fresh) throw std::bad_alloc();
      data_.reset(fresh);
      size_ = fresh_size;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

// Scratch memory of one call; never shared between threads.
struct Workspace {
  Team* team = nullptr;  // null: the calling thread alone
  Buffer<unsigned char> quantised;
  Buffer<float> scales;
};

class Linear {
 public:
  void set(const Kernels&, const float* weight, const float* bias, int64_t out, int64_t in);
  // digits: of the activations; see `Quantised`.
  void set_int8(const Kernels&, const int8_t* weight, const float* scales, const float* bias, int64_t out, int64_t in,
                int digits);
  // y (rows, out) = x Wᵀ + b, or what `then` says.
  void run(const Kernels&, Workspace&, const float* x, int64_t rows, int64_t x_stride, float* y, int64_t y_stride,
           Then then = Then::store) const;
  // The same for some panels only: `prepare`, then `run_panels` with the same rows.
  void prepare(const Kernels&, Workspace&, const float* x, int64_t rows, int64_t x_stride) const;
  void run_panels(const Kernels&, Workspace&, const float* x, int64_t rows, int64_t x_stride, float* y,
                  int64_t y_stride, Then then, int64_t first, int64_t last) const;
  int64_t out = 0, in = 0, panels = 0;

 private:
  void set_bias(const Kernels&, const float* bias);
  int digits_ = 0;  // of int8 products' activations; 0: float32
  int64_t padded_ = 0;
  Buffer<float> weights_, bias_, scales_;
  Buffer<int8_t> small_;
  Buffer<int32_t> compensation_;
};

struct Norm {  // empty: the identity
  std::vector<float> gamma, beta;
  void set(const float* values, int64_t width);
  explicit operator bool() const { return !gamma.empty(); }
  void run(const Kernels&, const float* x, float* y, int64_t rows) const;
};

// Rows of a token table: float32 of the caller's, or int8 with one scale for each row.
struct Table {
  const float* values = nullptr;
  const int8_t* small = nullptr;
  const float* scales = nullptr;
  int64_t rows = 0, width = 0;
};

}  // namespace tram

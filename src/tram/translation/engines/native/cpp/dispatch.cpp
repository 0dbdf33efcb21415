// Which kernels run: the best set that the processor announces and whose self-test passes. Virtual machines announce
// instructions that they do not have, so a set is tried once on small numbers with SIGILL caught.
#include <setjmp.h>
#include <signal.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <vector>

#include "kernels.h"
#include "linear.h"

namespace tram {
namespace {

bool announced(const Kernels* kernels) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (kernels == avx512_kernels())
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
  if (kernels == avx2_kernels()) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return kernels == portable_kernels();
}

bool near(float a, double b) { return std::fabs(a - b) <= 1e-3 * (1 + std::fabs(b)); }

// SIGILL while kernels are tried out.
thread_local sigjmp_buf back;
thread_local volatile sig_atomic_t trying = 0;
struct sigaction before;  // written under the lock of `choose_kernels`

void on_illegal(int number, siginfo_t* info, void* context) {
  if (trying) siglongjmp(back, 1);
  // Not ours: another thread's. What was there before decides; a default ends the process when it happens again
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    signal(number, SIG_DFL);
  } else {
    before.sa_handler(number);
  }
}

// Returns false if the work has an instruction that does not exist. The jump out of it skips destructors: the work
// must not have objects that need them while it is in a kernel.
template <class F>
bool runs(F&& work) {
  if (sigsetjmp(back, 1)) {
    trying = 0;
    return false;
  }
  trying = 1;
  work();
  trying = 0;
  return true;
}

// Every kernel once, against sums written the plain way.
bool computes(const Kernels& kernels) {
  const int rows = 7, in = 37, out = 70;
  std::vector<float> x(rows * in), w(out * in), bias(out), y(rows * out), whole(out, 1.0f);
  std::vector<int8_t> w8(out * in);
  for (int i = 0; i < rows * in; i++) x[i] = static_cast<float>((i * 37) % 101 - 50) / 25.0f;
  for (int i = 0; i < out * in; i++) w8[i] = static_cast<int8_t>((i * 53) % 255 - 127), w[i] = static_cast<float>(w8[i]);
  for (int i = 0; i < out; i++) bias[i] = static_cast<float>(i);
  Linear plain, small, fine;
  Workspace work;
  const bool packed = runs([&] {
    plain.set(kernels, w.data(), bias.data(), out, in);
    small.set_int8(kernels, w8.data(), whole.data(), bias.data(), out, in, 1);
    fine.set_int8(kernels, w8.data(), whole.data(), bias.data(), out, in, 2);
  });
  if (!packed) return false;
  for (Linear* linear : {&plain, &small, &fine}) {
    if (!runs([&] { linear->run(kernels, work, x.data(), rows, in, y.data(), out); })) return false;
    for (int r = 0; r < rows; r++)
      for (int o = 0; o < out; o++) {
        double largest = 0, sum = bias[o];
        for (int i = 0; i < in; i++) largest = std::max(largest, std::fabs(static_cast<double>(x[r * in + i])));
        const double unit = linear == &plain ? 0 : largest / (linear == &fine ? 127 * DIGIT : 127);
        for (int i = 0; i < in; i++) {
          const double v = x[r * in + i];
          sum += (unit > 0 ? std::nearbyint(v / unit) * unit : v) * w[o * in + i];
        }
        // A half may round the other way in double precision: one unit of one activation
        if (std::fabs(y[r * out + o] - sum) > 1e-3 * (1 + std::fabs(sum)) + 127 * unit) return false;
      }
  }
  std::vector<float> normed(in), ones(in, 1.0f), zeros(in, 0.0f);
  if (!runs([&] { kernels.layer_norm(x.data(), normed.data(), 1, in, ones.data(), zeros.data()); })) return false;
  double mean = 0, square = 0;
  for (float v : normed) mean += v / in, square += v * v / in;
  if (!near(1 + static_cast<float>(mean), 1) || !near(static_cast<float>(square), 1)) return false;
  for (Activation activation : {Activation::relu, Activation::gelu, Activation::swish}) {
    std::vector<float> values(x.begin(), x.begin() + in);
    if (!runs([&] { kernels.activate(values.data(), in, activation); })) return false;
    for (int i = 0; i < in; i++) {
      const double v = x[i];
      const double wanted = activation == Activation::relu   ? std::max(v, 0.0)
                            : activation == Activation::gelu ? v * 0.5 * std::erfc(-v / std::sqrt(2.0))
                                                             : v / (1 + std::exp(-v));
      if (!near(values[i], wanted)) return false;
    }
  }
  std::vector<float> scores(8), attended(18);
  const Query query{x.data(), x.data(), w.data(), in, nullptr, 4, 2, 9, scores.data(), attended.data()};
  if (!runs([&] { kernels.attend(query); })) return false;
  for (int head = 0; head < 2; head++) {
    double sum = 0, total = 0;
    for (int j = 0; j < 4; j++) {
      double s = 0;
      for (int i = 0; i < 9; i++) s += x[head * 9 + i] * x[j * in + head * 9 + i];
      sum += std::exp(s / 3), total += std::exp(s / 3) * w[j * in + head * 9];
    }
    if (!near(attended[head * 9], total / sum)) return false;
  }
  Candidate best[3];
  RowScan scan{-3e38f, 0, 0, 3, 0, best};
  if (!runs([&] { kernels.scan(x.data(), in, 0, scan); })) return false;
  double sum = 0, most = -1e30;
  for (int i = 0; i < in; i++) sum += std::exp(static_cast<double>(x[i])), most = std::max<double>(most, x[i]);
  return near(scan.max + std::log(scan.sum), std::log(sum)) && near(best[0].value, most) && scan.count == 3;
}

bool works(const Kernels& kernels) {
  struct sigaction action {};
  action.sa_sigaction = on_illegal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGILL, &action, &before)) return false;
  bool passed = false;
  try {
    passed = computes(kernels);
  } catch (...) {
    trying = 0;
    sigaction(SIGILL, &before, nullptr);
    throw;
  }
  sigaction(SIGILL, &before, nullptr);
  return passed;
}

}  // namespace

const Kernels* choose_kernels(const char* name) {
  static std::mutex mutex;
  static int known[3] = {-1, -1, -1};  // whether a set can run; −1: not tried yet
  std::lock_guard<std::mutex> lock(mutex);
#if defined(__x86_64__)
  const Kernels* sets[] = {avx512_kernels(), avx2_kernels(), portable_kernels()};
#else
  const Kernels* sets[] = {portable_kernels()};
#endif
  int number = 0;
  for (const Kernels* kernels : sets) {
    int& can_run = known[number++];
    if (name && *name && std::strcmp(name, kernels->name)) continue;
    if (can_run < 0) can_run = announced(kernels) && works(*kernels);
    if (can_run) return kernels;
  }
  return nullptr;
}

}  // namespace tram

// The border of the C interface, which no exception may cross.
#pragma once
#include <exception>
#include <string>

#define TRAM_EXPORT extern "C" __attribute__((visibility("default")))

namespace tram {

inline thread_local std::string failure;  // why the last call of this thread that failed did so

// Returns 0, or 1 with the reason in `failure` if the work throws.
template <class F>
int guarded(F&& work) noexcept {
  try {
    try {
      work();
      return 0;
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "unknown error";
    }
  } catch (...) {  // no memory for the reason either
  }
  return 1;
}

}  // namespace tram

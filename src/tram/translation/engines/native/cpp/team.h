// Threads that share the panels of large products. A call that finds the team busy works alone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace tram {

class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  // Calls work(first, last) for parts of [0, n), on several threads at once. work must not throw.
  void run(int64_t n, const std::function<void(int64_t, int64_t)>& work);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
  const int process_;  // after a fork there are no other threads
};

}  // namespace tram

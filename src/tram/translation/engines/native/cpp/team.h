// Threads that share the panels of large products. A call that finds the team busy works alone.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tram {

class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  // Calls work(first, last) for parts of [0, n), on several threads at once.
  void run(int64_t n, const std::function<void(int64_t, int64_t)>& work);

 private:
  void member(int number);
  void part(int number) const;
  const int size_;
  const int process_;  // after a fork there are no other threads
  std::vector<std::thread> members_;
  std::mutex turn_, mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int64_t, int64_t)>* work_ = nullptr;
  int64_t n_ = 0, round_ = 0;
  int left_ = 0;
  bool over_ = false;
};

}  // namespace tram

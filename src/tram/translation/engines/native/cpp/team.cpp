#include "team.h"

#include <unistd.h>

namespace tram {

Team::Team(int threads) : size_(threads < 1 ? 1 : threads), process_(getpid()) {
  for (int number = 1; number < size_; number++) members_.emplace_back([this, number] { member(number); });
}

Team::~Team() {
  if (getpid() != process_) {
    for (std::thread& thread : members_) thread.detach();
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : members_) thread.join();
}

void Team::part(int number) const {
  const int64_t first = n_ * number / size_, last = n_ * (number + 1) / size_;
  if (first < last) (*work_)(first, last);
}

void Team::member(int number) {
  int64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return over_ || round_ != seen; });
    if (over_) return;
    seen = round_;
    lock.unlock();
    part(number);
    lock.lock();
    if (--left_ == 0) done_.notify_one();
  }
}

void Team::run(int64_t n, const std::function<void(int64_t, int64_t)>& work) {
  std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
  if (size_ == 1 || n < 2 || getpid() != process_ || !turn.try_lock()) return work(0, n);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    n_ = n;
    left_ = size_ - 1;
    round_++;
  }
  wake_.notify_all();
  part(0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [&] { return left_ == 0; });
}

}  // namespace tram

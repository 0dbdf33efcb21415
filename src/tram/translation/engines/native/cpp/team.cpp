#include "team.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tram {

// What the threads of a team have in common.
struct Team::Shared {
  explicit Shared(int threads) : size(threads < 1 ? 1 : threads) {
    try {
      for (int number = 1; number < size; number++) members.emplace_back([this, number] { member(number); });
    } catch (...) {  // the system has no more threads; those that run must end before they are forgotten
      end();
      throw;
    }
  }
  ~Shared() { end(); }

  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      over = true;
    }
    wake.notify_all();
    for (std::thread& thread : members) thread.join();
    members.clear();
  }

  void part(int number) const {
    const int64_t first = n * number / size, last = n * (number + 1) / size;
    if (first < last) (*work)(first, last);
  }

  void member(int number) {
    int64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return over || round != seen; });
      if (over) return;
      seen = round;
      lock.unlock();
      part(number);
      lock.lock();
      if (--left == 0) done.notify_one();
    }
  }

  const int size;
  std::vector<std::thread> members;
  std::mutex turn, mutex;  // turn: who may give work; mutex: what is below
  std::condition_variable wake, done;
  const std::function<void(int64_t, int64_t)>* work = nullptr;
  int64_t n = 0, round = 0;
  int left = 0;
  bool over = false;
};

Team::Team(int threads) : shared_(std::make_unique<Shared>(threads)), process_(getpid()) {}

Team::~Team() {
  // The child of a fork has none of the threads: it can neither end them nor destroy what they wait for
  if (getpid() != process_) static_cast<void>(shared_.release());
}

void Team::run(int64_t n, const std::function<void(int64_t, int64_t)>& work) {
  if (shared_->size == 1 || n < 2 || getpid() != process_) return work(0, n);
  std::unique_lock<std::mutex> turn(shared_->turn, std::try_to_lock);
  if (!turn) return work(0, n);
  {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->work = &work;
    shared_->n = n;
    shared_->left = shared_->size - 1;
    shared_->round++;
  }
  shared_->wake.notify_all();
  shared_->part(0);
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->done.wait(lock, [&] { return shared_->left == 0; });
}

}  // namespace tram

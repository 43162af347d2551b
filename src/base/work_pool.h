#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ptxbench::base {

/// A fixed number of threads that do jobs in the order in which they came.
class WorkPool {
 public:
  explicit WorkPool(unsigned threads);
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;
  /// Waits for the jobs that run; those that wait are dropped.
  ~WorkPool();
  void post(std::function<void()> job);

 private:
  void work(const std::stop_token& stop);
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::jthread> threads_;  // last: they use the others
};

}  // namespace ptxbench::base

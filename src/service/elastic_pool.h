#pragma once

#include <httplib.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace ptxbench::service {

/// Threads for connections: as many as are busy, as long polls do nothing but wait. Idle ones end after a while.
class ElasticPool : public httplib::TaskQueue {
 public:
  explicit ElasticPool(std::size_t most) : most_(most) {}

  void enqueue(std::function<void()> job) override;
  /// Returns when all that was enqueued is done.
  void shutdown() override;

 private:
  void serve();
  std::mutex mutex_;
  std::condition_variable arrived_, left_;
  std::deque<std::function<void()>> jobs_;
  std::size_t most_, threads_ = 0, idle_ = 0;
  bool stopping_ = false;
};

}  // namespace ptxbench::service

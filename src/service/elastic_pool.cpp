#include "service/elastic_pool.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace ptxbench::service {
namespace {

constexpr std::chrono::seconds kIdleTime{20};

}  // namespace

void ElasticPool::enqueue(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_ < most_) {
    try {
      std::thread([this] { serve(); }).detach();
      ++threads_;
    } catch (const std::system_error&) {
      // The machine has no more threads: those that are there will come to it.
    }
  }
  arrived_.notify_one();
}

void ElasticPool::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    arrived_.wait_for(lock, kIdleTime, [this] { return !jobs_.empty() || stopping_; });
    --idle_;
    if (jobs_.empty()) break;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
  --threads_;
  left_.notify_all();
}

void ElasticPool::shutdown() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  arrived_.notify_all();
  left_.wait(lock, [this] { return threads_ == 0; });
}

}  // namespace ptxbench::service

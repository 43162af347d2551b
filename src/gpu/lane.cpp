#include "gpu/lane.h"

#include <algorithm>
#include <chrono>

namespace ptxbench::gpu {

namespace {

/// Each holds its memory until it is gone.
constexpr std::size_t kMostEnding = 8;

}  // namespace

Result<std::unique_ptr<ExecutorProcess>> Lane::take(bool ahead, const base::Json& baseline) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ExecutorProcess> taken = std::move(next_);
  if (taken == nullptr) {
    auto started = ExecutorProcess::start({device_, baseline, {}});
    if (!started) return started;
    taken = std::move(*started);
  }
  if (ahead) {
    // One that does not start is the next evaluation's trouble, which will say so.
    auto started = ExecutorProcess::start({device_, baseline, {}});
    if (started) next_ = std::move(*started);
  }
  return taken;
}

void Lane::retire(std::unique_ptr<ExecutorProcess> executor) {
  if (executor == nullptr) return;
  executor->kill();
  const std::lock_guard lock(mutex_);
  std::erase_if(ending_, [](std::future<void>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  if (ending_.size() >= kMostEnding) ending_.erase(ending_.begin());  // waits for it
  ending_.push_back(std::async(std::launch::async, [ended = std::move(executor)]() mutable { ended.reset(); }));
}

Lane& Lanes::lane(int device) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[device];
  if (lane == nullptr) lane = std::make_unique<Lane>(device);
  return *lane;
}

}  // namespace ptxbench::gpu

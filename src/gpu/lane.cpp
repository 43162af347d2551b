#include "gpu/lane.h"

namespace ptxbench::gpu {

Result<std::unique_ptr<ExecutorProcess>> Lane::take(bool ahead) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ExecutorProcess> taken = std::move(next_);
  if (taken == nullptr) {
    auto started = ExecutorProcess::start(device_);
    if (!started) return started;
    taken = std::move(*started);
  }
  if (ahead) {
    // One that does not start is the next evaluation's trouble, which will say so.
    auto started = ExecutorProcess::start(device_);
    if (started) next_ = std::move(*started);
  }
  return taken;
}

Lane& Lanes::lane(int device) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[device];
  if (lane == nullptr) lane = std::make_unique<Lane>(device);
  return *lane;
}

}  // namespace ptxbench::gpu

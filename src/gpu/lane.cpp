#include "gpu/lane.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "base/files.h"

namespace ptxbench::gpu {

namespace {

/// Each holds its memory until it is gone.
constexpr std::size_t kMostEnding = 8;
constexpr std::size_t kMostAhead = 4;
constexpr std::uint64_t kMostMemory = std::uint64_t{2} << 30;

}  // namespace

Turn::Turn(int device) {
  const auto folder = base::cache_dir("locks");
  if (!folder) return;
  // A home may be shared by machines, and numbers go by CUDA_VISIBLE_DEVICES.
  char host[256] = "host";
  ::gethostname(host, sizeof host - 1);
  std::string gpu = std::to_string(device);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    std::istringstream names(visible);
    for (int i = 0; i <= device; ++i) std::getline(names, gpu, ',');
  }
  std::replace_if(
      gpu.begin(), gpu.end(), [](char c) { return c == '/' || c == '.'; }, '-');
  fd_ = ::open((*folder / fmt::format("gpu-{}-{}", host, gpu)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

Turn::~Turn() {
  if (fd_ >= 0) ::close(fd_);
}

void Turn::lock() {
  mutex_.lock();
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

bool Turn::try_lock() {
  if (!mutex_.try_lock()) return false;
  if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  mutex_.unlock();
  return false;
}

void Turn::unlock() {
  if (fd_ >= 0) ::flock(fd_, LOCK_UN);
  mutex_.unlock();
}

Result<std::unique_ptr<ExecutorProcess>> Lane::take(bool ahead, const base::Json& baseline) {
  if (!turn_.is_shared())
    return infrastructure_error("evaluations cannot take turns with GPU {}: no file for that in the cache folder",
                                device_);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ExecutorProcess> taken;
  if (!ahead_.empty()) {
    taken = std::move(ahead_.front());
    ahead_.pop_front();
  } else {
    auto started = ExecutorProcess::start({device_, baseline, {}});
    if (!started) return started;
    taken = std::move(*started);
  }
  ++serving_;
  while (ahead && ahead_.size() < std::min(serving_, kMostAhead)) {
    auto started = ExecutorProcess::start({device_, baseline, {}});
    // One that does not start is the next evaluation's trouble, which will say so.
    if (!started) break;
    ahead_.push_back(std::move(*started));
  }
  return taken;
}

base::Json Lane::with_plan(base::Json description) {
  const std::lock_guard lock(mutex_);
  if (const auto known = plans_.find(description.dump()); known != plans_.end()) description.update(known->second);
  return description;
}

void Lane::keep_plan(const base::Json& description, const base::Json& plan) {
  const std::lock_guard lock(mutex_);
  plans_[description.dump()] = plan;
}

void Lane::put_back(std::unique_ptr<ExecutorProcess> executor) {
  if (executor == nullptr) return;
  const std::lock_guard lock(mutex_);
  --serving_;
  ahead_.push_front(std::move(executor));
}

void Lane::retire(std::unique_ptr<ExecutorProcess> executor) {
  if (executor == nullptr) return;
  executor->kill();
  const std::lock_guard lock(mutex_);
  --serving_;
  std::erase_if(ending_, [](std::future<void>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  if (ending_.size() >= kMostEnding) ending_.erase(ending_.begin());  // waits for it
  ending_.push_back(std::async(std::launch::async, [ended = std::move(executor)]() mutable { ended.reset(); }));
}

Result<std::unique_ptr<cuda_shim::SharedMemory>> Lane::take_memory(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    auto best = memory_.end();
    for (auto one = memory_.begin(); one != memory_.end(); ++one) {
      const bool fits = (*one)->bytes() >= bytes && (*one)->bytes() / 2 <= bytes;
      if (fits && (best == memory_.end() || (*one)->bytes() < (*best)->bytes())) best = one;
    }
    if (best != memory_.end()) {
      auto found = std::move(*best);
      memory_.erase(best);
      return found;
    }
  }
  auto made = cuda_shim::SharedMemory::create(bytes);
  if (!made) return tl::unexpected<Error>(made.error());
  if (auto mapped = made->map(); !mapped) return tl::unexpected<Error>(mapped.error());
  return std::make_unique<cuda_shim::SharedMemory>(std::move(*made));
}

void Lane::return_memory(std::unique_ptr<cuda_shim::SharedMemory> memory) {
  const std::lock_guard lock(mutex_);
  memory_.push_back(std::move(memory));
  const auto held = [&] {
    return std::accumulate(memory_.begin(), memory_.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& one) { return sum + one->bytes(); });
  };
  while (!memory_.empty() && held() > kMostMemory) memory_.erase(memory_.begin());
}

Lane& Lanes::lane(int device) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes_[device];
  if (lane == nullptr) lane = std::make_unique<Lane>(device);
  return *lane;
}

}  // namespace ptxbench::gpu

#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cuda_shim/shared_memory.h"

namespace ptxbench::gpu {

/// Messages between the process that judges and an executor, both ours: JSON objects of at most kMaxMessage bytes, one
/// a packet, with file descriptors beside them.
class Channel {
 public:
  static constexpr std::size_t kMaxMessage = 160 * 1024;
  static constexpr std::size_t kMaxDescriptors = 4;

  Channel() = default;
  explicit Channel(cuda_shim::OwnedFd fd) : fd_(std::move(fd)) {}
  /// Two ends.
  static Result<std::pair<Channel, Channel>> make();

  struct Message {
    base::Json json;
    std::vector<cuda_shim::OwnedFd> descriptors;
  };
  Result<void> send(const base::Json& json, const std::vector<int>& descriptors = {}) const;
  /// Nothing when the time is over. The end of the other side is an error.
  Result<std::optional<Message>> receive(std::optional<std::chrono::milliseconds> time = std::nullopt) const;

  int fd() const { return fd_.get(); }
  void close() { fd_ = cuda_shim::OwnedFd(); }

 private:
  cuda_shim::OwnedFd fd_;
};

}  // namespace ptxbench::gpu

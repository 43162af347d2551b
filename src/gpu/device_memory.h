#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "emulator/address_space.h"
#include "gpu/device.h"

namespace ptxbench::gpu {

/// Device memory within the lower half of the window that clients reserve (emulator::kGlobalWindow), so that a client
/// can tell device pointers from its own. Blocks lie at addresses chosen at random: a candidate cannot know where its
/// next tensors will be. Thread safe.
class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> create(const Device& device);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// 512-byte aligned. `apart`: on pages of its own, and hidden from find(): what is not the candidate's. An error is
  /// the GPU's: out of memory.
  Result<std::uint64_t> allocate(std::uint64_t bytes, std::string label, bool apart = false);
  /// Nothing on the device may use the block any more.
  Result<void> free(std::uint64_t address);
  /// The candidate's live block around the address, or null.
  std::shared_ptr<const emulator::Allocation> find(std::uint64_t address) const;
  bool contains(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t used() const;

 private:
  struct Chunk {
    std::uint64_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
    bool shared = false;  ///< small blocks share it
  };
  explicit DeviceMemory(const Device& device) : device_(device) {}
  Result<std::uint64_t> map_chunk(std::uint64_t bytes, bool shared);
  void unmap_chunk(std::uint64_t address);

  const Device& device_;
  std::random_device random_;  ///< a generator could be worked out from the addresses that a candidate sees
  std::uint64_t granularity_ = 0;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Chunk> chunks_;
  std::map<std::uint64_t, std::shared_ptr<emulator::Allocation>> blocks_;
  std::set<std::uint64_t> apart_;
  std::map<std::uint64_t, std::uint64_t> gaps_;  ///< free ranges of shared chunks: begin -> bytes
  std::uint64_t used_ = 0, serial_ = 0;
};

}  // namespace ptxbench::gpu

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::emulator {

/// Generic addresses. Device memory lives in one window that host processes map at the same place, so a device pointer
/// is also the trusted process's host pointer. Shared and local memory have windows of their own: a generic shared
/// address is kSharedWindow + the 32-bit shared::cluster address; a generic local address is kLocalWindow + the
/// thread's offset.
inline constexpr uint64_t kSharedWindow = 0x0000'1000'0000'0000ull;
inline constexpr uint64_t kLocalWindow = 0x0000'1100'0000'0000ull;
inline constexpr uint64_t kSmallWindowBytes = 1ull << 32;
inline constexpr uint64_t kGlobalWindow = 0x0000'2000'0000'0000ull;
inline constexpr uint64_t kGlobalWindowBytes = 1ull << 40;
/// Memory that client processes share (pinned, mapped, managed) lies in the upper half of the window.
inline constexpr uint64_t kHostSharedBase = kGlobalWindow + kGlobalWindowBytes / 2;
/// CTA rank r of a cluster sees its shared memory at (r << kCtaRankShift) + offset.
inline constexpr unsigned kCtaRankShift = 24;
/// sm_90 reserves the first KiB of every CTA's shared memory for the system; variables start behind it.
inline constexpr uint32_t kReservedSharedBytes = 1024;

enum class AllocationKind : uint8_t { device, host_shared, module, parameters };

struct Allocation {
  uint64_t begin = 0;
  uint64_t bytes = 0;  ///< exact size as requested
  AllocationKind kind{};
  bool freed = false;
  bool read_only = false;
  uint64_t serial = 0;
  std::string label;  ///< variable or tensor name, empty for plain cudaMalloc memory
  uint64_t end() const { return begin + bytes; }
};

/// Device memory: reserves the window once per process, hands out 512-byte aligned blocks with guard gaps, remembers
/// freed blocks so that use after free can be told from a wild pointer. Thread safe.
class AddressSpace {
 public:
  /// `capacity` bytes in all, as on the modelled part. Fails if the window cannot be reserved.
  static Result<std::unique_ptr<AddressSpace>> create(uint64_t capacity);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// `alignment` is a power of two, at least 512 is used. Fails with the sizes involved when memory is exhausted.
  Result<uint64_t> allocate(uint64_t bytes, AllocationKind kind, std::string label, uint64_t alignment = 512);
  /// Registers memory that somebody else mapped inside [kHostSharedBase, end of window).
  Result<void> adopt(uint64_t address, uint64_t bytes, std::string label);
  Result<void> free(uint64_t address);
  /// Called for every allocation that is made, before anybody can use it.
  void on_allocate(std::function<void(uint64_t address, uint64_t bytes)> listener) {
    const std::lock_guard lock(mutex_);
    on_allocate_ = std::move(listener);
  }
  /// Kernels may no longer write the allocation that starts at `address`; the host may.
  void protect(uint64_t address);

  /// The allocation (live or freed) whose bytes include `address`; freed ones only if no live one does.
  std::shared_ptr<const Allocation> find(uint64_t address) const;
  /// The nearest live allocation at or below the address, for messages about overruns; null if none.
  std::shared_ptr<const Allocation> nearest_below(uint64_t address) const;
  /// True if every byte of [address, address + bytes) lies in one live allocation.
  bool contains(uint64_t address, uint64_t bytes) const;
  /// Changes whenever an allocation is made or freed: cached look-ups compare it.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  uint64_t used() const;
  uint64_t capacity() const { return capacity_; }
  std::vector<Allocation> live() const;

 private:
  explicit AddressSpace(uint64_t capacity) : capacity_(capacity) {}
  uint64_t capacity_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> blocks_;  // live, by begin
  std::map<uint64_t, std::shared_ptr<Allocation>> freed_;
  std::map<uint64_t, uint64_t> free_ranges_;  // begin -> length, page granular, for reuse
  /// Freed blocks whose addresses are not used again yet, oldest first.
  std::deque<std::pair<uint64_t, uint64_t>> quarantine_;
  static constexpr size_t kQuarantine = 256;
  uint64_t next_ = kGlobalWindow + (1ull << 21);
  uint64_t used_ = 0;
  uint64_t serial_ = 0;
  std::atomic<uint64_t> version_{1};
  std::function<void(uint64_t, uint64_t)> on_allocate_;
};

/// One-entry cache of an AddressSpace look-up: [begin, end) of a live allocation.
struct AllocationCache {
  uint64_t begin = 1, end = 0, version = 0;
  bool read_only = false;
};

inline std::byte* host_pointer(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace ptxbench::emulator

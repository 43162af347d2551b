#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/error.h"

namespace ptxbench::cuda_shim {

/// A file descriptor that closes itself.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Anonymous shared memory whose size is sealed, so that the process it is handed to cannot shrink it and make accesses
/// here fault. Page granular.
class SharedMemory {
 public:
  static Result<SharedMemory> create(uint64_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  /// Maps it, at `address` if that is not 0 (replacing what is mapped there). The mapping goes away with the object;
  /// one at a chosen address is replaced by inaccessible pages, so that a reserved window stays reserved.
  Result<void> map(uint64_t address = 0);
  /// The same memory, mapped at `address` instead.
  static Result<SharedMemory> remap(SharedMemory memory, uint64_t address);
  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  std::span<std::byte> view() const { return {data_, static_cast<std::size_t>(bytes_)}; }

 private:
  SharedMemory(OwnedFd fd, uint64_t bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  OwnedFd fd_;
  uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool fixed_ = false;
};

inline constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t round_to_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace ptxbench::cuda_shim

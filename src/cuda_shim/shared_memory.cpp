#include "cuda_shim/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ptxbench::cuda_shim {

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<SharedMemory> SharedMemory::create(uint64_t bytes) {
  const uint64_t size = round_to_pages(bytes);
  if (bytes == 0 || size < bytes) return input_error("shared memory of {} bytes", bytes);
  OwnedFd fd(::memfd_create("ptxbench", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return infrastructure_error("cannot create shared memory: {}", std::strerror(errno));
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return infrastructure_error("cannot size {} bytes of shared memory: {}", size, std::strerror(errno));
  }
  return SharedMemory(std::move(fd), size);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(std::exchange(other.bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      fixed_(other.fixed_) {}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  if (fixed_) {
    static_cast<void>(::mmap(data_, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  } else {
    ::munmap(data_, bytes_);
  }
}

Result<void> SharedMemory::map(uint64_t address) {
  void* wanted = reinterpret_cast<void*>(address);
  void* got = ::mmap(wanted, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | (address != 0 ? MAP_FIXED : 0), fd_.get(), 0);
  if (got == MAP_FAILED)
    return infrastructure_error("cannot map {} bytes of shared memory: {}", bytes_, std::strerror(errno));
  data_ = static_cast<std::byte*>(got);
  fixed_ = address != 0;
  return {};
}

Result<SharedMemory> SharedMemory::remap(SharedMemory memory, uint64_t address) {
  SharedMemory moved(std::move(memory.fd_), memory.bytes_);  // the old mapping goes with `memory`
  if (auto mapped = moved.map(address); !mapped) return tl::unexpected<Error>(mapped.error());
  return moved;
}

}  // namespace ptxbench::cuda_shim

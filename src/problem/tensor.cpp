#include "problem/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace ptxbench::problem {
namespace {

constexpr std::uint64_t kMapFrom = std::uint64_t{256} << 10;
constexpr std::uint64_t kAlignment = 64;

}  // namespace

Result<std::uint64_t> element_count(const Shape& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return input_error("shape {} has a negative extent", to_string(shape));
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count) || count >> 58 != 0) {
      return input_error("shape {} has more elements than can be addressed", to_string(shape));
    }
  }
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

Result<Buffer> Buffer::create(std::uint64_t bytes) {
  Buffer buffer;
  buffer.size_ = bytes;
  if (bytes >= kMapFrom) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return infrastructure_error("out of memory: {}", base::format_bytes(bytes));
    madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: generation and comparison run over everything
    buffer.data_ = static_cast<std::byte*>(memory);
  } else {
    const std::uint64_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;  // never zero
    void* memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) return infrastructure_error("out of memory: {}", base::format_bytes(bytes));
    std::memset(memory, 0, rounded);
    buffer.data_ = static_cast<std::byte*>(memory);
  }
  return buffer;
}

Buffer Buffer::borrow(std::byte* data, std::uint64_t bytes) {
  Buffer buffer;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.borrowed_ = true;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      borrowed_(std::exchange(other.borrowed_, false)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(borrowed_, other.borrowed_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr || borrowed_) return;
  if (size_ >= kMapFrom) {
    munmap(data_, size_);
  } else {
    std::free(data_);
  }
}

namespace {

Result<Tensor> make_tensor(std::string name, Dtype dtype, Shape shape, auto make_storage) {
  const auto count = element_count(shape);
  if (!count) return input_error("{}: {}", name, count.error().message);
  Result<Buffer> storage = make_storage(bytes_of(dtype, *count));
  if (!storage) return infrastructure_error("{}: {}", name, storage.error().message);
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.count = *count;
  tensor.storage = std::move(*storage);
  return tensor;
}

}  // namespace

Result<Tensor> Tensor::create(std::string name, Dtype dtype, Shape shape) {
  return make_tensor(std::move(name), dtype, std::move(shape), Buffer::create);
}

Result<Tensor> Tensor::borrow(std::string name, Dtype dtype, Shape shape, std::span<std::byte> memory) {
  return make_tensor(std::move(name), dtype, std::move(shape), [&](std::uint64_t bytes) -> Result<Buffer> {
    if (memory.size() < bytes || reinterpret_cast<std::uintptr_t>(memory.data()) % kAlignment != 0)
      return infrastructure_error("{} of memory for {}", base::format_bytes(memory.size()), base::format_bytes(bytes));
    return Buffer::borrow(memory.data(), bytes);
  });
}

}  // namespace ptxbench::problem

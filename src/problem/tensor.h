#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "problem/dtype.h"

namespace ptxbench::problem {

/// Extents, outermost first; empty for a scalar. All tensors are dense and row-major.
using Shape = std::vector<std::int64_t>;

/// Number of elements (1 for a scalar), or an error when an extent is negative or the count does not fit 58 bits: so
/// many elements of any type have a size in bytes that fits 62.
Result<std::uint64_t> element_count(const Shape& shape);
/// "[8192, 5120]".
std::string to_string(const Shape& shape);

/// Memory that starts zeroed, aligned to 64 bytes; large ones come from mmap and cost nothing until touched.
class Buffer {
 public:
  Buffer() = default;
  /// Out of memory is an infrastructure error.
  static Result<Buffer> create(std::uint64_t bytes);
  /// Memory of somebody else's, who keeps it longer than this.
  static Buffer borrow(std::byte* data, std::uint64_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  bool borrowed_ = false;
};

/// A dense host tensor.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::uint64_t count = 0;  ///< elements
  Buffer storage;

  static Result<Tensor> create(std::string name, Dtype dtype, Shape shape);
  /// In memory of somebody else's, which must be large enough, aligned to 64 bytes and live longer.
  static Result<Tensor> borrow(std::string name, Dtype dtype, Shape shape, std::span<std::byte> memory);

  std::uint64_t bytes() const { return bytes_of(dtype, count); }
  void* data() { return storage.data(); }
  const void* data() const { return storage.data(); }
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(storage.data()), static_cast<std::size_t>(storage.size() / sizeof(T))};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(storage.data()), static_cast<std::size_t>(storage.size() / sizeof(T))};
  }
  /// Extent of the last dimension (1 for a scalar): how comparison splits a tensor into rows.
  std::uint64_t row_length() const { return shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back()); }
};

}  // namespace ptxbench::problem

// Lean stand-in for TVM-FFI's view of a shape.
#pragma once

#include <tvm/ffi/error.h>

#include <initializer_list>

namespace tvm {
namespace ffi {

/// Borrowed extents or strides. Like any view it must not outlive what it looks at.
class ShapeView {
 public:
  ShapeView() = default;
  ShapeView(const int64_t* data, size_t size) : data_(data), size_(size) {}
  ShapeView(const std::initializer_list<int64_t>& values) {
    data_ = values.begin();  // lives until the end of the full expression that makes the view
    size_ = values.size();
  }

  const int64_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](size_t index) const { return data_[index]; }
  int64_t at(size_t index) const {
    if (index >= size_) TVM_FFI_THROW(IndexError) << "index " << index << " in a shape of " << size_ << " extents";
    return data_[index];
  }
  int64_t front() const { return at(0); }
  int64_t back() const { return at(size_ - 1); }
  int64_t Product() const {
    int64_t product = 1;
    for (int64_t extent : *this) product *= extent;
    return product;
  }

 private:
  const int64_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ffi
}  // namespace tvm

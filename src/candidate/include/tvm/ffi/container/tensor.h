// Lean stand-in for TVM-FFI's borrowed tensors, the only kind that candidates receive.
#pragma once

#include <tvm/ffi/container/shape.h>

namespace tvm {
namespace ffi {

inline bool IsContiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool dense = true;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;  // nothing to lay out
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) dense = false;
    expected *= tensor.shape[i];
  }
  return dense;
}

/// Bytes of `count` elements; types below a byte are packed.
inline size_t GetDataSize(size_t count, DLDataType dtype) { return (count * dtype.bits * dtype.lanes + 7) / 8; }

inline size_t GetDataSize(const DLTensor& tensor) {
  return GetDataSize(static_cast<size_t>(ShapeView(tensor.shape, static_cast<size_t>(tensor.ndim)).Product()),
                     tensor.dtype);
}

inline bool IsDirectAddressDevice(const DLDevice& device) {
  return device.device_type <= kDLCUDAHost || device.device_type == kDLCUDAManaged || device.device_type == kDLROCM ||
         device.device_type == kDLROCMHost;
}

inline bool IsAligned(const DLTensor& tensor, size_t alignment) {
  const size_t base = IsDirectAddressDevice(tensor.device) ? reinterpret_cast<size_t>(tensor.data) : 0;
  return (base + tensor.byte_offset) % alignment == 0;
}

/// A tensor that somebody else owns. Extents and strides are in elements.
class TensorView {
 public:
  TensorView(const DLTensor* tensor) {
    TVM_FFI_ICHECK(tensor != nullptr);
    tensor_ = *tensor;
  }

  void* data_ptr() const { return tensor_.data; }
  DLDevice device() const { return tensor_.device; }
  int32_t ndim() const { return tensor_.ndim; }
  int32_t dim() const { return tensor_.ndim; }
  DLDataType dtype() const { return tensor_.dtype; }
  uint64_t byte_offset() const { return tensor_.byte_offset; }
  ShapeView shape() const { return ShapeView(tensor_.shape, static_cast<size_t>(tensor_.ndim)); }
  ShapeView sizes() const { return shape(); }
  ShapeView strides() const {
    TVM_FFI_ICHECK(tensor_.strides != nullptr || tensor_.ndim == 0);
    return ShapeView(tensor_.strides, static_cast<size_t>(tensor_.ndim));
  }
  /// A negative index counts from the end.
  int64_t size(int64_t index) const { return tensor_.shape[checked(index)]; }
  int64_t stride(int64_t index) const { return tensor_.strides[checked(index)]; }
  int64_t numel() const { return shape().Product(); }
  bool IsContiguous() const { return tvm::ffi::IsContiguous(tensor_); }
  bool is_contiguous() const { return IsContiguous(); }
  bool IsAligned(size_t alignment) const { return tvm::ffi::IsAligned(tensor_, alignment); }
  const DLTensor* GetDLTensorPtr() const { return &tensor_; }

#ifdef PTXBENCH_STD_OPTIONAL
  TensorView as_strided(ShapeView shape, ShapeView strides, std::optional<int64_t> element_offset) const {
    return as_strided(shape, strides, element_offset.value_or(0));
  }
#endif
  TensorView as_strided(ShapeView shape, ShapeView strides, int64_t element_offset = 0) const {
    TVM_FFI_ICHECK_EQ(shape.size(), strides.size());
    TVM_FFI_ICHECK_GE(element_offset, 0);
    DLTensor view = tensor_;
    view.shape = const_cast<int64_t*>(shape.data());
    view.strides = const_cast<int64_t*>(strides.data());
    view.ndim = static_cast<int32_t>(shape.size());
    view.byte_offset += GetDataSize(static_cast<size_t>(element_offset), view.dtype);
    if (IsDirectAddressDevice(view.device)) {
      view.data = static_cast<char*>(view.data) + view.byte_offset;
      view.byte_offset = 0;
    }
    return TensorView(&view);
  }

 private:
  int64_t checked(int64_t index) const {
    const int64_t from_front = index >= 0 ? index : index + tensor_.ndim;
    if (from_front < 0 || from_front >= tensor_.ndim) {
      TVM_FFI_THROW(IndexError) << "dimension " << index << " of a tensor with " << tensor_.ndim << " dimensions";
    }
    return from_front;
  }
  DLTensor tensor_;
};

inline size_t GetDataSize(const TensorView& tensor) { return GetDataSize(*tensor.GetDLTensorPtr()); }

}  // namespace ffi
}  // namespace tvm

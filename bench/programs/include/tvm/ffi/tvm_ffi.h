#pragma once
// Just enough of TVM-FFI to compile an example kernel into a program of its own (gemm.cu, attention.cu): tensors are a
// pointer, extents and a type, errors end the program, the stream is the default one.
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <vector>

enum DLDeviceType { kDLCUDA = 2 };
enum DLDataTypeCode { kDLInt = 0, kDLFloat = 2, kDLBfloat = 4 };
struct DLDevice {
  DLDeviceType device_type = kDLCUDA;
  int device_id = 0;
};
struct DLDataType {
  uint8_t code = kDLBfloat, bits = 16;
  uint16_t lanes = 1;
};

namespace tvm::ffi {

class TensorView {
 public:
  TensorView(void* data, int64_t rows, int64_t columns) : TensorView(data, {rows, columns}, DLDataType()) {}
  TensorView(void* data, std::initializer_list<int64_t> shape, DLDataType dtype)
      : data_(data), shape_(shape), dtype_(dtype) {}
  int ndim() const { return static_cast<int>(shape_.size()); }
  int64_t size(int i) const { return shape_[static_cast<size_t>(i)]; }
  DLDevice device() const { return {}; }
  DLDataType dtype() const { return dtype_; }
  bool is_contiguous() const { return true; }
  void* data_ptr() const { return data_; }
  uint64_t byte_offset() const { return 0; }

 private:
  void* data_;
  std::vector<int64_t> shape_;
  DLDataType dtype_;
};

struct Failure {
  template <class T>
  Failure& operator<<(const T& part) {
    std::cerr << part;
    return *this;
  }
  ~Failure() {
    std::cerr << std::endl;
    std::exit(2);
  }
};

}  // namespace tvm::ffi

#define TVM_FFI_THROW(kind) tvm::ffi::Failure()
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function) static constexpr auto run_candidate = function
inline void* TVMFFIEnvGetStream(int, int) { return nullptr; }

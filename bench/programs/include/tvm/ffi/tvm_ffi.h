#pragma once
// Just enough of TVM-FFI to compile an example kernel into a program of its own (gemm.cu): tensors are a pointer and
// two extents, errors end the program, the stream is the default one.
#include <cstdint>
#include <cstdlib>
#include <iostream>

enum DLDeviceType { kDLCUDA = 2 };
enum DLDataTypeCode { kDLBfloat = 4 };
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
  TensorView(void* data, int64_t rows, int64_t columns) : data_(data), shape_{rows, columns} {}
  int ndim() const { return 2; }
  int64_t size(int i) const { return shape_[i]; }
  DLDevice device() const { return {}; }
  DLDataType dtype() const { return {}; }
  bool is_contiguous() const { return true; }
  void* data_ptr() const { return data_; }
  uint64_t byte_offset() const { return 0; }

 private:
  void* data_;
  int64_t shape_[2];
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
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function)                                                 \
  static void run_candidate(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) { \
    function(a, b, c);                                                                                \
  }
inline void* TVMFFIEnvGetStream(int, int) { return nullptr; }

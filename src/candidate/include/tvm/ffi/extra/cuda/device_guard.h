// Lean stand-in: makes a device current for a scope.
#pragma once

#include <tvm/ffi/extra/cuda/base.h>

namespace tvm {
namespace ffi {

struct CUDADeviceGuard {
  CUDADeviceGuard() = delete;
  explicit CUDADeviceGuard(int device) : wanted_(device) {
    TVM_FFI_CHECK_CUDA_ERROR(cudaGetDevice(&previous_));
    if (wanted_ != previous_) TVM_FFI_CHECK_CUDA_ERROR(cudaSetDevice(wanted_));
  }
  ~CUDADeviceGuard() noexcept(false) {
    if (wanted_ != previous_) TVM_FFI_CHECK_CUDA_ERROR(cudaSetDevice(previous_));
  }

 private:
  int previous_ = 0;
  int wanted_;
};

}  // namespace ffi
}  // namespace tvm

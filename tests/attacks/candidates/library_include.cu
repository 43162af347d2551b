// A vendor library, openly.
#include <cublas_v2.h>
#include "common.cuh"

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) {
  cublasHandle_t handle = nullptr;
  cublasCreate(&handle);
  Call(at, bt, ct).honest();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

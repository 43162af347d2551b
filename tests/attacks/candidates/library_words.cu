// Only talks about cublasCreate() and dlopen(): must pass.
#include "common.cuh"

void run(tvm::ffi::TensorView at, tvm::ffi::TensorView bt, tvm::ffi::TensorView ct) {
  /* cublasLtMatmul(handle), cudnnCreate(&x), cuModuleLoadData(&m, p) */
  const char* words = "dlopen(cublas) cuModuleLoad( nvrtcCompileProgram(";
  if (words == nullptr) return;
  Call(at, bt, ct).honest();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

// Line 11 uses a name that does not exist.
#include <cuda_runtime.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

__global__ void kernel(uint16_t* c) { c[threadIdx.x] = 0; }

void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {
  (void)a;
  kernel<<<1, 32>>>(static_cast<uint16_t*>(no_such_function(b, c)));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

// Lean stand-in: turning CUDA runtime errors into TVM-FFI errors.
#pragma once

#include <cuda_runtime.h>
#include <tvm/ffi/error.h>

#define TVM_FFI_CHECK_CUDA_ERROR(stmt)                                                                                 \
  do {                                                                                                                 \
    const cudaError_t ptxbench_status = (stmt);                                                                        \
    if (ptxbench_status != cudaSuccess) {                                                                              \
      TVM_FFI_THROW(RuntimeError) << "CUDA error " << static_cast<int>(ptxbench_status) << ", "                        \
                                  << cudaGetErrorName(ptxbench_status) << ": " << cudaGetErrorString(ptxbench_status); \
    }                                                                                                                  \
  } while (0)

#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda_shim/client/core.h"

/// Private to libcuda.so.1.
namespace ptxbench::cuda_shim::client::driver {

inline CUresult result(int error) { return static_cast<CUresult>(error); }
inline void* host(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
template <class Handle>
void** as_output(Handle* out) {
  return reinterpret_cast<void**>(out);
}
/// kInvalidHandle for what is no kernel of ours, else the first error of finding it on the device.
int need_kernel(const void* handle, Kernel*& kernel);

}  // namespace ptxbench::cuda_shim::client::driver

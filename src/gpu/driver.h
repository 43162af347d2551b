#pragma once

#include <cuda.h>

#include <string>

#include "base/error.h"

namespace ptxbench::gpu {

// The calls of the CUDA driver that this room uses. A program that links it must run where there is no driver, so they
// are looked up at run time.
#define PTXBENCH_DRIVER_CALLS(X)                 \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceGetPCIBusId)                         \
  X(cuDeviceTotalMem)                            \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuCtxSetCurrent)                             \
  X(cuCtxResetPersistingL2Cache)                 \
  X(cuMemGetAllocationGranularity)               \
  X(cuMemCreate)                                 \
  X(cuMemRelease)                                \
  X(cuMemAddressReserve)                         \
  X(cuMemAddressFree)                            \
  X(cuMemMap)                                    \
  X(cuMemUnmap)                                  \
  X(cuMemSetAccess)                              \
  X(cuMemAlloc)                                  \
  X(cuMemFree)                                   \
  X(cuMemHostAlloc)                              \
  X(cuMemHostGetDevicePointer)                   \
  X(cuMemHostRegister)                           \
  X(cuMemHostUnregister)                         \
  X(cuMemcpyHtoDAsync)                           \
  X(cuMemcpyDtoHAsync)                           \
  X(cuMemcpyDtoDAsync)                           \
  X(cuMemsetD8Async)                             \
  X(cuMemsetD16Async)                            \
  X(cuMemsetD32Async)                            \
  X(cuModuleLoadData)                            \
  X(cuModuleUnload)                              \
  X(cuModuleGetFunction)                         \
  X(cuModuleGetGlobal)                           \
  X(cuFuncGetAttribute)                          \
  X(cuFuncSetAttribute)                          \
  X(cuFuncGetParamInfo)                          \
  X(cuLaunchKernelEx)                            \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuStreamCreate)                              \
  X(cuStreamSynchronize)                         \
  X(cuEventCreate)                               \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuMemcpyDtoH)                                \
  X(cuEventDestroy)                              \
  X(cuEventElapsedTime)                          \
  X(cuTensorMapEncodeTiled)

struct Driver {
#define PTXBENCH_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): it is a name
  PTXBENCH_DRIVER_CALLS(PTXBENCH_DECLARE)
#undef PTXBENCH_DECLARE

  /// Loads libcuda.so.1 and initialises it, once a process. Errors say what is missing: no driver, one that is too old,
  /// no device.
  static Result<const Driver*> load();

  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string describe(CUresult result) const;
  /// Nothing on success; else an infrastructure error "WHAT: ...".
  Result<void> check(CUresult result, std::string_view what) const;
};

}  // namespace ptxbench::gpu

// The host side: every call is checked, tensor maps are described, launches get what they need.
#pragma once
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

// region host
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// cuTensorMapEncodeTiled belongs to the driver; asked for through the runtime, -lcuda is not needed.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess) throw std::runtime_error("no cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// A dense row-major tensor, innermost dimension first in `sizes` and `box`. box[0] * element bytes <= swizzle span.
inline CUtensorMap tensor_map(const void* data, std::initializer_list<uint64_t> sizes,
                              std::initializer_list<uint32_t> box,
                              CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, uint32_t element_bytes = 2,
                              CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  const uint32_t rank = static_cast<uint32_t>(sizes.size());
  if (rank < 1 || rank > 5 || box.size() != rank) throw std::runtime_error("tensor map: 1 to 5 dimensions");
  cuuint64_t strides[5] = {};  // in bytes, of dimensions 1 and up; each a multiple of 16
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  uint64_t bytes = element_bytes;
  for (uint32_t i = 0; i + 1 < rank; ++i) strides[i] = bytes *= sizes.begin()[i];
  alignas(64) CUtensorMap map;
  const CUresult status = tensor_map_encoder()(
      &map, type, rank, const_cast<void*>(data), sizes.begin(), strides, box.begin(), steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) throw std::runtime_error("tensor map: code " + std::to_string(status));
  return map;
}

// grid.x must be a multiple of `cluster`. Dynamic shared memory beyond 48 KiB is asked for here.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes, unsigned cluster,
            cudaStream_t stream, Arguments... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "shared memory");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
}
// endregion host

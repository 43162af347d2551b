#include <algorithm>
#include <cstdio>
#include <cstring>

#include "cuda_shim/client/runtime.h"
#include "cuda_shim/client/stubs.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::runtime;

namespace {

constexpr unsigned kMaxPortable = 8, kMaxCluster = 16;

/// Kernel and its first error in one.
int need_kernel(const void* function, Kernel*& kernel) {
  kernel = find_kernel(function);
  return kernel == nullptr ? static_cast<int>(cudaErrorInvalidDeviceFunction) : kernel->resolve();
}

int set_attribute(Kernel& kernel, cudaFuncAttribute attribute, int value) {
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0) return cudaErrorInvalidValue;
      return kernel.set_max_dynamic_shared(static_cast<uint32_t>(value));
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      kernel.carveout = value;
      return 0;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      return kernel.set_non_portable(value != 0);
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      kernel.cluster_policy = value;
      return 0;
    default:
      ptxbench_unsupported_call(("cudaFuncSetAttribute " + std::to_string(attribute)).c_str());
  }
}

unsigned cluster_of(const cudaLaunchConfig_t& config, const Kernel& kernel) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    const auto& dim = config.attrs[i].val.clusterDim;
    return dim.x * dim.y * dim.z;
  }
  const auto& required = kernel.info.required_cluster;
  return std::max(1u, required[0] * required[1] * required[2]);
}

std::unique_ptr<Module> image_module(const void* code) {
  auto module = std::make_unique<Module>();
  return adopt_image(*module, code) ? std::move(module) : nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  // A context that is lost answers everything with its error.
  if (const int error = simple_call(ptxbench::cuda_shim::Op::device_status, ptxbench::cuda_shim::BytesBody{});
      error != 0) {
    return finish(error);
  }
  std::memset(out, 0, sizeof *out);
  const auto& info = kernel->info;
  out->sharedSizeBytes = info.static_shared_bytes;
  out->constSizeBytes = info.constant_bytes;
  out->localSizeBytes = info.local_bytes;
  out->maxThreadsPerBlock = static_cast<int>(info.max_threads_per_block);
  out->numRegs = static_cast<int>(info.registers);
  out->ptxVersion = 90;
  out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = static_cast<int>(kernel->max_dynamic_shared);
  out->preferredShmemCarveout = kernel->carveout;
  out->requiredClusterWidth = static_cast<int>(info.required_cluster[0]);
  out->requiredClusterHeight = static_cast<int>(info.required_cluster[1]);
  out->requiredClusterDepth = static_cast<int>(info.required_cluster[2]);
  out->clusterDimMustBeSet = info.required_cluster[0] != 0 ? 1 : 0;
  out->clusterSchedulingPolicyPreference = kernel->cluster_policy;
  out->nonPortableClusterSizeAllowed = kernel->non_portable ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  return finish(set_attribute(*kernel, attribute, value));
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device) {
  if (device != 0) return finish(cudaErrorInvalidDevice);
  return cudaFuncSetAttribute(kernel, attribute, value);
}
cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return finish(find_kernel(function) == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}
cudaError_t cudaFuncSetSharedMemConfig(const void* function, cudaSharedMemConfig) {
  return finish(find_kernel(function) == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  Kernel* kernel = find_kernel(function);
  if (name == nullptr) return finish(cudaErrorInvalidValue);
  if (kernel == nullptr) return finish(cudaErrorInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}
cudaError_t cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* size) {
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  if (offset == nullptr || index >= kernel->offsets.size()) return finish(cudaErrorInvalidValue);
  *offset = kernel->offsets[index];
  if (size != nullptr) *size = kernel->sizes[index];
  return cudaSuccess;
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* symbol) {
  Kernel* kernel = nullptr;
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (const int error = need_kernel(symbol, kernel); error != 0) return finish(error);
  *out = reinterpret_cast<cudaFunction_t>(kernel);
  return cudaSuccess;
}
cudaError_t cudaGetKernel(cudaKernel_t* out, const void* function) {
  Kernel* kernel = find_kernel(function);
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (kernel == nullptr) return finish(cudaErrorInvalidDeviceFunction);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared, unsigned flags) {
  Kernel* kernel = nullptr;
  if (blocks == nullptr || threads <= 0 || flags > cudaOccupancyDisableCachingOverride)
    return finish(cudaErrorInvalidValue);
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  unsigned count = 0;
  const int error = occupancy(*kernel, static_cast<unsigned>(threads), shared, count);
  *blocks = static_cast<int>(count);
  return finish(error);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int threads) {
  Kernel* kernel = nullptr;
  if (bytes == nullptr || blocks <= 0 || threads <= 0) return finish(cudaErrorInvalidValue);
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  // As measured: an SM's 228 KiB in equal shares of whole 128 bytes, at most the opt-in limit; the KiB that the system
  // reserves per block is not subtracted.
  const size_t fixed = kernel->info.static_shared_bytes;
  const size_t usable = std::min<size_t>(233472 / static_cast<size_t>(blocks) / 128 * 128, 232448);
  *bytes = usable > fixed ? usable - fixed : 0;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
  Kernel* kernel = nullptr;
  if (clusters == nullptr || config == nullptr) return finish(cudaErrorInvalidValue);
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  unsigned count = 0;
  const int error = active_clusters(*kernel, config->blockDim.x * config->blockDim.y * config->blockDim.z,
                                    config->dynamicSmemBytes, cluster_of(*config, *kernel), count);
  *clusters = static_cast<int>(count);
  return finish(error);
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function, const cudaLaunchConfig_t* config) {
  Kernel* kernel = nullptr;
  if (size == nullptr || config == nullptr) return finish(cudaErrorInvalidValue);
  if (const int error = need_kernel(function, kernel); error != 0) return finish(error);
  for (unsigned blocks = kernel->non_portable ? kMaxCluster : kMaxPortable; blocks != 0; blocks /= 2) {
    unsigned count = 0;
    const int error = active_clusters(*kernel, config->blockDim.x * config->blockDim.y * config->blockDim.z,
                                      config->dynamicSmemBytes, blocks, count);
    if (error != 0) return finish(error);
    *size = static_cast<int>(blocks);
    if (count != 0) break;
  }
  return cudaSuccess;
}

// Options say how to compile and cache; the emulated device compiles nothing.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  if (out == nullptr || code == nullptr) return finish(cudaErrorInvalidValue);
  auto module = image_module(code);
  if (module == nullptr) return finish(cudaErrorInvalidKernelImage);
  Module* handle = add_module(std::move(module));
  const int error = handle->load();
  if (error == 0) {
    *out = reinterpret_cast<cudaLibrary_t>(handle);
  } else {
    unload(handle);
  }
  return finish(error);
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* path, cudaJitOption*, void**, unsigned,
                                    cudaLibraryOption*, void**, unsigned) {
  if (out == nullptr || path == nullptr) return finish(cudaErrorInvalidValue);
  auto module = std::make_unique<Module>();
  if (!read_image(*module, path)) return finish(cudaErrorFileNotFound);
  Module* handle = add_module(std::move(module));
  const int error = handle->load();
  if (error == 0) {
    *out = reinterpret_cast<cudaLibrary_t>(handle);
  } else {
    unload(handle);
  }
  return finish(error);
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  Module* module = as_module(library);
  return finish(module == nullptr ? static_cast<int>(cudaErrorInvalidResourceHandle) : unload(module));
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  Module* module = as_module(library);
  if (module == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (out == nullptr || name == nullptr) return finish(cudaErrorInvalidValue);
  Kernel* kernel = add_kernel(*module, name, nullptr);
  if (const int error = kernel->resolve(); error != 0) return finish(error);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}
cudaError_t cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name) {
  Module* module = as_module(library);
  if (module == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (name == nullptr) return finish(cudaErrorInvalidValue);
  uint64_t address = 0, size = 0;
  const int error = find_symbol(*module, name, address, size);
  if (error == 0 && pointer != nullptr) *pointer = reinterpret_cast<void*>(address);
  if (error == 0 && bytes != nullptr) *bytes = size;
  return finish(error);
}

}  // extern "C"

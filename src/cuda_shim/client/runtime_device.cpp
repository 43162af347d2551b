#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstring>

#include "cuda_shim/client/runtime.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::runtime;

namespace {

constexpr char kPciBusId[] = "0000:00:00.0";

int attribute(cudaDeviceAttr number) {
  int value = 0;
  device_attribute(number, value);
  return value;
}

int require_device_zero(int device) { return device == 0 ? 0 : cudaErrorInvalidDevice; }

/// Fails when there is no emulated device to talk to.
int require_device() {
  int error = 0;
  Channel::get(error);
  return error;
}

std::mutex g_limit_mutex;
// Stack, printf queue, device heap, -, pending launches, L2 fetch granularity, persisting L2, shared memory: values of
// an H200.
size_t g_limits[] = {1024, 8650752, 8388608, 0, 2048, 64, 0, 232448};
unsigned g_device_flags = cudaDeviceMapHost;
thread_local cudaStreamCaptureMode t_capture_mode = cudaStreamCaptureModeGlobal;

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return finish(cudaErrorInvalidValue);
  const int error = require_device();
  *count = error == 0 ? 1 : 0;
  return finish(error);
}
cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return finish(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (const int error = require_device_zero(device); error != 0) return finish(error);
  return finish(require_device());
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
cudaError_t cudaSetValidDevices(int* devices, int count) {
  for (int i = 0; i < count; ++i) {
    if (devices == nullptr || devices[i] != 0) return finish(cudaErrorInvalidDevice);
  }
  return cudaSuccess;
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
cudaError_t cudaSetDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown =
      cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
  if ((flags & ~kKnown) != 0) return finish(cudaErrorInvalidValue);
  g_device_flags = flags | cudaDeviceMapHost;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  if (flags == nullptr) return finish(cudaErrorInvalidValue);
  *flags = g_device_flags;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return finish(synchronize_device()); }
cudaError_t cudaDeviceReset() { return finish(reset_device()); }

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr number, int device) {
  if (value == nullptr) return finish(cudaErrorInvalidValue);
  if (const int error = require_device_zero(device); error != 0) return finish(error);
  return finish(device_attribute(number, *value));
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  if (const int error = require_device_zero(device); error != 0) return finish(error);
  if (const int error = require_device(); error != 0) return finish(error);
  cudaDeviceProp& p = *out;
  std::memset(&p, 0, sizeof p);
  std::snprintf(p.name, sizeof p.name, "%s", kDeviceName);
  std::memcpy(p.uuid.bytes, device_uuid(), sizeof p.uuid.bytes);
  p.totalGlobalMem = device_memory_bytes();
  p.sharedMemPerBlock = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  p.regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock);
  p.warpSize = attribute(cudaDevAttrWarpSize);
  p.memPitch = static_cast<size_t>(attribute(cudaDevAttrMaxPitch));
  p.maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  p.totalConstMem = static_cast<size_t>(attribute(cudaDevAttrTotalConstantMemory));
  p.major = attribute(cudaDevAttrComputeCapabilityMajor);
  p.minor = attribute(cudaDevAttrComputeCapabilityMinor);
  p.textureAlignment = static_cast<size_t>(attribute(cudaDevAttrTextureAlignment));
  p.texturePitchAlignment = static_cast<size_t>(attribute(cudaDevAttrTexturePitchAlignment));
  p.surfaceAlignment = static_cast<size_t>(attribute(cudaDevAttrSurfaceAlignment));
  p.multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  p.integrated = attribute(cudaDevAttrIntegrated);
  p.canMapHostMemory = attribute(cudaDevAttrCanMapHostMemory);
  p.concurrentKernels = attribute(cudaDevAttrConcurrentKernels);
  p.ECCEnabled = attribute(cudaDevAttrEccEnabled);
  p.asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount);
  p.unifiedAddressing = attribute(cudaDevAttrUnifiedAddressing);
  p.memoryBusWidth = attribute(cudaDevAttrGlobalMemoryBusWidth);
  p.l2CacheSize = attribute(cudaDevAttrL2CacheSize);
  p.persistingL2CacheMaxSize = attribute(cudaDevAttrMaxPersistingL2CacheSize);
  p.maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  p.streamPrioritiesSupported = attribute(cudaDevAttrStreamPrioritiesSupported);
  p.globalL1CacheSupported = attribute(cudaDevAttrGlobalL1CacheSupported);
  p.localL1CacheSupported = attribute(cudaDevAttrLocalL1CacheSupported);
  p.sharedMemPerMultiprocessor = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  p.regsPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  p.managedMemory = attribute(cudaDevAttrManagedMemory);
  p.hostNativeAtomicSupported = attribute(cudaDevAttrHostNativeAtomicSupported);
  p.pageableMemoryAccess = attribute(cudaDevAttrPageableMemoryAccess);
  p.concurrentManagedAccess = attribute(cudaDevAttrConcurrentManagedAccess);
  p.computePreemptionSupported = attribute(cudaDevAttrComputePreemptionSupported);
  p.canUseHostPointerForRegisteredMem = attribute(cudaDevAttrCanUseHostPointerForRegisteredMem);
  p.cooperativeLaunch = attribute(cudaDevAttrCooperativeLaunch);
  p.sharedMemPerBlockOptin = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  p.maxBlocksPerMultiProcessor = attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  p.accessPolicyMaxWindowSize = attribute(cudaDevAttrMaxAccessPolicyWindowSize);
  p.reservedSharedMemPerBlock = static_cast<size_t>(attribute(cudaDevAttrReservedSharedMemoryPerBlock));
  p.hostRegisterSupported = attribute(cudaDevAttrHostRegisterSupported);
  p.hostRegisterReadOnlySupported = attribute(cudaDevAttrHostRegisterReadOnlySupported);
  p.memoryPoolsSupported = attribute(cudaDevAttrMemoryPoolsSupported);
  p.clusterLaunch = attribute(cudaDevAttrClusterLaunch);
  p.deviceNumaId = attribute(cudaDevAttrNumaId);
  p.gpuPciDeviceID = static_cast<unsigned>(attribute(cudaDevAttrGpuPciDeviceId));
  p.gpuPciSubsystemID = static_cast<unsigned>(attribute(cudaDevAttrGpuPciSubsystemId));

  const auto get = [](int number) { return attribute(static_cast<cudaDeviceAttr>(number)); };
  // Runs of attribute numbers that fill an array.
  const auto run = [&](int* to, std::initializer_list<int> numbers) {
    for (const int number : numbers) *to++ = get(number);
  };
  run(p.maxThreadsDim, {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ});
  run(p.maxGridSize, {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ});
  p.maxTexture1D = get(cudaDevAttrMaxTexture1DWidth);
  p.maxTexture1DMipmap = get(cudaDevAttrMaxTexture1DMipmappedWidth);
  run(p.maxTexture2D, {cudaDevAttrMaxTexture2DWidth, cudaDevAttrMaxTexture2DHeight});
  run(p.maxTexture2DMipmap, {cudaDevAttrMaxTexture2DMipmappedWidth, cudaDevAttrMaxTexture2DMipmappedHeight});
  run(p.maxTexture2DLinear,
      {cudaDevAttrMaxTexture2DLinearWidth, cudaDevAttrMaxTexture2DLinearHeight, cudaDevAttrMaxTexture2DLinearPitch});
  run(p.maxTexture2DGather, {cudaDevAttrMaxTexture2DGatherWidth, cudaDevAttrMaxTexture2DGatherHeight});
  run(p.maxTexture3D, {cudaDevAttrMaxTexture3DWidth, cudaDevAttrMaxTexture3DHeight, cudaDevAttrMaxTexture3DDepth});
  run(p.maxTexture3DAlt,
      {cudaDevAttrMaxTexture3DWidthAlt, cudaDevAttrMaxTexture3DHeightAlt, cudaDevAttrMaxTexture3DDepthAlt});
  p.maxTextureCubemap = get(cudaDevAttrMaxTextureCubemapWidth);
  run(p.maxTexture1DLayered, {cudaDevAttrMaxTexture1DLayeredWidth, cudaDevAttrMaxTexture1DLayeredLayers});
  run(p.maxTexture2DLayered, {cudaDevAttrMaxTexture2DLayeredWidth, cudaDevAttrMaxTexture2DLayeredHeight,
                              cudaDevAttrMaxTexture2DLayeredLayers});
  run(p.maxTextureCubemapLayered,
      {cudaDevAttrMaxTextureCubemapLayeredWidth, cudaDevAttrMaxTextureCubemapLayeredLayers});
  p.maxSurface1D = get(cudaDevAttrMaxSurface1DWidth);
  run(p.maxSurface2D, {cudaDevAttrMaxSurface2DWidth, cudaDevAttrMaxSurface2DHeight});
  run(p.maxSurface3D, {cudaDevAttrMaxSurface3DWidth, cudaDevAttrMaxSurface3DHeight, cudaDevAttrMaxSurface3DDepth});
  run(p.maxSurface1DLayered, {cudaDevAttrMaxSurface1DLayeredWidth, cudaDevAttrMaxSurface1DLayeredLayers});
  run(p.maxSurface2DLayered, {cudaDevAttrMaxSurface2DLayeredWidth, cudaDevAttrMaxSurface2DLayeredHeight,
                              cudaDevAttrMaxSurface2DLayeredLayers});
  p.maxSurfaceCubemap = get(cudaDevAttrMaxSurfaceCubemapWidth);
  run(p.maxSurfaceCubemapLayered,
      {cudaDevAttrMaxSurfaceCubemapLayeredWidth, cudaDevAttrMaxSurfaceCubemapLayeredLayers});
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* id) {
  if (device == nullptr || id == nullptr) return finish(cudaErrorInvalidValue);
  if (std::strcmp(id, kPciBusId) != 0) return finish(cudaErrorInvalidDevice);
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  if (out == nullptr || length < static_cast<int>(sizeof kPciBusId)) return finish(cudaErrorInvalidValue);
  std::memcpy(out, kPciBusId, sizeof kPciBusId);
  return finish(require_device_zero(device));
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (value == nullptr) return finish(cudaErrorInvalidValue);
  if (limit == cudaLimitDevRuntimeSyncDepth) return finish(cudaErrorUnsupportedLimit);
  if (limit < 0 || static_cast<size_t>(limit) >= std::size(g_limits)) return finish(cudaErrorInvalidValue);
  const std::lock_guard lock(g_limit_mutex);
  *value = g_limits[limit];
  return cudaSuccess;
}
// Stack, heap and queues of the emulated device grow as needed: the limits are kept, not enforced.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  if (limit == cudaLimitDevRuntimeSyncDepth) return finish(cudaErrorUnsupportedLimit);
  if (limit < 0 || static_cast<size_t>(limit) >= std::size(g_limits)) return finish(cudaErrorInvalidValue);
  const std::lock_guard lock(g_limit_mutex);
  g_limits[limit] = value;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
  if (config == nullptr) return finish(cudaErrorInvalidValue);
  *config = cudaSharedMemBankSizeFourByte;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return finish(cudaErrorInvalidValue);
  *can = 0;
  return finish(require_device_zero(device | peer));
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return finish(cudaErrorPeerAccessUnsupported); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return finish(cudaErrorPeerAccessNotEnabled); }

cudaError_t cudaGetLastError() {
  tell_launches_are_checked();
  return static_cast<cudaError_t>(take_error());
}
cudaError_t cudaPeekAtLastError() {
  tell_launches_are_checked();
  return static_cast<cudaError_t>(peek_error());
}
const char* cudaGetErrorName(cudaError_t error) {
  const char* name = runtime_error_name(error);
  return name == nullptr ? "unrecognized error code" : name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const char* text = error_text(error);
  return text == nullptr ? "unrecognized error code" : text;
}
cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = kCudaVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || out == nullptr) return finish(cudaErrorInvalidValue);
  bool too_new = false;
  *out = find_driver_function(symbol, static_cast<int>(version), flags == cudaEnablePerThreadDefaultStream, too_new);
  if (status != nullptr) {
    *status = *out != nullptr ? cudaDriverEntryPointSuccess
              : too_new       ? cudaDriverEntryPointVersionNotSufficent
                              : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, out, kCudaVersion, flags, status);
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

// Nothing is ever captured: beginning a capture stops the program as not modelled.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return finish(cudaErrorInvalidValue);
  std::swap(*mode, t_capture_mode);
  return cudaSuccess;
}

}  // extern "C"

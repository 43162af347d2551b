#include <cudaProfiler.h>

#include <cstdio>
#include <cstring>

#include "cuda_shim/client/driver_internal.h"
#include "cuda_shim/client/stubs.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::driver;

namespace {

int g_primary = 0, g_created = 0;  // their addresses are the context handles
bool g_has_created = false;
std::mutex g_context_mutex;
thread_local CUcontext t_current = nullptr;

CUcontext primary() { return reinterpret_cast<CUcontext>(&g_primary); }
bool is_context(CUcontext context) {
  return context == primary() || (g_has_created && context == reinterpret_cast<CUcontext>(&g_created));
}

int require_device() {
  int error = 0;
  Channel::get(error);
  return error;
}
int require_device_zero(CUdevice device) { return device == 0 ? 0 : CUDA_ERROR_INVALID_DEVICE; }

/// One context of the program's own stands for the primary one; a second would have memory and errors apart, which the
/// emulated device has not.
CUresult create_context(CUcontext* out, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = require_device_zero(device); error != 0) return result(error);
  if (const int error = require_device(); error != 0) return result(error);
  const std::lock_guard lock(g_context_mutex);
  if (g_has_created) ptxbench_unsupported_call("cuCtxCreate of a second context");
  g_has_created = true;
  *out = t_current = reinterpret_cast<CUcontext>(&g_created);
  return CUDA_SUCCESS;
}

}  // namespace

namespace ptxbench::cuda_shim::client::driver {
int need_kernel(const void* handle, Kernel*& kernel) {
  kernel = as_kernel(handle);
  return kernel == nullptr ? cuda_error::kInvalidHandle : kernel->resolve();
}
}  // namespace ptxbench::cuda_shim::client::driver

extern "C" {

void ptxbench_unsupported_call(const char* name) { stop_unsupported(name); }

CUresult cuInit(unsigned flags) { return flags != 0 ? CUDA_ERROR_INVALID_VALUE : result(require_device()); }
CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kCudaVersion;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = driver_error_name(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = driver_error_name(error) != nullptr ? error_text(error) : nullptr;
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool too_new = false;
  *out = find_driver_function(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, too_new);
  if (status != nullptr) {
    *status = *out != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_new       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return result(require_device_zero(ordinal));
}
CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int error = require_device();
  *count = error == 0 ? 1 : 0;
  return result(error);
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(length), "%s", kDeviceName);
  return result(require_device_zero(device));
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = require_device_zero(device); error != 0) return result(error);
  return result(device_attribute(attribute, *value));
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = require_device(); error != 0) return result(error);
  *bytes = device_memory_bytes();
  return result(require_device_zero(device));
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, device_uuid(), sizeof uuid->bytes);
  return result(require_device_zero(device));
}
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = 9;
  *minor = 0;
  return result(require_device_zero(device));
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return result(require_device_zero(device | peer));
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = primary();
  if (const int error = require_device_zero(device); error != 0) return result(error);
  return result(require_device());
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return result(require_device_zero(device)); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const int error = require_device_zero(device); error != 0) return result(error);
  return result(reset_device());
}
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) { return result(require_device_zero(device)); }
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  *active = 1;
  return result(require_device_zero(device));
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned, CUdevice device) { return create_context(out, device); }
CUresult cuCtxCreate(CUcontext* out, CUctxCreateParams* parameters, unsigned, CUdevice device) {
  if (parameters != nullptr) ptxbench_unsupported_call("cuCtxCreate with creation parameters");
  return create_context(out, device);
}
CUresult cuCtxDestroy(CUcontext context) {
  const std::lock_guard lock(g_context_mutex);
  if (!g_has_created || context != reinterpret_cast<CUcontext>(&g_created)) return CUDA_ERROR_INVALID_CONTEXT;
  g_has_created = false;
  if (t_current == context) t_current = nullptr;
  return result(reset_device());
}
CUresult cuCtxGetCurrent(CUcontext* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = t_current != nullptr ? t_current : primary();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  t_current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxSetCurrent(context == nullptr ? primary() : context); }
CUresult cuCtxPopCurrent(CUcontext* out) {
  if (out != nullptr) *out = t_current != nullptr ? t_current : primary();
  t_current = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return result(synchronize_device()); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }

// Nothing is ever captured: beginning a capture stops the program as not modelled.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

}  // extern "C"

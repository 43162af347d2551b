#include "cuda_shim/client/driver_internal.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::driver;

namespace {
CUresult properties(CUstream stream, unsigned& flags, int& priority, uint64_t& id) {
  return result(stream_properties(stream, flags, priority, id));
}
}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* out, unsigned flags) { return result(create_stream(flags, 0, as_output(out))); }
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return result(create_stream(flags, priority, as_output(out)));
}
CUresult cuStreamDestroy(CUstream stream) { return result(destroy_stream(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { return result(synchronize_stream(stream)); }
CUresult cuStreamQuery(CUstream stream) { return result(query_stream(stream)); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return flags > CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : result(wait_event(stream, event));
}
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  int priority = 0;
  uint64_t id = 0;
  return flags == nullptr ? CUDA_ERROR_INVALID_VALUE : properties(stream, *flags, priority, id);
}
CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  unsigned flags = 0;
  uint64_t id = 0;
  return priority == nullptr ? CUDA_ERROR_INVALID_VALUE : properties(stream, flags, *priority, id);
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* out) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult answer = properties(stream, flags, priority, id);
  *out = id;
  return answer;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* out) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  const CUresult answer = properties(stream, flags, priority, id);
  return answer != CUDA_SUCCESS ? answer : cuCtxGetCurrent(out);
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return properties(stream, flags, priority, id);
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return properties(stream, flags, priority, id);
}
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  HostCallback wanted;
  wanted.stream_callback = reinterpret_cast<void (*)(void*, int, void*)>(callback);
  wanted.stream = stream;
  wanted.data = data;
  return result(add_host_callback(stream, wanted));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  HostCallback wanted;
  wanted.function = function;
  wanted.data = data;
  return result(add_host_callback(stream, wanted));
}

CUresult cuEventCreate(CUevent* out, unsigned flags) { return result(create_event(flags, as_output(out))); }
CUresult cuEventDestroy(CUevent event) { return result(destroy_event(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return result(record_event(event, stream)); }
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : result(record_event(event, stream));
}
CUresult cuEventQuery(CUevent event) { return result(query_event(event)); }
CUresult cuEventSynchronize(CUevent event) { return result(synchronize_event(event)); }
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return milliseconds == nullptr ? CUDA_ERROR_INVALID_VALUE : result(elapsed(start, end, *milliseconds));
}

}  // extern "C"

#include "cuda_shim/client/runtime.h"
#include "cuda_shim/client/stubs.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::runtime;

namespace {

template <class Handle>
void** as_output(Handle* out) {
  return reinterpret_cast<void**>(out);
}

/// Valid handles answer 0.
int check_stream(cudaStream_t stream) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  return stream_properties(stream, flags, priority, id);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* out) { return finish(create_stream(0, 0, as_output(out))); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return finish(create_stream(flags, 0, as_output(out)));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return finish(create_stream(flags, priority, as_output(out)));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return finish(destroy_stream(stream)); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  unsigned flags = 0;
  uint64_t id = 0;
  if (priority == nullptr) return finish(cudaErrorInvalidValue);
  return finish(stream_properties(stream, flags, *priority, id));
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  int priority = 0;
  uint64_t id = 0;
  if (flags == nullptr) return finish(cudaErrorInvalidValue);
  return finish(stream_properties(stream, *flags, priority, id));
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* out) {
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  if (out == nullptr) return finish(cudaErrorInvalidValue);
  const int error = stream_properties(stream, flags, priority, id);
  *out = id;
  return finish(error);
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (device == nullptr) return finish(cudaErrorInvalidValue);
  *device = 0;
  return finish(check_stream(stream));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return finish(synchronize_stream(stream)); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return finish(query_stream(stream)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags > cudaEventWaitExternal) return finish(cudaErrorInvalidValue);
  return finish(wait_event(stream, event));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
  if (flags != 0) return finish(cudaErrorInvalidValue);
  HostCallback wanted;
  wanted.stream_callback = reinterpret_cast<void (*)(void*, int, void*)>(callback);
  wanted.stream = stream;
  wanted.data = data;
  return finish(add_host_callback(stream, wanted));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  HostCallback wanted;
  wanted.function = function;
  wanted.data = data;
  return finish(add_host_callback(stream, wanted));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (status == nullptr) return finish(cudaErrorInvalidValue);
  *status = cudaStreamCaptureStatusNone;
  return finish(check_stream(stream));
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  if (id != nullptr) *id = 0;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                   const cudaLaunchAttributeValue* value) {
  if (value == nullptr) return finish(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeSynchronizationPolicy:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributeMemSyncDomain:
      return finish(check_stream(stream));  // hints about speed
    default:
      ptxbench_unsupported_call(("cudaStreamSetAttribute " + std::to_string(attribute)).c_str());
  }
}

cudaError_t cudaEventCreate(cudaEvent_t* out) { return finish(create_event(0, as_output(out))); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return finish(create_event(flags, as_output(out)));
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return finish(destroy_event(event)); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return finish(record_event(event, stream)); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags > cudaEventRecordExternal) return finish(cudaErrorInvalidValue);
  return finish(record_event(event, stream));
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return finish(query_event(event)); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return finish(synchronize_event(event)); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return finish(cudaErrorInvalidValue);
  return finish(elapsed(start, end, *milliseconds));
}

}  // extern "C"

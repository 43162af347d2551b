// The _ptsz and _ptds entry points, which code built with --default-stream per-thread calls: the null stream is the
// calling thread's own.
#include <cuda_runtime_api.h>

#include "cuda_shim/client/runtime.h"

using ptxbench::cuda_shim::client::PerThreadDefault;

namespace {

template <auto Function, class... Arguments>
cudaError_t with_own_stream(Arguments... arguments) {
  const PerThreadDefault guard;
  return Function(arguments...);
}

}  // namespace

// Each takes exactly the parameters of the function it is named after.
#define PER_THREAD(function, suffix, parameters, arguments) \
  extern "C" cudaError_t function##suffix parameters;       \
  extern "C" cudaError_t function##suffix parameters { return with_own_stream<&function> arguments; }

PER_THREAD(cudaLaunchKernel, _ptsz, (const void* f, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t),
           (f, g, b, a, s, t))
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz, (const void* f, dim3 g, dim3 b, void** a, size_t s, cudaStream_t t),
           (f, g, b, a, s, t))
PER_THREAD(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t* c, const void* f, void** a), (c, f, a))
PER_THREAD(cudaLaunchHostFunc, _ptsz, (cudaStream_t t, cudaHostFn_t f, void* d), (t, f, d))
PER_THREAD(cudaMallocAsync, _ptsz, (void** o, size_t n, cudaStream_t t), (o, n, t))
PER_THREAD(cudaFreeAsync, _ptsz, (void* p, cudaStream_t t), (p, t))
PER_THREAD(cudaMemcpy, _ptds, (void* d, const void* s, size_t n, cudaMemcpyKind k), (d, s, n, k))
PER_THREAD(cudaMemcpyAsync, _ptsz, (void* d, const void* s, size_t n, cudaMemcpyKind k, cudaStream_t t),
           (d, s, n, k, t))
PER_THREAD(cudaMemcpy2D, _ptds, (void* d, size_t p, const void* s, size_t q, size_t w, size_t h, cudaMemcpyKind k),
           (d, p, s, q, w, h, k))
PER_THREAD(cudaMemcpy2DAsync, _ptsz,
           (void* d, size_t p, const void* s, size_t q, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t t),
           (d, p, s, q, w, h, k, t))
PER_THREAD(cudaMemcpyToSymbol, _ptds, (const void* y, const void* s, size_t n, size_t o, cudaMemcpyKind k),
           (y, s, n, o, k))
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz,
           (const void* y, const void* s, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t t), (y, s, n, o, k, t))
PER_THREAD(cudaMemcpyFromSymbol, _ptds, (void* d, const void* y, size_t n, size_t o, cudaMemcpyKind k), (d, y, n, o, k))
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz,
           (void* d, const void* y, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t t), (d, y, n, o, k, t))
PER_THREAD(cudaMemset, _ptds, (void* d, int v, size_t n), (d, v, n))
PER_THREAD(cudaMemsetAsync, _ptsz, (void* d, int v, size_t n, cudaStream_t t), (d, v, n, t))
PER_THREAD(cudaMemset2D, _ptds, (void* d, size_t p, int v, size_t w, size_t h), (d, p, v, w, h))
PER_THREAD(cudaMemset2DAsync, _ptsz, (void* d, size_t p, int v, size_t w, size_t h, cudaStream_t t), (d, p, v, w, h, t))
PER_THREAD(cudaStreamGetPriority, _ptsz, (cudaStream_t t, int* p), (t, p))
PER_THREAD(cudaStreamGetFlags, _ptsz, (cudaStream_t t, unsigned* f), (t, f))
PER_THREAD(cudaStreamIsCapturing, _ptsz, (cudaStream_t t, cudaStreamCaptureStatus* s), (t, s))
PER_THREAD(cudaStreamAddCallback, _ptsz, (cudaStream_t t, cudaStreamCallback_t c, void* d, unsigned f), (t, c, d, f))
PER_THREAD(cudaStreamSynchronize, _ptsz, (cudaStream_t t), (t))
PER_THREAD(cudaStreamQuery, _ptsz, (cudaStream_t t), (t))
PER_THREAD(cudaStreamWaitEvent, _ptsz, (cudaStream_t t, cudaEvent_t e, unsigned f), (t, e, f))
PER_THREAD(cudaEventRecord, _ptsz, (cudaEvent_t e, cudaStream_t t), (e, t))
PER_THREAD(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t e, cudaStream_t t, unsigned f), (e, t, f))

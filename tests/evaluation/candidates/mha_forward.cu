// Attention on CUDA cores, one thread per query, for D = 64: O and LSE. What MASKED says decides whether query i sees the
// keys behind it; the tests build both, and mistakes, by replacing single lines.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

constexpr bool kCausal = false;  // MASKED
constexpr int kDepth = 64;
constexpr int kThreads = 64;

__global__ void forward(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* o,
                        float* lse, int sequence) {
  const int query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= sequence) return;
  const size_t head = static_cast<size_t>(blockIdx.y) * sequence;
  const float scale = rsqrtf(kDepth);
  float mine[kDepth], sum[kDepth];
  for (int d = 0; d < kDepth; ++d) {
    mine[d] = __bfloat162float(q[(head + query) * kDepth + d]) * scale;
    sum[d] = 0;
  }
  float top = -INFINITY, total = 0;
  const int seen = kCausal ? query + 1 : sequence;
  for (int key = 0; key < seen; ++key) {
    float score = 0;
    for (int d = 0; d < kDepth; ++d) score = fmaf(mine[d], __bfloat162float(k[(head + key) * kDepth + d]), score);
    const float larger = fmaxf(top, score);
    const float rescale = expf(top - larger);  // RESCALE
    const float p = expf(score - larger);
    top = larger;
    total = total * rescale + p;
    for (int d = 0; d < kDepth; ++d) {
      sum[d] = fmaf(p, __bfloat162float(v[(head + key) * kDepth + d]), sum[d] * rescale);
    }
  }
  for (int d = 0; d < kDepth; ++d) o[(head + query) * kDepth + d] = __float2bfloat16(sum[d] / total);
  lse[head + query] = top + logf(total);  // LSE
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView lse) {
  const int sequence = static_cast<int>(q.size(2));
  const dim3 grid((sequence + kThreads - 1) / kThreads, static_cast<unsigned>(q.size(0) * q.size(1)));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  const auto bf16 = [](tvm::ffi::TensorView& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  forward<<<grid, kThreads, 0, stream>>>(bf16(q), bf16(k), bf16(v), bf16(o), static_cast<float*>(lse.data_ptr()),
                                         sequence);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

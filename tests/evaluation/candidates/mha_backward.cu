// Backward pass of attention on CUDA cores for D = 64: one kernel with a thread per query for dQ, one with a thread per
// key for dK and dV.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace {

constexpr bool kCausal = false;  // MASKED
constexpr int kDepth = 64;
constexpr int kThreads = 64;

__device__ float dot(const float* a, const __nv_bfloat16* b) {
  float sum = 0;
  for (int d = 0; d < kDepth; ++d) sum = fmaf(a[d], __bfloat162float(b[d]), sum);
  return sum;
}

__device__ void widen(const __nv_bfloat16* from, float* to) {
  for (int d = 0; d < kDepth; ++d) to[d] = __bfloat162float(from[d]);
}

__device__ void add(float weight, const __nv_bfloat16* row, float* sum) {
  for (int d = 0; d < kDepth; ++d) sum[d] = fmaf(weight, __bfloat162float(row[d]), sum[d]);
}

__device__ void store(const float* sum, float factor, __nv_bfloat16* to) {
  for (int d = 0; d < kDepth; ++d) to[d] = __float2bfloat16(sum[d] * factor);
}

struct Tensors {
  const __nv_bfloat16 *q, *k, *v, *o, *d_o;
  const float* lse;
  __nv_bfloat16 *dq, *dk, *dv;
  int sequence;
};

__global__ void rows_of_queries(Tensors t, float* row_sums) {
  const int query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= t.sequence) return;
  const size_t head = static_cast<size_t>(blockIdx.y) * t.sequence, at = (head + query) * kDepth;
  float q[kDepth], d_o[kDepth], sum[kDepth] = {};
  widen(t.q + at, q);
  widen(t.d_o + at, d_o);
  const float delta = dot(d_o, t.o + at);  // ROW SUM
  row_sums[head + query] = delta;
  for (int key = 0; key < (kCausal ? query + 1 : t.sequence); ++key) {
    const size_t other = (head + key) * kDepth;
    const float p = expf(dot(q, t.k + other) * rsqrtf(kDepth) - t.lse[head + query]);
    add(p * (dot(d_o, t.v + other) - delta), t.k + other, sum);
  }
  store(sum, rsqrtf(kDepth), t.dq + at);
}

__global__ void rows_of_keys(Tensors t, const float* row_sums) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  if (key >= t.sequence) return;
  const size_t head = static_cast<size_t>(blockIdx.y) * t.sequence, at = (head + key) * kDepth;
  float k[kDepth], v[kDepth], dk[kDepth] = {}, dv[kDepth] = {};
  widen(t.k + at, k);
  widen(t.v + at, v);
  for (int query = kCausal ? key : 0; query < t.sequence; ++query) {
    const size_t other = (head + query) * kDepth;
    const float p = expf(dot(k, t.q + other) * rsqrtf(kDepth) - t.lse[head + query]);
    add(p * (dot(v, t.d_o + other) - row_sums[head + query]), t.q + other, dk);
    add(p, t.d_o + other, dv);
  }
  store(dk, rsqrtf(kDepth), t.dk + at);
  store(dv, 1, t.dv + at);
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView o,
         tvm::ffi::TensorView d_o, tvm::ffi::TensorView lse, tvm::ffi::TensorView dq, tvm::ffi::TensorView dk,
         tvm::ffi::TensorView dv) {
  const auto bf16 = [](tvm::ffi::TensorView& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  const Tensors tensors{bf16(q),  bf16(k),  bf16(v),  bf16(o), bf16(d_o), static_cast<const float*>(lse.data_ptr()),
                        bf16(dq), bf16(dk), bf16(dv), static_cast<int>(q.size(2))};
  const dim3 grid((tensors.sequence + kThreads - 1) / kThreads, static_cast<unsigned>(q.size(0) * q.size(1)));
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  float* row_sums = nullptr;
  if (cudaMalloc(&row_sums, sizeof(float) * grid.y * tensors.sequence) != cudaSuccess) return;
  rows_of_queries<<<grid, kThreads, 0, stream>>>(tensors, row_sums);
  rows_of_keys<<<grid, kThreads, 0, stream>>>(tensors, row_sums);
  cudaStreamSynchronize(stream);
  cudaFree(row_sums);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

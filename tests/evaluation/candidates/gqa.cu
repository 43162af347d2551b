// Grouped-query attention on CUDA cores for D = 128, one warp per query and head: output and lse in base 2. The lines
// marked with capitals choose the kind; the tests build all of them, and mistakes, by replacing single lines.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#define PREFILL 1    // PREFILL
#define PAGED 1      // PAGED
#define LAST_PAGE 0  // LAST PAGE

namespace {

constexpr int kDepth = 128;
constexpr int kColumns = kDepth / 32;

struct Call {
  const __nv_bfloat16 *q, *k, *v;
  const int *qo_indptr, *kv_indptr, *kv_indices, *kv_last_page_len;
  float scale;
  __nv_bfloat16* output;
  float* lse;
  int requests, heads, kv_heads, page_size;
};

__global__ void attention(Call call) {
  const int query = blockIdx.x, head = blockIdx.y, column = threadIdx.x * kColumns;
  int request = query, queries = 1, place = 0;
  if (PREFILL) {
    request = 0;
    while (query >= call.qo_indptr[request + 1]) ++request;
    queries = call.qo_indptr[request + 1] - call.qo_indptr[request];
    place = query - call.qo_indptr[request];
  }
  const int first = call.kv_indptr[request], pages = call.kv_indptr[request + 1] - first;
  int keys = pages * call.page_size;
  if (LAST_PAGE && pages > 0) keys += call.kv_last_page_len[request] - call.page_size;  // KEYS
  int seen = keys;
  if (PREFILL) seen = place + 1 + keys - queries;  // MASK

  const size_t row = static_cast<size_t>(query) * call.heads + head;
  const int kv_head = head / (call.heads / call.kv_heads);  // HEAD
  float mine[kColumns], sum[kColumns] = {};
  for (int d = 0; d < kColumns; ++d) mine[d] = __bfloat162float(call.q[row * kDepth + column + d]) * call.scale;
  float top = -INFINITY, total = 0;
  for (int key = 0; key < seen; ++key) {
    int slot = first + key;
    if (PAGED) slot = call.kv_indices[first + key / call.page_size] * call.page_size + key % call.page_size;  // SLOT
    const size_t at = (static_cast<size_t>(slot) * call.kv_heads + kv_head) * kDepth + column;
    float score = 0;
    for (int d = 0; d < kColumns; ++d) score = fmaf(mine[d], __bfloat162float(call.k[at + d]), score);
    for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xffffffffu, score, distance);
    const float larger = fmaxf(top, score), rescale = expf(top - larger), p = expf(score - larger);
    top = larger;
    total = total * rescale + p;
    for (int d = 0; d < kColumns; ++d) sum[d] = fmaf(p, __bfloat162float(call.v[at + d]), sum[d] * rescale);
  }
  for (int d = 0; d < kColumns; ++d) {
    call.output[row * kDepth + column + d] = __float2bfloat16(total > 0 ? sum[d] / total : 0);
  }
  if (threadIdx.x == 0) call.lse[row] = (top + logf(total)) * 1.44269504f;  // LSE
}

using Tensor = tvm::ffi::TensorView;

void run(Tensor q, Tensor k, Tensor v,
#if PREFILL
         Tensor qo_indptr,
#endif
         Tensor kv_indptr,
#if PAGED
         Tensor kv_indices,
#endif
#if LAST_PAGE
         Tensor kv_last_page_len,
#endif
         double sm_scale, Tensor output, Tensor lse) {
  Call call{};
  const auto bf16 = [](Tensor& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); };
  const auto indices = [](Tensor& t) { return static_cast<const int*>(t.data_ptr()); };
  call.q = bf16(q), call.k = bf16(k), call.v = bf16(v), call.output = bf16(output);
  call.kv_indptr = indices(kv_indptr);
#if PREFILL
  call.qo_indptr = indices(qo_indptr);
#endif
#if PAGED
  call.kv_indices = indices(kv_indices);
#endif
#if LAST_PAGE
  call.kv_last_page_len = indices(kv_last_page_len);
#endif
  call.scale = static_cast<float>(sm_scale);
  call.lse = static_cast<float*>(lse.data_ptr());
  call.requests = static_cast<int>(kv_indptr.size(0)) - 1;
  call.heads = static_cast<int>(q.size(1));
  call.kv_heads = static_cast<int>(k.size(PAGED ? 2 : 1));
  call.page_size = PAGED ? static_cast<int>(k.size(1)) : 1;
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  attention<<<dim3(static_cast<unsigned>(q.size(0)), static_cast<unsigned>(call.heads)), 32, 0, stream>>>(call);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);

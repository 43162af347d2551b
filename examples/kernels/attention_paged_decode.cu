// Attention of one new token per request over a paged cache: gqa_paged_decode with 3 query heads per head of K and V,
// D = 128 and pages of one token.
//   q [batch, 3 * kv_heads, 128], k_cache and v_cache [pages, 1, kv_heads, 128] in bf16, kv_indptr [batch + 1] and
//   kv_indices [tokens] in int32, sm_scale -> output [batch, 3 * kv_heads, 128] in bf16, lse [batch, 3 * kv_heads] in
//   fp32, to base 2. A request without tokens gets 0 and -inf.
//
// The work is reading the cache once. A cluster of eight CTAs serves one request and one head of K and V: its warps
// take eight tokens at a time, in turn, and each half of a warp reads whole rows, 16 bytes a lane, for four of them at
// once. The three query heads share what is read. Every half-warp keeps an online softmax of its own; they are merged
// in shared memory, then across the cluster by reading the neighbours' shared memory, so that there is neither a
// workspace nor a second launch.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdint>

namespace attention_paged_decode {

constexpr int kDim = 128;
constexpr int kGroup = 3;  // query heads per head of K and V
constexpr int kClusterSize = 8;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kLanes = kDim / 8;           // that share a row, 8 elements each
constexpr int kTeams = kThreads / kLanes;  // half-warps
constexpr int kTokens = 4;                 // that a team handles at once
constexpr int kOutputs = kGroup * kDim;
constexpr int kOutputsPerCta = kOutputs / kClusterSize;

static_assert(kOutputs % kClusterSize == 0 && kOutputsPerCta <= kThreads);

// Of a team or a CTA: `top` is the largest score in powers of two, `sum` and `o` are relative to it.
template <int kCount>
struct Partial {
  float top[kCount][kGroup];
  float sum[kCount][kGroup];
  float o[kCount][kGroup][kDim];
};

__device__ __forceinline__ float negative_infinity() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// exp2(x - top), where both may be minus infinity.
__device__ __forceinline__ float weight(float x, float top) {
  return x == negative_infinity() ? 0.0f : exp2_approx(x - top);
}

// Rows of the cache are read once.
__device__ __forceinline__ uint4 load_once(const void* address) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

__device__ __forceinline__ void unpack(uint4 packed, float (&values)[8]) {
  const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// Reads a variable at the place of `own` in the shared memory of CTA `rank` of the cluster.
__device__ __forceinline__ float load_from(const float* own, uint32_t rank) {
  float value;
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [remote];\n"
      "}"
      : "=f"(value)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(own))), "r"(rank)
      : "memory");
  return value;
}

// What one half-warp makes of its tokens. Each lane has 8 of the 128 columns; scores are the same in all lanes.
struct Team {
  float query[kGroup][8];  // scaled
  float o[kGroup][8];
  float top[kGroup];
  float sum[kGroup];

  // Adds the tokens with these rows of K and V; only the first `count` exist.
  __device__ __forceinline__ void add(const uint4 (&k)[kTokens], const uint4 (&v)[kTokens], int count) {
    float p[kGroup][kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float key[8];
      unpack(k[t], key);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) score = fmaf(query[g][i], key[i], score);
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) {
          score += __shfl_xor_sync(0xffffffffu, score, distance);
        }
        p[g][t] = t < count ? score : negative_infinity();
      }
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float largest = top[g];
#pragma unroll
      for (int t = 0; t < kTokens; ++t) largest = fmaxf(largest, p[g][t]);
      const float factor = weight(top[g], largest);
      top[g] = largest;
      sum[g] *= factor;
#pragma unroll
      for (int i = 0; i < 8; ++i) o[g][i] *= factor;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        p[g][t] = weight(p[g][t], largest);
        sum[g] += p[g][t];
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float value[8];
      unpack(v[t], value);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
#pragma unroll
        for (int i = 0; i < 8; ++i) o[g][i] = fmaf(p[g][t], value[i], o[g][i]);
      }
    }
  }
};

__global__ void __cluster_dims__(kClusterSize, 1, 1) __launch_bounds__(kThreads)
    decode_kernel(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k_cache,
                  const __nv_bfloat16* __restrict__ v_cache, const int* __restrict__ kv_indptr,
                  const int* __restrict__ kv_indices, float scale_log2, __nv_bfloat16* output, float* lse,
                  int kv_heads) {
  __shared__ Partial<kTeams> teams;
  __shared__ Partial<1> whole;  // of this CTA; the others read it

  const int rank = static_cast<int>(cluster_rank());
  const int kv_head = static_cast<int>(blockIdx.x) / kClusterSize;
  const int request = static_cast<int>(blockIdx.y);
  const int team = static_cast<int>(threadIdx.x) / kLanes;
  const int column = static_cast<int>(threadIdx.x) % kLanes * 8;
  const int64_t first_head = (static_cast<int64_t>(request) * kv_heads + kv_head) * kGroup;
  const int begin = kv_indptr[request];
  const int end = kv_indptr[request + 1];

  Team state;
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    unpack(*reinterpret_cast<const uint4*>(q + (first_head + g) * kDim + column), state.query[g]);
    state.top[g] = negative_infinity();
    state.sum[g] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      state.query[g][i] *= scale_log2;
      state.o[g][i] = 0.0f;
    }
  }

  // The two teams of a warp stay together, as they shuffle together.
  const int warp = rank * kWarps + static_cast<int>(threadIdx.x) / 32;
  for (int base = begin + warp * 2 * kTokens; base < end; base += kClusterSize * kWarps * 2 * kTokens) {
    const int first = base + team % 2 * kTokens;
    uint4 k[kTokens];
    uint4 v[kTokens];
    int64_t row[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int page = first + t < end ? kv_indices[first + t] : 0;
      row[t] = (static_cast<int64_t>(page) * kv_heads + kv_head) * kDim + column;
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) k[t] = first + t < end ? load_once(k_cache + row[t]) : uint4{0, 0, 0, 0};
#pragma unroll
    for (int t = 0; t < kTokens; ++t) v[t] = first + t < end ? load_once(v_cache + row[t]) : uint4{0, 0, 0, 0};
    state.add(k, v, end - first);
  }

#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    if (column == 0) {
      teams.top[team][g] = state.top[g];
      teams.sum[team][g] = state.sum[g];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) teams.o[team][g][column + i] = state.o[g][i];
  }
  __syncthreads();

#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
    float top = negative_infinity();
#pragma unroll
    for (int i = 0; i < kTeams; ++i) top = fmaxf(top, teams.top[i][g]);
    float sum = 0.0f;
    float o = 0.0f;
#pragma unroll
    for (int i = 0; i < kTeams; ++i) {
      const float share = weight(teams.top[i][g], top);
      sum = fmaf(share, teams.sum[i][g], sum);
      o = fmaf(share, teams.o[i][g][threadIdx.x], o);
    }
    whole.o[0][g][threadIdx.x] = o;
    if (threadIdx.x == 0) {
      whole.top[0][g] = top;
      whole.sum[0][g] = sum;
    }
  }
  cluster_sync();

  // Each CTA finishes an eighth of the outputs.
  if (threadIdx.x < kOutputsPerCta) {
    const int element = rank * kOutputsPerCta + static_cast<int>(threadIdx.x);
    const int g = element / kDim;
    float tops[kClusterSize];
    float top = negative_infinity();
#pragma unroll
    for (int i = 0; i < kClusterSize; ++i) {
      tops[i] = load_from(&whole.top[0][g], i);
      top = fmaxf(top, tops[i]);
    }
    float sum = 0.0f;
    float o = 0.0f;
#pragma unroll
    for (int i = 0; i < kClusterSize; ++i) {
      const float share = weight(tops[i], top);
      sum = fmaf(share, load_from(&whole.sum[0][g], i), sum);
      o = fmaf(share, load_from(&whole.o[0][g][element % kDim], i), o);
    }
    output[first_head * kDim + element] = __float2bfloat16(sum > 0.0f ? o / sum : 0.0f);
    if (element % kDim == 0) lse[first_head + g] = sum > 0.0f ? top + log2f(sum) : negative_infinity();
  }
  // Nobody may leave while others still read.
  cluster_sync();
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) TVM_FFI_THROW(RuntimeError) << what << ": " << cudaGetErrorString(status);
}

struct Type {
  uint8_t code;
  uint8_t bits;
  const char* name;
};
constexpr Type kBf16{kDLBfloat, 16, "bfloat16"};
constexpr Type kFp32{kDLFloat, 32, "float32"};
constexpr Type kInt32{kDLInt, 32, "int32"};

template <class T>
T* checked_tensor(const tvm::ffi::TensorView& t, const char* name, Type type, std::initializer_list<int64_t> shape) {
  const DLDataType dtype = t.dtype();
  if (t.device().device_type != kDLCUDA) TVM_FFI_THROW(ValueError) << name << " must be a CUDA tensor";
  if (dtype.code != type.code || dtype.bits != type.bits || dtype.lanes != 1) {
    TVM_FFI_THROW(TypeError) << name << " must be " << type.name;
  }
  if (t.ndim() != static_cast<int>(shape.size())) {
    TVM_FFI_THROW(ValueError) << name << " must have " << shape.size() << " dimensions";
  }
  int i = 0;
  for (const int64_t size : shape) {
    if (t.size(i) != size) {
      TVM_FFI_THROW(ValueError) << name << " must have size " << size << " in dimension " << i << ", not " << t.size(i);
    }
    ++i;
  }
  if (!t.is_contiguous()) TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  return reinterpret_cast<T*>(static_cast<char*>(t.data_ptr()) + t.byte_offset());
}

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k_cache, tvm::ffi::TensorView v_cache,
         tvm::ffi::TensorView kv_indptr, tvm::ffi::TensorView kv_indices, double sm_scale, tvm::ffi::TensorView output,
         tvm::ffi::TensorView lse) {
  if (q.ndim() != 3 || k_cache.ndim() != 4 || kv_indices.ndim() != 1) {
    TVM_FFI_THROW(ValueError) << "q must have 3 dimensions, k_cache 4, kv_indices 1";
  }
  const int64_t requests = q.size(0);
  const int64_t pages = k_cache.size(0);
  const int64_t kv_heads = k_cache.size(2);
  const int64_t heads = kv_heads * kGroup;
  const auto* q_data = checked_tensor<const __nv_bfloat16>(q, "q", kBf16, {requests, heads, kDim});
  const auto* k_data = checked_tensor<const __nv_bfloat16>(k_cache, "k_cache", kBf16, {pages, 1, kv_heads, kDim});
  const auto* v_data = checked_tensor<const __nv_bfloat16>(v_cache, "v_cache", kBf16, {pages, 1, kv_heads, kDim});
  const auto* indptr = checked_tensor<const int>(kv_indptr, "kv_indptr", kInt32, {requests + 1});
  const auto* indices = checked_tensor<const int>(kv_indices, "kv_indices", kInt32, {kv_indices.size(0)});
  auto* output_data = checked_tensor<__nv_bfloat16>(output, "output", kBf16, {requests, heads, kDim});
  auto* lse_data = checked_tensor<float>(lse, "lse", kFp32, {requests, heads});
  if (requests == 0 || kv_heads == 0) return;
  if (requests > 65535) TVM_FFI_THROW(ValueError) << "at most 65535 requests, not " << requests;
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(q.device().device_type, q.device().device_id));
  const dim3 grid(static_cast<unsigned>(kClusterSize * kv_heads), static_cast<unsigned>(requests));
  decode_kernel<<<grid, kThreads, 0, stream>>>(q_data, k_data, v_data, indptr, indices,
                                               static_cast<float>(sm_scale * 1.4426950408889634), output_data, lse_data,
                                               static_cast<int>(kv_heads));
  check(cudaGetLastError(), "launch of attention_paged_decode");
}

}  // namespace attention_paged_decode

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, attention_paged_decode::run);

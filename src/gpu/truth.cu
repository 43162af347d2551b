#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>

#include "gpu/truth.h"

namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count) { return static_cast<unsigned>((count + kThreads - 1) / kThreads); }

__device__ double widened(const void* in, int type, int64_t at) {
  switch (type) {
    case PTXBENCH_TRUTH_FLOAT32:
      return static_cast<const float*>(in)[at];
    case PTXBENCH_TRUTH_FLOAT16:
      return __half2float(static_cast<const __half*>(in)[at]);
    case PTXBENCH_TRUTH_BFLOAT16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(in)[at]);
    default:
      return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(in)[at]);
  }
}

__global__ void widen(double* out, const void* in, int type, int64_t rows, int64_t columns, const float* factors,
                      int64_t rows_per_factor, int64_t columns_per_factor) {
  const int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (at >= rows * columns) return;
  double value = widened(in, type, at);
  if (factors != nullptr) {
    const int64_t across = (columns + columns_per_factor - 1) / columns_per_factor;
    value *= static_cast<double>(factors[at / columns / rows_per_factor * across + at % columns / columns_per_factor]);
  }
  out[at] = value;
}

__global__ void gather(double* out, const double* in, const int32_t* index, int64_t rows, int64_t columns) {
  const int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (at < rows * columns) out[at] = in[index[at / columns] * columns + at % columns];
}

/// Tiles of 64 x 64, each of 256 threads with 4 x 4 of it, 16 of the reduction at a time.
constexpr int kTile = 64, kSlab = 16, kOwn = 4;

template <class Out>
__global__ void product(Out* c, int64_t c_row, const double* a, int64_t a_row, int64_t a_column, const double* b,
                        int64_t b_row, int64_t b_column, int64_t m, int64_t n, int64_t k, double factor) {
  __shared__ double a_tile[kSlab][kTile + 1], b_tile[kSlab][kTile + 1];
  const int64_t row = blockIdx.y * int64_t{kTile}, column = blockIdx.x * int64_t{kTile};
  const int x = threadIdx.x % kSlab, y = threadIdx.x / kSlab;
  double sums[kOwn][kOwn] = {};
  for (int64_t first = 0; first < k; first += kSlab) {
    for (int i = y; i < kTile; i += kThreads / kSlab) {
      const bool inside = first + x < k;
      a_tile[x][i] = inside && row + i < m ? a[(row + i) * a_row + (first + x) * a_column] : 0.0;
      b_tile[x][i] = inside && column + i < n ? b[(column + i) * b_row + (first + x) * b_column] : 0.0;
    }
    __syncthreads();
    for (int l = 0; l < kSlab; ++l) {
      for (int i = 0; i < kOwn; ++i) {
        for (int j = 0; j < kOwn; ++j) sums[i][j] += a_tile[l][y + 16 * i] * b_tile[l][x + 16 * j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i) {
    for (int j = 0; j < kOwn; ++j) {
      const int64_t at_row = row + y + 16 * i, at_column = column + x + 16 * j;
      if (at_row < m && at_column < n) c[at_row * c_row + at_column] = static_cast<Out>(factor * sums[i][j]);
    }
  }
}

template <class Out>
void launch_product(Out* c, int64_t c_row, const double* a, int64_t a_row, int64_t a_column, const double* b,
                    int64_t b_row, int64_t b_column, int64_t m, int64_t n, int64_t k, double factor,
                    cudaStream_t stream) {
  if (m == 0 || n == 0) return;
  const dim3 grid(static_cast<unsigned>((n + kTile - 1) / kTile), static_cast<unsigned>((m + kTile - 1) / kTile));
  product<Out>
      <<<grid, kThreads, 0, stream>>>(c, c_row, a, a_row, a_column, b, b_row, b_column, m, n, k, factor);
}

/// The sum or the maximum of one value of each thread of a block.
template <bool Maximum>
__device__ double combined(double value) {
  __shared__ double parts[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, value, step);
    value = Maximum ? fmax(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) value = Maximum ? fmax(value, parts[i]) : value + parts[i];
  return value;
}

/// Keys that query `row` sees.
__device__ int64_t seen_by(const PtxbenchTruthHead& head, int64_t row) {
  if (head.causal == 0) return head.keys;
  const int64_t seen = head.keys - head.queries + row + 1;
  return seen < 0 ? 0 : seen;
}

/// One block a row: scores to probabilities, and the logarithm of the sum of their exponentials.
__global__ void softmax(PtxbenchTruthHead head, double* scores, float* lse, int64_t lse_row) {
  const int64_t row = blockIdx.x, seen = seen_by(head, row);
  double* mine = scores + row * head.keys;
  double top = -INFINITY;
  for (int64_t j = threadIdx.x; j < seen; j += kThreads) top = fmax(top, mine[j]);
  top = combined<true>(top);
  double sum = 0;
  for (int64_t j = threadIdx.x; j < seen; j += kThreads) sum += exp(mine[j] - top);
  sum = combined<false>(sum);
  for (int64_t j = threadIdx.x; j < head.keys; j += kThreads) mine[j] = j < seen ? exp(mine[j] - top) / sum : 0.0;
  if (threadIdx.x == 0) lse[row * lse_row] = seen == 0 ? -INFINITY : static_cast<float>(top + log(sum));
}

/// delta[i] = o[i] . d_o[i]
__global__ void row_products(double* delta, const double* o, const double* d_o, int64_t depth) {
  double sum = 0;
  for (int64_t j = threadIdx.x; j < depth; j += kThreads)
    sum += o[blockIdx.x * depth + j] * d_o[blockIdx.x * depth + j];
  sum = combined<false>(sum);
  if (threadIdx.x == 0) delta[blockIdx.x] = sum;
}

/// Scores to P, and dP to scale * P * (dP - delta).
__global__ void gradients(PtxbenchTruthHead head, double* scores, double* d_p, const double* lse,
                          const double* delta) {
  const int64_t row = blockIdx.x, seen = seen_by(head, row);
  for (int64_t j = threadIdx.x; j < head.keys; j += kThreads) {
    const int64_t at = row * head.keys + j;
    const double p = j < seen ? exp(scores[at] - lse[row]) : 0.0;
    scores[at] = p;
    d_p[at] = head.scale * p * (d_p[at] - delta[row]);
  }
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

int32_t outcome() { return static_cast<int32_t>(cudaGetLastError()); }

}  // namespace

int32_t ptxbench_truth_widen(double* out, const void* in, int32_t type, int64_t rows, int64_t columns,
                             const float* factors, int64_t rows_per_factor, int64_t columns_per_factor, void* stream) {
  if (rows * columns == 0) return 0;
  widen<<<blocks_for(rows * columns), kThreads, 0, stream_of(stream)>>>(out, in, type, rows, columns, factors,
                                                                        rows_per_factor, columns_per_factor);
  return outcome();
}

int32_t ptxbench_truth_gather(double* out, const double* in, const int32_t* index, int64_t rows, int64_t columns,
                              void* stream) {
  if (rows * columns == 0) return 0;
  gather<<<blocks_for(rows * columns), kThreads, 0, stream_of(stream)>>>(out, in, index, rows, columns);
  return outcome();
}

int32_t ptxbench_truth_product(float* c, int64_t c_row, const double* a, int64_t a_row, int64_t a_column,
                               const double* b, int64_t b_row, int64_t b_column, int64_t m, int64_t n, int64_t k,
                               double factor, void* stream) {
  launch_product(c, c_row, a, a_row, a_column, b, b_row, b_column, m, n, k, factor, stream_of(stream));
  return outcome();
}

int32_t ptxbench_truth_attention(const PtxbenchTruthHead* head, const double* q, const double* k, const double* v,
                                 float* o, float* lse, int64_t lse_row, double* scratch, void* stream) {
  const auto [queries, keys, depth, q_row, k_row, v_row, o_row, scale, causal, o_factor] = *head;
  if (queries == 0) return 0;
  launch_product(scratch, keys, q, q_row, 1, k, k_row, 1, queries, keys, depth, scale, stream_of(stream));
  softmax<<<static_cast<unsigned>(queries), kThreads, 0, stream_of(stream)>>>(*head, scratch, lse, lse_row);
  launch_product(o, o_row, scratch, keys, 1, v, 1, v_row, queries, depth, keys, o_factor, stream_of(stream));
  return outcome();
}

int32_t ptxbench_truth_attention_backward(const PtxbenchTruthHead* head, const double* q, const double* k,
                                          const double* v, const double* o, const double* d_o, const double* lse,
                                          float* dq, float* dk, float* dv, double* scratch, void* stream) {
  const int64_t queries = head->queries, keys = head->keys, depth = head->depth;
  if (queries == 0 || keys == 0) return 0;
  double *p = scratch, *d_s = scratch + queries * keys, *delta = scratch + 2 * queries * keys;
  const cudaStream_t on = stream_of(stream);
  launch_product(p, keys, q, depth, 1, k, depth, 1, queries, keys, depth, head->scale, on);
  launch_product(d_s, keys, d_o, depth, 1, v, depth, 1, queries, keys, depth, 1.0, on);
  row_products<<<static_cast<unsigned>(queries), kThreads, 0, on>>>(delta, o, d_o, depth);
  gradients<<<static_cast<unsigned>(queries), kThreads, 0, on>>>(*head, p, d_s, lse, delta);
  launch_product(dq, depth, d_s, keys, 1, k, 1, depth, queries, depth, keys, 1.0, on);
  launch_product(dk, depth, d_s, 1, keys, q, 1, depth, keys, depth, queries, 1.0, on);
  launch_product(dv, depth, p, 1, keys, d_o, 1, depth, keys, depth, queries, 1.0, on);
  return outcome();
}

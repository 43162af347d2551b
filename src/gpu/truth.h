#pragma once

#include <cstdint>

/// The truth of GEMM and attention on a GPU, in fp64 throughout: plain kernels that are slow beside a library and quick
/// beside a CPU, for full-size problems. The CPU's truth (src/problem) is the definition; tests/gpu/compare_truth.py
/// compares both with each other and with PyTorch.
///
/// A C interface, so that any program can load it. All pointers are device pointers, all strides are in elements, all
/// calls are asynchronous on `stream` (a cudaStream_t). They return a cudaError_t, 0 for success.
extern "C" {

/// Element types of operands.
enum PtxbenchTruthType : int32_t {
  PTXBENCH_TRUTH_FLOAT32 = 0,
  PTXBENCH_TRUTH_FLOAT16 = 1,
  PTXBENCH_TRUTH_BFLOAT16 = 2,
  PTXBENCH_TRUTH_E4M3 = 3,
};

/// out[r, c] = in[r, c] * factors[r / rows_per_factor, c / columns_per_factor], both dense, [rows, columns]. Without
/// factors (null) only widened. The last group of rows or columns may be partial.
int32_t ptxbench_truth_widen(double* out, const void* in, int32_t type, int64_t rows, int64_t columns,
                             const float* factors, int64_t rows_per_factor, int64_t columns_per_factor, void* stream);

/// out[i] = in[index[i]], rows of `columns` elements: the tokens of a request out of a paged cache.
int32_t ptxbench_truth_gather(double* out, const double* in, const int32_t* index, int64_t rows, int64_t columns,
                              void* stream);

/// c[i * c_row + j] = factor * sum over l of a[i * a_row + l * a_column] * b[j * b_row + l * b_column], in fp64,
/// rounded to fp32 once.
int32_t ptxbench_truth_product(float* c, int64_t c_row, const double* a, int64_t a_row, int64_t a_column,
                               const double* b, int64_t b_row, int64_t b_column, int64_t m, int64_t n, int64_t k,
                               double factor, void* stream);

/// One head of attention. Rows of q, k and v are `*_row` apart; their `depth` elements are adjacent.
struct PtxbenchTruthHead {
  int64_t queries, keys, depth;
  int64_t q_row, k_row, v_row, o_row;
  double scale;     ///< of the scores
  int32_t causal;   ///< the last query sees all keys, each one before it one key less
  double o_factor;  ///< of the output
};

/// o and lse (natural logarithm; `lse_row` apart). A row that sees no key gets zeros and minus infinity. `scratch`
/// holds queries * keys doubles.
int32_t ptxbench_truth_attention(const PtxbenchTruthHead* head, const double* q, const double* k, const double* v,
                                 float* o, float* lse, int64_t lse_row, double* scratch, void* stream);

/// The gradients by the formula on these very numbers: P = exp(scale q k^T - lse), whatever made o and lse. All rows
/// are adjacent. `scratch` holds 2 * queries * keys + queries doubles.
int32_t ptxbench_truth_attention_backward(const PtxbenchTruthHead* head, const double* q, const double* k,
                                          const double* v, const double* o, const double* d_o, const double* lse,
                                          float* dq, float* dk, float* dv, double* scratch, void* stream);
}

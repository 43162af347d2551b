#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "problem/gemm_truth.h"

// Attention on the CPU: softmax(scale Q K^T) V, row by row, and its derivatives. The scale is 1/sqrt(D), and times a
// factor where Q and K have descales. All tensors
// are BHSD, seen as matrices of B*H*S rows; LSE is a matrix of B*H rows of S.

namespace ptxbench::problem {

struct AttentionShape {
  std::int64_t heads = 0;            ///< B * H: independent problems
  std::int64_t sequence = 0;         ///< S: queries and keys of a head
  std::int64_t depth = 0;            ///< D
  bool causal = false;               ///< query i sees keys 0 to i only
  double score_factor = 1;           ///< on Q K^T, beside 1 / sqrt(D): the descales of Q and K
  double output_factor = 1;          ///< on O of the forward pass: the descales of the second product
  double largest_output = INFINITY;  ///< of |O| of the forward pass: where its type saturates

  std::int64_t rows() const { return heads * sequence; }
  double scale() const;  ///< score_factor / sqrt(D)
};

/// What Q, K and V in e4m3 are multiplied by, and O beside that of V before it is rounded.
struct AttentionDescales {
  float q = 1, k = 1, v = 1, o = 1;

  double of_scores() const { return static_cast<double>(q) * static_cast<double>(k); }
  double of_output() const { return static_cast<double>(v) * static_cast<double>(o); }
};

/// Rows [begin, end) of the matrix of B*H*S rows; they may lie in several heads.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};

/// What the forward pass reads, [B*H*S, D] each.
struct AttentionInputs {
  MatrixRows q, k, v;
};

/// What the backward pass reads beyond that: the forward pass's output and the output's gradient, [B*H*S, D] each, and
/// the natural logarithm of the rows' sums of exponentials, [B*H, S]. They are taken as they are: the truth of a
/// backward pass is the derivative's formula on these very numbers, rounded as they may be.
struct AttentionGradientInputs {
  AttentionInputs forward;
  MatrixRows o, d_o, lse;
};

/// Writes the given rows of o [B*H*S, D] and lse [B*H*S] and leaves the others alone. Reads only the heads that the
/// rows lie in, and, with a causal mask, only the keys that they see.
///
/// Scores, exponentials (base 2, the maximum rounded up to an integer, so that rescaling is exact) and products are
/// fp32 with fused multiply-adds in chains of at most 128 keys; sums over keys are fp64. The error of o is below 1e-5
/// of a row's norm, that of lse below 1e-4 even where scores are in the hundreds. The numbers do not depend on the
/// number of threads, on the instruction set or on which rows are asked for.
void attention_forward(const AttentionShape& shape, const AttentionInputs& inputs, std::span<const RowRange> rows,
                       float* o, float* lse, int threads = 0);

/// Some rows of a matrix in an order of their own: row i is its row `rows[i] * stride + offset`, with `i` for `rows[i]`
/// where there is no list.
struct RowList {
  MatrixRows matrix;
  const std::int64_t* rows = nullptr;
  std::int64_t stride = 1, offset = 0;

  std::int64_t at(std::int64_t i) const { return (rows == nullptr ? i : rows[i]) * stride + offset; }
};

/// One head whose queries and keys may lie scattered, as in a paged cache.
struct AttentionHead {
  RowList q, k, v;  ///< o is as deep as v
  std::int64_t keys = 0;
  std::int64_t depth = 0;  ///< of q and k, without their tails
  double scale = 1;
  /// With a causal mask: query i sees keys 0 to i + offset only. The offset may be negative.
  std::optional<std::int64_t> causal_offset = std::nullopt;
  double output_factor = 1;          ///< of o
  double largest_output = INFINITY;  ///< of |o|
  /// More columns of q and of k, where they lie in matrices of their own; both or none.
  std::optional<RowList> q_tail = std::nullopt, k_tail = std::nullopt;
};

/// Where results go: query i's row, as deep as v, to o + i * pitch, its logarithm to lse[i * lse_pitch].
struct AttentionRows {
  float* o = nullptr;
  std::int64_t pitch = 0;
  float* lse = nullptr;
  std::int64_t lse_pitch = 1;
};

/// attention_forward of queries [begin, end) of one head, on the calling thread; LSE is natural. A query that sees no
/// key gets zeros and minus infinity. Best called with up to 192 queries at once, which share what is read.
void attention_head_forward(const AttentionHead& head, RowRange queries, const AttentionRows& out);

/// What a row is made of, one number for each of the B*H*S rows: the root of the sum of the squared norms of the terms
/// that its reduction adds up. Where they cancel it exceeds the row's own norm, and so does what rounding the terms'
/// factors costs.
struct TermNorms {
  float* dq = nullptr;
  float* dk = nullptr;
  float* dv = nullptr;
};

/// Writes the given rows of dq [B*H*S, D] and, unless it is null, of norms.dq.
void attention_backward_q(const AttentionShape& shape, const AttentionGradientInputs& inputs,
                          std::span<const RowRange> rows, float* dq, int threads = 0, const TermNorms& norms = {});
/// Writes the given rows, which are keys, of dk and dv [B*H*S, D] and, unless they are null, of norms.dk and norms.dv.
void attention_backward_kv(const AttentionShape& shape, const AttentionGradientInputs& inputs,
                           std::span<const RowRange> rows, float* dk, float* dv, int threads = 0,
                           const TermNorms& norms = {});

/// The same in fp64 throughout, slowly, for all rows.
void attention_forward_fp64(const AttentionShape& shape, const AttentionInputs& inputs, double* o, double* lse,
                            int threads = 0);
void attention_backward_fp64(const AttentionShape& shape, const AttentionGradientInputs& inputs, double* dq, double* dk,
                             double* dv, int threads = 0);

}  // namespace ptxbench::problem

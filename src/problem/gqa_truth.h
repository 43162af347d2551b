#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "problem/attention_truth.h"

// Grouped-query attention over requests of unequal length, on the CPU: several query heads share a head of K and V, and
// the keys of a request may lie anywhere in a cache. Multi-head latent attention is the same with one head of K and V,
// keys in two parts and the first of them for V.

namespace ptxbench::problem {

/// One request: its queries among all queries, its keys among all keys.
struct GqaRequest {
  std::int64_t query_begin = 0, query_end = 0;
  std::int64_t key_begin = 0, key_end = 0;

  std::int64_t queries() const { return query_end - query_begin; }
  std::int64_t keys() const { return key_end - key_begin; }
};

struct GqaShape {
  std::int64_t queries = 0;   ///< of all requests, and rows of q per head
  std::int64_t qo_heads = 0;  ///< query head h reads head h / group() of K and V
  std::int64_t kv_heads = 0;
  std::int64_t depth = 0;        ///< of q and k, both parts together
  std::int64_t value_depth = 0;  ///< of v and o
  double scale = 1;              ///< of the scores
  bool causal = false;           ///< the last query of a request sees all of its keys, each one before it one key less
  std::vector<GqaRequest> requests;
  std::vector<std::int64_t> slots;  ///< of each key of all requests: its token's place in K and V

  std::int64_t rows() const { return queries * qo_heads; }
  std::int64_t group() const { return qo_heads / kv_heads; }
  /// How many keys query `query` of a request (counted within it) sees: the first so many.
  std::int64_t seen_by(const GqaRequest& request, std::int64_t query) const;
  /// Of both matrix products, without what the mask hides.
  double multiply_adds() const;
};

/// q is [queries * qo_heads, depth], k [tokens * kv_heads, depth], v [tokens * kv_heads, value_depth]. Where q and k
/// have a second part, its columns are the last ones of depth, and the first part has the others.
struct GqaInputs {
  MatrixRows q, k, v;
  std::optional<MatrixRows> q_tail = std::nullopt, k_tail = std::nullopt;

  /// A whole row, both parts.
  void read_q(std::int64_t row, float* out) const;
  void read_k(std::int64_t row, float* out) const;
};

/// Writes the given rows of o [queries * qo_heads, value_depth] and lse [queries * qo_heads], the logarithm **in base
/// 2** of the row sums of exp(scale q k^T), and leaves the others alone. A row that sees no key, or whose query belongs
/// to no request, gets zeros and minus infinity. Numbers and errors are those of attention_forward; that of lse is
/// below 1.5e-4.
void gqa_forward(const GqaShape& shape, const GqaInputs& inputs, std::span<const RowRange> rows, float* o, float* lse,
                 int threads = 0);

/// The same in fp64 throughout, slowly, for all rows.
void gqa_forward_fp64(const GqaShape& shape, const GqaInputs& inputs, double* o, double* lse, int threads = 0);

}  // namespace ptxbench::problem

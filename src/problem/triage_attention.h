#pragma once

#include <span>
#include <vector>

#include "problem/comparison.h"

namespace ptxbench::problem {

/// A failed output of attention with its inputs.
struct AttentionFailure {
  const Tensor& output;
  std::span<const float> truth;
  const TensorComparison& result;
  const AttentionOperands& operands;
};

/// Explanations that need the inputs: the softmax scale, the mask, keys (or queries) left out or stale, the rescaling
/// of partial sums, the terms of the backward pass, the base of LSE. Each is confirmed by computing rows in fp64 under
/// the assumption and comparing them with the output.
///
/// Patterns: softmax_scale, descale, causal_mask, missing_keys, repeated_keys, stale_keys, missing_online_rescale,
/// missing_row_sum, lse_base, lse_offset, lse_without_maximum, lse_without_sum.
std::vector<Hypothesis> diagnose_attention(const AttentionFailure& failure);

}  // namespace ptxbench::problem

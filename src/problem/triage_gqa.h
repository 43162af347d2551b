#pragma once

#include <span>
#include <vector>

#include "problem/comparison.h"

namespace ptxbench::problem {

/// A failed output of grouped-query attention with its inputs.
struct GqaFailure {
  const Tensor& output;
  std::span<const float> truth;
  const TensorComparison& result;
  const GqaOperands& operands;
};

/// Explanations that need the inputs: which head of K and V a query head reads, where a request's keys lie, which of
/// them a query sees, the scale, the base of LSE. Each is confirmed by computing wrong rows in fp64 under the
/// assumption and comparing them with the output; right rows must not contradict it.
///
/// Patterns: head_group, page_table, causal_offset, causal_mask, missing_keys, extra_keys, softmax_scale, missing_rope,
/// lse_base, empty_request.
std::vector<Hypothesis> diagnose_gqa(const GqaFailure& failure);

}  // namespace ptxbench::problem

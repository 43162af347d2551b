#pragma once

#include <span>
#include <vector>

#include "problem/comparison.h"

namespace ptxbench::problem {

/// Tries simple explanations of a failed comparison on samples of the wrong elements; most convincing first.
///
/// Patterns of any operation: unwritten_region, not_finite, tail_only, all_zero, constant_value, constant_scale,
/// missing_rescale, transposed_matrix, transposed_tile, stale_tile, permuted_rows, permuted_columns, permuted_chunks
/// (16-byte pieces of output rows), low_precision. With the operands of a GEMM also block_scale,
/// operand_swizzle, transposed_operand, k_step, missing_k, repeated_k, stale_k; with the inputs of attention those of
/// triage_attention.h.
std::vector<Hypothesis> diagnose(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
                                 const CompareOptions& options);

/// The rule under which a pattern is reported: "numeric.stale-tile" for stale_tile.
std::string rule_for(std::string_view pattern);
/// What to do about it, in a line; something general for an unknown pattern.
std::string_view remedy_for(std::string_view pattern);

}  // namespace ptxbench::problem

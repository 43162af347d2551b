#pragma once

#include <span>
#include <vector>

#include "problem/comparison.h"

namespace ptxbench::problem {

/// Tries simple explanations of a failed comparison on samples of the wrong elements; most convincing first.
///
/// Patterns: all_zero, constant_value, constant_scale, unwritten_region, transposed_matrix, transposed_tile,
/// permuted_rows, permuted_columns, permuted_chunks (16-byte pieces of output rows), operand_swizzle (rows right only
/// in the residue class that a swizzle leaves alone), missing_k, repeated_k, low_precision.
std::vector<Hypothesis> diagnose(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
                                 const CompareOptions& options);

}  // namespace ptxbench::problem

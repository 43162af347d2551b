#pragma once

#include <span>
#include <vector>

#include "problem/comparison.h"

namespace ptxbench::problem {

/// A failed GEMM with its operands: C[m, n] should be the sum over k of A[m, k] B[n, k].
struct GemmFailure {
  const Tensor& output;
  std::span<const float> truth;
  const TensorComparison& result;
  const MatrixRows& a;
  const MatrixRows& b;
};

/// Explanations that need the operands: which part of K is missing, used twice or replaced by another, and which
/// operand was read with the wrong shared-memory swizzle, or which scale factor is missing or misplaced (block_scale).
/// Each is confirmed by computing what it predicts.
std::vector<Hypothesis> diagnose_gemm(const GemmFailure& failure);

}  // namespace ptxbench::problem

#pragma once

#include <optional>
#include <string>
#include <utility>

#include "problem/reference.h"

namespace ptxbench::problem {

/// C[M, N] = A[M, K] B[N, K]^T: which tensors and axes play the parts.
struct GemmRoles {
  std::size_t a = 0, b = 0;  ///< inputs
  std::size_t c = 0;         ///< output
  std::string m, n, k;       ///< axis names
};

/// Recognised by structure, not by name: op_type "gemm", two matrix inputs and one matrix output of floating type.
std::optional<GemmRoles> gemm_roles(const Definition& definition);

/// The operands of a GEMM for diagnosis, with their scale factors where it has such; nothing for other problems.
std::optional<std::pair<MatrixRows, MatrixRows>> gemm_operands(const TruthRequest& request);

/// The truth of whatever gemm_operands knows, the only output being C.
Result<Truth> gemm_reference(const TruthRequest& request);
double gemm_multiply_adds(const Problem& problem, const GemmRoles& roles);

extern const Operation kGemm;

}  // namespace ptxbench::problem

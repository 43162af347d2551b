#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "problem/gemm.h"

namespace ptxbench::problem {

/// D[M, N] = A[M, K] B[N, K]^T of e4m3 operands with a scale factor for every 128 of K, fp32: one for each row of A,
/// and for each row of B or for each 128 of its rows.
struct Fp8GemmRoles : GemmRoles {
  std::size_t scales_a = 0, scales_b = 0;  ///< inputs
  bool blocks_of_b = false;                ///< one factor for 128 rows of B
};

constexpr std::int64_t kScaleBlock = 128;

/// Recognised by op_type "gemm", by the inputs A and B in e4m3 and SF_A and SF_B in fp32, in any order, by one output
/// in bfloat16 or float32, and by constant N and K with as many factors as they need: K a multiple of 128, N any.
std::optional<Fp8GemmRoles> fp8_gemm_roles(const Definition& definition);

/// The operands with their factors; nothing for other problems. Tensors in the request must outlive them.
std::optional<std::pair<MatrixRows, MatrixRows>> fp8_gemm_operands(const TruthRequest& request);

/// Limits for D in this type. With factors for every 128 of K no kernel can leave partial sums longer than that to the
/// tensor cores, whose accumulators keep 14 bits of e4m3 products; what they lose within 128 is granted.
std::optional<Limits> fp8_gemm_limits(Dtype output);

extern const Operation kFp8Gemm;

}  // namespace ptxbench::problem

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpu/permutation.h"
#include "problem/dataset.h"

namespace ptxbench::evaluation {

/// Problems whose inputs have to fit each other, so that no new ones can be made for a timed call, but that can be
/// permuted: tensors consist of independent slices, and certain groups of tensors may flip their signs. Results then
/// are permuted and flipped alike, exactly, as rounding is symmetric.
struct PermutedInputs {
  std::uint32_t slices = 1;
  /// Per tensor: bit g says that group g flips its signs (gpu/permutation.h).
  std::vector<unsigned> inputs, outputs;
  std::vector<bool> free;  ///< inputs from which no other one follows: they can be made anew, if they are random
};

/// Nothing where the problem is none of these: so far, only attention's backward passes are, a slice for each head.
///   S = Q K^T, P = softmax(S), dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = dS K, dK = dS^T Q.
/// Flips of (Q, K) together leave S as it is, and so do flips of (V, O) and of dO, which change the sign of dS.
std::optional<PermutedInputs> permuted_inputs(const problem::Problem& problem);

}  // namespace ptxbench::evaluation

#pragma once

#include <cstdint>

#include "problem/comparison.h"
#include "problem/tensor.h"

// What is particular to attention in e4m3; the rest is attention.h.

namespace ptxbench::problem {

/// Descales that Q, K and V (e4m3) are plausible with, from the seed. None is near 1 or near another one, and each has
/// 17 significant bits.
///
/// Those of Q and K undo the tensor's scale, by the power of two next to its rms, so that attention is that of standard
/// normal inputs whatever the distribution: the tensor cores keep 14 bits of e4m3 products, so that scores in the
/// hundreds would be wrong by more than 0.1 in every kernel, and where all weights are nearly 1, rounding them to e4m3
/// moves all of O by up to 3 %. Beside that their product is between 0.56 and 0.86. The factor on the second product
/// takes O, which is at most the largest V, to at most 448, the largest value of the type, and at least a quarter of
/// that.
AttentionDescales attention_descales(const Tensor& q, const Tensor& k, const Tensor& v, std::uint64_t seed);

/// Limits for O in e4m3.
Limits fp8_attention_limits();
/// Limits for its LSE.
Limits fp8_log_sum_limits();

}  // namespace ptxbench::problem

#pragma once

#include <cstdint>

#include "problem/tensor.h"

namespace ptxbench::problem {

/// What derived scale factors look like: positive, with 17 significant bits, so that a product with an 8-bit float is
/// exact in fp32, and no powers of two, so that a factor that is left out or taken from another place shows.
struct FactorRange {
  int lowest = 0;   ///< the smallest factor is 2^lowest
  int octaves = 1;  ///< and all are below 2^(lowest + octaves)
};

/// Element `element` of tensor `tensor` (its place in the call): a function of the seed and these alone, each octave as
/// likely as the others and factors uniform within it. The generator is that of random inputs, in a stream of its own.
float scale_factor(std::uint64_t seed, std::uint32_t tensor, std::uint64_t element, const FactorRange& range);

/// A whole fp32 tensor of them.
void fill_scale_factors(std::uint64_t seed, std::uint32_t index, const FactorRange& range, Tensor& tensor);

}  // namespace ptxbench::problem

#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "problem/random_element.h"
#include "problem/tensor.h"

namespace ptxbench::problem {

std::string_view to_string(Distribution distribution);
Result<Distribution> parse_distribution(std::string_view text);

/// One random tensor: element i is a function of (seed, tensor, i) alone, so any part can be made anywhere, at any
/// time.
///
/// Floating types: the fp32 value of random_element.h rounded to the type. Integers: uniform in [-8, 8); bool: uniform.
struct RandomTensor {
  Dtype dtype = Dtype::float32;
  Distribution distribution = Distribution::normal;
  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;  ///< its place in the call, inputs first

  /// Elements [first, first + count) to `out`, packed, on the calling thread. For float4_e2m1 `first` must be even.
  void fill(std::uint64_t first, std::uint64_t count, void* out) const;
};

/// The whole tensor, on `threads` threads (0: all).
void fill(const RandomTensor& random, Tensor& tensor, int threads = 0);

}  // namespace ptxbench::problem

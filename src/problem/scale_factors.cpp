#include "problem/scale_factors.h"

#include <cmath>

#include "problem/random_element.h"

namespace ptxbench::problem {
namespace {

constexpr std::uint32_t kPurpose = 2;  // 0 gives the values of random inputs, 1 their spikes

}  // namespace

float scale_factor(std::uint64_t seed, std::uint32_t tensor, std::uint64_t element, const FactorRange& range) {
  const PhiloxBlock block = philox(element_counter(element >> 2, tensor, kPurpose), static_cast<std::uint32_t>(seed),
                                   static_cast<std::uint32_t>(seed >> 32));
  const std::uint32_t word = block.word[element & 3u];
  const auto octave = static_cast<int>(((word >> 16) * static_cast<std::uint32_t>(range.octaves)) >> 16);
  const float significand = 1.0f + static_cast<float>(word & 0xffffu) * 0x1p-16f;
  return std::ldexp(significand, range.lowest + octave);
}

void fill_scale_factors(std::uint64_t seed, std::uint32_t index, const FactorRange& range, Tensor& tensor) {
  const auto values = tensor.as<float>();
  for (std::uint64_t i = 0; i < tensor.count; ++i) {
    values[static_cast<std::size_t>(i)] = scale_factor(seed, index, i, range);
  }
}

}  // namespace ptxbench::problem

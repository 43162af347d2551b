#include "problem/fp8_attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "problem/scale_factors.h"

namespace ptxbench::problem {
namespace {

constexpr float kLargestE4m3 = 448.0f;

/// How often each magnitude occurs in an e4m3 tensor: whatever follows from it does not depend on an order of sums.
std::array<std::uint64_t, 128> count_magnitudes(const Tensor& tensor) {
  std::array<std::uint64_t, 128> counts{};
  const auto bytes = tensor.as<std::uint8_t>();
  for (std::uint64_t i = 0; i < tensor.count; ++i) ++counts[bytes[static_cast<std::size_t>(i)] & 0x7fu];
  return counts;
}

/// The power of two next to the tensor's rms.
float size_of(const Tensor& tensor) {
  const auto counts = count_magnitudes(tensor);
  double squares = 0;
  for (std::size_t bits = 0; bits < 0x7f; ++bits) {
    const double value = static_cast<double>(from_e4m3(static_cast<std::uint8_t>(bits)));
    squares += static_cast<double>(counts[bits]) * value * value;
  }
  const double rms = std::sqrt(squares / static_cast<double>(std::max<std::uint64_t>(tensor.count, 1)));
  if (!(rms > 0)) return 1.0f;
  int exponent = 0;
  const double significand = std::frexp(rms, &exponent);  // in [1/2, 1)
  return std::ldexp(1.0f, significand * significand < 0.5 ? exponent - 1 : exponent);
}

float largest_of(const Tensor& tensor) {
  const auto counts = count_magnitudes(tensor);
  std::size_t bits = 0x7e;
  while (bits > 0 && counts[bits] == 0) --bits;
  return from_e4m3(static_cast<std::uint8_t>(bits));
}

}  // namespace

AttentionDescales attention_descales(const Tensor& q, const Tensor& k, const Tensor& v, std::uint64_t seed) {
  // A stream of numbers that no tensor of the call has.
  constexpr std::uint32_t kStream = 0x80;
  const auto draw = [&](std::uint64_t index, float from, float to) {
    const float place = scale_factor(seed, kStream, index, {0, 1}) - 1.0f;  // in [0, 1), 16 bits
    // Cut to 17 bits, which the interval's ends have room for.
    return std::nearbyint((from + place * (to - from)) * 0x1p16f) * 0x1p-16f;
  };
  AttentionDescales descales;
  descales.q = draw(0, 0.5f, 0.625f) / size_of(q);
  descales.k = draw(1, 1.125f, 1.375f) / size_of(k);
  descales.v = draw(2, 1.625f, 1.875f);
  const float room = kLargestE4m3 / std::max(largest_of(v) * descales.v, 0x1p-20f);
  descales.o = std::ldexp(1.0f, std::ilogb(room)) * draw(3, 0.5f, 0.9375f);
  return descales;
}

Limits fp8_attention_limits() {
  // Rounding O costs 0.026 of a row, rounding the weights as much again, and more where few of them count. Where scores
  // take few values, as with near-tie inputs, the roundings of the weights move all of O by up to a hundredth.
  Limits limits{0.065, 0.07, 0.105, 0.25, 0.015};
  limits.roundings = 2;
  return limits;
}

Limits fp8_log_sum_limits() {
  // A score out of a few large products is off by up to some thousandths of itself in the tensor core's accumulator.
  Limits limits;
  limits.absolute_max = 0.03;
  limits.absolute_share = 0.003;
  limits.absolute_rms = 0.0035;
  return limits;
}

}  // namespace ptxbench::problem

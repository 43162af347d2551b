#include "emulator/tensor/exact_dot.h"

#include "emulator/tensor/numeric_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ptxbench::emulator {
namespace {

constexpr int kNoExponent = std::numeric_limits<int>::min() / 2;

int exponent_of(float value, int smallest) {
  return value == 0.0F ? kNoExponent : std::max(std::ilogb(value), smallest);
}

// The term in units of 2^(largest - fraction_bits), cut toward zero. Exact: the product of two floats fits a double.
std::int64_t cut_term(double term, int largest, int fraction_bits) {
  return static_cast<std::int64_t>(std::ldexp(term, fraction_bits - largest));
}

}  // namespace

double aligned_sum(const DotOperand& a, const DotOperand& b, std::size_t count, float c, const TensorCoreModel& model,
                   int smallest_c_exponent) {
  int largest = exponent_of(c, smallest_c_exponent);
  double special = std::isfinite(c) ? 0.0 : static_cast<double>(c);
  bool has_special = !std::isfinite(c);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = a.values[i * a.stride];
    const float y = b.values[i * b.stride];
    if (!std::isfinite(x) || !std::isfinite(y)) {
      special += static_cast<double>(x) * static_cast<double>(y);
      has_special = true;
    } else if (x != 0.0F && y != 0.0F) {
      largest = std::max(largest, exponent_of(x, a.smallest_exponent) + exponent_of(y, b.smallest_exponent));
    }
  }
  if (has_special) {
    return special;
  }
  if (largest == kNoExponent) {
    return 0.0;
  }
  std::int64_t sum = cut_term(static_cast<double>(c), largest, model.fraction_bits);
  for (std::size_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(a.values[i * a.stride]) * static_cast<double>(b.values[i * b.stride]);
    sum += cut_term(product, largest, model.fraction_bits);
  }
  return std::ldexp(static_cast<double>(sum), largest - model.fraction_bits);
}

float cut_to_f32(double value, int bits) {
  if (std::isnan(value)) {
    return bits_to_f32(0x7fffffffU);
  }
  if (std::isinf(value) || value == 0.0) {
    return static_cast<float>(value);
  }
  const int exponent = std::max(std::ilogb(value), -126);
  if (exponent > 127) {
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value));
  }
  return static_cast<float>(std::ldexp(std::trunc(std::ldexp(value, bits - exponent)), exponent - bits));
}

float fused_dot(const DotOperand& a, const DotOperand& b, std::size_t count, float c, const TensorCoreModel& model) {
  return cut_to_f32(aligned_sum(a, b, count, c, model), model.result_bits);
}

std::uint16_t round_to_f16_accumulator(double sum) {
  const auto bits = static_cast<std::uint16_t>(encode_float(FloatFormat::f16, sum));
  return bits == 0x8000U ? std::uint16_t{0} : bits;
}

std::uint16_t fused_dot_f16(const DotOperand& a, const DotOperand& b, std::size_t count, float c,
                            const TensorCoreModel& model) {
  return round_to_f16_accumulator(aligned_sum(a, b, count, c, model, kSmallestF16Exponent));
}

}  // namespace ptxbench::emulator

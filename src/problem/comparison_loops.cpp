#include "problem/comparison_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "problem/vector_clones.h"

namespace ptxbench::problem {
namespace {

constexpr std::size_t kLanes = 16;

/// All bits of the exponent: infinity or NaN.
PTXBENCH_CLONES bool all_finite(const float* values, std::size_t count) {
  std::uint32_t special = 0;
  for (std::size_t i = 0; i < count; ++i)
    special |= (std::bit_cast<std::uint32_t>(values[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  return special == 0;
}

PTXBENCH_CLONES void sum_finite(const float* y, const float* t, std::size_t count, RowSums& sums) {
  // Lanes of their own, so that the order of additions does not depend on the width of a vector.
  double error2[kLanes]{}, truth2[kLanes]{}, truth4[kLanes]{}, product[kLanes]{};
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t first = 0; first < whole; first += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto truth = static_cast<double>(t[first + lane]), value = static_cast<double>(y[first + lane]);
      const double error = value - truth, square = truth * truth;
      error2[lane] += error * error;
      truth2[lane] += square;
      truth4[lane] += square * square;
      product[lane] += value * truth;
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    const auto truth = static_cast<double>(t[i]), value = static_cast<double>(y[i]);
    const double error = value - truth, square = truth * truth;
    error2[i - whole] += error * error;
    truth2[i - whole] += square;
    truth4[i - whole] += square * square;
    product[i - whole] += value * truth;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums.error2 += error2[lane];
    sums.truth2 += truth2[lane];
    sums.truth4 += truth4[lane];
    sums.product += product[lane];
  }
}

PTXBENCH_CLONES void measure_finite(const float* y, const float* t, const float* rounded, std::size_t count,
                                    double roundoff, double share, double tolerance, Maxima& maxima) {
  double error_max = 0, excess_max = 0, beyond_max = -INFINITY, reference_max = 0, relative_max = 0, both_max = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(y[i]), truth = static_cast<double>(t[i]);
    const auto reference = static_cast<double>(rounded[i]);
    const double error = std::fabs(value - truth), size = std::fabs(truth);
    const double excess = error - roundoff * size, beyond = error - share * size;
    const double absolute = std::fabs(value - reference);
    const double relative = absolute / (std::fabs(reference) + 1e-8);
    const double both = absolute < relative ? absolute : relative;
    error_max = error > error_max ? error : error_max;
    excess_max = excess > excess_max ? excess : excess_max;
    beyond_max = beyond > beyond_max ? beyond : beyond_max;
    reference_max = absolute > reference_max ? absolute : reference_max;
    relative_max = relative > relative_max ? relative : relative_max;
    both_max = both > both_max ? both : both_max;
  }
  maxima = {error_max, excess_max, beyond_max, reference_max, relative_max, both_max > tolerance};
}

PTXBENCH_CLONES void round_to_bfloat16(const float* values, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = std::bit_cast<float>(nan ? ((bits & 0xffff0000u) | 0x400000u) : nearest);
  }
}

template <class Narrow, class Widen>
void round_each(const float* values, std::size_t count, float* out, Narrow narrow, Widen widen) {
  std::transform(values, values + count, out, [&](float value) { return widen(narrow(value)); });
}

}  // namespace

bool sum_row(const float* y, const float* t, std::size_t count, RowSums& sums) {
  if (!all_finite(y, count) || !all_finite(t, count)) return false;
  sum_finite(y, t, count, sums);
  return true;
}

bool measure(const float* y, const float* t, const float* rounded, std::size_t count, double roundoff, double share,
             double tolerance, Maxima& maxima) {
  if (!all_finite(y, count) || !all_finite(t, count)) return false;
  measure_finite(y, t, rounded, count, roundoff, share, tolerance, maxima);
  return true;
}

void round_to(Dtype dtype, const float* values, std::size_t count, float* out) {
  switch (dtype) {
    case Dtype::bfloat16:
      return round_to_bfloat16(values, count, out);
    case Dtype::float16:
      return round_each(values, count, out, to_float16, from_float16);
    case Dtype::float8_e4m3fn:
      return round_each(values, count, out, to_e4m3, from_e4m3);
    case Dtype::float8_e5m2:
      return round_each(values, count, out, to_e5m2, from_e5m2);
    default:
      std::copy(values, values + count, out);
  }
}

}  // namespace ptxbench::problem

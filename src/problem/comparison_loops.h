#pragma once

#include <cmath>
#include <cstddef>

#include "problem/dtype.h"

/// The loops of a comparison that touch every element, in a form that vectorises. Results are the same at every
/// instruction-set level.
namespace ptxbench::problem {

/// Sums over the elements of a row, y being the output and t the truth.
struct RowSums {
  double error2 = 0;  ///< (y - t)^2
  double truth2 = 0, truth4 = 0;
  double product = 0;  ///< y t
};

/// Of elements that are all finite; else nothing is summed, and the result is false.
bool sum_row(const float* y, const float* t, std::size_t count, RowSums& sums);

/// The largest of each over some elements.
struct Maxima {
  double error = 0;                 ///< |y - t|
  double excess = 0;                ///< |y - t| - roundoff |t|, at least 0
  double beyond_share = -INFINITY;  ///< |y - t| - share |t|
  double reference_error = 0;       ///< |y - r|, r being t rounded to the type
  double relative_error = 0;        ///< |y - r| / (|r| + 1e-8)
  /// Whether any element is beyond the tolerance in both of the last two.
  bool bad = false;
};

/// Of elements that are all finite; else the result is false.
bool measure(const float* y, const float* t, const float* rounded, std::size_t count, double roundoff, double share,
             double tolerance, Maxima& maxima);

/// Values as the type would hold them.
void round_to(Dtype dtype, const float* values, std::size_t count, float* out);

}  // namespace ptxbench::problem

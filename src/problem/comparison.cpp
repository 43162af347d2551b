#include "problem/comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <mutex>

#include "problem/comparison_loops.h"
#include "problem/parallel.h"
#include "problem/triage.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kBlockRows = 64;
constexpr double kNormFloor = 0.1;
constexpr double kCompatTolerance = 1e-2;
constexpr float kExactIntegers = 0x1p24f;  ///< from here on fp32, which truths are in, does not have every integer
constexpr std::uint64_t kPoison16 = 0xffa5;
constexpr std::uint64_t kPoison32 = 0xffa5a5a5;
constexpr std::uint64_t kPoison64 = 0xa5a5a5a5a5a5a5a5;

/// A row of one known tile.
struct Segment {
  std::int64_t row = 0, column_begin = 0, column_end = 0;
  double error2 = 0, truth2 = 0, product = 0;
  double truth4 = 0;   ///< fourth powers: how few elements decide a sum
  double rounded = 0;  ///< the rounded truth with the truth, for the gain of 8-bit types
};

/// Consecutive segments of one tile, at most 64: the block of the rule and the unit of parallel work.
struct Block {
  std::size_t first = 0, last = 0;
};

struct Counts {
  std::uint64_t wrong = 0, unwritten = 0, nan = 0, infinite = 0, compat_bad = 0, unequal = 0;
  double worst_element = 0, max_absolute = 0, max_excess = 0, compat_absolute = 0, compat_relative = 0;
  std::optional<ElementError> worst_at, first_wrong;
  std::uint64_t not_infinite = 0, not_nan = 0, truth_nan = 0, truth_inexact = 0;
};

bool comes_before(const ElementError& a, const ElementError& b) {
  return a.row != b.row ? a.row < b.row : a.column < b.column;
}

float rounded_to(Dtype dtype, float value) {
  round_to(dtype, &value, 1, &value);
  return value;
}

/// Whether fp32 tells which integer of the type the truth is.
bool is_exact_integer(Dtype dtype, float truth) {
  if (dtype == Dtype::boolean) return true;
  const float past = std::ldexp(1.0f, std::min(bits_of(dtype) - 1, 24));
  return std::fabs(truth) < kExactIntegers && truth >= -past && truth < past && truth == std::trunc(truth);
}

class Comparer {
 public:
  Comparer(const Tensor& output, std::span<const float> truth, const std::optional<Limits>& limits,
           const CompareOptions& options, TensorComparison& result)
      : output_(output), truth_(truth), limits_(limits), options_(options), result_(result) {}

  void run() {
    lay_out();
    sum();
    judge_norms();
    judge_elements();
    decide();
  }

 private:
  void lay_out() {
    std::vector<Tile> tiles = options_.known;
    if (tiles.empty()) tiles.push_back({0, result_.rows, 0, result_.columns});
    for (const Tile& tile : tiles) {
      for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) {
        if ((row - tile.row_begin) % kBlockRows == 0) blocks_.push_back({segments_.size(), segments_.size()});
        segments_.push_back({row, tile.column_begin, tile.column_end});
        blocks_.back().last = segments_.size();
      }
      result_.known +=
          static_cast<std::uint64_t>((tile.row_end - tile.row_begin) * (tile.column_end - tile.column_begin));
    }
    result_.unknown = output_.count - result_.known;
  }

  /// Whether rounding alone moves the gain by more than its limit. It is then related to what the rounded truth shows,
  /// and rows count alike, since a few large ones would not average the roundings out.
  bool is_coarse() const { return is_float(output_.dtype) && bits_of(output_.dtype) <= 8; }

  std::uint64_t index(std::int64_t row, std::int64_t column) const {
    return static_cast<std::uint64_t>(row * result_.columns + column);
  }

  /// Widens a segment of the output; what is not finite while the truth is counts as zero in the norms.
  void widen(const Segment& segment, std::vector<float>& values) const {
    const auto count = static_cast<std::uint64_t>(segment.column_end - segment.column_begin);
    values.resize(count);
    to_float(output_.dtype, output_.data(), index(segment.row, segment.column_begin), count, values.data());
  }

  void sum() {
    parallel_for(blocks_.size(), options_.threads, [&](std::uint64_t b) {
      std::vector<float> values;
      for (std::size_t s = blocks_[b].first; s < blocks_[b].last; ++s) {
        Segment& segment = segments_[s];
        widen(segment, values);
        const float* truth = truth_.data() + index(segment.row, segment.column_begin);
        const bool coarse = is_coarse();
        RowSums sums;
        if (!coarse && sum_row(values.data(), truth, values.size(), sums)) {
          segment.error2 = sums.error2;
          segment.truth2 = sums.truth2;
          segment.truth4 = sums.truth4;
          segment.product = sums.product;
          continue;
        }
        double error2 = 0, truth2 = 0, truth4 = 0, product = 0, rounded = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double t = static_cast<double>(truth[i]);
          const double y = std::isfinite(values[i]) ? static_cast<double>(values[i]) : 0.0;
          if (!std::isfinite(t)) continue;
          error2 += (y - t) * (y - t);
          truth2 += t * t;
          truth4 += t * t * t * t;
          product += y * t;
          if (coarse) rounded += static_cast<double>(rounded_to(output_.dtype, truth[i])) * t;
        }
        segment.error2 = error2;
        segment.truth2 = truth2;
        segment.truth4 = truth4;
        segment.product = product;
        segment.rounded = rounded;
      }
    });
  }

  void judge_norms() {
    double error2 = 0, truth2 = 0, truth4 = 0, product = 0;
    for (const Segment& segment : segments_) {
      error2 += segment.error2;
      truth2 += segment.truth2;
      truth4 += segment.truth4;
      product += segment.product;
    }
    const auto known = static_cast<double>(std::max<std::uint64_t>(result_.known, 1));
    rms_ = std::sqrt(truth2 / known);
    result_.rms_absolute_error = std::sqrt(error2 / known);
    double tensor_noise2 = 0;
    for (const Segment& segment : segments_) tensor_noise2 += noise2(segment.row);
    result_.tensor_l2 = ratio(error2, granted2(truth2, tensor_noise2, Part::tensor));
    result_.gain = truth2 > 0 ? product / truth2 : 1.0;
    // Errors that have nothing to do with each other, as large as a sound output's may be, move the gain by their size
    // over the root of how many elements decide it.
    if (limits_ && truth2 > 0 && !is_coarse()) gain_chance_ = 4 * limits_->tensor_l2 * std::sqrt(truth4) / truth2;
    const auto floor2 = [&](double count) { return count * kNormFloor * kNormFloor * rms_ * rms_; };
    if (is_coarse()) {
      double mine = 0, rounded = 0;
      for (const Segment& segment : segments_) {
        const double norm2 =
            std::max(segment.truth2, floor2(static_cast<double>(segment.column_end - segment.column_begin)));
        if (norm2 == 0) continue;
        mine += segment.product / norm2;
        rounded += segment.rounded / norm2;
      }
      result_.gain = rounded > 0 ? mine / rounded : 1.0;
    }
    for (const Block& block : blocks_) {
      double block_error2 = 0, block_truth2 = 0, block_noise2 = 0, count = 0;
      for (std::size_t s = block.first; s < block.last; ++s) {
        const Segment& segment = segments_[s];
        const auto width = static_cast<double>(segment.column_end - segment.column_begin);
        block_error2 += segment.error2;
        block_truth2 += segment.truth2;
        block_noise2 += noise2(segment.row);
        count += width;
        const double row =
            ratio(segment.error2, granted2(std::max(segment.truth2, floor2(width)), noise2(segment.row), Part::row));
        if (row > result_.worst_row_l2) {
          result_.worst_row_l2 = row;
          result_.worst_row = segment.row;
        }
      }
      const double whole =
          ratio(block_error2, granted2(std::max(block_truth2, floor2(count)), block_noise2, Part::block));
      if (whole > result_.worst_block_l2) {
        result_.worst_block_l2 = whole;
        result_.worst_block_row = segments_[block.first].row;
      }
    }
  }

  /// What rounding this row's terms to the output's type is expected to cost, as a squared norm: a rounding error's
  /// root mean square is the unit round-off over the square root of 6, averaged over mantissas.
  double noise2(std::int64_t row) const {
    if (options_.term_norms.empty() || !limits_) return 0;
    const double u = unit_roundoff(output_.dtype);
    const double norm = static_cast<double>(options_.term_norms[static_cast<std::size_t>(row)]);
    return norm * norm * u * u / 6;
  }

  enum class Part { tensor, block, row, element };

  /// The squared norm that an error is related to: the truth's, or more where the expected noise demands it. So the
  /// limits stay what the ratio is compared with.
  double granted2(double norm2, double noise2, Part part) const {
    if (noise2 == 0) return norm2;
    double limit = limits_->tensor_l2, multiple = limits_->noise_block, cap = limits_->noise_cap / 3;
    if (part == Part::block) limit = limits_->block_l2;
    if (part == Part::row) limit = limits_->row_l2, multiple = limits_->noise_row, cap = limits_->noise_cap;
    if (part == Part::element) limit = limits_->element, multiple = limits_->noise_element, cap = limits_->noise_cap;
    if (limit <= 0) return norm2;
    return std::clamp(noise2 * (multiple / limit) * (multiple / limit), norm2, norm2 * cap * cap);
  }

  static double ratio(double error2, double truth2) {
    if (truth2 > 0) return std::sqrt(error2 / truth2);
    return error2 > 0 ? INFINITY : 0.0;
  }

  void judge_elements() {
    // The error map's cells: squares of 64, so that even a small tensor shows structure.
    result_.cell_size = kBlockRows;
    const std::int64_t across = (result_.columns + result_.cell_size - 1) / result_.cell_size;
    const std::int64_t down = (result_.rows + result_.cell_size - 1) / result_.cell_size;
    struct Cell {
      std::uint64_t wrong = 0, unwritten = 0, known = 0;
    };
    std::vector<Cell> cells(static_cast<std::size_t>(across * down));
    Counts total;
    std::mutex mutex;
    const double roundoff = unit_roundoff(output_.dtype) * (limits_ ? limits_->roundings : 1);
    const double share = limits_ ? limits_->absolute_share : 0;
    const bool absolute = limits_ && limits_->absolute_max;
    const double limit = limits_ && !absolute ? limits_->element : INFINITY;
    const double absolute_limit = absolute ? *limits_->absolute_max : INFINITY;
    parallel_for(blocks_.size(), options_.threads, [&](std::uint64_t b) {
      std::vector<float> values, rounded;
      std::vector<Cell> mine(static_cast<std::size_t>(across * 2));  // a block of 64 rows touches two rows of cells
      const std::int64_t first_cell_row = segments_[blocks_[b].first].row / kBlockRows;
      Counts counts;
      for (std::size_t s = blocks_[b].first; s < blocks_[b].last; ++s) {
        const Segment& segment = segments_[s];
        widen(segment, values);
        const auto width = static_cast<double>(values.size());
        const double least = kNormFloor * rms_;
        const double row_rms =
            std::sqrt(granted2(std::max(segment.truth2 / width, least * least), noise2(segment.row), Part::element));
        const std::uint64_t start = index(segment.row, segment.column_begin);
        Cell* cell_row = mine.data() + (segment.row / kBlockRows - first_cell_row) * across;
        const bool floats = is_float(output_.dtype);
        if (floats) {
          rounded.resize(values.size());
          round_to(output_.dtype, truth_.data() + start, values.size(), rounded.data());
        }
        std::size_t cell_end = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::int64_t column = segment.column_begin + static_cast<std::int64_t>(i);
          if (floats && i == cell_end) {
            // Where a whole cell's part of the row is good, and nothing in it is the worst so far, its maxima do.
            cell_end =
                std::min<std::size_t>(values.size(), i + static_cast<std::size_t>(kBlockRows - column % kBlockRows));
            const std::size_t count = cell_end - i;
            Maxima maxima;
            if (measure(values.data() + i, truth_.data() + start + i, rounded.data() + i, count, roundoff, share,
                        kCompatTolerance, maxima) &&
                !maxima.bad && maxima.beyond_share <= absolute_limit) {
              const double excess = maxima.excess <= 0 ? 0 : row_rms > 0 ? maxima.excess / row_rms : INFINITY;
              if (excess <= counts.worst_element && excess <= limit) {
                cell_row[column / kBlockRows].known += count;
                counts.max_absolute = std::max(counts.max_absolute, maxima.error);
                counts.max_excess = std::max(counts.max_excess, maxima.beyond_share);
                counts.compat_absolute = std::max(counts.compat_absolute, maxima.reference_error);
                counts.compat_relative = std::max(counts.compat_relative, maxima.relative_error);
                i = cell_end - 1;
                continue;
              }
            }
          }
          Cell& cell = cell_row[column / kBlockRows];
          ++cell.known;
          const float t = truth_[start + i];
          const float y = values[i];
          bool wrong = false;
          if (may_be_unwritten(y, t) && is_poison(output_, start + i)) {
            // Before all else: poison is a NaN itself, which a truth that is NaN must not excuse.
            wrong = true;
            ++counts.unwritten;
            ++cell.unwritten;
          } else if (std::isnan(t)) {
            ++counts.truth_nan;
            wrong = is_float(output_.dtype) && !std::isnan(y);
            if (wrong) ++counts.not_nan;
          } else if (!is_float(output_.dtype)) {
            // A large truth still differs from what is plainly wrong; other inexact ones say nothing.
            const bool exact = is_exact_integer(output_.dtype, t);
            if (!exact) ++counts.truth_inexact;
            const bool telling = exact || (bits_of(output_.dtype) >= 32 && std::fabs(t) >= kExactIntegers);
            compat(t, y, counts);
            counts.max_absolute =
                std::max(counts.max_absolute, std::fabs(static_cast<double>(y) - static_cast<double>(t)));
            wrong = telling && y != (output_.dtype == Dtype::boolean && t != 0 ? 1.0f : t);
            if (wrong) ++counts.unequal;
          } else if (!std::isfinite(y) && std::isfinite(t)) {
            wrong = true;
            ++(std::isnan(y) ? counts.nan : counts.infinite);
          } else if (std::isfinite(t)) {
            const double error = std::fabs(static_cast<double>(y) - static_cast<double>(t));
            const double beyond_share = error - share * std::fabs(static_cast<double>(t));
            counts.max_absolute = std::max(counts.max_absolute, error);
            counts.max_excess = std::max(counts.max_excess, beyond_share);
            double excess = error - roundoff * std::fabs(static_cast<double>(t));
            excess = excess <= 0 ? 0 : row_rms > 0 ? excess / row_rms : INFINITY;
            if (excess > counts.worst_element) {
              counts.worst_element = excess;
              counts.worst_at = {segment.row, column, static_cast<double>(t), static_cast<double>(y)};
            }
            const bool bad = error > 0 && compat(t, y, counts);
            wrong = by_reference() ? bad : excess > limit || beyond_share > absolute_limit;
          } else if (t != y) {
            wrong = true;
            ++counts.not_infinite;
          }
          if (wrong) {
            ++counts.wrong;
            ++cell.wrong;
            const ElementError here{segment.row, column, static_cast<double>(t), static_cast<double>(y)};
            if (!counts.first_wrong) counts.first_wrong = here;
          }
        }
      }
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(first_cell_row * across) + i;
        if (at >= cells.size()) break;
        cells[at].wrong += mine[i].wrong;
        cells[at].unwritten += mine[i].unwritten;
        cells[at].known += mine[i].known;
      }
      merge(counts, total);
    });
    result_.wrong = total.wrong;
    result_.unwritten = total.unwritten;
    result_.nan = total.nan;
    result_.infinite = total.infinite;
    result_.not_infinite = total.not_infinite;
    result_.not_nan = total.not_nan;
    truth_nan_ = total.truth_nan;
    truth_inexact_ = total.truth_inexact;
    unequal_ = total.unequal;
    result_.worst_element = total.worst_element;
    result_.worst_element_at = total.worst_at;
    result_.max_absolute_error = total.max_absolute;
    max_excess_ = total.max_excess;
    result_.first_wrong = total.first_wrong;
    result_.compat.bad_elements = total.compat_bad;
    result_.compat.max_absolute_error = total.compat_absolute;
    result_.compat.max_relative_error = total.compat_relative;
    const double allowed = (1 - options_.matched_ratio) * static_cast<double>(result_.known);
    result_.compat.passed = static_cast<double>(total.compat_bad) <= allowed &&
                            total.unwritten + total.nan + total.infinite + total.not_infinite + total.not_nan == 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].known == 0) continue;
      ++result_.cell_count;
      if (cells[i].wrong == 0) continue;
      ++result_.wrong_cell_count;
      if (result_.wrong_cells.size() == TensorComparison::kMaxCells) continue;
      const auto cell = static_cast<std::int64_t>(i);
      result_.wrong_cells.push_back({cell / across * result_.cell_size, cell % across * result_.cell_size,
                                     cells[i].wrong, cells[i].unwritten, cells[i].known});
    }
  }

  /// Whether the public benchmark would call it bad.
  bool compat(float truth, float value, Counts& counts) const {
    const double reference = static_cast<double>(rounded_to(output_.dtype, truth));
    const double absolute = std::fabs(static_cast<double>(value) - reference);
    const double relative = absolute / (std::fabs(reference) + 1e-8);
    counts.compat_absolute = std::max(counts.compat_absolute, absolute);
    counts.compat_relative = std::max(counts.compat_relative, relative);
    const bool bad = absolute > kCompatTolerance && relative > kCompatTolerance;
    if (bad) ++counts.compat_bad;
    return bad;
  }

  static void merge(const Counts& from, Counts& into) {
    into.wrong += from.wrong;
    into.unwritten += from.unwritten;
    into.nan += from.nan;
    into.infinite += from.infinite;
    into.not_infinite += from.not_infinite;
    into.not_nan += from.not_nan;
    into.truth_nan += from.truth_nan;
    into.truth_inexact += from.truth_inexact;
    into.unequal += from.unequal;
    into.compat_bad += from.compat_bad;
    into.max_absolute = std::max(into.max_absolute, from.max_absolute);
    into.max_excess = std::max(into.max_excess, from.max_excess);
    into.compat_absolute = std::max(into.compat_absolute, from.compat_absolute);
    into.compat_relative = std::max(into.compat_relative, from.compat_relative);
    // Ties go to the first element, so that the result does not depend on the order of threads.
    if (from.worst_at && (!into.worst_at || from.worst_element > into.worst_element ||
                          (from.worst_element == into.worst_element && comes_before(*from.worst_at, *into.worst_at)))) {
      into.worst_element = from.worst_element;
      into.worst_at = from.worst_at;
    }
    if (from.first_wrong && (!into.first_wrong || comes_before(*from.first_wrong, *into.first_wrong))) {
      into.first_wrong = from.first_wrong;
    }
  }

  bool by_reference() const { return options_.tolerance == Tolerance::reference; }

  /// Integers may well be what poison is by chance; a bool is never.
  bool may_be_unwritten(float y, float t) const {
    if (is_float(output_.dtype)) return std::isnan(y);
    return output_.dtype == Dtype::boolean || y != t;
  }

  std::vector<std::string> broken_limits() {
    std::vector<std::string> broken;
    if (!limits_) return broken;
    const auto check = [&](std::string_view name, const char* what, double value, double limit) {
      result_.limits.push_back({name, value, limit});
      // Written so that NaN fails.
      if (!(value <= limit)) broken.push_back(fmt::format("{} {:.4g}, limit {:.4g}", what, value, limit));
    };
    if (limits_->absolute_max) {
      check("absolute_max",
            limits_->absolute_share > 0 ? "largest absolute error, less its share of the value,"
                                        : "largest absolute error",
            max_excess_, *limits_->absolute_max);
    }
    if (limits_->absolute_rms) {
      check("absolute_rms", "root mean square of the absolute error", result_.rms_absolute_error,
            *limits_->absolute_rms);
    }
    if (result_.absolute) return broken;
    check("tensor_l2", "relative L2 error of the tensor", result_.tensor_l2, limits_->tensor_l2);
    check("block_l2", "relative L2 error of the worst 64-row block", result_.worst_block_l2, limits_->block_l2);
    check("row_l2", "relative L2 error of the worst row", result_.worst_row_l2, limits_->row_l2);
    check("element", "worst element (beyond rounding, over the row's rms)", result_.worst_element, limits_->element);
    check("gain", "deviation of the gain from 1", std::fabs(result_.gain - 1), std::max(limits_->gain, gain_chance_));
    return broken;
  }

  void decide() {
    auto& failures = result_.failures;
    if (result_.unwritten > 0) failures.push_back(fmt::format("{} elements were never written", result_.unwritten));
    if (result_.nan > 0) failures.push_back(fmt::format("{} elements are NaN", result_.nan));
    if (result_.infinite > 0) failures.push_back(fmt::format("{} elements are infinite", result_.infinite));
    if (result_.not_infinite > 0) {
      failures.push_back(fmt::format("{} elements are not infinite as they should be", result_.not_infinite));
    }
    if (result_.not_nan > 0)
      failures.push_back(fmt::format("{} elements are not NaN as they should be", result_.not_nan));
    if (unequal_ > 0) {
      failures.push_back(fmt::format("{} of {} elements are not equal to the truth, which {} must be", unequal_,
                                     result_.known, to_string(output_.dtype)));
    }
    if (limits_) result_.absolute = limits_->absolute_max || limits_->absolute_rms;
    if (limits_ && !limits_->calibrated) {
      result_.note =
          fmt::format("the limits for {} are computed, not calibrated by measurements", to_string(output_.dtype));
    }
    result_.rule = options_.tolerance;
    auto broken = broken_limits();
    if (!is_float(output_.dtype)) {
      // Equality needs neither rule.
    } else if (by_reference()) {
      if (!result_.compat.passed && failures.empty()) {
        failures.push_back(fmt::format("{} of {} elements are off by more than {} both absolutely and relatively",
                                       result_.compat.bad_elements, result_.known, kCompatTolerance));
      }
      if (!broken.empty()) result_.note = "the strict rule is broken: " + broken.front();
    } else {
      std::move(broken.begin(), broken.end(), std::back_inserter(failures));
    }
    if (!failures.empty()) {
      result_.verdict = Verdict::failed;
    } else if (output_.count == 0) {
      result_.verdict = Verdict::passed;
      result_.note = "it has no elements";
    } else if (truth_nan_ > 0) {
      result_.verdict = Verdict::unknown;
      result_.note = fmt::format("{} elements of the truth are NaN, so what is right there is not known", truth_nan_);
    } else if (truth_inexact_ > 0) {
      result_.verdict = Verdict::unknown;
      result_.note =
          fmt::format("fp32, which the truth is in, does not tell {} elements of it exactly", truth_inexact_);
    } else if (!limits_ && !by_reference() && is_float(output_.dtype)) {
      result_.verdict = Verdict::unknown;
      result_.note = fmt::format("no calibrated limits for outputs of type {}", to_string(output_.dtype));
    } else if (result_.known == 0) {
      result_.verdict = Verdict::unknown;
      result_.note = "no element is known";
    } else {
      result_.verdict = Verdict::passed;
      if (result_.unknown > 0) {
        result_.note = fmt::format("{} of {} elements were not run and are unknown", result_.unknown, output_.count);
      }
    }
  }

  const Tensor& output_;
  std::span<const float> truth_;
  const std::optional<Limits>& limits_;
  const CompareOptions& options_;
  TensorComparison& result_;
  std::vector<Segment> segments_;
  std::vector<Block> blocks_;
  double rms_ = 0, max_excess_ = 0, gain_chance_ = 0;
  std::uint64_t truth_nan_ = 0, truth_inexact_ = 0, unequal_ = 0;
};

/// In 8 bits: the NaN that conversions do not give, no valid bool, and for types in which every byte is a value one
/// that neither fills nor saturation leave: -91 in int8, 3 and -1 in pairs of 4-bit floats.
std::uint64_t poison_of(Dtype dtype) {
  switch (bits_of(dtype)) {
    case 16:
      return kPoison16;
    case 32:
      return kPoison32;
    case 64:
      return kPoison64;
    default:
      return has_poison(dtype) ? 0xff : 0xa5;
  }
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string_view to_string(Tolerance tolerance) { return tolerance == Tolerance::strict ? "strict" : "reference"; }

Limits log_sum_limits() {
  // fp32 sums stay within 1e-4 of the truth even where scores are in the hundreds.
  Limits limits;
  limits.absolute_max = 0.004;
  limits.absolute_rms = 0.001;
  return limits;
}

Limits gradient_limits(Limits limits) {
  // With spiky inputs a few large terms decide a block, and their roundings do not average out.
  limits.block_l2 *= 1.6;
  limits.row_l2 *= 1.2;
  limits.gain *= 2;
  return limits;
}

std::optional<Limits> limits_for(std::string_view op_type, Dtype output) {
  if (op_type == "gemm") {
    if (output == Dtype::bfloat16) return Limits{0.003, 0.003, 0.004, 0.01, 0.0005};
    // fp16 rounds eight times finer; fp32 accumulation contributes nothing visible in either.
    if (output == Dtype::float16) return Limits{0.0005, 0.0005, 0.0007, 0.0025, 0.0001, false};
  }
  if (op_type == "attention" && output == Dtype::bfloat16) return Limits{0.005, 0.005, 0.010, 0.03, 0.001};
  return std::nullopt;
}

void fill_poison(Tensor& tensor) {
  const std::uint64_t poison = poison_of(tensor.dtype);
  const auto size = static_cast<std::size_t>(std::max(bits_of(tensor.dtype) / 8, 1));
  const std::uint64_t bytes = tensor.bytes();
  auto* out = tensor.storage.data();
  for (std::uint64_t at = 0; at + size <= bytes; at += size) std::memcpy(out + at, &poison, size);
}

bool has_poison(Dtype dtype) {
  return bits_of(dtype) >= 16 || dtype == Dtype::float8_e4m3fn || dtype == Dtype::float8_e5m2 ||
         dtype == Dtype::boolean;
}

bool is_poison(const Tensor& tensor, std::uint64_t index) {
  if (!has_poison(tensor.dtype)) return false;
  const auto size = static_cast<std::size_t>(bits_of(tensor.dtype) / 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.storage.data() + index * size, size);
  return bits == poison_of(tensor.dtype);
}

TensorComparison compare(const Tensor& output, std::span<const float> truth, const std::optional<Limits>& limits,
                         const CompareOptions& options) {
  TensorComparison result;
  result.name = output.name;
  result.dtype = output.dtype;
  result.columns = static_cast<std::int64_t>(std::max<std::uint64_t>(output.row_length(), 1));
  result.rows = static_cast<std::int64_t>(output.count) / result.columns;
  if (truth.size() < output.count) {
    result.note = "no truth to compare with";
    result.unknown = output.count;
    return result;
  }
  Comparer(output, truth, limits, options, result).run();
  if (result.verdict == Verdict::failed && options.diagnose) {
    result.hypotheses = diagnose(output, truth, result, options);
  }
  return result;
}

}  // namespace ptxbench::problem

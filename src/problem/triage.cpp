#include "problem/triage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "problem/triage_gemm.h"

namespace ptxbench::problem {
namespace {

/// Relative difference below which two pieces count as the same numbers, whatever rounding they went through.
constexpr double kSame = 0.02;

class Diagnosis {
 public:
  Diagnosis(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
            const CompareOptions& options)
      : output_(output), truth_(truth), result_(result), options_(options) {}

  std::vector<Hypothesis> run() {
    unwritten();
    if (result_.unwritten + result_.nan == result_.wrong && result_.wrong > 0) return std::move(found_);
    values();
    scale();
    transposed();
    permuted_rows();
    permuted_columns();
    permuted_chunks();
    if (options_.a != nullptr && options_.b != nullptr) {
      for (Hypothesis& hypothesis : diagnose_gemm({output_, truth_, result_, *options_.a, *options_.b})) {
        found_.push_back(std::move(hypothesis));
      }
    }
    if (found_.empty()) low_precision();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.confidence > b.confidence; });
    return std::move(found_);
  }

 private:
  float value(std::int64_t row, std::int64_t column) const {
    float out = 0;
    to_float(output_.dtype, output_.data(), static_cast<std::uint64_t>(row * result_.columns + column), 1, &out);
    return out;
  }
  float truth(std::int64_t row, std::int64_t column) const {
    return truth_[static_cast<std::size_t>(row * result_.columns + column)];
  }
  void add(std::string pattern, double confidence, std::string text) {
    found_.push_back({std::move(pattern), std::move(text), confidence});
  }

  bool is_known(std::int64_t row, std::int64_t column) const {
    if (options_.known.empty()) return true;
    return std::any_of(options_.known.begin(), options_.known.end(), [&](const Tile& tile) {
      return row >= tile.row_begin && row < tile.row_end && column >= tile.column_begin && column < tile.column_end;
    });
  }

  /// Sum of squared differences between the output at places and the truth at other places, over the truth's squares.
  class Match {
   public:
    void add(float y, float t) {
      if (!std::isfinite(y)) {
        difference2_ = INFINITY;
        return;
      }
      const double d = static_cast<double>(y) - static_cast<double>(t);
      difference2_ += d * d;
      truth2_ += static_cast<double>(t) * static_cast<double>(t);
    }
    bool same() const { return truth2_ > 0 && difference2_ < kSame * kSame * truth2_; }

   private:
    double difference2_ = 0, truth2_ = 0;
  };

  /// Up to `limit` wrong cells, spread over the list.
  std::vector<ErrorCell> sample_cells(std::size_t limit) const {
    std::vector<ErrorCell> cells;
    const std::size_t count = result_.wrong_cells.size();
    for (std::size_t i = 0; i < std::min(limit, count); ++i) {
      cells.push_back(result_.wrong_cells[i * count / std::min(limit, count)]);
    }
    return cells;
  }

  bool wrong(std::int64_t row, std::int64_t column) const {
    const double t = static_cast<double>(truth(row, column));
    const double y = static_cast<double>(value(row, column));
    return !(std::fabs(y - t) <= 0.05 * std::fabs(t) + 0.02 * typical());
  }

  double typical() const {
    if (typical_ == 0) {
      double sum = 0;
      const std::size_t step = std::max<std::size_t>(1, truth_.size() / 4096);
      std::size_t count = 0;
      for (std::size_t i = 0; i < truth_.size(); i += step, ++count) {
        sum += static_cast<double>(truth_[i]) * static_cast<double>(truth_[i]);
      }
      typical_ = std::sqrt(sum / static_cast<double>(std::max<std::size_t>(count, 1)));
    }
    return typical_;
  }

  void unwritten() {
    if (result_.unwritten == 0) return;
    std::int64_t row_begin = result_.rows, row_end = 0, column_begin = result_.columns, column_end = 0;
    for (const ErrorCell& cell : result_.wrong_cells) {
      if (cell.unwritten == 0) continue;
      for (std::int64_t row = cell.row; row < std::min(cell.row + result_.cell_size, result_.rows); ++row) {
        for (std::int64_t column = cell.column; column < std::min(cell.column + result_.cell_size, result_.columns);
             ++column) {
          if (!is_known(row, column) ||
              !is_poison(output_, static_cast<std::uint64_t>(row * result_.columns + column))) {
            continue;
          }
          row_begin = std::min(row_begin, row);
          row_end = std::max(row_end, row + 1);
          column_begin = std::min(column_begin, column);
          column_end = std::max(column_end, column + 1);
        }
      }
    }
    if (row_end == 0) return;
    const auto area = static_cast<double>((row_end - row_begin) * (column_end - column_begin));
    const double density = static_cast<double>(result_.unwritten) / area;
    const bool all = row_begin == 0 && column_begin == 0 && row_end == result_.rows && column_end == result_.columns;
    add("unwritten_region", std::min(1.0, density),
        fmt::format("never written: {} elements{}, within rows {}-{} and columns {}-{}{}", result_.unwritten,
                    all && density > 0.999 ? " (all of them)" : "", row_begin, row_end - 1, column_begin,
                    column_end - 1,
                    row_end == result_.rows && row_begin > 0
                        ? "; the tail of the rows is missing, so check the grid size and the last tile's bounds"
                        : ""));
  }

  void values() {
    std::uint64_t samples = 0, zeros = 0, equal = 0;
    std::optional<float> first;
    for (const ErrorCell& cell : sample_cells(16)) {
      for (std::int64_t i = 0; i < 64; ++i) {
        const std::int64_t row = cell.row + i;
        const std::int64_t column = cell.column + (i * 29) % 64;
        if (row >= result_.rows || column >= result_.columns || !wrong(row, column)) continue;
        const float y = value(row, column);
        if (!first) first = y;
        ++samples;
        if (y == 0.0f) ++zeros;
        if (y == *first) ++equal;
      }
    }
    if (samples < 8) return;
    const auto share = [&](std::uint64_t part) { return static_cast<double>(part) / static_cast<double>(samples); };
    if (share(zeros) > 0.95) {
      add("all_zero", share(zeros),
          fmt::format("{:.0f} % of the wrong elements are exactly zero: the accumulators were never filled, or stored "
                      "before they were",
                      100 * share(zeros)));
    } else if (share(equal) > 0.95) {
      add("constant_value", share(equal), fmt::format("the wrong elements all hold the same value, {}", *first));
    }
  }

  void scale() {
    const double gain = result_.gain;
    if (std::fabs(gain - 1) < 4e-4 || !std::isfinite(gain)) return;
    // ||y - g t||^2 = ||y - t||^2 - (g - 1)^2 ||t||^2 at the best g.
    const double rest2 = result_.tensor_l2 * result_.tensor_l2 - (gain - 1) * (gain - 1);
    if (rest2 > 0.005 * 0.005 || std::fabs(gain) < 1e-3) return;
    add("constant_scale", 0.97,
        fmt::format("every element is {:.5g} times the right value: a wrong scale factor or a product added twice",
                    gain));
  }

  void transposed() {
    if (result_.rows == result_.columns && options_.known.empty()) {
      Match match;
      std::int64_t off_diagonal = 0;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(result_.rows, 256); ++i) {
        const std::int64_t row = i * result_.rows / std::min<std::int64_t>(result_.rows, 256);
        const std::int64_t column = (row * 31 + 17) % result_.columns;
        if (row == column) continue;
        ++off_diagonal;
        match.add(value(row, column), truth(column, row));
      }
      if (off_diagonal > 16 && match.same()) {
        add("transposed_matrix", 1.0, "the output is the transpose of the right one: rows and columns are exchanged");
        return;
      }
    }
    for (const std::int64_t size : {256, 128, 64, 32, 16, 8}) {
      int tested = 0, matched = 0;
      ErrorCell example;
      for (const ErrorCell& cell : sample_cells(16)) {
        const std::int64_t row0 = cell.row / size * size;
        const std::int64_t column0 = cell.column / size * size;
        if (row0 + size > result_.rows || column0 + size > result_.columns) continue;
        Match match;
        bool known = true;
        for (std::int64_t i = 0; i < size && known; ++i) {
          const std::int64_t j = (i * 5 + 3) % size;
          known = is_known(row0 + i, column0 + j) && is_known(row0 + j, column0 + i);
          if (known && i != j) match.add(value(row0 + i, column0 + j), truth(row0 + j, column0 + i));
        }
        if (!known) continue;
        ++tested;
        if (match.same()) {
          ++matched;
          example = cell;
          example.row = row0;
          example.column = column0;
        }
      }
      if (matched > 0 && 2 * matched >= tested) {
        add("transposed_tile", static_cast<double>(matched) / tested,
            fmt::format("{0}x{0} tiles are transposed, for example the one at row {1}, column {2}", size, example.row,
                        example.column));
        return;
      }
    }
  }

  /// Which right row a wrong row holds, by comparing a stretch of columns.
  void permuted_rows() {
    std::map<std::int64_t, int> offsets;
    int tested = 0;
    std::int64_t example = -1, example_source = -1;
    for (const ErrorCell& cell : sample_cells(8)) {
      for (std::int64_t i = 3; i < 64; i += 24) {
        const std::int64_t row = cell.row + i;
        if (row >= result_.rows) break;
        const std::int64_t width = std::min<std::int64_t>(64, result_.columns - cell.column);
        if (width < 16 || !is_known(row, cell.column) || !is_known(row, cell.column + width - 1)) continue;
        ++tested;
        for (std::int64_t source = 0; source < result_.rows; ++source) {
          // A single element decides most of the time.
          if (source == row || !is_known(source, cell.column) ||
              std::fabs(value(row, cell.column) - truth(source, cell.column)) >
                  static_cast<float>(0.02 * std::fabs(static_cast<double>(truth(source, cell.column))) +
                                     0.02 * typical())) {
            continue;
          }
          Match match;
          for (std::int64_t j = 0; j < width; ++j)
            match.add(value(row, cell.column + j), truth(source, cell.column + j));
          if (!match.same()) continue;
          ++offsets[source - row];
          example = row;
          example_source = source;
          break;
        }
      }
    }
    report_permutation("permuted_rows", "row", offsets, tested, example, example_source);
  }

  void permuted_columns() {
    std::map<std::int64_t, int> offsets;
    int tested = 0;
    std::int64_t example = -1, example_source = -1;
    for (const ErrorCell& cell : sample_cells(8)) {
      for (std::int64_t i = 3; i < 64; i += 24) {
        const std::int64_t column = cell.column + i;
        if (column >= result_.columns) break;
        const std::int64_t height = std::min<std::int64_t>(64, result_.rows - cell.row);
        if (height < 16 || !is_known(cell.row, column) || !is_known(cell.row + height - 1, column)) continue;
        ++tested;
        for (std::int64_t source = 0; source < result_.columns; ++source) {
          if (source == column || !is_known(cell.row, source) ||
              std::fabs(value(cell.row, column) - truth(cell.row, source)) >
                  static_cast<float>(0.02 * std::fabs(static_cast<double>(truth(cell.row, source))) +
                                     0.02 * typical())) {
            continue;
          }
          Match match;
          for (std::int64_t j = 0; j < height; ++j) match.add(value(cell.row + j, column), truth(cell.row + j, source));
          if (!match.same()) continue;
          ++offsets[source - column];
          example = column;
          example_source = source;
          break;
        }
      }
    }
    report_permutation("permuted_columns", "column", offsets, tested, example, example_source);
  }

  void report_permutation(const char* pattern, const char* what, const std::map<std::int64_t, int>& offsets, int tested,
                          std::int64_t example, std::int64_t source) {
    int matched = 0;
    std::string list;
    for (const auto& [offset, count] : offsets) {
      matched += count;
      if (offsets.size() <= 4) list += fmt::format("{}{:+}", list.empty() ? "" : ", ", offset);
    }
    if (matched == 0 || 2 * matched < tested) return;
    add(pattern, static_cast<double>(matched) / tested,
        fmt::format("{0}s are in the wrong place: {0} {1} holds what belongs to {0} {2}{3}", what, example, source,
                    list.empty() ? std::string() : fmt::format(" (distances seen: {})", list)));
  }

  /// 16-byte pieces of a row exchanged within 32, 64 or 128 bytes, as when only one side of a copy is swizzled.
  void permuted_chunks() {
    const std::int64_t chunk = 128 / bits_of(output_.dtype);
    if (chunk < 2) return;
    for (const std::int64_t chunks : {8, 4, 2}) {
      const std::int64_t span = chunks * chunk;
      int tested = 0, matched = 0, moved = 0, by_xor = 0;
      for (const ErrorCell& cell : sample_cells(8)) {
        for (std::int64_t i = 0; i < 64; i += 5) {
          const std::int64_t row = cell.row + i;
          const std::int64_t start = cell.column / span * span;
          if (row >= result_.rows || start + span > result_.columns || !is_known(row, start) ||
              !is_known(row, start + span - 1)) {
            continue;
          }
          bool any_wrong = false;
          for (std::int64_t j = 0; j < span; ++j) any_wrong = any_wrong || wrong(row, start + j);
          if (!any_wrong) continue;
          ++tested;
          bool all = true;
          std::array<bool, 8> used = {};
          std::optional<std::int64_t> mask;
          bool same_mask = true;
          for (std::int64_t c = 0; c < chunks && all; ++c) {
            std::int64_t from = -1;
            for (std::int64_t d = 0; d < chunks && from < 0; ++d) {
              Match match;
              for (std::int64_t j = 0; j < chunk; ++j) {
                match.add(value(row, start + c * chunk + j), truth(row, start + d * chunk + j));
              }
              if (match.same() && !used[static_cast<std::size_t>(d)]) from = d;
            }
            all = from >= 0;
            if (!all) break;
            used[static_cast<std::size_t>(from)] = true;
            if (!mask) mask = c ^ from;
            same_mask = same_mask && *mask == (c ^ from);
          }
          if (!all) continue;
          ++matched;
          if (mask && *mask != 0) ++moved;
          if (same_mask) ++by_xor;
        }
      }
      if (tested >= 3 && moved > 0 && 3 * matched >= 2 * tested) {
        add("permuted_chunks", static_cast<double>(matched) / tested,
            fmt::format(
                "16-byte pieces are exchanged within every {} bytes of a row{}: the shared-memory layout of the "
                "output does not match the swizzle of the store",
                chunks * 16, by_xor == matched ? ", by an exclusive-or that depends on the row" : ""));
        return;
      }
    }
  }

  void low_precision() {
    const bool everywhere = result_.cell_count > 0 && 2 * result_.wrong_cell_count > result_.cell_count;
    if (result_.tensor_l2 > 0.1 || result_.worst_block_l2 > 3 * result_.tensor_l2) return;
    add("low_precision", 0.5,
        fmt::format("small errors spread evenly over {} (relative L2 {:.3g}): inputs, partial sums or accumulators "
                    "are kept in too low a precision",
                    everywhere ? "the whole output" : "the output", result_.tensor_l2));
  }

  const Tensor& output_;
  std::span<const float> truth_;
  const TensorComparison& result_;
  const CompareOptions& options_;
  std::vector<Hypothesis> found_;
  mutable double typical_ = 0;
};

}  // namespace

std::vector<Hypothesis> diagnose(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
                                 const CompareOptions& options) {
  return Diagnosis(output, truth, result, options).run();
}

}  // namespace ptxbench::problem

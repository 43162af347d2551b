#include "problem/triage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "problem/triage_attention.h"
#include "problem/triage_gemm.h"
#include "problem/triage_gqa.h"

namespace ptxbench::problem {
namespace {

/// Relative difference below which two pieces count as the same numbers, whatever rounding they went through (16 bits).
constexpr double kSame = 0.02;

class Diagnosis {
 public:
  Diagnosis(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
            const CompareOptions& options)
      : output_(output),
        truth_(truth),
        result_(result),
        options_(options),
        slack_(is_float(output.dtype) && bits_of(output.dtype) <= 8 ? 5 : 1) {}

  std::vector<Hypothesis> run() {
    examine();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.confidence > b.confidence; });
    return std::move(found_);
  }

 private:
  void examine() {
    unwritten();
    not_finite();
    if (result_.unwritten + result_.nan + result_.infinite == result_.wrong && result_.wrong > 0) return;
    tail_only();
    if (values())
      return;  // zeros would also be "all of K is missing", and every other explanation of a constant is far-fetched
    if (options_.attention != nullptr) {
      for (Hypothesis& hypothesis : diagnose_attention({output_, truth_, result_, *options_.attention})) {
        found_.push_back(std::move(hypothesis));
      }
      // Its values are no products: only what the formula says can explain them.
      if (result_.absolute) return;
      // A factor known by name says more than how large it is.
      if (!found_.empty() && found_.back().pattern == "descale") return;
    }
    if (options_.gqa != nullptr) {
      for (Hypothesis& hypothesis : diagnose_gqa({output_, truth_, result_, *options_.gqa})) {
        found_.push_back(std::move(hypothesis));
      }
      if (result_.absolute) return;
    }
    scale();
    transposed();
    stale_tile();
    permuted_rows();
    permuted_columns();
    permuted_chunks();
    if (options_.a != nullptr && options_.b != nullptr) {
      for (Hypothesis& hypothesis : diagnose_gemm({output_, truth_, result_, *options_.a, *options_.b})) {
        found_.push_back(std::move(hypothesis));
      }
    }
    factors();
    if (found_.empty()) low_precision();
  }

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
    explicit Match(double slack) : tolerance_(kSame * slack) {}
    void add(float y, float t) {
      if (!std::isfinite(y)) {
        difference2_ = INFINITY;
        return;
      }
      const double d = static_cast<double>(y) - static_cast<double>(t);
      difference2_ += d * d;
      truth2_ += static_cast<double>(t) * static_cast<double>(t);
    }
    bool same() const { return truth2_ > 0 && difference2_ < tolerance_ * tolerance_ * truth2_; }

   private:
    double tolerance_, difference2_ = 0, truth2_ = 0;
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
    if (!std::isfinite(truth(row, column))) return !(value(row, column) == truth(row, column));
    const double t = static_cast<double>(truth(row, column));
    const double y = static_cast<double>(value(row, column));
    return !(std::fabs(y - t) <= slack_ * (0.05 * std::fabs(t) + 0.02 * typical()));
  }

  double typical() const {
    if (typical_ == 0) {
      double sum = 0;
      const std::size_t step = std::max<std::size_t>(1, truth_.size() / 4096);
      std::size_t count = 0;
      for (std::size_t i = 0; i < truth_.size(); i += step, ++count) {
        if (!std::isfinite(truth_[i])) continue;
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

  void not_finite() {
    const std::uint64_t count = result_.nan + result_.infinite;
    if (count == 0 || result_.wrong == 0) return;
    std::string kinds;
    if (result_.nan != 0) kinds = fmt::format("{} NaN", result_.nan);
    if (result_.infinite != 0) kinds += fmt::format("{}{} infinite", kinds.empty() ? "" : " and ", result_.infinite);
    add("not_finite", static_cast<double>(count) / static_cast<double>(result_.wrong),
        fmt::format(
            "{} results where the right ones are finite: accumulators, shared memory or outputs (which begin as "
            "NaN) are read before anything was written to them, or a sum overflows",
            kinds));
  }

  /// Only the last rows or columns are wrong, from where a tile begins.
  void tail_only() {
    // Of a sample nobody knows where the wrong elements end.
    if (!options_.known.empty()) return;
    const auto& cells = result_.wrong_cells;
    const std::int64_t size = result_.cell_size;
    if (cells.empty() || result_.wrong_cell_count > cells.size()) return;
    std::int64_t row_begin = result_.rows, column_begin = result_.columns, row_end = 0, column_end = 0;
    for (const ErrorCell& cell : cells) {
      row_begin = std::min(row_begin, cell.row);
      column_begin = std::min(column_begin, cell.column);
    }
    if (row_begin == 0 && column_begin == 0 && result_.rows > size && result_.columns > size) return;
    row_begin = result_.rows;
    column_begin = result_.columns;
    for (const ErrorCell& cell : cells) {
      for (std::int64_t row = cell.row; row < std::min(cell.row + size, result_.rows); ++row) {
        for (std::int64_t column = cell.column; column < std::min(cell.column + size, result_.columns); ++column) {
          if (!wrong(row, column)) continue;
          row_begin = std::min(row_begin, row);
          row_end = std::max(row_end, row + 1);
          column_begin = std::min(column_begin, column);
          column_end = std::max(column_end, column + 1);
        }
      }
    }
    const auto say = [&](const char* what, std::int64_t begin, std::int64_t end, std::int64_t count) {
      // A fault of the last tile covers all of it, up to the end.
      if (end != count || 2 * begin < count || begin % 8 != 0) return;
      add("tail_only", 0.9,
          fmt::format("only the last {} of {} {}s are wrong, from {} {} on: the last tile of that dimension is handled "
                      "wrongly",
                      count - begin, count, what, what, begin));
    };
    say("row", row_begin, row_end, result_.rows);
    say("column", column_begin, column_end, result_.columns);
  }

  bool has(std::string_view pattern) const {
    return std::any_of(found_.begin(), found_.end(), [&](const Hypothesis& one) { return one.pattern == pattern; });
  }

  /// Results that do not depend on the inputs at all.
  bool values() {
    std::uint64_t samples = 0, zeros = 0, equal = 0;
    std::optional<float> first;
    for (const ErrorCell& cell : sample_cells(16)) {
      const std::int64_t height = std::min(result_.cell_size, result_.rows - cell.row);
      for (std::int64_t i = 0; i < 64; ++i) {
        const std::int64_t row = cell.row + i % height;
        const std::int64_t column = cell.column + (i * 29) % 64;
        if (column >= result_.columns || !wrong(row, column)) continue;
        const float y = value(row, column);
        if (!first) first = y;
        ++samples;
        if (y == 0.0f) ++zeros;
        if (y == *first) ++equal;
      }
    }
    if (samples < 8) return false;
    // Where all wrong elements are in the last tile, that says more than what they hold.
    const double certainty = has("tail_only") ? 0.85 : 1.0;
    const auto share = [&](std::uint64_t part) { return static_cast<double>(part) / static_cast<double>(samples); };
    if (share(zeros) > 0.95) {
      add("all_zero", certainty * share(zeros),
          fmt::format("{:.0f} % of the wrong elements are exactly zero: the accumulators were never filled, or stored "
                      "before they were",
                      100 * share(zeros)));
      return true;
    }
    if (share(equal) > 0.95) {
      add("constant_value", certainty * share(equal),
          fmt::format("the wrong elements all hold the same value, {}", *first));
      return true;
    }
    return false;
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

  /// Rows, or else columns, that are right but for a factor: one for all that are wrong, or one for each.
  void factors() {
    if (has("constant_scale")) return;
    for (const bool by_row : {true, false}) {
      if (factors(by_row)) return;
    }
  }

  bool factors(bool by_row) {
    struct Factor {
      std::int64_t line = 0;
      double gain = 0;
    };
    std::vector<Factor> found;
    int tested = 0;
    const std::int64_t length = by_row ? result_.columns : result_.rows;
    const std::int64_t lines = by_row ? result_.rows : result_.columns;
    for (const ErrorCell& cell : sample_cells(8)) {
      const std::int64_t first = by_row ? cell.row : cell.column, start = by_row ? cell.column : cell.row;
      for (std::int64_t line = first; line < std::min(first + result_.cell_size, lines); line += 5) {
        double yt = 0, tt = 0, yy = 0;
        int count = 0;
        for (std::int64_t i = start; i < std::min(start + result_.cell_size, length); ++i) {
          const std::int64_t row = by_row ? line : i, column = by_row ? i : line;
          if (!is_known(row, column)) continue;
          const double y = static_cast<double>(value(row, column)), t = static_cast<double>(truth(row, column));
          yt += y * t;
          tt += t * t;
          yy += y * y;
          ++count;
        }
        if (count < 8 || tt == 0 || !std::isfinite(yy)) continue;
        const double gain = yt / tt;
        const double rest = yy / tt - gain * gain;
        const double most_rest = 1e-4 * slack_ * slack_;
        if (std::fabs(gain - 1) < 0.01 && rest < most_rest) continue;  // this one is right
        ++tested;
        if (std::fabs(gain) > 1e-3 && rest < most_rest * gain * gain) found.push_back({line, gain});
      }
    }
    if (found.size() < 3 || 10 * found.size() < 9 * static_cast<std::size_t>(tested)) return false;
    const auto [least, most] = std::minmax_element(found.begin(), found.end(),
                                                   [](const Factor& a, const Factor& b) { return a.gain < b.gain; });
    const double confidence = 0.98 * static_cast<double>(found.size()) / tested;
    const char* what = by_row ? "row" : "column";
    if (most->gain - least->gain < slack_ * 0.02 * std::fabs(most->gain)) {
      add("constant_scale", confidence,
          fmt::format("the wrong {}s are {:.4g} times the right values: a wrong scale factor in a part of the output",
                      what, found.front().gain));
    } else {
      add("missing_rescale", confidence,
          fmt::format("{}s are right but for a factor of their own, for example {} {} times {:.3g} and {} {} times "
                      "{:.3g}: a scale per {} was left out, applied twice or taken from another {}",
                      what, what, least->line, least->gain, what, most->line, most->gain, what, what));
    }
    return true;
  }

  /// A tile that holds what belongs to another one, which is right itself: results of an earlier tile, stored again.
  void stale_tile() {
    constexpr std::size_t kMostKnown = 4096;  // each look-up goes through all of them
    if (options_.known.size() > kMostKnown) return;
    for (const std::int64_t size : {64, 32, 16, 8}) {
      int tested = 0, matched = 0;
      Tile example, example_source;
      for (const ErrorCell& cell : sample_cells(8)) {
        const std::optional<Tile> tile = wrong_tile(cell, size);
        if (!tile) continue;
        ++tested;
        const std::optional<Tile> source = source_of(*tile, size);
        if (!source) continue;
        ++matched;
        example = *tile;
        example_source = *source;
      }
      if (matched == 0 || 2 * matched < tested) continue;
      add("stale_tile", static_cast<double>(matched) / tested,
          fmt::format(
              "the tile at row {}, column {} holds the results of the one at row {}, column {}, which are there "
              "too: a buffer was stored before the new results were in it, or a tile index is not advanced",
              example.row_begin, example.column_begin, example_source.row_begin, example_source.column_begin));
      return;
    }
  }

  /// The aligned square around the first wrong element of a cell, if it lies inside the output and is known.
  std::optional<Tile> wrong_tile(const ErrorCell& cell, std::int64_t size) const {
    for (std::int64_t row = cell.row; row < std::min(cell.row + result_.cell_size, result_.rows); ++row) {
      for (std::int64_t column = cell.column; column < std::min(cell.column + result_.cell_size, result_.columns);
           ++column) {
        if (!is_known(row, column) || !wrong(row, column)) continue;
        const Tile tile{row / size * size, row / size * size + size, column / size * size, column / size * size + size};
        if (tile.row_end > result_.rows || tile.column_end > result_.columns || !is_known(tile)) return std::nullopt;
        return tile;
      }
    }
    return std::nullopt;
  }

  bool is_known(const Tile& tile) const {
    return is_known(tile.row_begin, tile.column_begin) && is_known(tile.row_end - 1, tile.column_end - 1) &&
           is_known(tile.row_begin, tile.column_end - 1) && is_known(tile.row_end - 1, tile.column_begin);
  }

  std::optional<Tile> source_of(const Tile& tile, std::int64_t size) const {
    const float corner = value(tile.row_begin, tile.column_begin);
    for (std::int64_t row = 0; row + size <= result_.rows; row += size) {
      for (std::int64_t column = 0; column + size <= result_.columns; column += size) {
        const float expected = truth(row, column);
        // A single element decides most of the time.
        if (std::fabs(corner - expected) >
            static_cast<float>(slack_ * (0.02 * std::fabs(static_cast<double>(expected)) + 0.02 * typical()))) {
          continue;
        }
        const Tile source{row, row + size, column, column + size};
        if ((row == tile.row_begin && column == tile.column_begin) || !is_known(source)) continue;
        Match copied(slack_), right(slack_);
        for (std::int64_t i = 0; i < size; ++i) {
          for (std::int64_t j = 0; j < size; j += 3) {
            copied.add(value(tile.row_begin + i, tile.column_begin + j), truth(row + i, column + j));
            right.add(value(row + i, column + j), truth(row + i, column + j));
          }
          if (i == 0 && !copied.same()) break;
        }
        if (copied.same() && right.same()) return source;
      }
    }
    return std::nullopt;
  }

  void transposed() {
    if (result_.rows == result_.columns && options_.known.empty()) {
      Match match(slack_);
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
        Match match(slack_);
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
                  static_cast<float>(slack_ * (0.02 * std::fabs(static_cast<double>(truth(source, cell.column))) +
                                               0.02 * typical()))) {
            continue;
          }
          Match match(slack_);
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
                  static_cast<float>(
                      slack_ * (0.02 * std::fabs(static_cast<double>(truth(cell.row, source))) + 0.02 * typical()))) {
            continue;
          }
          Match match(slack_);
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
              Match match(slack_);
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
    if (result_.worst_element > 20 * result_.tensor_l2) return;  // a few bad elements, not many that are a little off
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
  double slack_;  ///< 8-bit outputs are rounded that much more coarsely than what the tolerances are for
  mutable double typical_ = 0;
};

}  // namespace

std::string rule_for(std::string_view pattern) {
  std::string rule = "numeric.";
  for (const char c : pattern) rule += c == '_' ? '-' : c;
  return rule;
}

std::string_view remedy_for(std::string_view pattern) {
  struct Remedy {
    std::string_view pattern, text;
  };
  static constexpr Remedy kRemedies[] = {
      {"unwritten_region", "check the grid's size, tile indices and the bounds of the last tile"},
      {"not_finite",
       "start accumulators at zero (scale-d 0 in the first wgmma) and never read the output before writing it"},
      {"all_zero", "wait for the last wgmma before the accumulators are stored, and check that the loop over K runs"},
      {"constant_value", "store the accumulators, and check the index that each thread stores to"},
      {"constant_scale", "check the scale factor, and that every product is added exactly once"},
      {"missing_rescale",
       "apply the scale of a row to its whole sum, and rescale earlier partial sums when it changes"},
      {"transposed_matrix", "exchange row and column where the output is stored, or the operands"},
      {"transposed_tile", "exchange row and column inside the tile that is stored (or .trans of stmatrix)"},
      {"permuted_rows",
       "check which rows of the accumulator fragment a warp and a lane hold, and the tile's row index"},
      {"permuted_columns", "check which columns of the accumulator fragment a lane holds, and the tile's column index"},
      {"permuted_chunks", "apply the store's swizzle to the shared-memory address that the output tile is written to"},
      {"operand_swizzle", "give the tensor map and the matrix descriptor the same swizzle"},
      {"transposed_operand",
       "set the descriptor's major-ness (or the load's box and strides) to how the operand lies in memory"},
      {"k_step",
       "advance the descriptor's start address by the bytes of one step along K: 32 bytes, which the descriptor counts "
       "as "
       "2, for k16 of 16-bit operands (k32 of 8-bit ones)"},
      {"missing_k", "check the trip count of the loop over K and the bounds of its last tile"},
      {"repeated_k", "start the accumulators at zero once, and load every K tile once"},
      {"stale_k",
       "wait for the full barrier of the stage that is read, with its phase, and check the K coordinate of the load"},
      {"stale_tile",
       "advance the tile index, and let the store of a tile finish before its buffer is filled again and stored"},
      {"softmax_scale", "multiply the scores by 1/sqrt(D) once, and by log2(e) once where the exponential is ex2"},
      {"descale",
       "multiply the scores by descale_q and descale_k and O by descale_v and the last factor, each once and in fp32"},
      {"block_scale",
       "multiply the sum over each 128 of K by SF_A of its row and SF_B of its column (or 128 columns) for that K, in "
       "fp32, before it is added up"},
      {"causal_mask", "query i sees keys 0 to i, itself included: check the comparison and the tiles it is applied to"},
      {"missing_keys", "check the trip count of the loop over keys (or queries), where it begins, and its last tile"},
      {"repeated_keys", "start the sums at zero once, and load every tile of keys (or queries) once"},
      {"stale_keys", "wait for the full barrier of the stage of V, with its phase, before the second product reads it"},
      {"missing_online_rescale",
       "when the running maximum grows from m to n, multiply both the accumulators and the row sum by exp(m - n)"},
      {"missing_row_sum", "subtract rowsum(dO * O) of the query from dP before it is multiplied by P"},
      {"lse_base",
       "give LSE in the base that the definition asks for (a base-2 logarithm times ln 2 is the natural one), and "
       "enter "
       "L as it is given"},
      {"causal_offset",
       "the last query of a request sees its last key: query i sees keys 0 to i + keys - queries, counted within the "
       "request"},
      {"head_group", "query head h reads head h / (query heads / KV heads) of K and V"},
      {"missing_rope", "add q_pe kpe^T to q_nope ckv^T before the scores are scaled"},
      {"page_table", "key j of request r lies in page kv_indices[kv_indptr[r] + j / page size]"},
      {"extra_keys", "mask what lies behind a request's last key, also inside the last page"},
      {"empty_request", "a query that sees no key gets zeros in the output and minus infinity in lse"},
      {"lse_offset", "LSE is the scaled maximum plus the logarithm of the row sum, nothing else"},
      {"lse_without_maximum", "add the scaled maximum to the logarithm of the row sum"},
      {"lse_without_sum", "add the logarithm of the row sum to the scaled maximum"},
      {"tail_only", "check the bounds of the last tile: what is loaded beyond the edge, and what is stored"},
      {"low_precision", "accumulate in fp32 and round once, at the end"},
  };
  for (const Remedy& remedy : kRemedies) {
    if (remedy.pattern == pattern) return remedy.text;
  }
  return "check the index arithmetic of the first wrong element";
}

std::vector<Hypothesis> diagnose(const Tensor& output, std::span<const float> truth, const TensorComparison& result,
                                 const CompareOptions& options) {
  return Diagnosis(output, truth, result, options).run();
}

}  // namespace ptxbench::problem

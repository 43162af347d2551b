#include "problem/triage_attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

namespace ptxbench::problem {
namespace {

using Output = AttentionOperands::Output;

constexpr double kLog2E = 1.4426950408889634074;
constexpr std::size_t kMostRows = 8;
constexpr double kExplained = 0.35;  // an explanation leaves at most this share of a row's error
constexpr std::int64_t kTiles[] = {64, 128, 32, 16, 256};

/// What a kernel may have done otherwise; the defaults are right.
struct Assumption {
  double score_factor = 1, output_factor = 1;
  std::function<bool(std::int64_t query, std::int64_t key)> sees;  ///< empty: the problem's mask
  bool has_row_sum = true;
  double lse_factor = 1;
  std::int64_t stale_begin = 0, stale_end = 0, stale_distance = 0;  ///< V of these keys is that of earlier ones
  std::int64_t twice_begin = 0, twice_end = 0;                      ///< keys that count twice
  std::int64_t online_tile = 0;                                     ///< softmax in steps of so many keys, and then
  bool rescales_output = true, rescales_sum = true;
};

/// One row of the output, with everything that it is computed from.
class Row {
 public:
  Row(const AttentionFailure& failure, std::int64_t head, std::int64_t index)
      : failure_(failure), shape_(failure.operands.shape), head_(head), index_(index) {
    const AttentionOperands& operands = failure.operands;
    const bool of_key = is_of_key();
    mine_ = read(of_key ? operands.inputs.k : operands.inputs.q, index);
    if (operands.output == Output::dq) gradient_ = read(operands.gradient->d_o, index);
    if (of_key) gradient_ = read(operands.inputs.v, index);
    scores_.resize(static_cast<std::size_t>(shape_.sequence));
    products_.resize(scores_.size());
    for (std::int64_t i = 0; i < shape_.sequence; ++i) {
      scores_[at(i)] = dot(mine_, read(of_key ? operands.inputs.q : operands.inputs.k, i)) * shape_.scale();
      if (!gradient_.empty()) {
        products_[at(i)] = dot(gradient_, read(of_key ? operands.gradient->d_o : operands.inputs.v, i));
      }
    }
    if (operands.gradient) {
      lse_.resize(scores_.size());
      delta_.resize(scores_.size());
      std::vector<float> wide(scores_.size());
      operands.gradient->lse.read(head, 0, shape_.sequence, wide.data());
      std::copy(wide.begin(), wide.end(), lse_.begin());
      for (std::int64_t i = of_key ? 0 : index; i < (of_key ? shape_.sequence : index + 1); ++i) {
        delta_[at(i)] = dot(read(operands.gradient->d_o, i), read(operands.gradient->o, i));
      }
    }
    for (std::int64_t i = 0; i < shape_.sequence; ++i) partners_.push_back(read(partner(), i));
    const bool is_lse = operands.output == Output::lse;
    const std::int64_t columns = is_lse ? 1 : shape_.depth;
    const std::int64_t first = (head * shape_.sequence + index) * columns;
    got_.resize(static_cast<std::size_t>(columns));
    std::vector<float> wide(got_.size());
    to_float(failure.output.dtype, failure.output.data(), static_cast<std::uint64_t>(first), wide.size(), wide.data());
    std::copy(wide.begin(), wide.end(), got_.begin());
    right_.assign(failure.truth.begin() + first, failure.truth.begin() + first + columns);
    error_ = distance(got_, right_);
  }

  double error() const { return error_; }
  std::int64_t index() const { return index_; }
  bool is_of_key() const { return failure_.operands.output == Output::dk || failure_.operands.output == Output::dv; }
  double got() const { return got_[0]; }
  double right() const { return right_[0]; }

  double top() const {
    double most = -INFINITY;
    for (std::int64_t key = 0; key < shape_.sequence; ++key) {
      if (masked_in(index_, key)) most = std::max(most, scores_[at(key)]);
    }
    return most;
  }

  /// What an assumption leaves of the error: 0 explains all of it, 1 nothing.
  double residual(const Assumption& assumption) const {
    const auto expected = compute(assumption);
    return expected && error_ > 0 ? distance(got_, *expected) / error_ : INFINITY;
  }

  /// Of a row that is right: whether it would not be under this assumption.
  bool contradicts(const Assumption& assumption) const {
    const auto expected = compute(assumption);
    if (!expected) return true;
    const double slack = failure_.operands.output == Output::lse ? 0.02 : 0.05 * norm(right_);
    return distance(got_, *expected) > slack + error_;
  }

  /// Near enough to the truth to have been computed rightly.
  bool is_right() const {
    const double rounding = bits_of(failure_.output.dtype) <= 8 ? 0.08 : 0.01;
    return error_ < (failure_.operands.output == Output::lse ? 0.004 : rounding * norm(right_)) && norm(right_) > 0;
  }

  bool masked_in(std::int64_t query, std::int64_t key) const { return !shape_.causal || key <= query; }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::vector<double> read(const MatrixRows& matrix, std::int64_t row) const {
    std::vector<float> wide(static_cast<std::size_t>(shape_.depth));
    matrix.read(head_ * shape_.sequence + row, 0, shape_.depth, wide.data());
    return {wide.begin(), wide.end()};
  }

  /// The rows that the output's row is a weighted sum of.
  const MatrixRows& partner() const {
    switch (failure_.operands.output) {
      case Output::dq:
        return failure_.operands.inputs.k;
      case Output::dk:
        return failure_.operands.inputs.q;
      case Output::dv:
        return failure_.operands.gradient->d_o;
      default:
        return failure_.operands.inputs.v;
    }
  }

  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  static double norm(const std::vector<double>& a) { return std::sqrt(dot(a, a)); }
  static double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::isfinite(sum) ? std::sqrt(sum) : INFINITY;
  }

  std::optional<std::vector<double>> compute(const Assumption& a) const {
    return failure_.operands.gradient ? backward(a) : forward(a);
  }

  bool seen(const Assumption& a, std::int64_t query, std::int64_t key) const {
    return a.sees ? a.sees(query, key) : masked_in(query, key);
  }

  std::optional<std::vector<double>> forward(const Assumption& a) const {
    std::vector<double> sum(static_cast<std::size_t>(shape_.depth), 0.0);
    double top = -INFINITY, total = 0;
    const std::int64_t step = a.online_tile > 0 ? a.online_tile : shape_.sequence;
    const bool values = failure_.operands.output == Output::o;
    for (std::int64_t first = 0; first < shape_.sequence; first += step) {
      const std::int64_t last = std::min(first + step, shape_.sequence);
      double tile_top = top;
      for (std::int64_t key = first; key < last; ++key) {
        if (seen(a, index_, key)) tile_top = std::max(tile_top, scores_[at(key)] * a.score_factor);
      }
      if (tile_top == -INFINITY) continue;
      if (tile_top > top && top != -INFINITY) {
        const double factor = std::exp(top - tile_top);
        if (a.rescales_output) {
          for (double& value : sum) value *= factor;
        }
        if (a.rescales_sum) total *= factor;
      }
      top = tile_top;
      for (std::int64_t key = first; key < last; ++key) {
        if (!seen(a, index_, key)) continue;
        const double weight =
            std::exp(scores_[at(key)] * a.score_factor - top) * (key >= a.twice_begin && key < a.twice_end ? 2 : 1);
        total += weight;
        if (!values) continue;
        const bool stale = key >= a.stale_begin && key < a.stale_end;
        const std::vector<double>& row = partners_[at(stale ? key - a.stale_distance : key)];
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * row[i];
      }
    }
    if (!(total > 0)) return std::nullopt;
    if (!values) return std::vector<double>{top + std::log(total)};
    for (double& value : sum) {
      value *= shape_.output_factor * a.output_factor / total;
      value = std::clamp(value, -shape_.largest_output, shape_.largest_output);
    }
    return sum;
  }

  std::optional<std::vector<double>> backward(const Assumption& a) const {
    std::vector<double> sum(static_cast<std::size_t>(shape_.depth), 0.0);
    const bool of_key = is_of_key(), is_dv = failure_.operands.output == Output::dv;
    for (std::int64_t other = 0; other < shape_.sequence; ++other) {
      const std::int64_t query = of_key ? other : index_, key = of_key ? index_ : other;
      if (!seen(a, query, key)) continue;
      const double p = std::exp(scores_[at(other)] * a.score_factor - lse_[at(query)] * a.lse_factor);
      double weight = p;
      if (!is_dv) weight = p * (products_[at(other)] - (a.has_row_sum ? delta_[at(query)] : 0)) * shape_.scale();
      if (other >= a.twice_begin && other < a.twice_end) weight *= 2;
      const bool stale = other >= a.stale_begin && other < a.stale_end;
      const std::vector<double>& row = partners_[at(stale ? other - a.stale_distance : other)];
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * row[i];
    }
    return sum;
  }

  const AttentionFailure& failure_;
  const AttentionShape& shape_;
  std::int64_t head_, index_;
  std::vector<double> mine_, gradient_, scores_, products_, lse_, delta_;
  std::vector<std::vector<double>> partners_;
  std::vector<double> got_, right_;
  double error_ = 0;
};

class Diagnosis {
 public:
  explicit Diagnosis(const AttentionFailure& failure) : failure_(failure), shape_(failure.operands.shape) {}

  std::vector<Hypothesis> run() {
    choose_rows();
    if (rows_.empty()) return {};
    if (failure_.operands.output == Output::lse) logarithm();
    scale();
    descales();
    mask();
    terms();
    online();
    keys();
    return std::move(found_);
  }

 private:
  /// The worst row of some wrong cells, or of the tensor where the fault is in the norms alone.
  void choose_rows() {
    const bool is_lse = failure_.operands.output == Output::lse;
    std::vector<std::int64_t> chosen;
    const auto& cells = failure_.result.wrong_cells;
    const std::size_t count = std::min<std::size_t>(kMostRows, cells.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ErrorCell& cell = cells[i * cells.size() / count];
      std::int64_t worst = -1;
      double most = 0;
      for (std::int64_t row = cell.row; row < std::min(cell.row + failure_.result.cell_size, failure_.result.rows);
           ++row) {
        const std::int64_t end = std::min(cell.column + failure_.result.cell_size, failure_.result.columns);
        double error = 0;
        for (std::int64_t column = cell.column; column < end; ++column) {
          const double one = error_at(row, column);
          error += one * one;
          if (is_lse && one > most) {
            most = one;
            worst = row * failure_.result.columns + column;
          }
        }
        if (!is_lse && error > most) {
          most = error;
          worst = row;
        }
      }
      if (worst >= 0) chosen.push_back(worst);
    }
    if (!is_lse) chosen.push_back(failure_.result.worst_row);
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const std::int64_t row : chosen) {
      if (row < 0 || row >= shape_.rows()) continue;
      rows_.emplace_back(failure_, row / shape_.sequence, row % shape_.sequence);
      if (!std::isfinite(rows_.back().error()) || rows_.back().error() == 0) rows_.pop_back();
    }
    // Rows that are right, all over the output, which an explanation must not call wrong.
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kMostRows); ++i) {
      const std::int64_t row = shape_.rows() * (2 * i + 1) / (2 * static_cast<std::int64_t>(kMostRows));
      controls_.emplace_back(failure_, row / shape_.sequence, row % shape_.sequence);
      if (!controls_.back().is_right()) controls_.pop_back();
    }
  }

  double error_at(std::int64_t row, std::int64_t column) const {
    const std::int64_t element = row * failure_.result.columns + column;
    float value = 0;
    to_float(failure_.output.dtype, failure_.output.data(), static_cast<std::uint64_t>(element), 1, &value);
    const double error =
        std::fabs(static_cast<double>(value) - static_cast<double>(failure_.truth[static_cast<std::size_t>(element)]));
    return std::isfinite(error) ? error : 0;
  }

  /// Adds the explanation if the assumption explains most wrong rows and contradicts no right one. The one that leaves
  /// least of the errors comes first.
  void test(const char* pattern, const std::string& text, const Assumption& assumption) {
    std::size_t explained = 0;
    double left = 0;
    for (const Row& row : rows_) {
      const double residual = row.residual(assumption);
      if (residual >= kExplained) continue;
      ++explained;
      left += residual;
    }
    if (4 * explained < 3 * rows_.size()) return;
    if (std::any_of(controls_.begin(), controls_.end(), [&](const Row& row) { return row.contradicts(assumption); }))
      return;
    const double share = static_cast<double>(explained) / static_cast<double>(rows_.size());
    found_.push_back({pattern, text, 0.99 * share - 0.01 * left / static_cast<double>(explained)});
  }

  void scale() {
    const double scale = 1 / std::sqrt(static_cast<double>(shape_.depth));
    const std::pair<double, const char*> factors[] = {
        {1 / scale, "the scores are not multiplied by 1/sqrt(D)"},
        {scale, "the scores are multiplied by 1/sqrt(D) twice"},
        {1 / kLog2E, "the exponentials are in base 2, without the factor log2(e)"},
        {kLog2E, "the scores are multiplied by log2(e) although the exponential is natural, or twice"}};
    for (const auto& [factor, text] : factors) {
      Assumption assumption;
      assumption.score_factor = factor;
      test("softmax_scale", text, assumption);
    }
  }

  /// The factors that are inputs, left out or applied twice.
  void descales() {
    if (!failure_.operands.descales) return;
    const AttentionDescales& d = *failure_.operands.descales;
    const double q = static_cast<double>(d.q), k = static_cast<double>(d.k);
    const double v = static_cast<double>(d.v), o = static_cast<double>(d.o);
    const std::pair<double, const char*> of_scores[] = {{1 / q, "descale_q does not enter the scores"},
                                                        {1 / k, "descale_k does not enter the scores"},
                                                        {1 / (q * k), "the scores are those of Q and K undescaled"},
                                                        {q, "descale_q enters the scores twice"},
                                                        {k, "descale_k enters the scores twice"}};
    for (const auto& [factor, text] : of_scores) {
      Assumption assumption;
      assumption.score_factor = factor;
      test("descale", text, assumption);
    }
    if (failure_.operands.output != Output::o) return;
    const std::pair<double, const char*> of_output[] = {{1 / v, "descale_v does not enter O"},
                                                        {1 / o, "the output's factor does not enter O"},
                                                        {1 / (v * o), "neither descale_v nor its own factor enters O"},
                                                        {v, "descale_v enters O twice"},
                                                        {o, "the output's factor enters O twice"}};
    for (const auto& [factor, text] : of_output) {
      Assumption assumption;
      assumption.output_factor = factor;
      test("descale", text, assumption);
    }
  }

  void mask() {
    const auto with = [&](std::function<bool(std::int64_t, std::int64_t)> sees) {
      Assumption assumption;
      assumption.sees = std::move(sees);
      return assumption;
    };
    if (!shape_.causal) {
      test("causal_mask", "a causal mask is applied where none is asked for",
           with([](std::int64_t query, std::int64_t key) { return key <= query; }));
      return;
    }
    test("causal_mask", "no causal mask is applied", with([](std::int64_t, std::int64_t) { return true; }));
    test("causal_mask", "the causal mask lets each query see one key too many, the one behind it",
         with([](std::int64_t query, std::int64_t key) { return key <= query + 1; }));
    test("causal_mask", "the causal mask hides the diagonal: a query must see the key of its own index",
         with([](std::int64_t query, std::int64_t key) { return key < query; }));
    for (const std::int64_t tile : kTiles) {
      test("causal_mask", fmt::format("tiles of {} keys on the diagonal are not masked inside", tile),
           with([tile](std::int64_t query, std::int64_t key) { return key < (query / tile + 1) * tile; }));
      test("causal_mask", fmt::format("tiles of {} keys on the diagonal are left out as a whole", tile),
           with([tile](std::int64_t query, std::int64_t key) { return key < query / tile * tile; }));
    }
  }

  void terms() {
    if (!failure_.operands.gradient) return;
    Assumption assumption;
    assumption.has_row_sum = false;
    if (failure_.operands.output != Output::dv) {
      test("missing_row_sum", "rowsum(dO * O) is not subtracted from dP", assumption);
    }
    assumption = {};
    assumption.lse_factor = 1 / kLog2E;
    test("lse_base", "L enters as if it were a logarithm in base 2; it is natural", assumption);
    assumption.lse_factor = kLog2E;
    test("lse_base", "L is multiplied by log2(e) although the exponential is natural, or twice", assumption);
  }

  void online() {
    if (failure_.operands.gradient) return;
    // Kernels without tensor cores may take the keys one at a time.
    for (const std::int64_t tile : {64, 128, 32, 16, 256, 8, 1}) {
      Assumption assumption;
      assumption.online_tile = tile;
      const auto tell = [&](const char* what) {
        test("missing_online_rescale",
             fmt::format("{} when the running maximum grows (from one {} to the next)", what,
                         tile == 1 ? std::string("key") : fmt::format("tile of {} keys", tile)),
             assumption);
      };
      assumption.rescales_output = false;
      if (failure_.operands.output == Output::o) tell("the accumulators of O are not rescaled");
      assumption.rescales_sum = false;
      if (failure_.operands.output == Output::o) tell("neither O's accumulators nor the row sum are rescaled");
      assumption.rescales_output = true;
      tell("the row sum is not rescaled");
    }
  }

  /// Parts of the reduction that are missing, come twice or are taken from another stage. One row chooses the best
  /// range of each kind, the others confirm it.
  void keys() {
    const bool of_key = rows_.front().is_of_key();
    const char* what = of_key ? "queries" : "keys";
    const std::int64_t s = shape_.sequence;
    const Row& judge = rows_.back();
    struct Best {
      const char* pattern;
      double residual = kExplained;
      std::string text;
      Assumption assumption;
    };
    Best missing{"missing_keys", kExplained, "", {}}, twice{"repeated_keys", kExplained, "", {}};
    Best stale{"stale_keys", kExplained, "", {}};
    const auto consider = [&](Best& best, const Assumption& assumption, const std::string& text) {
      const double residual = judge.residual(assumption);
      if (residual < best.residual) best = {best.pattern, residual, text, assumption};
    };
    const auto without = [&](std::int64_t begin, std::int64_t end) {
      if (begin < 0 || begin >= end) return;
      Assumption assumption;
      const bool causal = shape_.causal;
      assumption.sees = [causal, of_key, begin, end](std::int64_t query, std::int64_t key) {
        const std::int64_t other = of_key ? query : key;
        return (!causal || key <= query) && (other < begin || other >= end);
      };
      consider(missing, assumption, fmt::format("{} {}-{} do not enter", what, begin, end - 1));
    };
    constexpr std::int64_t kMostRanges = 64;  // each costs a pass over all keys
    for (const std::int64_t tile : {std::int64_t{64}, std::int64_t{128}}) {
      const std::int64_t step = std::max<std::int64_t>(1, (s + tile - 1) / tile / kMostRanges);
      for (std::int64_t i = 0; i * tile < s; i += step) {
        const std::int64_t begin = i * tile, end = std::min(s, begin + tile);
        without(begin, end);
        without(0, begin);
        without(begin, s);
        Assumption repeated;
        repeated.twice_begin = begin;
        repeated.twice_end = end;
        consider(twice, repeated, fmt::format("{} {}-{} enter twice", what, begin, end - 1));
        if (failure_.operands.output == Output::lse) continue;
        for (const std::int64_t distance : {tile, 2 * tile}) {
          if (begin < distance) continue;
          Assumption behind;
          behind.stale_begin = begin;
          behind.stale_end = end;
          behind.stale_distance = distance;
          consider(stale, behind,
                   fmt::format("for {} {}-{} the tile of {} is that of {} earlier", what, begin, end - 1,
                               partner_name(), distance));
        }
      }
    }
    for (std::int64_t count = 1; count <= std::min<std::int64_t>(s / 2, 64); ++count) {
      without(s - count, s);
      without(0, count);
    }
    for (const Best* best : {&missing, &twice, &stale}) {
      if (best->residual < kExplained) test(best->pattern, best->text, best->assumption);
    }
  }

  const char* partner_name() const {
    switch (failure_.operands.output) {
      case Output::dq:
        return "K";
      case Output::dk:
        return "Q";
      case Output::dv:
        return "dO";
      default:
        return "V";
    }
  }

  void logarithm() {
    const auto all = [&](const std::function<double(const Row&)>& expected) {
      return std::all_of(rows_.begin(), rows_.end(), [&](const Row& row) {
        return std::fabs(row.got() - expected(row)) < std::max(0.002, 0.01 * row.error());
      });
    };
    const auto add = [&](const char* pattern, std::string text) { found_.push_back({pattern, std::move(text), 0.99}); };
    if (all([](const Row& row) { return row.right() * kLog2E; })) {
      add("lse_base", "LSE is in base 2; the natural logarithm is asked for");
    } else if (all([](const Row& row) { return row.right() / kLog2E; })) {
      add("lse_base", "LSE is multiplied by ln 2 although it is a natural logarithm already");
    } else if (const double offset = rows_.front().got() - rows_.front().right();
               rows_.size() > 2 && all([&](const Row& row) { return row.right() + offset; })) {
      add("lse_offset",
          fmt::format("LSE is {:.4g} too {} everywhere", std::fabs(offset), offset > 0 ? "large" : "small"));
    } else if (all([](const Row& row) { return row.top(); })) {
      add("lse_without_sum", "LSE holds the scaled maximum alone, without the logarithm of the row sum");
    } else if (all([](const Row& row) { return row.right() - row.top(); })) {
      add("lse_without_maximum", "LSE holds the logarithm of the row sum alone, without the scaled maximum");
    } else if (all([&](const Row& row) { return row.right() - row.top() + row.top() / shape_.scale(); })) {
      add("lse_without_maximum", "LSE holds the maximum before it is scaled by 1/sqrt(D)");
    }
  }

  const AttentionFailure& failure_;
  const AttentionShape& shape_;
  std::vector<Row> rows_, controls_;
  std::vector<Hypothesis> found_;
};

}  // namespace

std::vector<Hypothesis> diagnose_attention(const AttentionFailure& failure) { return Diagnosis(failure).run(); }

}  // namespace ptxbench::problem

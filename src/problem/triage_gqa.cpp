#include "problem/triage_gqa.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace ptxbench::problem {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr std::size_t kMostRows = 8;
constexpr double kExplained = 0.35;  // an explanation leaves at most this share of a row's error,
constexpr double kRounding = 0.03;   // at most this share of the expected row's norm,
constexpr double kLogarithm = 0.01;  // and of LSE at most so much: numbers so similar often come near by chance

/// What a kernel may have made of a row.
struct Assumption {
  std::int64_t kv_head = 0;
  std::vector<std::int64_t> slots;  ///< of the keys that the row sees
  double score_factor = 1;
  bool without_tail = false;  ///< scores are those of the first part of q and k alone
};

/// One query and head, with what the output holds for it.
class Row {
 public:
  Row(const GqaFailure& failure, std::int64_t row)
      : failure_(failure), shape_(failure.operands.shape), row_(row), query_(row / shape_.qo_heads) {
    const auto found = std::find_if(shape_.requests.begin(), shape_.requests.end(),
                                    [&](const GqaRequest& one) { return query_ < one.query_end; });
    request_ = static_cast<std::size_t>(found - shape_.requests.begin());
    const auto columns = static_cast<std::size_t>(failure.operands.is_lse ? 1 : shape_.value_depth);
    std::vector<float> wide(columns);
    to_float(failure.output.dtype, failure.output.data(), static_cast<std::uint64_t>(row) * columns, columns,
             wide.data());
    got_.assign(wide.begin(), wide.end());
    const auto first = failure.truth.begin() + row * static_cast<std::int64_t>(columns);
    right_.assign(first, first + static_cast<std::int64_t>(columns));
    error_ = distance(got_, right_);
  }

  std::int64_t head() const { return row_ % shape_.qo_heads; }
  std::size_t request_index() const { return request_; }
  const GqaRequest& request() const { return shape_.requests[request_]; }
  std::int64_t query() const { return query_ - request().query_begin; }
  double error() const { return error_; }
  double got() const { return got_[0]; }
  double right() const { return right_[0]; }
  bool is_sound() const {
    return request_ < shape_.requests.size() && std::isfinite(right_[0]) && std::isfinite(error_);
  }
  /// Near enough to the truth to have been computed rightly.
  bool is_right() const { return error_ < (failure_.operands.is_lse ? 0.004 : 0.01 * norm(right_)); }

  /// Keys [begin, end) of the row's request; an end beyond them continues in the same page or the list.
  std::vector<std::int64_t> slots(std::int64_t begin, std::int64_t end) const {
    const auto first = shape_.slots.begin() + request().key_begin;
    begin = std::clamp(begin, std::int64_t{0}, request().keys());
    return {first + begin, first + std::clamp(end, begin, request().keys())};
  }
  Assumption usual() const { return {head() / shape_.group(), slots(0, shape_.seen_by(request(), query())), 1}; }

  /// What an assumption leaves of the error, 0 to kExplained; infinite if it explains nothing.
  double residual(const Assumption& assumption) const {
    const auto expected = compute(assumption);
    if (!expected || error_ <= 0) return INFINITY;
    const double left = distance(got_, *expected);
    const double most = failure_.operands.is_lse ? kLogarithm : kRounding * norm(*expected);
    return left <= std::min(kExplained * error_, most) ? left / error_ : INFINITY;
  }
  /// Of a row that is right: whether it would not be under this assumption.
  bool contradicts(const Assumption& assumption) const {
    const auto expected = compute(assumption);
    if (!expected) return true;
    return distance(got_, *expected) > (failure_.operands.is_lse ? 0.02 : 0.05 * norm(right_)) + error_;
  }

 private:
  static double norm(const std::vector<double>& a) {
    return std::sqrt(std::inner_product(a.begin(), a.end(), a.begin(), 0.0));
  }
  static double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::isfinite(sum) ? std::sqrt(sum) : INFINITY;
  }

  std::optional<std::vector<double>> compute(const Assumption& assumption) const {
    const GqaInputs& inputs = failure_.operands.inputs;
    const auto columns = static_cast<std::size_t>(shape_.value_depth);
    if (assumption.slots.empty()) {
      return failure_.operands.is_lse ? std::nullopt : std::optional(std::vector<double>(columns, 0.0));
    }
    std::vector<float> q(static_cast<std::size_t>(shape_.depth)), key(q.size()), value(columns);
    inputs.read_q(row_, q.data());
    if (assumption.without_tail) q.resize(static_cast<std::size_t>(inputs.q.columns()));
    const auto place = [&](std::int64_t slot) { return slot * shape_.kv_heads + assumption.kv_head; };
    std::vector<double> scores;
    for (const std::int64_t slot : assumption.slots) {
      inputs.read_k(place(slot), key.data());
      double score = 0;
      for (std::size_t i = 0; i < q.size(); ++i) score += static_cast<double>(q[i]) * static_cast<double>(key[i]);
      scores.push_back(score * shape_.scale * assumption.score_factor);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - top);
    if (failure_.operands.is_lse) return std::vector<double>{(top + std::log(total)) * kLog2E};
    std::vector<double> sum(columns, 0.0);
    for (std::size_t at = 0; at < scores.size(); ++at) {
      inputs.v.read(place(assumption.slots[at]), 0, shape_.value_depth, value.data());
      for (std::size_t i = 0; i < columns; ++i) sum[i] += scores[at] / total * static_cast<double>(value[i]);
    }
    return sum;
  }

  const GqaFailure& failure_;
  const GqaShape& shape_;
  std::int64_t row_, query_;
  std::size_t request_ = 0;
  std::vector<double> got_, right_;
  double error_ = 0;
};

class Diagnosis {
 public:
  explicit Diagnosis(const GqaFailure& failure) : failure_(failure), shape_(failure.operands.shape) {}

  std::vector<Hypothesis> run() {
    if (failure_.result.wrong > 0 && failure_.result.not_infinite == failure_.result.wrong) {
      found_.push_back({"empty_request", "only queries that see no key are wrong: their lse is minus infinity", 0.99});
      return std::move(found_);
    }
    choose_rows();
    if (rows_.empty()) return {};
    if (failure_.operands.is_lse) logarithm();
    heads();
    mask();
    keys();
    scale();
    return std::move(found_);
  }

 private:
  /// Wrong rows from all over the output, and right ones.
  void choose_rows() {
    const auto& cells = failure_.result.wrong_cells;
    const std::int64_t size = failure_.result.cell_size, columns = failure_.result.columns;
    const std::size_t count = std::min(kMostRows, cells.size());
    for (std::size_t i = 0; i < count; ++i) {
      const ErrorCell& cell = cells[i * cells.size() / count];
      std::vector<Row> wrong;
      for (std::int64_t row = cell.row; row < std::min(cell.row + size, failure_.result.rows); ++row) {
        // Every column of LSE is a row of its own.
        const std::int64_t first = failure_.operands.is_lse ? row * columns + cell.column : row;
        const std::int64_t last =
            failure_.operands.is_lse ? row * columns + std::min(cell.column + size, columns) : row + 1;
        for (std::int64_t at = first; at < last; ++at) {
          Row one(failure_, at);
          if (one.is_sound() && !one.is_right()) wrong.push_back(std::move(one));
        }
      }
      const std::size_t wanted = std::min(wrong.size(), (kMostRows + count - 1) / count);
      for (std::size_t j = 0; j < wanted; ++j) rows_.push_back(wrong[(2 * j + 1) * wrong.size() / (2 * wanted)]);
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kMostRows); ++i) {
      const Row one(failure_, shape_.rows() * (2 * i + 1) / (2 * static_cast<std::int64_t>(kMostRows)));
      if (one.is_sound() && one.is_right()) controls_.push_back(one);
    }
  }

  /// Adds the explanation if it explains most wrong rows and contradicts no right one. `assume` changes what is usual
  /// for a row.
  template <class Assume>
  void test(const char* pattern, const std::string& text, const Assume& assume) {
    std::size_t explained = 0;
    double left = 0;
    const auto changed = [&](const Row& row) {
      Assumption assumption = row.usual();
      assume(row, assumption);
      return assumption;
    };
    for (const Row& row : rows_) {
      const double residual = row.residual(changed(row));
      if (!std::isfinite(residual)) continue;
      ++explained;
      left += residual;
    }
    if (explained == 0 || 4 * explained < 3 * rows_.size()) return;
    if (std::any_of(controls_.begin(), controls_.end(), [&](const Row& row) { return row.contradicts(changed(row)); }))
      return;
    const double share = static_cast<double>(explained) / static_cast<double>(rows_.size());
    found_.push_back({pattern, text, 0.99 * share - 0.01 * left / static_cast<double>(explained)});
  }

  void logarithm() {
    for (const auto& [factor, text] : {std::pair{1 / kLog2E, "LSE is a natural logarithm; base 2 is asked for"},
                                       {kLog2E, "LSE is multiplied by log2(e) although it is in base 2 already"}}) {
      const bool all = std::all_of(rows_.begin(), rows_.end(), [factor = factor](const Row& row) {
        return std::fabs(row.got() - factor * row.right()) < std::max(0.002, 0.01 * row.error());
      });
      if (all) found_.push_back({"lse_base", text, 0.99});
    }
  }

  void heads() {
    if (shape_.group() > 1 && shape_.kv_heads > 1) {
      test("head_group", "query head h reads head h mod (KV heads) of K and V, not h / (query heads / KV heads)",
           [&](const Row& row, Assumption& a) { a.kv_head = row.head() % shape_.kv_heads; });
    }
    if (shape_.kv_heads > 1) {
      test("head_group", "all query heads read the first head of K and V",
           [](const Row&, Assumption& a) { a.kv_head = 0; });
      for (const std::int64_t shift : {std::int64_t{1}, shape_.kv_heads - 1}) {
        test("head_group",
             fmt::format("each query head reads the head of K and V {} its own", shift == 1 ? "behind" : "before"),
             [&](const Row&, Assumption& a) { a.kv_head = (a.kv_head + shift) % shape_.kv_heads; });
      }
    }
  }

  void keys() {
    const std::int64_t tokens = failure_.operands.inputs.k.rows() / shape_.kv_heads;
    const auto straight = [&](std::int64_t first) {
      return [first, tokens](const Row& row, Assumption& a) {
        const std::int64_t begin = first < 0 ? row.request().key_begin : first;
        for (std::size_t i = 0; i < a.slots.size(); ++i) {
          a.slots[i] = std::min(begin + static_cast<std::int64_t>(i), tokens - 1);
        }
      };
    };
    test("page_table", "keys are read one behind the other, as if there were no page indices", straight(-1));
    test("page_table", "keys are read from the beginning of the cache, as if there were no page indices", straight(0));
    for (const int step : {1, -1}) {
      test("page_table", fmt::format("each request reads the keys of the one {} it", step > 0 ? "behind" : "before"),
           [&](const Row& row, Assumption& a) {
             const auto other = static_cast<std::int64_t>(row.request_index()) + step;
             if (other < 0 || other >= static_cast<std::int64_t>(shape_.requests.size())) return;
             const GqaRequest& request = shape_.requests[static_cast<std::size_t>(other)];
             a.slots.assign(shape_.slots.begin() + request.key_begin, shape_.slots.begin() + request.key_end);
           });
    }
    const auto without = [&](const std::string& text, std::int64_t front, std::int64_t back) {
      test("missing_keys", text, [front, back](const Row& row, Assumption& a) {
        const auto seen = static_cast<std::int64_t>(a.slots.size());
        a.slots = row.slots(front, std::min(seen, row.request().keys() - back));
      });
    };
    without("the first key of each request does not enter", 1, 0);
    without("the last key of each request does not enter", 0, 1);
    for (const std::int64_t tile : {16, 32, 64, 128}) {
      test("missing_keys", fmt::format("the last keys of each request, those behind its last {}, do not enter", tile),
           [tile](const Row& row, Assumption& a) {
             const auto seen = static_cast<std::int64_t>(a.slots.size());
             a.slots = row.slots(0, std::min(seen, row.request().keys() / tile * tile));
           });
    }
    test("extra_keys", "one key too many enters, that of the next token in the cache",
         [tokens](const Row&, Assumption& a) {
           if (!a.slots.empty()) a.slots.push_back(std::min(a.slots.back() + 1, tokens - 1));
         });
    test("extra_keys", "all of a request's last page enters, also behind its last key",
         [&](const Row& row, Assumption& a) {
           const auto pages = row.slots(0, row.request().keys());
           if (pages.empty() || a.slots.size() != pages.size() || failure_.operands.page_size <= 1) return;
           for (std::int64_t slot = a.slots.back() + 1; slot % failure_.operands.page_size != 0; ++slot) {
             a.slots.push_back(slot);
           }
         });
  }

  void mask() {
    if (!shape_.causal) return;
    test("causal_mask", "no causal mask is applied",
         [](const Row& row, Assumption& a) { a.slots = row.slots(0, row.request().keys()); });
    test("causal_offset", "the causal mask is aligned to the first key: query i sees keys 0 to i",
         [](const Row& row, Assumption& a) { a.slots = row.slots(0, row.query() + 1); });
    for (const int shift : {1, -1}) {
      test("causal_mask", fmt::format("each query sees one key too {}", shift > 0 ? "many" : "few"),
           [shift](const Row& row, Assumption& a) {
             a.slots = row.slots(0, static_cast<std::int64_t>(a.slots.size()) + shift);
           });
    }
  }

  void scale() {
    const std::pair<double, const char*> factors[] = {
        {1 / shape_.scale, "the scores are not multiplied by sm_scale"},
        {shape_.scale, "the scores are multiplied by sm_scale twice"},
        {1 / kLog2E, "the exponentials are in base 2, without the factor log2(e)"},
        {kLog2E, "the scores are multiplied by log2(e) although the exponential is natural, or twice"}};
    for (const auto& [factor, text] : factors) {
      test("softmax_scale", text, [factor = factor](const Row&, Assumption& a) { a.score_factor = factor; });
    }
    if (!failure_.operands.inputs.q_tail) return;
    test("missing_rope", "the scores are those of q_nope and ckv alone, without q_pe and kpe",
         [](const Row&, Assumption& a) { a.without_tail = true; });
  }

  const GqaFailure& failure_;
  const GqaShape& shape_;
  std::vector<Row> rows_, controls_;
  std::vector<Hypothesis> found_;
};

}  // namespace

std::vector<Hypothesis> diagnose_gqa(const GqaFailure& failure) { return Diagnosis(failure).run(); }

}  // namespace ptxbench::problem

#include "problem/triage_gemm.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kGranule = 16;  // of K: one wgmma step of 16-bit operands
constexpr std::size_t kSampleRows = 32;
constexpr std::size_t kSampleColumns = 32;

struct Operand {
  std::vector<std::int64_t> index;
  std::vector<float> values;  ///< index.size() rows of K
};

/// How an address of a K-major tile is changed by a swizzle of 128, 64 or 32 bytes: 16-byte piece `p` of row `r` is
/// found at piece p ^ mask(r) of the same row.
struct Swizzle {
  int bytes;
  std::int64_t pieces;
  std::int64_t mask(std::int64_t row) const {
    switch (bytes) {
      case 128:
        return row & 7;
      case 64:
        return (row >> 1) & 3;
      default:
        return (row >> 2) & 1;
    }
  }
};
constexpr Swizzle kSwizzles[] = {{128, 8}, {64, 4}, {32, 2}};

class GemmDiagnosis {
 public:
  explicit GemmDiagnosis(const GemmFailure& failure) : failure_(failure), depth_(failure.a.columns()) {}

  std::vector<Hypothesis> run() {
    if (depth_ < kGranule || failure_.result.wrong_cells.empty()) return {};
    // One wrong cell is examined closely: 32 of its rows against 32 of its columns.
    const auto& cells = failure_.result.wrong_cells;
    const auto worst = std::max_element(cells.begin(), cells.end(),
                                        [](const ErrorCell& a, const ErrorCell& b) { return a.wrong < b.wrong; });
    take(*worst);
    if (a_.index.size() < 4 || b_.index.size() < 4) return {};
    block_scales();
    if (found_.empty()) swizzle();
    if (found_.empty()) transposed_operand();
    if (found_.empty()) k_step();
    if (found_.empty()) lag();
    if (found_.empty()) partial_scale();
    if (found_.empty()) k_ranges();
    return std::move(found_);
  }

 private:
  void take(const ErrorCell& cell) {
    const auto& result = failure_.result;
    // 8 consecutive rows first, so that every residue class of a swizzle is there.
    const auto choose = [](std::int64_t begin, std::int64_t end, std::size_t count) {
      std::vector<std::int64_t> chosen;
      for (std::int64_t i = begin; i < end && chosen.size() < count; ++i) chosen.push_back(i);
      return chosen;
    };
    const std::int64_t size = result.cell_size;
    a_.index = choose(cell.row, std::min(cell.row + size, result.rows), kSampleRows);
    b_.index = choose(cell.column, std::min(cell.column + size, result.columns), kSampleColumns);
    const auto read = [&](const MatrixRows& matrix, Operand& operand) {
      operand.values.resize(operand.index.size() * static_cast<std::size_t>(depth_));
      for (std::size_t i = 0; i < operand.index.size(); ++i) {
        matrix.read(operand.index[i], 0, depth_, operand.values.data() + i * static_cast<std::size_t>(depth_));
      }
    };
    read(failure_.a, a_);
    read(failure_.b, b_);
    output_.resize(a_.index.size() * b_.index.size());
    truth_.resize(output_.size());
    for (std::size_t i = 0; i < a_.index.size(); ++i) {
      for (std::size_t j = 0; j < b_.index.size(); ++j) {
        const auto at = static_cast<std::uint64_t>(a_.index[i] * result.columns + b_.index[j]);
        float y = 0;
        to_float(failure_.output.dtype, failure_.output.data(), at, 1, &y);
        output_[i * b_.index.size() + j] = std::isfinite(y) ? static_cast<double>(y) : 0.0;
        truth_[i * b_.index.size() + j] = static_cast<double>(failure_.truth[at]);
      }
    }
    for (std::size_t i = 0; i < output_.size(); ++i) error2_ += square(output_[i] - truth_[i]);
  }

  static double square(double value) { return value * value; }

  /// What the sample would be if the operands named were read through `swizzle` on one side only.
  double misread_error2(const Swizzle& swizzle, bool a_misread, bool b_misread) const {
    // Elements in 16 bytes. Wider operands than those of 16 bits are such operands widened.
    const std::int64_t piece = bits_of(failure_.a.dtype()) == 8 ? 16 : 8;
    const std::int64_t span = swizzle.pieces * piece;
    double difference2 = 0;
    // A quarter of the sample suffices: chance agreement over 36 elements is out of the question.
    for (std::size_t i = 0; i < a_.index.size(); i += 2) {
      for (std::size_t j = 0; j < b_.index.size(); j += 2) {
        const float* a = a_.values.data() + i * static_cast<std::size_t>(depth_);
        const float* b = b_.values.data() + j * static_cast<std::size_t>(depth_);
        const std::int64_t mask_a = a_misread ? swizzle.mask(a_.index[i]) * piece : 0;
        const std::int64_t mask_b = b_misread ? swizzle.mask(b_.index[j]) * piece : 0;
        double sum = 0;
        for (std::int64_t k = 0; k < depth_; ++k) {
          const std::int64_t base = k / span * span;
          const std::int64_t inner = k - base;
          const std::int64_t ka = base + (inner ^ mask_a), kb = base + (inner ^ mask_b);
          if (ka < depth_ && kb < depth_) sum += static_cast<double>(a[ka]) * static_cast<double>(b[kb]);
        }
        difference2 += square(output_[i * b_.index.size() + j] - sum);
      }
    }
    return difference2;
  }

  /// Scale factors that are left out, applied twice or taken from another place.
  void block_scales() {
    if (failure_.a.scales() == nullptr || failure_.b.scales() == nullptr) return;
    struct Variant {
      const char* text;  ///< behind "SF_A" or "SF_B"
      std::function<float(const BlockScales&, std::int64_t row, std::int64_t column)> factor;
    };
    const auto clamped = [](const BlockScales& scales, std::int64_t row, std::int64_t column) {
      const std::int64_t rows = static_cast<std::int64_t>(scales.factors.size()) / scales.across;
      return scales.factors[static_cast<std::size_t>(std::clamp<std::int64_t>(row, 0, rows - 1) * scales.across +
                                                     std::clamp<std::int64_t>(column, 0, scales.across - 1))];
    };
    const Variant variants[] = {
        {" does not enter", [](const BlockScales&, std::int64_t, std::int64_t) { return 1.0f; }},
        {" enters twice",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) { return clamped(s, r, c) * clamped(s, r, c); }},
        {" is that of the next 128 of K",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) { return clamped(s, r, c + 1); }},
        {" is that of the 128 of K before",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) { return clamped(s, r, c - 1); }},
        {" is that of the first 128 of K throughout",
         [&](const BlockScales& s, std::int64_t r, std::int64_t) { return clamped(s, r, 0); }},
        {" is that of the next row or block of rows",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) { return clamped(s, r + 1, c); }},
        {" is that of the row or block of rows before",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) { return clamped(s, r - 1, c); }},
        {" is that of the first of 128 rows",
         [&](const BlockScales& s, std::int64_t r, std::int64_t c) {
           return clamped(s, s.rows == 1 ? r / 128 * 128 : r, c);
         }},
        {" is read as the transposed matrix", [](const BlockScales& s, std::int64_t r, std::int64_t c) {
           const std::int64_t rows = static_cast<std::int64_t>(s.factors.size()) / s.across;
           return s.factors[static_cast<std::size_t>(c * rows + r)];
         }}};
    const auto read = [&](const MatrixRows& matrix, const Operand& operand, const Variant& variant) {
      auto scales = std::make_shared<BlockScales>(*matrix.scales());
      const std::int64_t rows = static_cast<std::int64_t>(scales->factors.size()) / scales->across;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < scales->across; ++column) {
          scales->factors[static_cast<std::size_t>(row * scales->across + column)] =
              variant.factor(*matrix.scales(), row, column);
        }
      }
      const MatrixRows changed = matrix.scaled(std::move(scales));
      std::vector<float> values(operand.values.size());
      for (std::size_t i = 0; i < operand.index.size(); i += 3) {
        changed.read(operand.index[i], 0, depth_, values.data() + i * static_cast<std::size_t>(depth_));
      }
      return values;
    };
    for (const Variant& variant : variants) {
      const std::vector<float> a = read(failure_.a, a_, variant), b = read(failure_.b, b_, variant);
      static constexpr const char* kNames[] = {"", "SF_A", "SF_B", "each of SF_A and SF_B"};
      for (int which = 1; which <= 3; ++which) {
        const std::vector<float>& left = (which & 1) != 0 ? a : a_.values;
        const std::vector<float>& right = (which & 2) != 0 ? b : b_.values;
        const double explained = explained_by([&](std::size_t m, std::size_t n) {
          return dot(left.data() + m * static_cast<std::size_t>(depth_),
                     right.data() + n * static_cast<std::size_t>(depth_), depth_);
        });
        if (!(explained >= 0.98)) continue;
        found_.push_back({"block_scale", fmt::format("{}{}", kNames[which], variant.text), explained});
        return;
      }
    }
  }

  void swizzle() {
    double sampled_error2 = 0;
    for (std::size_t i = 0; i < a_.index.size(); i += 2) {
      for (std::size_t j = 0; j < b_.index.size(); j += 2) {
        sampled_error2 += square(output_[i * b_.index.size() + j] - truth_[i * b_.index.size() + j]);
      }
    }
    if (sampled_error2 == 0) return;
    static constexpr const char* kOperands[] = {"", "A", "B", "A and B"};
    for (const Swizzle& swizzle : kSwizzles) {
      for (int which = 1; which <= 3; ++which) {
        const double left = misread_error2(swizzle, (which & 1) != 0, (which & 2) != 0);
        const double explained = 1 - left / sampled_error2;
        if (!(explained >= 0.98)) continue;
        found_.push_back({"operand_swizzle",
                          fmt::format("{} {} stored with a {}-byte swizzle but read without it, or the reverse: the "
                                      "swizzle in the tensor map and the layout in the matrix descriptor differ",
                                      kOperands[which], which == 3 ? "are" : "is", swizzle.bytes),
                          explained});
        return;
      }
    }
  }

  float a(std::size_t i, std::int64_t k) const {
    return a_.values[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)];
  }
  float b(std::size_t j, std::int64_t k) const {
    return b_.values[j * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)];
  }

  /// The share of the sample's error that goes when `predict(i, j)` is what the output should be under a hypothesis.
  /// Every third row and column of the sample are enough for a test of one hypothesis.
  template <class Predict>
  double explained_by(Predict predict) const {
    double left = 0, all = 0;
    for (std::size_t i = 0; i < a_.index.size(); i += 3) {
      for (std::size_t j = 0; j < b_.index.size(); j += 3) {
        const std::size_t at = i * b_.index.size() + j;
        left += square(output_[at] - predict(i, j));
        all += square(output_[at] - truth_[at]);
      }
    }
    return all > 0 ? 1 - left / all : 0;
  }

  /// An operand taken as if its memory held the transposed matrix.
  void transposed_operand() {
    const auto reread = [&](const MatrixRows& matrix, const Operand& operand) {
      std::vector<float> values(operand.values.size());
      for (std::size_t i = 0; i < operand.index.size(); i += 3) {
        for (std::int64_t k = 0; k < depth_; ++k) {
          const std::int64_t at = k * matrix.rows() + operand.index[i];
          matrix.read(at / depth_, at % depth_, 1,
                      &values[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)]);
        }
      }
      return values;
    };
    const std::vector<float> a_read = reread(failure_.a, a_), b_read = reread(failure_.b, b_);
    static constexpr const char* kOperands[] = {"", "A", "B", "A and B"};
    for (int which = 1; which <= 3; ++which) {
      const std::vector<float>& left = (which & 1) != 0 ? a_read : a_.values;
      const std::vector<float>& right = (which & 2) != 0 ? b_read : b_.values;
      const double explained = explained_by([&](std::size_t i, std::size_t j) {
        return dot(left.data() + i * static_cast<std::size_t>(depth_),
                   right.data() + j * static_cast<std::size_t>(depth_), depth_);
      });
      if (!(explained >= 0.98)) continue;
      found_.push_back({"transposed_operand",
                        fmt::format("{} {} read as if the reduction were not the contiguous dimension (transposed)",
                                    kOperands[which], which == 3 ? "are" : "is"),
                        explained});
      return;
    }
  }

  static double dot(const float* left, const float* right, std::int64_t count) {
    double sum = 0;
    for (std::int64_t k = 0; k < count; ++k) sum += static_cast<double>(left[k]) * static_cast<double>(right[k]);
    return sum;
  }

  /// The steps along K within a tile start too near to each other: some k enter twice, others not at all.
  void k_step() {
    const std::int64_t step = bits_of(failure_.a.dtype()) == 8 ? 32 : kGranule;  // of one instruction: 32 bytes
    const std::int64_t piece = step / 2;                                         // 16 bytes
    for (const std::int64_t tile : {4 * step, 2 * step, 8 * step}) {
      for (const std::int64_t advance : {piece, std::int64_t{0}}) {
        for (int which = 3; which >= 1; --which) {
          const double explained = explained_by([&](std::size_t i, std::size_t j) {
            double sum = 0;
            for (std::int64_t base = 0; base < depth_; base += tile) {
              for (std::int64_t s = 0; s < tile / step; ++s) {
                for (std::int64_t k = 0; k < step; ++k) {
                  const std::int64_t right = base + s * step + k, wrong = base + s * advance + k;
                  const std::int64_t ka = (which & 1) != 0 ? wrong : right, kb = (which & 2) != 0 ? wrong : right;
                  if (ka < depth_ && kb < depth_) sum += static_cast<double>(a(i, ka)) * static_cast<double>(b(j, kb));
                }
              }
            }
            return sum;
          });
          if (!(explained >= 0.98)) continue;
          static constexpr const char* kOperands[] = {"", "A", "B", "A and B"};
          found_.push_back(
              {"k_step",
               fmt::format("within each tile of {} k the steps of {} k start {} apart in {}: the start address "
                           "advances by {} bytes for each step and not by 32",
                           tile, step, advance, kOperands[which], advance * 32 / step),
               explained});
          return;
        }
      }
    }
  }

  /// One operand is a fixed number of K behind the other throughout: its stage is read before the new tile has arrived.
  void lag() {
    constexpr std::int64_t kFurthest = 512;
    for (std::int64_t distance = kGranule; distance <= std::min(kFurthest, depth_ / 3); distance += kGranule) {
      for (const bool a_behind : {true, false}) {
        const std::int64_t count = depth_ - distance;
        const double explained = explained_by([&](std::size_t i, std::size_t j) {
          const float* left = a_.values.data() + i * static_cast<std::size_t>(depth_);
          const float* right = b_.values.data() + j * static_cast<std::size_t>(depth_);
          return a_behind ? dot(left, right + distance, count) : dot(left + distance, right, count);
        });
        // What the first tiles met is not known.
        if (!(explained >= 0.98 - 1.5 * static_cast<double>(distance) / static_cast<double>(depth_))) continue;
        found_.push_back(
            {"stale_k",
             fmt::format("{} is {} of K behind {} in every step: its stage still holds an earlier tile when "
                         "it is read (stale data)",
                         a_behind ? "A" : "B", distance, a_behind ? "B" : "A"),
             explained});
        return;
      }
    }
  }

  /// The sum up to some k, or from there on, enters with a factor: partial sums were rescaled wrongly or not at all.
  void partial_scale() {
    std::vector<double> partial(output_.size());
    struct Best {
      double explained = 0, factor = 0;
      std::int64_t k = 0;
      bool first = false;
    } best;
    double whole = 0;
    const auto fit = [&](std::int64_t k, bool first) {
      double cross = 0, norm2 = 0;
      for (std::size_t at = 0; at < partial.size(); ++at) {
        const double part = first ? partial[at] : truth_[at] - partial[at];
        cross += (output_[at] - truth_[at]) * part;
        norm2 += part * part;
      }
      if (norm2 == 0) return 0.0;
      const double explained = cross * cross / norm2 / error2_;
      if (explained > best.explained) best = {explained, 1 + cross / norm2, k, first};
      return explained;
    };
    if (error2_ == 0) return;
    for (std::int64_t begin = 0; begin < depth_; begin += kGranule) {
      const std::int64_t end = std::min(begin + kGranule, depth_);
      for (std::size_t i = 0; i < a_.index.size(); ++i) {
        for (std::size_t j = 0; j < b_.index.size(); ++j) {
          partial[i * b_.index.size() + j] +=
              dot(&a_.values[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(begin)],
                  &b_.values[j * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(begin)], end - begin);
        }
      }
      if (end == depth_) {
        whole = fit(end, true);
      } else {
        fit(end, true);
        fit(end, false);
      }
    }
    // A factor of 0 or 2 is a part that is missing or was added twice; one of the whole sum is no partial one.
    if (!(best.explained >= 0.98) || whole > 0.98 || best.k == depth_ || std::fabs(best.factor) < 0.1 ||
        std::fabs(best.factor - 2) < 0.1) {
      return;
    }
    found_.push_back(
        {"missing_rescale",
         fmt::format("the sum over k {}-{} enters {:.4g} times: partial sums are rescaled wrongly, or one of "
                     "them is not",
                     best.first ? 0 : best.k, best.first ? best.k - 1 : depth_ - 1, best.factor),
         best.explained});
  }

  struct Range {
    std::int64_t begin = 0, end = 0;
    double coefficient = 0;
  };

  void k_ranges() {
    const std::size_t columns = b_.index.size();
    std::vector<Range> ranges;
    std::vector<double> error(output_.size());
    for (std::size_t i = 0; i < error.size(); ++i) error[i] = output_[i] - truth_[i];
    std::vector<double> partial(error.size());
    for (std::int64_t begin = 0; begin < depth_; begin += kGranule) {
      const std::int64_t end = std::min(begin + kGranule, depth_);
      double cross = 0, norm2 = 0;
      for (std::size_t i = 0; i < a_.index.size(); ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::int64_t k = begin; k < end; ++k) {
            sum += static_cast<double>(a_.values[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)]) *
                   static_cast<double>(b_.values[j * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)]);
          }
          cross += error[i * columns + j] * sum;
          norm2 += sum * sum;
        }
      }
      ranges.push_back({begin, end, norm2 > 0 ? cross / norm2 : 0});
    }
    // A missing range has coefficient -1, one that was added once more +1, all others about 0.
    const auto level = [](const Range& range) {
      if (range.coefficient < -0.6 && range.coefficient > -1.4) return -1;
      if (range.coefficient > 0.6 && range.coefficient < 1.4) return 1;
      return 0;
    };
    std::vector<Range> runs;
    for (const Range& range : ranges) {
      const int sign = level(range);
      if (sign == 0) continue;
      if (!runs.empty() && runs.back().end == range.begin && static_cast<int>(runs.back().coefficient) == sign) {
        runs.back().end = range.end;
      } else {
        runs.push_back({range.begin, range.end, static_cast<double>(sign)});
      }
    }
    if (runs.empty()) return;
    // Nothing but the right sum is left out: whatever the output holds, it is not that.
    if (runs.front().begin == 0 && runs.front().end == depth_) return;
    // Confirmed by subtracting what the runs predict.
    double left = 0;
    for (std::size_t i = 0; i < a_.index.size(); ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        double predicted = 0;
        for (const Range& run : runs) {
          for (std::int64_t k = run.begin; k < run.end; ++k) {
            predicted +=
                run.coefficient *
                static_cast<double>(a_.values[i * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)]) *
                static_cast<double>(b_.values[j * static_cast<std::size_t>(depth_) + static_cast<std::size_t>(k)]);
          }
        }
        left += square(error[i * columns + j] - predicted);
      }
    }
    if (stale_operand(runs)) return;
    const double explained = error2_ > 0 ? 1 - left / error2_ : 0;
    if (!(explained >= 0.5)) return;
    std::string missing, repeated;
    int missing_count = 0, repeated_count = 0;
    for (const Range& run : runs) {
      std::string& list = run.coefficient < 0 ? missing : repeated;
      int& count = run.coefficient < 0 ? missing_count : repeated_count;
      if (++count <= 4) list += fmt::format("{}k {}-{}", list.empty() ? "" : ", ", run.begin, run.end - 1);
      if (count == 5) list += ", ...";
    }
    std::string text;
    const char* pattern = missing.empty() ? "repeated_k" : "missing_k";
    if (!missing.empty() && !repeated.empty()) {
      pattern = "stale_k";
      text = fmt::format(
          "{} is missing and {} was added once more: a stage of the pipeline was read before its new data "
          "arrived (stale data), or loaded from the wrong coordinate",
          missing, repeated);
    } else if (!missing.empty()) {
      text = fmt::format("{} of the reduction is missing: {}", missing,
                         runs.back().end == depth_ && missing_count == 1
                             ? "the loop over K ends too early"
                             : "a K tile is skipped, or its wgmma ran on data that was not there yet");
    } else {
      text = fmt::format("{} was added twice", repeated);
    }
    found_.push_back({pattern, std::move(text), explained});
  }

  /// Whether one operand alone was stale in the ranges that are missing: its tile came from another place of K.
  bool stale_operand(const std::vector<Range>& runs) {
    std::int64_t total = 0, first = depth_, last = 0;
    for (const Range& run : runs) {
      if (run.coefficient > 0) return false;
      total += run.end - run.begin;
      first = std::min(first, run.begin);
      last = std::max(last, run.end);
    }
    constexpr std::int64_t kMost = 1024;  // what is tested against every distance
    if (total > kMost) return false;
    for (std::int64_t distance = -first; distance <= depth_ - last; distance += kGranule) {
      if (distance == 0) continue;
      for (const bool a_stale : {true, false}) {
        const double explained = explained_by([&](std::size_t i, std::size_t j) {
          double sum = truth_[i * b_.index.size() + j];
          for (const Range& run : runs) {
            for (std::int64_t k = run.begin; k < run.end; ++k) {
              const double right = static_cast<double>(a(i, k)) * static_cast<double>(b(j, k));
              sum += static_cast<double>(a(i, a_stale ? k + distance : k)) *
                         static_cast<double>(b(j, a_stale ? k : k + distance)) -
                     right;
            }
          }
          return sum;
        });
        if (!(explained >= 0.9)) continue;
        found_.push_back(
            {"stale_k",
             fmt::format("for k {}-{} the tile of {} is that of k {}-{}: its stage was read before the new "
                         "data arrived (stale data), or loaded from the wrong coordinate",
                         runs.front().begin, runs.front().end - 1, a_stale ? "A" : "B", runs.front().begin + distance,
                         runs.front().end - 1 + distance),
             explained});
        return true;
      }
    }
    return false;
  }

  const GemmFailure& failure_;
  std::int64_t depth_;
  Operand a_, b_;
  std::vector<double> output_, truth_;
  double error2_ = 0;
  std::vector<Hypothesis> found_;
};

}  // namespace

std::vector<Hypothesis> diagnose_gemm(const GemmFailure& failure) { return GemmDiagnosis(failure).run(); }

}  // namespace ptxbench::problem

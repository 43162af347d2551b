#include "problem/attention_truth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "problem/aligned_floats.h"
#include "problem/micro_kernel.h"
#include "problem/parallel.h"
#include "problem/vector_clones.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kBlock = 192;  // rows that one thread computes together
constexpr std::int64_t kChunk = 128;  // rows of the other side that are read together; the longest fp32 chain over them
constexpr std::int64_t kLanes = 16;   // partial sums, whatever the width of the machine's vectors
constexpr std::int64_t kSkew = 16;    // added to pitches, so that consecutive rows lie in different cache sets

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLn2 = 0.69314718055994530942;

/// The factor between scores and exponents of two, in two parts for fused multiply-adds.
struct Exponent {
  explicit Exponent(double scale) {
    const double factor = scale * kLog2E;
    high = static_cast<float>(factor);
    low = static_cast<float>(factor - static_cast<double>(high));
  }
  float high = 0, low = 0;
};

/// 2^(score * exponent - whole - part) where `whole` is an integer and |part| <= 1/2; relative error about 1e-7. Zero
/// below 2^-126, infinite from 2^128 on.
[[gnu::always_inline]] inline float power(float score, const Exponent& exponent, float whole, float part) {
  constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to an integer
  const float x = __builtin_fmaf(score, exponent.high, -(whole + part));
  const float n = (x + round) - round;
  float r = __builtin_fmaf(score, exponent.high, -(n + whole));
  r = __builtin_fmaf(score, exponent.low, r) - part;
  // 2^r = sum of (r ln 2)^i / i!
  float p = 1.52527338e-5f;
  p = __builtin_fmaf(p, r, 1.54035304e-4f);
  p = __builtin_fmaf(p, r, 1.33335581e-3f);
  p = __builtin_fmaf(p, r, 9.61812911e-3f);
  p = __builtin_fmaf(p, r, 5.55041087e-2f);
  p = __builtin_fmaf(p, r, 2.40226507e-1f);
  p = __builtin_fmaf(p, r, 6.93147181e-1f);
  p = __builtin_fmaf(p, r, 1.0f);
  const float bounded = n < -126.0f ? -126.0f : n > 128.0f ? 128.0f : n;
  const float two_to_n = std::bit_cast<float>((static_cast<std::int32_t>(bounded) + 127) << 23);
  return x < -126.0f ? 0.0f : p * two_to_n;
}

PTXBENCH_CLONES float largest(const float* values, std::int64_t count) {
  float lane[kLanes];
  for (std::int64_t j = 0; j < kLanes; ++j) lane[j] = values[0];
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lane[j] = values[i + j] > lane[j] ? values[i + j] : lane[j];
  }
  for (; i < count; ++i) lane[0] = values[i] > lane[0] ? values[i] : lane[0];
  return *std::max_element(lane, lane + kLanes);
}

/// Scores to powers, in place; returns their sum.
PTXBENCH_CLONES double powers(float* scores, std::int64_t count, const Exponent& exponent, float whole) {
  for (std::int64_t i = 0; i < count; ++i) scores[i] = power(scores[i], exponent, whole, 0.0f);
  float lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lane[j] += scores[i + j];
  }
  for (; i < count; ++i) lane[0] += scores[i];
  double sum = 0;
  for (const float value : lane) sum += static_cast<double>(value);
  return sum;
}

/// Of one row of queries or of keys: P = 2^(score * exponent - whole - part) over `scores`, and P (dP - delta) over
/// `gradients`. The pitch of the per-query values is 0 along keys, 1 along queries.
PTXBENCH_CLONES void score_gradients_along_keys(float* scores, float* gradients, std::int64_t count,
                                                const Exponent& exponent, float whole, float part, float delta) {
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = power(scores[i], exponent, whole, part);
    gradients[i] = scores[i] * (gradients[i] - delta);
  }
}
PTXBENCH_CLONES void score_gradients_along_queries(float* scores, float* gradients, std::int64_t count,
                                                   const Exponent& exponent, const float* whole, const float* part,
                                                   const float* delta) {
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = power(scores[i], exponent, whole[i], part[i]);
    gradients[i] = scores[i] * (gradients[i] - delta[i]);
  }
}

PTXBENCH_CLONES float dot(const float* a, const float* b, std::int64_t count) {
  double lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lane[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
  }
  for (; i < count; ++i) lane[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0;
  for (const double value : lane) sum += value;
  return static_cast<float>(sum);
}

/// Sum of the squares of `values`, each times its weight.
PTXBENCH_CLONES double weighted_squares(const float* values, const float* weights, std::int64_t count) {
  float lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) lane[j] += values[i + j] * values[i + j] * weights[i + j];
  }
  for (; i < count; ++i) lane[0] += values[i] * values[i] * weights[i];
  double sum = 0;
  for (const float value : lane) sum += static_cast<double>(value);
  return sum;
}

/// Rows of a matrix, widened, [row][column]; padded with zeros to multiples of what the micro-kernels take.
class Panel {
 public:
  Panel(std::int64_t rows, std::int64_t columns)
      : columns_(round_up(columns, kMicroColumns)),
        pitch_(columns_ + kSkew),
        data_(round_up(rows, kMicroRows) * pitch_) {}

  void read(const MatrixRows& from, std::int64_t first, std::int64_t count) { read(RowList{from}, first, count); }
  /// With the rows of `tail`, if there is one, behind those of `from`.
  void read(const RowList& from, std::int64_t first, std::int64_t count,
            const std::optional<RowList>& tail = std::nullopt) {
    const std::int64_t columns = from.matrix.columns(), more = tail ? tail->matrix.columns() : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      from.matrix.read(from.at(first + i), 0, columns, row(i));
      if (tail) tail->matrix.read(tail->at(first + i), 0, more, row(i) + columns);
      std::fill(row(i) + columns + more, row(i) + columns_, 0.0f);
    }
    for (std::int64_t i = count; i < round_up(count, kMicroRows); ++i) std::fill(row(i), row(i) + columns_, 0.0f);
  }
  /// `from` with rows and columns exchanged, its first `count` rows becoming columns.
  void transpose(const Panel& from, std::int64_t count, std::int64_t depth) {
    for (std::int64_t column0 = 0; column0 < round_up(count, kMicroColumns); column0 += kMicroColumns) {
      for (std::int64_t k0 = 0; k0 < depth; k0 += kMicroColumns) {
        const std::int64_t end = std::min(depth, k0 + kMicroColumns);
        for (std::int64_t k = k0; k < end; ++k) {
          float* to = row(k) + column0;
          for (std::int64_t j = 0; j < kMicroColumns; ++j)
            to[j] = column0 + j < count ? from.row(column0 + j)[k] : 0.0f;
        }
      }
    }
  }
  float* row(std::int64_t index) { return data_.get() + index * pitch_; }
  const float* row(std::int64_t index) const { return data_.get() + index * pitch_; }
  std::int64_t pitch() const { return pitch_; }

 private:
  std::int64_t columns_, pitch_;
  AlignedFloats data_;
};

/// Sums in fp64, [row][column].
class Sums {
 public:
  Sums(std::int64_t rows, std::int64_t columns)
      : pitch_(round_up(columns, kMicroColumns)),
        data_(static_cast<std::size_t>(round_up(rows, kMicroRows) * pitch_), 0.0) {}
  double* row(std::int64_t index) { return data_.data() + index * pitch_; }
  std::int64_t pitch() const { return pitch_; }

 private:
  std::int64_t pitch_;
  std::vector<double> data_;
};

/// c = a b over rows and columns rounded up to micro-tiles.
void multiply(const Panel& a, const Panel& b, std::int64_t rows, std::int64_t columns, std::int64_t depth, Panel& c) {
  const auto kernel = micro_kernels().store_fp32;
  for (std::int64_t column = 0; column < columns; column += kMicroColumns) {
    for (std::int64_t row = 0; row < rows; row += kMicroRows) {
      kernel({a.row(row), a.pitch(), b.row(0) + column, b.pitch(), depth}, c.row(row) + column, c.pitch());
    }
  }
}

/// c += a b.
void multiply(const Panel& a, const Panel& b, std::int64_t rows, std::int64_t columns, std::int64_t depth, Sums& c) {
  const auto kernel = micro_kernels().add_fp64;
  for (std::int64_t column = 0; column < columns; column += kMicroColumns) {
    for (std::int64_t row = 0; row < rows; row += kMicroRows) {
      kernel({a.row(row), a.pitch(), b.row(0) + column, b.pitch(), depth}, c.row(row) + column, c.pitch());
    }
  }
}

/// Squared norms of the first rows of a panel.
void squared_norms(const Panel& panel, std::int64_t rows, std::int64_t depth, std::vector<float>& out) {
  for (std::int64_t i = 0; i < rows; ++i) out[static_cast<std::size_t>(i)] = dot(panel.row(i), panel.row(i), depth);
}

/// Rows of one head.
struct Part {
  std::int64_t head = 0, begin = 0, end = 0;  ///< rows counted within the head
};

/// The rows asked for, each once, in parts of at most kBlock rows of one head. Parts begin at multiples of kBlock or
/// where a range does; the numbers do not depend on that, as every row is computed on its own.
std::vector<Part> split(const AttentionShape& shape, std::span<const RowRange> ranges) {
  std::vector<RowRange> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end(), [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::vector<Part> parts;
  std::int64_t done = 0;
  for (const RowRange& range : sorted) {
    std::int64_t row = std::max(range.begin, done);
    const std::int64_t end = std::min(range.end, shape.rows());
    while (row < end) {
      const std::int64_t head = row / shape.sequence, first = row % shape.sequence;
      const std::int64_t last = std::min({shape.sequence, (first / kBlock + 1) * kBlock, first + (end - row)});
      parts.push_back({head, first, last});
      row += last - first;
    }
    done = std::max(done, end);
  }
  // With a mask the last rows take longest: they go first, so that no thread is left with one at the end.
  if (shape.causal) {
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.end > b.end; });
  }
  return parts;
}

/// attention_head_forward for so many queries as one thread computes together.
void forward_rows(const AttentionHead& head, RowRange queries, const AttentionRows& out) {
  const std::int64_t depth = head.depth + (head.k_tail ? head.k_tail->matrix.columns() : 0);
  const std::int64_t columns = head.v.matrix.columns(), rows = queries.end - queries.begin;
  const Exponent exponent(head.scale);
  Panel q(rows, depth), k(kChunk, depth), v(kChunk, columns), k_transposed(depth, kChunk), scores(rows, kChunk);
  Sums sums(rows, columns);
  std::vector<float> maximum(static_cast<std::size_t>(rows));  // of the exponents so far, rounded up
  std::vector<double> total(static_cast<std::size_t>(rows), 0.0);
  q.read(head.q, queries.begin, rows, head.q_tail);
  const auto seen_by = [&](std::int64_t query) {
    return head.causal_offset ? std::clamp(query + 1 + *head.causal_offset, std::int64_t{0}, head.keys) : head.keys;
  };
  const std::int64_t seen = seen_by(queries.end - 1);
  for (std::int64_t key = 0; key < seen; key += kChunk) {
    const std::int64_t count = std::min(kChunk, seen - key);
    k.read(head.k, key, count, head.k_tail);
    k_transposed.transpose(k, count, depth);
    v.read(head.v, key, count);
    multiply(q, k_transposed, rows, count, depth, scores);
    for (std::int64_t i = 0; i < rows; ++i) {
      float* row = scores.row(i);
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t valid = std::clamp(seen_by(queries.begin + i) - key, std::int64_t{0}, count);
      if (valid > 0) {
        const float top = std::ceil(largest(row, valid) * exponent.high);
        if (key == 0) {
          maximum[at] = top;
        } else if (top > maximum[at]) {
          const double factor = std::exp2(static_cast<double>(maximum[at] - top));
          for (std::int64_t d = 0; d < columns; ++d) sums.row(i)[d] *= factor;
          total[at] *= factor;
          maximum[at] = top;
        }
        total[at] += powers(row, valid, exponent, maximum[at]);
      }
      std::fill(row + valid, row + count, 0.0f);
    }
    multiply(scores, v, rows, columns, count, sums);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t query = queries.begin + i;
    float* to = out.o + query * out.pitch;
    float& logarithm = out.lse[query * out.lse_pitch];
    if (seen_by(query) == 0) {
      std::fill(to, to + columns, 0.0f);
      logarithm = -INFINITY;
      continue;
    }
    for (std::int64_t d = 0; d < columns; ++d) {
      const double element = sums.row(i)[d] / total[at] * head.output_factor;
      to[d] = static_cast<float>(std::clamp(element, -head.largest_output, head.largest_output));
    }
    logarithm = static_cast<float>(static_cast<double>(maximum[at]) * kLn2 + std::log(total[at]));
  }
}

void forward_part(const AttentionShape& shape, const AttentionInputs& inputs, const Part& part, float* o, float* lse) {
  const std::int64_t first = part.head * shape.sequence;
  AttentionHead head{{inputs.q, nullptr, 1, first},
                     {inputs.k, nullptr, 1, first},
                     {inputs.v, nullptr, 1, first},
                     shape.sequence,
                     shape.depth,
                     shape.scale()};
  head.output_factor = shape.output_factor;
  head.largest_output = shape.largest_output;
  if (shape.causal) head.causal_offset = 0;
  forward_rows(head, {part.begin, part.end}, {o + first * shape.depth, shape.depth, lse + first, 1});
}

/// Of `count` queries from `first` on: LSE in base two as an integer and the rest, and rowsum(dO * O).
struct QueryTerms {
  explicit QueryTerms(std::int64_t count)
      : whole(static_cast<std::size_t>(count)), part(whole.size()), delta(whole.size()), lse(whole.size()) {}

  void read(const AttentionShape& shape, const AttentionGradientInputs& inputs, std::int64_t head, std::int64_t first,
            std::int64_t count, const Panel& d_o, Panel& o) {
    o.read(inputs.o, head * shape.sequence + first, count);
    inputs.lse.read(head, first, count, lse.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double base_two = static_cast<double>(lse[at]) * kLog2E;
      whole[at] = static_cast<float>(std::nearbyint(base_two));
      part[at] = static_cast<float>(base_two - static_cast<double>(whole[at]));
      delta[at] = dot(d_o.row(i), o.row(i), shape.depth);
    }
  }

  std::vector<float> whole, part, delta, lse;
};

void backward_q_part(const AttentionShape& shape, const AttentionGradientInputs& inputs, const Part& part, float* dq,
                     const TermNorms& norms) {
  const std::int64_t depth = shape.depth, rows = part.end - part.begin, head = part.head * shape.sequence;
  const Exponent exponent(shape.scale());
  Panel q(rows, depth), d_o(rows, depth), o(rows, depth), k(kChunk, depth), v(kChunk, depth);
  Panel k_transposed(depth, kChunk), v_transposed(depth, kChunk), scores(rows, kChunk), gradients(rows, kChunk);
  Sums sums(rows, depth);
  QueryTerms terms(rows);
  std::vector<float> k_norms(kChunk);
  std::vector<double> squares(static_cast<std::size_t>(rows), 0.0);
  q.read(inputs.forward.q, head + part.begin, rows);
  d_o.read(inputs.d_o, head + part.begin, rows);
  terms.read(shape, inputs, part.head, part.begin, rows, d_o, o);
  const std::int64_t seen = shape.causal ? part.end : shape.sequence;
  for (std::int64_t key = 0; key < seen; key += kChunk) {
    const std::int64_t count = std::min(kChunk, seen - key);
    k.read(inputs.forward.k, head + key, count);
    k_transposed.transpose(k, count, depth);
    v.read(inputs.forward.v, head + key, count);
    v_transposed.transpose(v, count, depth);
    multiply(q, k_transposed, rows, count, depth, scores);
    multiply(d_o, v_transposed, rows, count, depth, gradients);
    squared_norms(k, count, depth, k_norms);
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t valid = shape.causal ? std::clamp(part.begin + i + 1 - key, std::int64_t{0}, count) : count;
      score_gradients_along_keys(scores.row(i), gradients.row(i), valid, exponent, terms.whole[at], terms.part[at],
                                 terms.delta[at]);
      squares[at] += weighted_squares(gradients.row(i), k_norms.data(), valid);
      std::fill(gradients.row(i) + valid, gradients.row(i) + count, 0.0f);
    }
    multiply(gradients, k, rows, depth, count, sums);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    float* to = dq + (head + part.begin + i) * depth;
    for (std::int64_t d = 0; d < depth; ++d) to[d] = static_cast<float>(sums.row(i)[d] * shape.scale());
    if (norms.dq != nullptr) {
      norms.dq[head + part.begin + i] =
          static_cast<float>(std::sqrt(squares[static_cast<std::size_t>(i)]) * shape.scale());
    }
  }
}

void backward_kv_part(const AttentionShape& shape, const AttentionGradientInputs& inputs, const Part& part, float* dk,
                      float* dv, const TermNorms& norms) {
  const std::int64_t depth = shape.depth, rows = part.end - part.begin, head = part.head * shape.sequence;
  const Exponent exponent(shape.scale());
  Panel k(rows, depth), v(rows, depth), q(kChunk, depth), d_o(kChunk, depth), o(kChunk, depth);
  Panel q_transposed(depth, kChunk), d_o_transposed(depth, kChunk), scores(rows, kChunk), gradients(rows, kChunk);
  Sums k_sums(rows, depth), v_sums(rows, depth);
  QueryTerms terms(kChunk);
  std::vector<float> q_norms(kChunk), d_o_norms(kChunk);
  std::vector<double> k_squares(static_cast<std::size_t>(rows), 0.0), v_squares(k_squares);
  k.read(inputs.forward.k, head + part.begin, rows);
  v.read(inputs.forward.v, head + part.begin, rows);
  // Chunks begin at multiples of their size whatever the part, so that a row's sum does not depend on the part.
  const std::int64_t from = shape.causal ? part.begin / kChunk * kChunk : 0;
  for (std::int64_t query = from; query < shape.sequence; query += kChunk) {
    const std::int64_t count = std::min(kChunk, shape.sequence - query);
    q.read(inputs.forward.q, head + query, count);
    q_transposed.transpose(q, count, depth);
    d_o.read(inputs.d_o, head + query, count);
    d_o_transposed.transpose(d_o, count, depth);
    terms.read(shape, inputs, part.head, query, count, d_o, o);
    multiply(k, q_transposed, rows, count, depth, scores);
    multiply(v, d_o_transposed, rows, count, depth, gradients);
    squared_norms(q, count, depth, q_norms);
    squared_norms(d_o, count, depth, d_o_norms);
    for (std::int64_t i = 0; i < rows; ++i) {
      // The queries before this key do not see it.
      const std::int64_t blind = shape.causal ? std::clamp(part.begin + i - query, std::int64_t{0}, count) : 0;
      std::fill(scores.row(i), scores.row(i) + blind, 0.0f);
      std::fill(gradients.row(i), gradients.row(i) + blind, 0.0f);
      score_gradients_along_queries(scores.row(i) + blind, gradients.row(i) + blind, count - blind, exponent,
                                    terms.whole.data() + blind, terms.part.data() + blind, terms.delta.data() + blind);
      const auto at = static_cast<std::size_t>(i);
      k_squares[at] += weighted_squares(gradients.row(i), q_norms.data(), count);
      v_squares[at] += weighted_squares(scores.row(i), d_o_norms.data(), count);
    }
    multiply(scores, d_o, rows, depth, count, v_sums);
    multiply(gradients, q, rows, depth, count, k_sums);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = (head + part.begin + i) * depth;
    for (std::int64_t d = 0; d < depth; ++d) {
      dk[at + d] = static_cast<float>(k_sums.row(i)[d] * shape.scale());
      dv[at + d] = static_cast<float>(v_sums.row(i)[d]);
    }
    const auto row = static_cast<std::size_t>(i);
    if (norms.dk != nullptr) {
      norms.dk[head + part.begin + i] = static_cast<float>(std::sqrt(k_squares[row]) * shape.scale());
    }
    if (norms.dv != nullptr) norms.dv[head + part.begin + i] = static_cast<float>(std::sqrt(v_squares[row]));
  }
}

/// One head in fp64.
struct Head {
  Head(const MatrixRows& matrix, std::int64_t first, std::int64_t rows, std::int64_t depth)
      : pitch(depth), values(static_cast<std::size_t>(rows * depth)) {
    std::vector<float> wide(static_cast<std::size_t>(depth));
    for (std::int64_t i = 0; i < rows; ++i) {
      matrix.read(first + i, 0, depth, wide.data());
      std::copy(wide.begin(), wide.end(), values.begin() + i * depth);
    }
  }
  const double* row(std::int64_t index) const { return values.data() + index * pitch; }

  std::int64_t pitch;
  std::vector<double> values;
};

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

double AttentionShape::scale() const { return score_factor / std::sqrt(static_cast<double>(depth)); }

void attention_head_forward(const AttentionHead& head, RowRange queries, const AttentionRows& out) {
  for (std::int64_t query = queries.begin; query < queries.end; query += kBlock) {
    forward_rows(head, {query, std::min(query + kBlock, queries.end)}, out);
  }
}

void attention_forward(const AttentionShape& shape, const AttentionInputs& inputs, std::span<const RowRange> rows,
                       float* o, float* lse, int threads) {
  const std::vector<Part> parts = split(shape, rows);
  parallel_for(parts.size(), threads, [&](std::uint64_t i) { forward_part(shape, inputs, parts[i], o, lse); });
}

void attention_backward_q(const AttentionShape& shape, const AttentionGradientInputs& inputs,
                          std::span<const RowRange> rows, float* dq, int threads, const TermNorms& norms) {
  const std::vector<Part> parts = split(shape, rows);
  parallel_for(parts.size(), threads, [&](std::uint64_t i) { backward_q_part(shape, inputs, parts[i], dq, norms); });
}

void attention_backward_kv(const AttentionShape& shape, const AttentionGradientInputs& inputs,
                           std::span<const RowRange> rows, float* dk, float* dv, int threads, const TermNorms& norms) {
  std::vector<Part> parts = split(shape, rows);
  // Here the first keys are the ones that most queries see.
  std::reverse(parts.begin(), parts.end());
  parallel_for(parts.size(), threads,
               [&](std::uint64_t i) { backward_kv_part(shape, inputs, parts[i], dk, dv, norms); });
}

void attention_forward_fp64(const AttentionShape& shape, const AttentionInputs& inputs, double* o, double* lse,
                            int threads) {
  parallel_for(static_cast<std::uint64_t>(shape.heads), threads, [&](std::uint64_t index) {
    const std::int64_t first = static_cast<std::int64_t>(index) * shape.sequence;
    const Head q(inputs.q, first, shape.sequence, shape.depth), k(inputs.k, first, shape.sequence, shape.depth);
    const Head v(inputs.v, first, shape.sequence, shape.depth);
    std::vector<double> weights(static_cast<std::size_t>(shape.sequence));
    for (std::int64_t i = 0; i < shape.sequence; ++i) {
      const std::int64_t seen = shape.causal ? i + 1 : shape.sequence;
      double top = -INFINITY, sum = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        weights[static_cast<std::size_t>(j)] = dot(q.row(i), k.row(j), shape.depth) * shape.scale();
        top = std::max(top, weights[static_cast<std::size_t>(j)]);
      }
      double* to = o + (first + i) * shape.depth;
      std::fill(to, to + shape.depth, 0.0);
      for (std::int64_t j = 0; j < seen; ++j) {
        const double weight = std::exp(weights[static_cast<std::size_t>(j)] - top);
        sum += weight;
        for (std::int64_t d = 0; d < shape.depth; ++d) to[d] += weight * v.row(j)[d];
      }
      for (std::int64_t d = 0; d < shape.depth; ++d) {
        to[d] = std::clamp(to[d] * (shape.output_factor / sum), -shape.largest_output, shape.largest_output);
      }
      lse[first + i] = top + std::log(sum);
    }
  });
}

void attention_backward_fp64(const AttentionShape& shape, const AttentionGradientInputs& inputs, double* dq, double* dk,
                             double* dv, int threads) {
  parallel_for(static_cast<std::uint64_t>(shape.heads), threads, [&](std::uint64_t index) {
    const auto head = static_cast<std::int64_t>(index);
    const std::int64_t first = head * shape.sequence, depth = shape.depth;
    const Head q(inputs.forward.q, first, shape.sequence, depth), k(inputs.forward.k, first, shape.sequence, depth);
    const Head v(inputs.forward.v, first, shape.sequence, depth), o(inputs.o, first, shape.sequence, depth);
    const Head d_o(inputs.d_o, first, shape.sequence, depth), lse(inputs.lse, head, 1, shape.sequence);
    for (double* out : {dq, dk, dv}) std::fill(out + first * depth, out + (first + shape.sequence) * depth, 0.0);
    for (std::int64_t i = 0; i < shape.sequence; ++i) {
      const double delta = dot(d_o.row(i), o.row(i), depth);
      for (std::int64_t j = 0; j < (shape.causal ? i + 1 : shape.sequence); ++j) {
        const double p = std::exp(dot(q.row(i), k.row(j), depth) * shape.scale() - lse.row(0)[i]);
        const double ds = p * (dot(d_o.row(i), v.row(j), depth) - delta) * shape.scale();
        for (std::int64_t d = 0; d < depth; ++d) {
          dq[(first + i) * depth + d] += ds * k.row(j)[d];
          dk[(first + j) * depth + d] += ds * q.row(i)[d];
          dv[(first + j) * depth + d] += p * d_o.row(i)[d];
        }
      }
    }
  });
}

}  // namespace ptxbench::problem

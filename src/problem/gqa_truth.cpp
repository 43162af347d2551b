#include "problem/gqa_truth.h"

#include <algorithm>
#include <cmath>

#include "problem/parallel.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kBlock = 192;  // queries that one thread computes together
constexpr double kLog2E = 1.4426950408889634074;

/// Ranges of rows, each row once, in order and as few as possible.
std::vector<RowRange> merged(std::span<const RowRange> ranges, std::int64_t rows) {
  std::vector<RowRange> sorted(ranges.begin(), ranges.end());
  std::sort(sorted.begin(), sorted.end(), [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::vector<RowRange> out;
  for (const RowRange& range : sorted) {
    const std::int64_t end = std::min(range.end, rows);
    if (!out.empty() && range.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, end);
    } else if (range.begin < end) {
      out.push_back({range.begin, end});
    }
  }
  return out;
}

/// Queries of one head of one request, counted within the request.
struct Part {
  const GqaRequest* request = nullptr;
  std::int64_t head = 0, begin = 0, end = 0;
  std::int64_t work = 0;
};

AttentionHead head_of(const GqaShape& shape, const GqaInputs& inputs, const GqaRequest& request, std::int64_t head) {
  const std::int64_t* slots = shape.slots.data() + request.key_begin;
  const std::int64_t kv_head = head / shape.group();
  AttentionHead out{{inputs.q, nullptr, shape.qo_heads, request.query_begin * shape.qo_heads + head},
                    {inputs.k, slots, shape.kv_heads, kv_head},
                    {inputs.v, slots, shape.kv_heads, kv_head},
                    request.keys(),
                    inputs.q.columns(),
                    shape.scale};
  if (inputs.q_tail) out.q_tail = RowList{*inputs.q_tail, nullptr, out.q.stride, out.q.offset};
  if (inputs.k_tail) out.k_tail = RowList{*inputs.k_tail, slots, out.k.stride, out.k.offset};
  if (shape.causal) out.causal_offset = request.keys() - request.queries();
  return out;
}

void read_row(const MatrixRows& first, const std::optional<MatrixRows>& tail, std::int64_t row, float* out) {
  first.read(row, 0, first.columns(), out);
  if (tail) tail->read(row, 0, tail->columns(), out + first.columns());
}

}  // namespace

void GqaInputs::read_q(std::int64_t row, float* out) const { read_row(q, q_tail, row, out); }
void GqaInputs::read_k(std::int64_t row, float* out) const { read_row(k, k_tail, row, out); }

std::int64_t GqaShape::seen_by(const GqaRequest& request, std::int64_t query) const {
  if (!causal) return request.keys();
  return std::clamp(query + 1 + request.keys() - request.queries(), std::int64_t{0}, request.keys());
}

double GqaShape::multiply_adds() const {
  double seen = 0;
  for (const GqaRequest& request : requests) {
    if (causal) {
      // Those that see anything see from `least` to all keys, each one more than the one before.
      const auto rows = static_cast<double>(std::min(request.queries(), request.keys()));
      const auto most = static_cast<double>(request.keys());
      seen += rows * (most + most - rows + 1) / 2;
    } else {
      seen += static_cast<double>(request.queries()) * static_cast<double>(request.keys());
    }
  }
  return seen * static_cast<double>(qo_heads) * static_cast<double>(depth + value_depth);
}

void gqa_forward(const GqaShape& shape, const GqaInputs& inputs, std::span<const RowRange> rows, float* o, float* lse,
                 int threads) {
  const std::int64_t heads = shape.qo_heads;
  std::vector<Part> parts;
  for (const RowRange& range : merged(rows, shape.rows())) {
    std::fill(o + range.begin * shape.value_depth, o + range.end * shape.value_depth, 0.0f);
    std::fill(lse + range.begin, lse + range.end, -INFINITY);
    // Head h of query q is row q * heads + h.
    for (const GqaRequest& request : shape.requests) {
      if (request.query_end * heads <= range.begin || request.query_begin * heads >= range.end) continue;
      for (std::int64_t head = 0; head < heads; ++head) {
        const auto first_from = [&](std::int64_t row) { return (row - head + heads - 1) / heads; };
        const std::int64_t begin = std::max(first_from(range.begin), request.query_begin) - request.query_begin;
        const std::int64_t end = std::min(first_from(range.end), request.query_end) - request.query_begin;
        for (std::int64_t query = begin; query < end; query += kBlock) {
          const std::int64_t last = std::min(query + kBlock, end);
          parts.push_back({&request, head, query, last, (last - query) * shape.seen_by(request, last - 1)});
        }
      }
    }
  }
  // The longest go first, so that no thread is left with one at the end.
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.work > b.work; });
  parallel_for(parts.size(), threads, [&](std::uint64_t index) {
    const Part& part = parts[index];
    const std::int64_t row = part.request->query_begin * heads + part.head;
    attention_head_forward(head_of(shape, inputs, *part.request, part.head), {part.begin, part.end},
                           {o + row * shape.value_depth, heads * shape.value_depth, lse + row, heads});
    for (std::int64_t query = part.begin; query < part.end; ++query) {
      float& value = lse[row + query * heads];
      value = static_cast<float>(static_cast<double>(value) * kLog2E);
    }
  });
}

void gqa_forward_fp64(const GqaShape& shape, const GqaInputs& inputs, double* o, double* lse, int threads) {
  const auto depth = static_cast<std::size_t>(shape.depth), columns = static_cast<std::size_t>(shape.value_depth);
  std::fill(o, o + shape.rows() * shape.value_depth, 0.0);
  std::fill(lse, lse + shape.rows(), -INFINITY);
  parallel_for(shape.requests.size(), threads, [&](std::uint64_t index) {
    const GqaRequest& request = shape.requests[index];
    std::vector<float> q(depth), key(depth), value(columns);
    std::vector<double> weights(static_cast<std::size_t>(request.keys()));
    const auto row_of = [&](std::int64_t token, std::int64_t head) {
      return shape.slots[static_cast<std::size_t>(request.key_begin + token)] * shape.kv_heads + head / shape.group();
    };
    for (std::int64_t query = 0; query < request.queries(); ++query) {
      const std::int64_t seen = shape.seen_by(request, query);
      for (std::int64_t head = 0; seen > 0 && head < shape.qo_heads; ++head) {
        const std::int64_t row = (request.query_begin + query) * shape.qo_heads + head;
        inputs.read_q(row, q.data());
        double top = -INFINITY, sum = 0;
        for (std::int64_t token = 0; token < seen; ++token) {
          inputs.read_k(row_of(token, head), key.data());
          double score = 0;
          for (std::size_t d = 0; d < depth; ++d) score += static_cast<double>(q[d]) * static_cast<double>(key[d]);
          weights[static_cast<std::size_t>(token)] = score * shape.scale;
          top = std::max(top, score * shape.scale);
        }
        double* to = o + row * shape.value_depth;
        for (std::int64_t token = 0; token < seen; ++token) {
          inputs.v.read(row_of(token, head), 0, shape.value_depth, value.data());
          const double weight = std::exp(weights[static_cast<std::size_t>(token)] - top);
          sum += weight;
          for (std::size_t d = 0; d < columns; ++d) to[d] += weight * static_cast<double>(value[d]);
        }
        for (std::size_t d = 0; d < columns; ++d) to[d] /= sum;
        lse[row] = (top + std::log(sum)) * kLog2E;
      }
    }
  });
}

}  // namespace ptxbench::problem

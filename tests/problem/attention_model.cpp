#include "attention_model.h"

#include <algorithm>
#include <cmath>

namespace ptxbench::problem {
namespace {

std::vector<float> widened(const RandomTensor& random, std::int64_t count) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  random.fill(0, bits.size(), bits.data());
  std::vector<float> wide(bits.size());
  to_float(Dtype::bfloat16, bits.data(), 0, bits.size(), wide.data());
  return wide;
}

/// out[query][key] = the products of the rows of a with those of b, head by head.
std::vector<float> products(const AttentionShape& shape, const std::vector<float>& a, const std::vector<float>& b) {
  const auto s = static_cast<std::size_t>(shape.sequence), d = static_cast<std::size_t>(shape.depth);
  std::vector<float> out(static_cast<std::size_t>(shape.heads) * s * s, 0.0f), transposed(d * s);
  for (std::size_t head = 0; head < static_cast<std::size_t>(shape.heads); ++head) {
    for (std::size_t j = 0; j < s; ++j) {
      for (std::size_t x = 0; x < d; ++x) transposed[x * s + j] = b[(head * s + j) * d + x];
    }
    for (std::size_t i = 0; i < s; ++i) {
      float* row = out.data() + (head * s + i) * s;
      for (std::size_t x = 0; x < d; ++x) {
        const float left = a[(head * s + i) * d + x];
        const float* right = transposed.data() + x * s;
        for (std::size_t j = 0; j < s; ++j) row[j] += left * right[j];
      }
    }
  }
  return out;
}

/// sum += weight * row, and the accumulator's rounding at the end of every step of 16.
void accumulate(float* sum, float weight, const float* row, std::int64_t depth) {
  for (std::int64_t x = 0; x < depth; ++x) sum[x] += weight * row[x];
}

void round_all(float* sum, std::int64_t depth, KernelModel::Round round) {
  if (round == nullptr) return;
  for (std::int64_t x = 0; x < depth; ++x) sum[x] = round(sum[x]);
}

bool sees(const AttentionShape& shape, const KernelModel& model, std::int64_t query, std::int64_t key) {
  if (key >= model.skip_begin && key < model.skip_end) return false;
  return !shape.causal || model.ignores_mask || key <= query + model.mask_shift;
}

}  // namespace

float to_bf16_and_back(float value) { return from_bfloat16(to_bfloat16(value)); }

AttentionData::AttentionData(std::int64_t heads, std::int64_t sequence, std::int64_t depth, bool causal,
                             Distribution how)
    : shape{heads, sequence, depth, causal}, distribution(how) {
  std::uint32_t tensor = 0;
  for (auto* values : {&q, &k, &v, &d_o}) {
    *values = widened(RandomTensor{Dtype::bfloat16, how, 17, tensor++}, shape.rows() * depth);
  }
  const RowRange all{0, shape.rows()};
  o_truth.resize(q.size());
  lse.resize(static_cast<std::size_t>(shape.rows()));
  attention_forward(shape, inputs(), {&all, 1}, o_truth.data(), lse.data());
  o.resize(q.size());
  std::transform(o_truth.begin(), o_truth.end(), o.begin(), to_bf16_and_back);
  for (auto* values : {&dq_truth, &dk_truth, &dv_truth}) values->resize(q.size());
  for (auto* values : {&dq_norms, &dk_norms, &dv_norms}) values->resize(lse.size());
  const TermNorms norms{dq_norms.data(), dk_norms.data(), dv_norms.data()};
  attention_backward_q(shape, gradient_inputs(), {&all, 1}, dq_truth.data(), 0, norms);
  attention_backward_kv(shape, gradient_inputs(), {&all, 1}, dk_truth.data(), dv_truth.data(), 0, norms);
  scores = products(shape, q, k);
  gradients = products(shape, d_o, v);
}

AttentionGradientInputs AttentionData::gradient_inputs() const {
  return {inputs(), rows(o), rows(d_o), MatrixRows(lse.data(), Dtype::float32, shape.heads, shape.sequence)};
}

ForwardOutput run_forward(const AttentionData& data, const KernelModel& model) {
  const AttentionShape& shape = data.shape;
  const std::int64_t s = shape.sequence, d = shape.depth;
  const KernelModel::Round round_p = model.round_p != nullptr ? model.round_p : to_bf16_and_back;
  const auto factor = static_cast<float>(shape.scale() * model.score_factor);
  ForwardOutput out{std::vector<float>(data.q.size()), std::vector<float>(data.lse.size())};
  std::vector<float> weights(static_cast<std::size_t>(model.tile)), sum(static_cast<std::size_t>(d));
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const std::int64_t head = row / s, query = row % s;
    const float* scores = data.scores.data() + row * s;
    float top = -INFINITY, total = 0;
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (std::int64_t key0 = 0; key0 < s; key0 += model.tile) {
      const std::int64_t end = std::min(key0 + model.tile, s);
      float tile_top = top;
      for (std::int64_t key = key0; key < end; ++key) {
        if (sees(shape, model, query, key)) tile_top = std::max(tile_top, scores[key] * factor);
      }
      if (tile_top == -INFINITY) continue;
      if (tile_top > top && top != -INFINITY) {
        const float rescale = std::exp(top - tile_top);
        if (model.rescales_output) {
          for (float& value : sum) value *= rescale;
        }
        if (model.rescales_sum) total *= rescale;
      }
      top = tile_top;
      for (std::int64_t key = key0; key < end; ++key) {
        float& weight = weights[static_cast<std::size_t>(key - key0)];
        weight = sees(shape, model, query, key) ? std::exp(scores[key] * factor - top) : 0.0f;
        const float rounded = round_p(weight);
        total += model.sums_rounded ? rounded : weight;
        if (rounded != 0.0f) accumulate(sum.data(), rounded, data.v.data() + (head * s + key) * d, d);
        if (key % 16 == 15 || key + 1 == end) round_all(sum.data(), d, model.round_sum);
      }
    }
    for (std::int64_t x = 0; x < d; ++x) {
      // A row that sees nothing is what a kernel makes of 0 / 0.
      out.o[static_cast<std::size_t>(row * d + x)] = total > 0 ? sum[static_cast<std::size_t>(x)] / total : 0.0f;
    }
    out.lse[static_cast<std::size_t>(row)] = total > 0 ? top + std::log(total) : 0.0f;
  }
  return out;
}

BackwardOutput run_backward(const AttentionData& data, const KernelModel& model) {
  const AttentionShape& shape = data.shape;
  const std::int64_t s = shape.sequence, d = shape.depth;
  const KernelModel::Round round_p = model.round_p != nullptr ? model.round_p : to_bf16_and_back;
  const auto factor = static_cast<float>(shape.scale() * model.score_factor);
  BackwardOutput out;
  for (auto* values : {&out.dq, &out.dk, &out.dv}) values->assign(data.q.size(), 0.0f);
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const std::int64_t head = row / s, query = row % s;
    float delta = 0;
    for (std::int64_t x = row * d; x < (row + 1) * d; ++x) {
      delta += data.d_o[static_cast<std::size_t>(x)] * data.o[static_cast<std::size_t>(x)];
    }
    if (!model.has_row_sum) delta = 0;
    const float lse = data.lse[static_cast<std::size_t>(row)] * static_cast<float>(model.lse_factor);
    for (std::int64_t key = 0; key < s; ++key) {
      const auto at = static_cast<std::size_t>(row * s + key);
      const bool seen = sees(shape, model, query, key);
      const float p = seen ? std::exp(data.scores[at] * factor - lse) : 0.0f;
      const float ds = round_p(p * (data.gradients[at] - delta));
      const float rounded = round_p(p);
      float* dk = out.dk.data() + (head * s + key) * d;
      float* dv = out.dv.data() + (head * s + key) * d;
      if (seen) {
        accumulate(out.dq.data() + row * d, ds, data.k.data() + (head * s + key) * d, d);
        accumulate(dk, ds, data.q.data() + row * d, d);
        accumulate(dv, rounded, data.d_o.data() + row * d, d);
      }
      if (key % 16 == 15 || key + 1 == s) round_all(out.dq.data() + row * d, d, model.round_sum);
      if (query % 16 == 15 || query + 1 == s) {
        round_all(dk, d, model.round_sum);
        round_all(dv, d, model.round_sum);
      }
    }
  }
  for (auto* values : {&out.dq, &out.dk}) {
    for (float& value : *values) value *= static_cast<float>(shape.scale());
  }
  return out;
}

Tensor in_bfloat16(const char* name, const std::vector<float>& values, std::int64_t columns) {
  auto tensor = Tensor::create(name, Dtype::bfloat16, {static_cast<std::int64_t>(values.size()) / columns, columns});
  from_float(Dtype::bfloat16, values.data(), 0, values.size(), tensor->data());
  return std::move(*tensor);
}

Tensor in_float32(const char* name, const std::vector<float>& values, std::int64_t columns) {
  auto tensor = Tensor::create(name, Dtype::float32, {static_cast<std::int64_t>(values.size()) / columns, columns});
  std::copy(values.begin(), values.end(), tensor->as<float>().begin());
  return std::move(*tensor);
}

}  // namespace ptxbench::problem

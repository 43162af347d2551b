#include "fp8_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "problem/fp8_gemm.h"
#include "problem/scale_factors.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kStep = 32;  // of the reduction in one wgmma
constexpr int kFractionBits = 13;

float power_of_exponent(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x7f800000u); }

/// One wgmma: everything is cut toward zero in units of 2^-13 of the largest term's power of two, and so is the sum.
float hopper_step(const float* a, const float* a_powers, const float* b, const float* b_powers, std::int64_t count,
                  float c) {
  float largest = power_of_exponent(c);
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, a_powers[i] * b_powers[i]);
  if (largest == 0) return 0;
  const float unit = largest * 0x1p-13f;
  const float units = 1.0f / unit;
  auto sum = static_cast<std::int32_t>(c * units);
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<std::int32_t>(a[i] * b[i] * units);
  constexpr std::uint32_t kept = ~((1u << (23 - kFractionBits)) - 1u);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(sum) * unit) & kept);
}

float fp32_step(const float* a, const float* b, std::int64_t count, float c) {
  double sum = static_cast<double>(c);
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

}  // namespace

TensorCoreRows::TensorCoreRows(std::vector<float> of, std::int64_t row_length)
    : values(std::move(of)), powers(values.size()), columns(row_length) {
  std::transform(values.begin(), values.end(), powers.begin(),
                 [](float value) { return value == 0 ? 0.0f : std::max(power_of_exponent(value), 0x1p-6f); });
}

float accumulate(Accumulator how, const TensorCoreRows& a, std::int64_t row_a, const TensorCoreRows& b,
                 std::int64_t row_b, std::int64_t first, std::int64_t count, float c) {
  for (std::int64_t i = first; i < first + count; i += kStep) {
    const std::int64_t step = std::min(kStep, first + count - i);
    c = how == Accumulator::fp32
            ? fp32_step(a.row(row_a) + i, b.row(row_b) + i, step, c)
            : hopper_step(a.row(row_a) + i, a.powers_of(row_a) + i, b.row(row_b) + i, b.powers_of(row_b) + i, step, c);
  }
  return c;
}

float through_e4m3(float value) { return from_e4m3(to_e4m3(value)); }
float through_bf16(float value) { return from_bfloat16(to_bfloat16(value)); }

std::vector<float> e4m3_values(Distribution distribution, std::uint64_t seed, std::uint32_t tensor,
                               std::int64_t count) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  RandomTensor{Dtype::float8_e4m3fn, distribution, seed, tensor}.fill(0, bytes.size(), bytes.data());
  std::vector<float> values(bytes.size());
  to_float(Dtype::float8_e4m3fn, bytes.data(), 0, bytes.size(), values.data());
  return values;
}

Tensor in_type(Dtype dtype, const char* name, const std::vector<float>& values, std::int64_t columns) {
  auto tensor = Tensor::create(name, dtype, {static_cast<std::int64_t>(values.size()) / columns, columns});
  from_float(dtype, values.data(), 0, values.size(), tensor->data());
  return std::move(*tensor);
}

// --- GEMM

Fp8GemmData::Fp8GemmData(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool blocks, Distribution how)
    : m(rows),
      n(columns),
      k(depth),
      blocks_of_b(blocks),
      distribution(how),
      a(e4m3_values(how, 19, 0, rows * depth)),
      b(e4m3_values(how, 19, 1, columns * depth)) {
  const auto factors = [&](std::uint32_t tensor, std::int64_t height, std::int64_t block) {
    BlockScales scales{block, kScaleBlock, depth / kScaleBlock, {}};
    const auto count = static_cast<std::uint64_t>((height + block - 1) / block * scales.across);
    for (std::uint64_t i = 0; i < count; ++i) scales.factors.push_back(scale_factor(19, tensor, i, {-2, 4}));
    return scales;
  };
  scales_a = factors(2, rows, 1);
  scales_b = factors(3, columns, blocks ? kScaleBlock : 1);
  truth = product(*this, scales_a, scales_b);
}

std::vector<float> product(const Fp8GemmData& data, const BlockScales& scales_a, const BlockScales& scales_b) {
  std::vector<float> out(static_cast<std::size_t>(data.m * data.n));
  const Tile all{0, data.m, 0, data.n};
  gemm_nt_truth(data.rows_a().scaled(std::make_shared<BlockScales>(scales_a)),
                data.rows_b().scaled(std::make_shared<BlockScales>(scales_b)), {&all, 1}, out.data());
  return out;
}

std::vector<float> run_gemm(const Fp8GemmData& data, const Fp8GemmModel& model) {
  const TensorCoreRows a(data.a, data.k), b(data.b, data.k);
  std::vector<float> out(static_cast<std::size_t>(data.m * data.n));
  for (std::int64_t row = 0; row < data.m; ++row) {
    for (std::int64_t column = 0; column < data.n; ++column) {
      float sum = 0;
      for (std::int64_t first = 0; first < data.k; first += kScaleBlock) {
        const float factor = data.scales_a.at(row, first) * data.scales_b.at(column, first);
        // Without promotion the accumulators themselves are brought to each block's scale.
        const float start = model.promotes ? 0 : sum / factor;
        const float part = accumulate(model.accumulator, a, row, b, column, first, kScaleBlock, start);
        sum = model.promotes ? sum + part * factor : part * factor;
        if (model.round_sum != nullptr) sum = model.round_sum(sum);
      }
      out[static_cast<std::size_t>(row * data.n + column)] = sum;
    }
  }
  return out;
}

// --- attention

Fp8AttentionData::Fp8AttentionData(std::int64_t heads, std::int64_t sequence, std::int64_t depth, bool causal,
                                   Distribution how)
    : shape{heads, sequence, depth, causal},
      distribution(how),
      q(e4m3_values(how, 23, 0, shape.rows() * depth)),
      k(e4m3_values(how, 23, 1, shape.rows() * depth)),
      v(e4m3_values(how, 23, 2, shape.rows() * depth)) {
  descales =
      attention_descales(in_type(Dtype::float8_e4m3fn, "Q", q, depth), in_type(Dtype::float8_e4m3fn, "K", k, depth),
                         in_type(Dtype::float8_e4m3fn, "V", v, depth), 23);
  shape.score_factor = static_cast<double>(descales.q) * static_cast<double>(descales.k);
  shape.output_factor = static_cast<double>(descales.v) * static_cast<double>(descales.o);
  o_truth.resize(q.size());
  lse.resize(static_cast<std::size_t>(shape.rows()));
  const RowRange all{0, shape.rows()};
  const auto rows = [&](const std::vector<float>& values) {
    return MatrixRows(values.data(), Dtype::float32, shape.rows(), depth);
  };
  attention_forward(shape, {rows(q), rows(k), rows(v)}, {&all, 1}, o_truth.data(), lse.data());
}

Fp8AttentionOutput run_attention(const Fp8AttentionData& data, const Fp8KernelModel& model) {
  const AttentionShape& shape = data.shape;
  const std::int64_t s = shape.sequence, depth = shape.depth;
  const auto scale = static_cast<float>(shape.scale() * model.score_factor);
  const TensorCoreRows q(data.q, depth), k(data.k, depth);
  std::vector<float> transposed(data.v.size());  // [head][depth][key], as the second product reads V
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    for (std::int64_t d = 0; d < depth; ++d) {
      transposed[static_cast<std::size_t>((row / s * depth + d) * s + row % s)] =
          data.v[static_cast<std::size_t>(row * depth + d)];
    }
  }
  const TensorCoreRows v(std::move(transposed), s);
  Fp8AttentionOutput out{std::vector<float>(data.q.size()), std::vector<float>(data.lse.size())};
  std::vector<float> scores(static_cast<std::size_t>(s)), sum(static_cast<std::size_t>(depth));
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const std::int64_t head = row / s, query = row % s;
    const auto sees = [&](std::int64_t key) {
      if (key >= model.skip_begin && key < model.skip_end) return false;
      return !shape.causal || model.ignores_mask || key <= query + model.mask_shift;
    };
    float top = -INFINITY, total = 0;
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (std::int64_t key0 = 0; key0 < s; key0 += model.tile) {
      const std::int64_t end = std::min(key0 + model.tile, s);
      float tile_top = top;
      for (std::int64_t key = key0; key < end; ++key) {
        float& score = scores[static_cast<std::size_t>(key)];
        score = sees(key) ? accumulate(model.accumulator, q, row, k, head * s + key, 0, depth, 0) * scale : -INFINITY;
        tile_top = std::max(tile_top, score);
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
      std::vector<float> weights(static_cast<std::size_t>(s), 0.0f);
      for (std::int64_t key = key0; key < end; ++key) {
        const float weight = std::exp(scores[static_cast<std::size_t>(key)] - top) * model.weight_scale;
        float& rounded = weights[static_cast<std::size_t>(key)];
        rounded = model.round_weight(weight);
        total += model.sums_rounded ? rounded : weight;
      }
      const TensorCoreRows p(std::move(weights), s);
      for (std::int64_t d = 0; d < depth; ++d) {
        float& value = sum[static_cast<std::size_t>(d)];
        const float part =
            accumulate(model.accumulator, p, 0, v, head * depth + d, key0, end - key0, model.promotes ? 0 : value);
        value = model.promotes ? value + part : part;
        if (model.round_sum != nullptr) value = model.round_sum(value);
      }
    }
    const auto factor = static_cast<float>(shape.output_factor * model.output_factor);
    for (std::int64_t d = 0; d < depth; ++d) {
      // A row that sees nothing is what a kernel makes of 0 / 0.
      out.o[static_cast<std::size_t>(row * depth + d)] =
          total > 0 ? sum[static_cast<std::size_t>(d)] * (factor / total) : 0.0f;
    }
    out.lse[static_cast<std::size_t>(row)] = total > 0 ? top + std::log(total / model.weight_scale) : 0.0f;
  }
  return out;
}

}  // namespace ptxbench::problem

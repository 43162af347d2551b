// Published Triton kernels that work on rows, and an attention: softmax, normalisation, losses, activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "triton_program.h"

namespace ptxbench::foreign {
namespace {

double through_bf16(double value) { return from_bf16(to_bf16(value)); }
double through_f16(double value) { return from_f16(to_f16(value)); }

std::vector<double> rounded(std::vector<double> values, double (*round)(double)) {
  for (double& value : values) value = round(value);
  return values;
}

TEST(TritonRows, LigerSoftmax) {
  constexpr size_t kRows = 5, kColumns = 781;
  auto x = rounded(normal(kRows * kColumns, 1),
                   [](double value) { return static_cast<double>(static_cast<float>(8 * value)); });
  std::vector<double> expected(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t i = 0; i < kColumns; ++i) sum += std::exp(x[row * kColumns + i]);
    for (size_t i = 0; i < kColumns; ++i) expected[row * kColumns + i] = std::exp(x[row * kColumns + i]) / sum;
  }
  TritonProgram program("liger_softmax");
  const uint64_t y = program.tensor(std::vector<float>(x.size()));
  Arguments arguments;
  arguments << y << int32_t{kColumns} << program.tensor(to_f32(x)) << int32_t{kColumns} << int32_t{kColumns};
  program.run(kRows, 1, 1, arguments);
  expect_close(widen(program.read<float>(y, x.size())), expected, 1e-9, 1e-5);
}

TEST(TritonRows, LigerLayerNorm) {
  constexpr size_t kRows = 4, kColumns = 816;
  const auto x = rounded(normal(kRows * kColumns, 2), through_bf16);
  const auto w = rounded(normal(kColumns, 3), through_bf16), b = rounded(normal(kColumns, 4), through_bf16);
  constexpr float kEpsilon = 1e-5f;
  std::vector<double> expected(x.size()), means, reciprocals;
  for (size_t row = 0; row < kRows; ++row) {
    const double* at = x.data() + row * kColumns;
    const double mean = std::accumulate(at, at + kColumns, 0.0) / kColumns;
    double variance = 0;
    for (size_t i = 0; i < kColumns; ++i) variance += (at[i] - mean) * (at[i] - mean) / kColumns;
    const double reciprocal = 1 / std::sqrt(variance + static_cast<double>(kEpsilon));
    for (size_t i = 0; i < kColumns; ++i) expected[row * kColumns + i] = (at[i] - mean) * reciprocal * w[i] + b[i];
    means.push_back(mean), reciprocals.push_back(reciprocal);
  }
  TritonProgram program("liger_layer_norm");
  const uint64_t y = program.tensor(std::vector<uint16_t>(x.size()));
  const uint64_t mean = program.tensor(std::vector<float>(kRows)),
                 reciprocal = program.tensor(std::vector<float>(kRows));
  Arguments arguments;
  arguments << y << int32_t{kColumns} << program.tensor(converted(x, to_bf16)) << int32_t{kColumns};
  arguments << program.tensor(converted(w, to_bf16)) << 1 << program.tensor(converted(b, to_bf16)) << 1;
  arguments << mean << 1 << reciprocal << 1 << int32_t{kColumns} << kEpsilon;
  program.run(kRows, 1, 1, arguments);
  expect_close(converted(program.read<uint16_t>(y, x.size()), from_bf16), expected, 1e-5, 0x1.01p-8);
  expect_close(widen(program.read<float>(mean, kRows)), means, 1e-6, 0);
  expect_close(widen(program.read<float>(reciprocal, kRows)), reciprocals, 0, 1e-5);
}

TEST(TritonRows, LigerCrossEntropyWithGradient) {
  constexpr size_t kRows = 6, kColumns = 1201;
  constexpr int kIgnored = -100;
  constexpr double kSmoothing = 0.1, kCap = 5;
  const std::vector<int64_t> labels = {7, 1200, kIgnored, 0, 512, 600};
  constexpr double kCounted = 5;
  auto x = widen(to_f32(normal(kRows * kColumns, 5)));
  for (double& value : x) value *= 4;
  x[7] = 60;  // row 0 is right
  std::vector<double> losses(kRows, -7), accuracy(kRows, 0), gradient(x.size());
  std::vector<int64_t> predictions(kRows, -1);
  for (size_t row = 0; row < kRows; ++row) {
    if (labels[row] == kIgnored) continue;
    const auto label = static_cast<size_t>(labels[row]);
    std::vector<double> z(kColumns);
    double total = 0;
    for (size_t i = 0; i < kColumns; ++i) {
      z[i] = kCap * std::tanh(x[row * kColumns + i] / kCap);
      total += std::exp(z[i]);
    }
    const double log_total = std::log(total);
    double loss = 0;  // cross entropy with the label's distribution: smoothing spread evenly, the rest at the label
    for (size_t i = 0; i < kColumns; ++i) {
      const double wanted = kSmoothing / kColumns + (i == label ? 1 - kSmoothing : 0);
      loss -= wanted * (z[i] - log_total);
      const double slope = 1 - (z[i] / kCap) * (z[i] / kCap);
      gradient[row * kColumns + i] = (std::exp(z[i]) / total - wanted) / kCounted * slope;
    }
    losses[row] = loss / kCounted;
    predictions[row] = std::max_element(z.begin(), z.end()) - z.begin();
    accuracy[row] = predictions[row] == labels[row] ? 1 : 0;
  }
  TritonProgram program("liger_cross_entropy");
  const uint64_t x_at = program.tensor(to_f32(x)), loss_at = program.tensor(std::vector<float>(kRows, -7));
  const uint64_t accuracy_at = program.tensor(std::vector<float>(kRows, -7));
  const uint64_t prediction_at = program.tensor(std::vector<int64_t>(kRows, -7));
  Arguments arguments;
  arguments << x_at << int32_t{kColumns} << program.tensor(labels) << 1 << uint64_t{0} << loss_at << uint64_t{0} << 1;
  arguments << accuracy_at << 1 << prediction_at << 1 << int32_t{kColumns} << static_cast<float>(kCounted) << 0.0f
            << 0.0f << kIgnored << static_cast<float>(kCap);
  program.run(kRows, 1, 1, arguments);
  expect_close(widen(program.read<float>(loss_at, kRows)), losses, 1e-6, 1e-5);
  expect_close(widen(program.read<float>(accuracy_at, kRows)), accuracy, 0, 0);
  EXPECT_EQ(program.read<int64_t>(prediction_at, kRows), predictions);
  expect_close(widen(program.read<float>(x_at, x.size())), gradient, 2e-6, 1e-4);
}

TEST(TritonRows, LigerSparsemax) {
  constexpr size_t kRows = 4, kColumns = 301;
  const auto x = widen(to_f32(normal(kRows * kColumns, 6)));
  auto sorted = x;
  std::vector<double> expected(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    const auto begin = sorted.begin() + static_cast<ptrdiff_t>(row * kColumns);
    std::sort(begin, begin + kColumns, std::greater<>());
    // The Euclidean projection on the simplex: the threshold is where the clipped sum is one, found by bisection.
    double low = begin[0] - 1, high = begin[0];
    for (int step = 0; step < 100; ++step) {
      const double middle = (low + high) / 2;
      double sum = 0;
      for (size_t i = 0; i < kColumns; ++i) sum += std::max(0.0, x[row * kColumns + i] - middle);
      (sum > 1 ? low : high) = middle;
    }
    for (size_t i = 0; i < kColumns; ++i) expected[row * kColumns + i] = std::max(0.0, x[row * kColumns + i] - low);
  }
  TritonProgram program("liger_sparsemax");
  const uint64_t y = program.tensor(std::vector<float>(x.size(), -7));
  Arguments arguments;
  arguments << program.tensor(to_f32(x)) << int32_t{kColumns} << program.tensor(to_f32(sorted)) << int32_t{kColumns}
            << y << int32_t{kColumns} << int32_t{kColumns};
  program.run(kRows, 1, 1, arguments);
  expect_close(widen(program.read<float>(y, x.size())), expected, 2e-6, 0);
}

TEST(TritonRows, LigerSwiglu) {
  constexpr size_t kRows = 3, kColumns = 720;
  const auto a = rounded(normal(kRows * kColumns, 7), through_f16);
  const auto b = rounded(normal(kRows * kColumns, 8), through_f16);
  std::vector<double> expected;
  for (size_t i = 0; i < a.size(); ++i) {
    const double gate = 1.5 * a[i];
    expected.push_back(through_f16(gate / (1 + std::exp(-gate))) * b[i]);
  }
  TritonProgram program("liger_swiglu");
  const uint64_t c = program.tensor(std::vector<uint16_t>(a.size()));
  Arguments arguments;
  arguments << program.tensor(converted(a, to_f16)) << program.tensor(converted(b, to_f16)) << c << int32_t{kColumns}
            << 1.5f;
  program.run(kRows, 1, 1, arguments);
  // The gate is rounded once more; its other neighbour may be the right one.
  expect_close(converted(program.read<uint16_t>(c, a.size()), from_f16), expected, 1e-6, 0x1p-9);
}

TEST(TritonRows, ConchSiluAndMul) {
  constexpr size_t kRows = 4, kColumns = 333;
  const auto x = rounded(normal(kRows * 2 * kColumns, 9), through_bf16);
  std::vector<double> expected;
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kColumns; ++i) {
      const double gate = x[row * 2 * kColumns + i];
      expected.push_back(through_bf16(gate / (1 + std::exp(-gate))) * x[row * 2 * kColumns + kColumns + i]);
    }
  }
  TritonProgram program("conch_silu_and_mul");
  const uint64_t y = program.tensor(std::vector<uint16_t>(expected.size()));
  Arguments arguments;
  arguments << y << program.tensor(converted(x, to_bf16)) << int32_t{kColumns} << int32_t{2 * kColumns}
            << int32_t{kColumns};
  program.run(kRows, 1, 1, arguments);
  expect_close(converted(program.read<uint16_t>(y, expected.size()), from_bf16), expected, 1e-6, 0x1p-6);
}

TEST(TritonRows, ConchRmsNormWithResidual) {
  constexpr size_t kRows = 3, kColumns = 752;
  const auto x = rounded(normal(kRows * kColumns, 10), through_f16);
  const auto residual = rounded(normal(kRows * kColumns, 11), through_f16);
  const auto w = rounded(normal(kColumns, 12), through_f16);
  std::vector<double> sums(x.size()), expected(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    double squares = 0;
    for (size_t i = 0; i < kColumns; ++i) {
      double& sum = sums[row * kColumns + i];
      sum = through_f16(x[row * kColumns + i] + residual[row * kColumns + i]);
      squares += sum * sum / kColumns;
    }
    for (size_t i = 0; i < kColumns; ++i) {
      expected[row * kColumns + i] = through_f16(sums[row * kColumns + i] / std::sqrt(squares + 1e-6)) * w[i];
    }
  }
  TritonProgram program("conch_rms_norm");
  const uint64_t x_at = program.tensor(converted(x, to_f16)), residual_at = program.tensor(converted(residual, to_f16));
  Arguments arguments;
  arguments << uint64_t{0} << x_at << residual_at << program.tensor(converted(w, to_f16)) << int32_t{kColumns} << 1e-6f;
  program.run(kRows, 1, 1, arguments);
  EXPECT_EQ(program.read<uint16_t>(residual_at, x.size()), converted(sums, to_f16));
  expect_close(converted(program.read<uint16_t>(x_at, x.size()), from_f16), expected, 1e-6, 0x1p-9);
}

TEST(TritonRows, ConchFp8Quantize) {
  constexpr size_t kRows = 3, kColumns = 400;
  constexpr float kScale = 0.5f;  // a power of two, so that the product is exact
  const auto x = widen(to_f32(normal(kRows * kColumns, 13)));
  TritonProgram program("conch_fp8_quantize");
  const uint64_t y = program.tensor(std::vector<uint8_t>(x.size(), 0x55));
  Arguments arguments;
  arguments << y << program.tensor(to_f32(x)) << program.tensor(std::vector<float>{kScale}) << int32_t{kColumns};
  program.run(kRows, 1, 1, arguments);
  EXPECT_EQ(program.read<uint8_t>(y, x.size()), converted(x, [](double value) { return to_e4m3(2 * value); }));
}

TEST(TritonAttention, LigerNeighborhoodScores) {
  constexpr size_t kHeads = 2, kLength = 176, kDepth = 64;
  const auto q = rounded(normal(kHeads * kLength * kDepth, 14), through_bf16);
  const auto k = rounded(normal(kHeads * kLength * kDepth, 15), through_bf16);
  std::vector<float> mask(kLength * kLength);
  std::vector<double> expected(kHeads * kLength * kLength, -std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t j = 0; j < kLength; ++j) {
      const size_t distance = i > j ? i - j : j - i;
      if (distance > 6 || distance % 2 != 0) continue;
      mask[i * kLength + j] = 1;
      for (size_t head = 0; head < kHeads; ++head) {
        double dot = 0;
        for (size_t d = 0; d < kDepth; ++d) {
          dot += q[(head * kLength + i) * kDepth + d] * k[(head * kLength + j) * kDepth + d];
        }
        expected[(head * kLength + i) * kLength + j] = dot / 8;
      }
    }
  }
  TritonProgram program("liger_neighborhood_qk");
  const uint64_t scores = program.tensor(std::vector<float>(expected.size()));
  constexpr int32_t kHeadStride = kLength * kDepth, kScoreStride = kLength * kLength;
  Arguments arguments;
  arguments << program.tensor(converted(q, to_bf16)) << program.tensor(converted(k, to_bf16)) << scores
            << program.tensor(mask);
  for (int tensor = 0; tensor < 2; ++tensor) {
    arguments << int32_t{kHeads * kHeadStride} << kHeadStride << int32_t{kDepth};
  }
  arguments << int32_t{kHeads * kScoreStride} << kScoreStride << int32_t{kLength};
  const auto report = program.run(kHeads, 3, 3, arguments);
  EXPECT_GT(report.tensor_core_macs, 0u);
  expect_close(widen(program.read<float>(scores, expected.size())), expected, 1e-4, 0);
}

TEST(TritonAttention, FlaCausalGroupedQueries) {
  constexpr size_t kLength = 150, kQueryHeads = 4, kHeads = 2, kDepth = 64;
  const auto q = rounded(normal(kLength * kQueryHeads * kDepth, 16), through_bf16);
  const auto k = rounded(normal(kLength * kHeads * kDepth, 17), through_bf16);
  const auto v = rounded(normal(kLength * kHeads * kDepth, 18), through_bf16);
  constexpr float kScale = 0.125f;
  std::vector<double> expected(q.size()), logs(kLength * kQueryHeads);
  for (size_t head = 0; head < kQueryHeads; ++head) {
    const size_t group = head / 2;
    for (size_t i = 0; i < kLength; ++i) {
      std::vector<double> weights;
      double total = 0;
      for (size_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (size_t d = 0; d < kDepth; ++d) {
          dot += q[(i * kQueryHeads + head) * kDepth + d] * k[(j * kHeads + group) * kDepth + d];
        }
        weights.push_back(std::exp(dot * static_cast<double>(kScale)));
        total += weights.back();
      }
      logs[i * kQueryHeads + head] = std::log2(total);  // this library's are of base two
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = 0; d < kDepth; ++d) {
          expected[(i * kQueryHeads + head) * kDepth + d] += weights[j] / total * v[(j * kHeads + group) * kDepth + d];
        }
      }
    }
  }
  TritonProgram program("fla_attention");
  const uint64_t o = program.tensor(std::vector<uint16_t>(q.size()));
  const uint64_t lse = program.tensor(std::vector<float>(logs.size()));
  Arguments arguments;
  arguments << program.tensor(converted(q, to_bf16)) << program.tensor(converted(k, to_bf16))
            << program.tensor(converted(v, to_bf16)) << o << lse << kScale << int32_t{kLength};
  const auto report = program.run(3, kQueryHeads, 1, arguments);
  EXPECT_GT(report.tensor_core_macs, 0u);
  // The weights are rounded to bf16 before they meet the values.
  expect_close(converted(program.read<uint16_t>(o, q.size()), from_bf16), expected, 0.01, 0x1p-7);
  expect_close(widen(program.read<float>(lse, logs.size())), logs, 1e-4, 0);
}

}  // namespace
}  // namespace ptxbench::foreign

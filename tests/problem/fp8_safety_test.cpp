// Comparison and diagnosis of FP8 results on shapes smaller than every sample and tile, seen in part. The mutations
// (fp8_mutation_test.cpp) are too slow for sanitizers, which see the same code here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "fp8_model.h"
#include "problem/comparison.h"
#include "problem/fp8_gemm.h"

namespace ptxbench::problem {
namespace {

void expect_sane(const TensorComparison& result) {
  EXPECT_EQ(result.verdict, Verdict::failed) << describe(result);
  for (const Hypothesis& one : result.hypotheses) {
    EXPECT_GE(one.confidence, 0) << one.pattern;
    EXPECT_LE(one.confidence, 1) << one.pattern;
  }
}

/// Wrong in one of several ways.
std::vector<float> spoiled(const std::vector<float>& truth, int kind) {
  std::vector<float> values = truth;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kind == 0) values[i] = 0;
    if (kind == 1) values[i] = 3 * truth[values.size() - 1 - i] + 3;
    if (kind == 2) values[i] = i % 3 == 0 ? std::nanf("") : -values[i];
    if (kind == 3) values[i] *= 1 + 0.2f * static_cast<float>(i % 7 + 1);
  }
  return values;
}

TEST(Fp8Safety, OfGemmComparisons) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 128}, {3, 130, 128}, {40, 9, 256}, {65, 129, 384}}) {
    for (const bool blocks : {true, false}) {
      const Fp8GemmData data(m, n, k, blocks, Distribution::normal);
      const MatrixRows a = data.rows_a().scaled(std::make_shared<BlockScales>(data.scales_a));
      const MatrixRows b = data.rows_b().scaled(std::make_shared<BlockScales>(data.scales_b));
      for (int kind = 0; kind < 4; ++kind) {
        CompareOptions options;
        options.a = &a;
        options.b = &b;
        if (kind == 3 && m > 2 && n > 2) options.known = {{0, m / 2, 1, n}, {m / 2, m, 0, 2}};
        const Dtype dtype = blocks ? Dtype::bfloat16 : Dtype::float32;
        expect_sane(
            compare(in_type(dtype, "D", spoiled(data.truth, kind), n), data.truth, fp8_gemm_limits(dtype), options));
      }
      const auto sound =
          compare(in_type(Dtype::float32, "D", run_gemm(data, {}), n), data.truth, fp8_gemm_limits(Dtype::float32), {});
      EXPECT_EQ(sound.verdict, Verdict::passed) << describe(sound);
    }
  }
}

TEST(Fp8Safety, OfAttentionComparisons) {
  for (const auto& [heads, s, d] : {std::array<std::int64_t, 3>{1, 1, 16}, {2, 17, 32}, {1, 70, 64}}) {
    for (const bool causal : {false, true}) {
      const Fp8AttentionData data(heads, s, d, causal, Distribution::normal);
      const auto rows = [&](const std::vector<float>& values) {
        return MatrixRows(values.data(), Dtype::float32, data.shape.rows(), data.shape.depth);
      };
      for (int kind = 0; kind < 4; ++kind) {
        AttentionOperands operands{data.shape,
                                   {rows(data.q), rows(data.k), rows(data.v)},
                                   std::nullopt,
                                   AttentionOperands::Output::o,
                                   data.descales};
        CompareOptions options;
        options.attention = &operands;
        expect_sane(compare(in_type(Dtype::float8_e4m3fn, "O", spoiled(data.o_truth, kind), d), data.o_truth,
                            fp8_attention_limits(), options));
        operands.output = AttentionOperands::Output::lse;
        if (s > 1) {
          expect_sane(compare(in_type(Dtype::float32, "LSE", spoiled(data.lse, kind), s), data.lse,
                              fp8_log_sum_limits(), options));
        }
      }
      EXPECT_EQ(run_attention(data, {}).o.size(), data.o_truth.size());
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem

// One row, one key, tails shorter than any tile: every output of attention must be safe to compare and to explain.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "attention_model.h"

namespace ptxbench::problem {
namespace {

using Which = AttentionOperands::Output;

TensorComparison explained(const AttentionData& data, Which which, const std::vector<float>& values,
                           const std::vector<float>& truth, const std::vector<Tile>& known) {
  AttentionOperands operands{data.shape, data.inputs(), data.gradient_inputs(), which};
  if (which == Which::o || which == Which::lse) operands.gradient.reset();
  CompareOptions options;
  options.attention = &operands;
  options.known = known;
  if (which == Which::lse) {
    return compare(in_float32("LSE", values, data.shape.sequence), truth, log_sum_limits(), options);
  }
  if (which == Which::dk) options.term_norms = data.dk_norms;
  return compare(in_bfloat16("y", values, data.shape.depth), truth, limits_for("attention", Dtype::bfloat16), options);
}

TEST(AttentionDiagnosis, OddShapesAreSafe) {
  for (const auto& [heads, s, d] :
       {std::array<std::int64_t, 3>{1, 1, 16}, {2, 2, 8}, {1, 65, 24}, {3, 17, 16}, {2, 130, 64}}) {
    for (const bool causal : {false, true}) {
      const AttentionData data(heads, s, d, causal, Distribution::normal);
      const std::pair<Which, const std::vector<float>*> outputs[] = {{Which::o, &data.o_truth},
                                                                     {Which::lse, &data.lse},
                                                                     {Which::dq, &data.dq_truth},
                                                                     {Which::dk, &data.dk_truth},
                                                                     {Which::dv, &data.dv_truth}};
      for (const auto& [which, truth] : outputs) {
        std::vector<float> values = *truth;
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = truth->at(values.size() - 1 - i) * 3 + 2;
        EXPECT_EQ(explained(data, which, values, *truth, {}).verdict, Verdict::failed);
        EXPECT_EQ(explained(data, which, values, *truth, {{0, 1, 0, 1}}).verdict, Verdict::failed);
        values = *truth;
        values.back() = std::nanf("");
        EXPECT_EQ(explained(data, which, values, *truth, {}).verdict, Verdict::failed);
        EXPECT_EQ(explained(data, which, *truth, *truth, {}).verdict, Verdict::passed);
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem

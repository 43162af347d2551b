#include "problem/attention_truth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace ptxbench::problem {
namespace {

/// Random inputs of an attention problem; O and L of the backward pass are the forward pass's.
struct Attention {
  Attention(std::int64_t heads, std::int64_t sequence, std::int64_t depth, bool causal,
            Distribution distribution = Distribution::normal)
      : shape{heads, sequence, depth, causal} {
    for (std::uint32_t i = 0; i < 4; ++i) random[i] = RandomTensor{Dtype::bfloat16, distribution, 21, i};
    o.resize(elements());
    lse.resize(static_cast<std::size_t>(shape.rows()));
    const RowRange all{0, shape.rows()};
    attention_forward(shape, inputs(), {&all, 1}, o.data(), lse.data());
  }

  std::size_t elements() const { return static_cast<std::size_t>(shape.rows() * shape.depth); }
  MatrixRows matrix(int index) const { return {random[index], shape.rows(), shape.depth}; }
  AttentionInputs inputs() const { return {matrix(0), matrix(1), matrix(2)}; }
  AttentionGradientInputs gradient_inputs() const {
    return {inputs(), MatrixRows(o.data(), Dtype::float32, shape.rows(), shape.depth), matrix(3),
            MatrixRows(lse.data(), Dtype::float32, shape.heads, shape.sequence)};
  }

  AttentionShape shape;
  RandomTensor random[4];
  std::vector<float> o, lse;
};

/// The largest error of a row over the row's norm, norms floored at a tenth of the average.
double worst_row(const std::vector<float>& values, const std::vector<double>& exact, std::int64_t depth) {
  double total = 0;
  for (const double value : exact) total += value * value;
  const double floor = 0.01 * total / static_cast<double>(exact.size()) * static_cast<double>(depth);
  double worst = 0;
  for (std::size_t row = 0; row < exact.size(); row += static_cast<std::size_t>(depth)) {
    double error = 0, norm = 0;
    for (std::size_t i = row; i < row + static_cast<std::size_t>(depth); ++i) {
      error += (static_cast<double>(values[i]) - exact[i]) * (static_cast<double>(values[i]) - exact[i]);
      norm += exact[i] * exact[i];
    }
    worst = std::max(worst, std::sqrt(error / std::max({norm, floor, 1e-300})));
  }
  return worst;
}

void expect_agreement(const Attention& problem, const char* what) {
  const AttentionShape& shape = problem.shape;
  std::vector<double> o(problem.elements()), lse(problem.lse.size());
  attention_forward_fp64(shape, problem.inputs(), o.data(), lse.data());
  EXPECT_LT(worst_row(problem.o, o, shape.depth), 2e-5) << what;
  for (std::size_t i = 0; i < lse.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(problem.lse[i]), lse[i], 1e-4) << what << ", row " << i;
  }
  std::vector<float> dq(problem.elements()), dk(problem.elements()), dv(problem.elements());
  std::vector<double> dq_exact(problem.elements()), dk_exact(problem.elements()), dv_exact(problem.elements());
  const RowRange all{0, shape.rows()};
  attention_backward_q(shape, problem.gradient_inputs(), {&all, 1}, dq.data());
  attention_backward_kv(shape, problem.gradient_inputs(), {&all, 1}, dk.data(), dv.data());
  attention_backward_fp64(shape, problem.gradient_inputs(), dq_exact.data(), dk_exact.data(), dv_exact.data());
  EXPECT_LT(worst_row(dq, dq_exact, shape.depth), 1e-4) << what;
  EXPECT_LT(worst_row(dk, dk_exact, shape.depth), 1e-4) << what;
  EXPECT_LT(worst_row(dv, dv_exact, shape.depth), 1e-4) << what;
}

TEST(AttentionTruth, AgreesWithFp64OnAwkwardShapes) {
  struct Case {
    std::int64_t heads, sequence, depth;
  };
  for (const auto& [heads, sequence, depth] :
       {Case{2, 2, 16}, {3, 17, 64}, {1, 129, 96}, {2, 200, 40}, {1, 321, 128}, {1, 65, 256}}) {
    for (const bool causal : {false, true}) {
      const std::string what =
          "heads " + std::to_string(heads) + " S " + std::to_string(sequence) + (causal ? " causal" : "");
      expect_agreement(Attention(heads, sequence, depth, causal), what.c_str());
    }
  }
}

TEST(AttentionTruth, AgreesWithFp64OnHardInputs) {
  for (const Distribution distribution : {Distribution::scaled, Distribution::spiky}) {
    for (const bool causal : {false, true}) {
      expect_agreement(Attention(2, 300, 128, causal, distribution), std::string(to_string(distribution)).c_str());
    }
  }
}

// A single key has weight one: O is V, LSE the score, and dV is dO.
TEST(AttentionTruth, OneKey) {
  for (const bool causal : {false, true}) {
    const Attention problem(3, 1, 64, causal);
    std::vector<float> v(problem.elements()), d_o(problem.elements()), dq(problem.elements()), dk(problem.elements()),
        dv(problem.elements());
    for (std::int64_t row = 0; row < 3; ++row) {
      problem.matrix(2).read(row, 0, 64, v.data() + row * 64);
      problem.matrix(3).read(row, 0, 64, d_o.data() + row * 64);
    }
    const RowRange all{0, 3};
    attention_backward_q(problem.shape, problem.gradient_inputs(), {&all, 1}, dq.data());
    attention_backward_kv(problem.shape, problem.gradient_inputs(), {&all, 1}, dk.data(), dv.data());
    for (std::size_t i = 0; i < problem.elements(); ++i) {
      EXPECT_NEAR(problem.o[i], v[i], 1e-6f);
      EXPECT_NEAR(dv[i], d_o[i], 2e-6f);
      EXPECT_NEAR(dq[i], 0, 2e-5f);
      EXPECT_NEAR(dk[i], 0, 2e-5f);
    }
  }
}

// Row 0 of every head sees only key 0, the last row all of them: the same as without a mask.
TEST(AttentionTruth, CausalRowsSeeWhatTheyShould) {
  const Attention causal(2, 150, 64, true), whole(2, 150, 64, false);
  std::vector<float> v(64);
  for (std::int64_t head = 0; head < 2; ++head) {
    causal.matrix(2).read(head * 150, 0, 64, v.data());
    for (std::int64_t d = 0; d < 64; ++d) {
      EXPECT_NEAR(causal.o[static_cast<std::size_t>(head * 150 * 64 + d)], v[static_cast<std::size_t>(d)], 1e-6f);
      const auto last = static_cast<std::size_t>((head * 150 + 149) * 64 + d);
      EXPECT_NEAR(causal.o[last], whole.o[last], 1e-6f);
    }
  }
}

TEST(AttentionTruth, PartsGiveTheSameNumbersAndTouchNothingElse) {
  for (const bool causal : {false, true}) {
    const Attention problem(3, 420, 64, causal);
    const AttentionGradientInputs inputs = problem.gradient_inputs();
    const RowRange all{0, problem.shape.rows()};
    std::vector<float> dq(problem.elements()), dk(problem.elements()), dv(problem.elements());
    attention_backward_q(problem.shape, inputs, {&all, 1}, dq.data(), 2);
    attention_backward_kv(problem.shape, inputs, {&all, 1}, dk.data(), dv.data(), 2);
    // Within a head, across two of them, overlapping and out of order.
    const std::vector<RowRange> ranges = {{1000, 1001}, {300, 500}, {5, 70}, {60, 80}};
    constexpr float kUntouched = -77.0f;
    std::vector<float> part_o(problem.elements(), kUntouched), part_lse(problem.lse.size(), kUntouched);
    std::vector<float> part_dq = part_o, part_dk = part_o, part_dv = part_o;
    attention_forward(problem.shape, problem.inputs(), ranges, part_o.data(), part_lse.data(), 3);
    attention_backward_q(problem.shape, inputs, ranges, part_dq.data(), 3);
    attention_backward_kv(problem.shape, inputs, ranges, part_dk.data(), part_dv.data(), 3);
    for (std::int64_t row = 0; row < problem.shape.rows(); ++row) {
      const bool inside = std::any_of(ranges.begin(), ranges.end(),
                                      [&](const RowRange& range) { return row >= range.begin && row < range.end; });
      const auto at = static_cast<std::size_t>(row);
      ASSERT_EQ(part_lse[at], inside ? problem.lse[at] : kUntouched) << row;
      for (std::size_t i = at * 64; i < at * 64 + 64; ++i) {
        ASSERT_EQ(part_o[i], inside ? problem.o[i] : kUntouched) << row;
        ASSERT_EQ(part_dq[i], inside ? dq[i] : kUntouched) << row;
        ASSERT_EQ(part_dk[i], inside ? dk[i] : kUntouched) << row;
        ASSERT_EQ(part_dv[i], inside ? dv[i] : kUntouched) << row;
      }
    }
  }
}

// L and O are taken as they are given, also when they belong to no forward pass.
TEST(AttentionTruth, BackwardTakesItsInputsAsTheyAre) {
  Attention problem(1, 130, 64, true);
  for (std::size_t i = 0; i < problem.o.size(); ++i) problem.o[i] = from_bfloat16(to_bfloat16(problem.o[i] + 0.25f));
  for (float& value : problem.lse) value += 0.5f;
  std::vector<float> dq(problem.elements());
  std::vector<double> exact(problem.elements()), rest(problem.elements());
  const RowRange all{0, problem.shape.rows()};
  attention_backward_q(problem.shape, problem.gradient_inputs(), {&all, 1}, dq.data());
  attention_backward_fp64(problem.shape, problem.gradient_inputs(), exact.data(), rest.data(), rest.data());
  EXPECT_LT(worst_row(dq, exact, 64), 1e-5);
}

}  // namespace
}  // namespace ptxbench::problem

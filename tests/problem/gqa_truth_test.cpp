#include "problem/gqa_truth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gqa_model.h"

namespace ptxbench::problem {
namespace {

const std::vector<GqaCase>& cases() {
  static const std::vector<GqaCase> kList = {
      {GqaKind::decode, 5, 5, 300, 500},
      {GqaKind::decode, 4, 4, 20, 33, 16, 6, 3, 40},
      {GqaKind::prefill, 3, 50, 220, 260, 1, 4, 4, 64},
      {GqaKind::prefill, 4, 60, 25, 40, 16, 8, 1, 128},
      {GqaKind::ragged, 5, 150, 150, 1, 1, 6, 2, 64},
      {GqaKind::ragged, 1, 230, 300},
      {GqaKind::ragged, 3, 60, 20},       // queries that see nothing
      {GqaKind::decode, 6, 6, 4, 9, 16},  // requests without keys
      {GqaKind::decode, 1, 1, 1, 1},
      {GqaKind::decode, 4, 4, 250, 300, 1, 4, 1, 96, Distribution::normal, 24},  // latent
      {GqaKind::prefill, 3, 50, 17, 20, 16, 5, 1, 64, Distribution::normal, 16},
      {GqaKind::decode, 4, 4, 3, 9, 1, 4, 1, 64, Distribution::normal, 16},
      {GqaKind::decode, 2, 2, 90, 99, 1, 16, 1, 512, Distribution::normal, 64},
      {GqaKind::ragged, 3, 60, 200, 1, 1, 4, 4, 96, Distribution::normal, 0, 64},
      {GqaKind::ragged, 3, 60, 40, 1, 1, 4, 4, 40, Distribution::normal, 0, 72},
  };
  return kList;
}

/// The largest error of a row over its norm, norms floored at a tenth of the average.
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

TEST(GqaTruth, AgreesWithFp64) {
  for (GqaCase what : cases()) {
    for (const Distribution distribution : {Distribution::normal, Distribution::scaled, Distribution::spiky}) {
      what.distribution = distribution;
      const GqaData data(what);
      std::vector<double> o(data.o_truth.size()), lse(data.lse_truth.size());
      gqa_forward_fp64(data.shape, data.inputs(), o.data(), lse.data());
      EXPECT_LT(worst_row(data.o_truth, o, what.columns()), 2e-5) << what.name();
      for (std::size_t i = 0; i < lse.size(); ++i) {
        if (std::isinf(lse[i])) {
          ASSERT_EQ(data.lse_truth[i], -INFINITY) << what.name() << ", row " << i;
          for (std::int64_t d = 0; d < what.columns(); ++d) {
            ASSERT_EQ(data.o_truth[i * static_cast<std::size_t>(what.columns()) + static_cast<std::size_t>(d)], 0.0f);
          }
        } else {
          ASSERT_NEAR(static_cast<double>(data.lse_truth[i]), lse[i], 1.5e-4) << what.name() << ", row " << i;
        }
      }
    }
  }
}

// With as many heads of K and V as query heads, and requests of equal length one behind the other, it is multi-head
// attention in another layout.
TEST(GqaTruth, AgreesWithMultiHeadAttention) {
  constexpr std::int64_t kHeads = 3, kKeys = 200, kDepth = 64;
  RandomTensor random[3];
  for (std::uint32_t i = 0; i < 3; ++i) random[i] = RandomTensor{Dtype::bfloat16, Distribution::normal, 4, i};
  const auto matrix = [&](int i) { return MatrixRows(random[i], kHeads * kKeys, kDepth); };
  const AttentionShape shape{kHeads, kKeys, kDepth, true};
  std::vector<float> o(kHeads * kKeys * kDepth), lse(kHeads * kKeys), rows_o(o), rows_lse(lse);
  const RowRange all{0, shape.rows()};
  attention_forward(shape, {matrix(0), matrix(1), matrix(2)}, {&all, 1}, o.data(), lse.data());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    // A head's 200 queries and keys are a request with one head.
    GqaShape one{kHeads * kKeys, 1, 1, kDepth, kDepth, shape.scale(), true, {}, {}};
    one.requests.push_back({head * kKeys, (head + 1) * kKeys, 0, kKeys});
    for (std::int64_t key = 0; key < kKeys; ++key) one.slots.push_back(head * kKeys + key);
    const RowRange mine{head * kKeys, (head + 1) * kKeys};
    gqa_forward(one, {matrix(0), matrix(1), matrix(2)}, {&mine, 1}, rows_o.data(), rows_lse.data());
  }
  EXPECT_EQ(o, rows_o);
  for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i] * 1.44269504f, rows_lse[i], 2e-6f);
}

TEST(GqaTruth, TilesGiveTheSameNumbersAndNothingElse) {
  for (const GqaCase& what : cases()) {
    const GqaData data(what);
    TruthRequest request = request_for(data.problem, data.tensors);
    request.threads = 3;
    const std::int64_t rows = data.shape.rows(), heads = what.qo_heads, depth = what.columns();
    // Rows across queries and requests, overlapping; of lse some heads of some queries.
    const Tile first{rows / 3, rows - rows / 4, 0, depth}, again{rows / 2, rows - 1, 0, depth};
    const Tile some{0, (data.shape.queries + 1) / 2, heads / 2, heads};
    request.tiles = {{first, again}, {some}};
    const auto part = (*find_reference(data.problem.definition))(request);
    ASSERT_TRUE(part) << part.error().message;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      const bool wanted = (row >= first.row_begin && row < first.row_end) ||
                          (row >= again.row_begin && row < again.row_end) ||
                          (row / heads < some.row_end && row % heads >= some.column_begin);
      ASSERT_EQ(part->outputs[data.roles.lse].as<float>()[at], wanted ? data.lse_truth[at] : 0.0f) << what.name();
      for (std::size_t i = at * static_cast<std::size_t>(depth); i < (at + 1) * static_cast<std::size_t>(depth); ++i) {
        ASSERT_EQ(part->outputs[data.roles.output].as<float>()[i], wanted ? data.o_truth[i] : 0.0f) << what.name();
      }
    }
  }
}

// Operands that are generated on demand, while the index tensors are there.
TEST(GqaTruth, LazyOperandsGiveTheSameNumbers) {
  const GqaData data(cases()[3]);
  TruthRequest request = request_for(data.problem, data.tensors);
  InputOptions options;
  options.seed = 3;
  for (const std::size_t i : {data.roles.q, data.roles.k, data.roles.v}) {
    request.inputs[i] = {nullptr, random_input(data.problem, i, options)};
  }
  const auto truth = (*find_reference(data.problem.definition))(request);
  ASSERT_TRUE(truth) << truth.error().message;
  EXPECT_TRUE(std::equal(data.o_truth.begin(), data.o_truth.end(), truth->outputs[0].as<float>().begin()));
  // Without them nothing can be said.
  request.inputs[data.roles.kv_indptr] = {nullptr, RandomTensor{}};
  EXPECT_FALSE((*find_reference(data.problem.definition))(request));
}

TEST(GqaTruth, CountsWhatTheMaskLeaves) {
  for (const GqaCase& what : cases()) {
    const GqaData data(what);
    double seen = 0;
    for (const GqaRequest& request : data.shape.requests) {
      for (std::int64_t query = 0; query < request.queries(); ++query) {
        seen += static_cast<double>(data.shape.seen_by(request, query));
      }
    }
    EXPECT_EQ(data.shape.multiply_adds(),
              seen * static_cast<double>(what.qo_heads * (what.depth + what.rope + what.columns())))
        << what.name();
  }
}

TEST(GqaTruth, OneKeyGivesItsValue) {
  const GqaData data({GqaKind::decode, 1, 1, 1, 5});
  const std::vector<float> v = data.widened(data.roles.v);
  const std::int64_t slot = data.shape.slots[0];
  EXPECT_NE(slot, 0) << "page 0 would be found without page indices";
  for (std::int64_t head = 0; head < 6; ++head) {
    for (std::int64_t d = 0; d < 64; ++d) {
      const float value = v[static_cast<std::size_t>((slot * 2 + head / 3) * 64 + d)];
      EXPECT_NEAR(data.o_truth[static_cast<std::size_t>(head * 64 + d)], value, 1e-6f * std::fabs(value));
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem

// One key, no key, partial pages: every output of grouped-query attention must be safe to compare and to explain.
#include <gtest/gtest.h>

#include <cmath>

#include "attention_model.h"
#include "gqa_model.h"

namespace ptxbench::problem {
namespace {

TensorComparison explained(const GqaData& data, bool is_lse, const std::vector<float>& values,
                           const std::vector<Tile>& known) {
  const GqaOperands operands = data.operands(is_lse);
  CompareOptions options;
  options.gqa = &operands;
  options.known = known;
  const std::size_t output = is_lse ? data.roles.lse : data.roles.output;
  const auto limits = limits_for(data.problem.definition, output);
  return is_lse ? compare(in_float32("lse", values, data.what.qo_heads), data.lse_truth, limits, options)
                : compare(in_bfloat16("output", values, data.what.columns()), data.o_truth, limits, options);
}

TEST(GqaDiagnosis, OddShapesAreSafe) {
  const GqaCase shapes[] = {{GqaKind::decode, 1, 1, 1, 1, 1, 1, 1, 8},
                            {GqaKind::decode, 4, 4, 2, 3, 1, 3, 3, 24},
                            {GqaKind::decode, 3, 3, 7, 9, 4, 4, 1, 16},
                            {GqaKind::prefill, 2, 9, 4, 5, 8, 2, 2, 16},
                            {GqaKind::ragged, 3, 30, 12, 1, 1, 4, 2, 16},
                            {GqaKind::ragged, 2, 70, 70, 1, 1, 2, 1, 40},
                            {GqaKind::prefill, 1, 66, 80, 90, 1, 4, 2, 16},
                            {GqaKind::decode, 2, 2, 1, 2, 16, 80, 8, 16},
                            {GqaKind::decode, 3, 3, 2, 5, 16, 4, 1, 24, Distribution::normal, 8},
                            {GqaKind::prefill, 2, 40, 60, 90, 1, 3, 1, 16, Distribution::normal, 40},
                            {GqaKind::ragged, 2, 40, 30, 1, 1, 2, 2, 24, Distribution::normal, 0, 16}};
  for (const GqaCase& what : shapes) {
    const GqaData data(what);
    for (const bool is_lse : {false, true}) {
      const std::vector<float>& truth = is_lse ? data.lse_truth : data.o_truth;
      std::vector<float> values = truth;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = truth[values.size() - 1 - i] * 3 + 2;
      EXPECT_EQ(explained(data, is_lse, values, {}).verdict, Verdict::failed) << what.name();
      // Two empty requests may have changed places.
      const Verdict first = values[0] == truth[0] ? Verdict::passed : Verdict::failed;
      EXPECT_EQ(explained(data, is_lse, values, {{0, 1, 0, 1}}).verdict, first) << what.name();
      for (const float value : {std::nanf(""), INFINITY, 7.0f}) {
        values = truth;
        values.back() = value;
        EXPECT_EQ(explained(data, is_lse, values, {}).verdict, Verdict::failed) << what.name() << value;
      }
      EXPECT_EQ(explained(data, is_lse, truth, {}).verdict, Verdict::passed) << what.name();
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem

#include "problem/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ptxbench::problem {
namespace {

const Limits kLimits = *limits_for("gemm", Dtype::bfloat16);

struct Pair {
  Tensor output;
  std::vector<float> truth;
};

/// A sound output of the given shape.
Pair sound(std::int64_t rows, std::int64_t columns, Dtype dtype = Dtype::bfloat16) {
  std::vector<float> truth(static_cast<std::size_t>(rows * columns));
  RandomTensor{Dtype::float32, Distribution::normal, 21, 0}.fill(0, truth.size(), truth.data());
  auto output = Tensor::create("C", dtype, {rows, columns});
  from_float(dtype, truth.data(), 0, truth.size(), output->data());
  return {std::move(*output), std::move(truth)};
}

TEST(Compare, NumbersAreWhatTheyClaim) {
  // 2 x 4, truth all 1, one element 1.5: errors are exact in bf16.
  auto output = Tensor::create("C", Dtype::bfloat16, {2, 4});
  const std::vector<float> truth(8, 1.0f);
  std::vector<float> values = truth;
  values[6] = 1.5f;
  from_float(Dtype::bfloat16, values.data(), 0, 8, output->data());
  const auto result = compare(*output, truth, kLimits);
  EXPECT_DOUBLE_EQ(result.tensor_l2, std::sqrt(0.25 / 8));
  EXPECT_DOUBLE_EQ(result.worst_row_l2, std::sqrt(0.25 / 4));
  EXPECT_EQ(result.worst_row, 1);
  EXPECT_DOUBLE_EQ(result.gain, 8.5 / 8);
  EXPECT_DOUBLE_EQ(result.worst_element, 0.5 - 1.0 / 256);
  EXPECT_DOUBLE_EQ(result.max_absolute_error, 0.5);
  EXPECT_EQ(result.wrong, 1u);
  ASSERT_TRUE(result.first_wrong);
  EXPECT_EQ(result.first_wrong->row, 1);
  EXPECT_EQ(result.first_wrong->column, 2);
  EXPECT_EQ(result.first_wrong->got, 1.5);
  EXPECT_EQ(result.compat.bad_elements, 1u);
  EXPECT_EQ(result.verdict, Verdict::failed);
}

TEST(Compare, FewElementsMayMoveTheGainByChance) {
  // A sample of 64 elements is what may be kept of one timed call.
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::vector<float> truth(64);
    RandomTensor{Dtype::float32, Distribution::normal, seed, 0}.fill(0, truth.size(), truth.data());
    auto output = Tensor::create("C", Dtype::bfloat16, {1, 64});
    from_float(Dtype::bfloat16, truth.data(), 0, truth.size(), output->data());
    const auto result = compare(*output, truth, kLimits);
    ASSERT_EQ(result.verdict, Verdict::passed) << "seed " << seed << ": " << result.failures.front();
    std::vector<float> scaled = truth;
    for (float& value : scaled) value *= 1.01f;
    from_float(Dtype::bfloat16, scaled.data(), 0, scaled.size(), output->data());
    EXPECT_EQ(compare(*output, truth, kLimits).verdict, Verdict::failed) << "seed " << seed;
  }
}

TEST(Compare, WholeCellsAreMeasuredLikeSingleElements) {
  // One damaged element at a time sends its cell the slow way; all numbers of the others stay what they were.
  auto [output, truth] = sound(96, 200);
  const auto before = compare(output, truth, kLimits);
  EXPECT_EQ(before.verdict, Verdict::passed);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{199}, std::size_t{200 * 95 + 130}}) {
    auto damaged = sound(96, 200).output;
    damaged.as<std::uint16_t>()[at] = to_bfloat16(truth[at] + 3.0f);
    const auto after = compare(damaged, truth, kLimits);
    EXPECT_EQ(after.wrong, 1u);
    ASSERT_TRUE(after.first_wrong);
    EXPECT_EQ(after.first_wrong->row * 200 + after.first_wrong->column, static_cast<std::int64_t>(at));
    EXPECT_EQ(after.wrong_cell_count, 1u);
    EXPECT_EQ(after.known, before.known);
    EXPECT_EQ(after.compat.bad_elements, 1u);
    damaged.as<std::uint16_t>()[at] = 0x7fc0;
    EXPECT_EQ(compare(damaged, truth, kLimits).nan, 1u);
    damaged.as<std::uint16_t>()[at] = 0xffa5;  // poison
    EXPECT_EQ(compare(damaged, truth, kLimits).unwritten, 1u);
  }
}

TEST(Compare, UnknownElementsAreNotJudged) {
  auto [output, truth] = sound(256, 256);
  // Everything outside the known tile is wrong.
  auto values = output.as<std::uint16_t>();
  for (std::size_t row = 0; row < 256; ++row) {
    for (std::size_t column = 0; column < 256; ++column) {
      if (row < 128 || column >= 128) values[row * 256 + column] = to_bfloat16(99);
    }
  }
  CompareOptions options;
  options.known = {{128, 256, 0, 128}};
  const auto result = compare(output, truth, kLimits, options);
  EXPECT_EQ(result.verdict, Verdict::passed) << describe(result);
  EXPECT_EQ(result.known, 128u * 128u);
  EXPECT_EQ(result.unknown, 256u * 256u - 128u * 128u);
  EXPECT_NE(result.note.find("unknown"), std::string::npos);
  options.known = {{128, 256, 0, 129}};
  EXPECT_EQ(compare(output, truth, kLimits, options).verdict, Verdict::failed);
}

TEST(Compare, WithoutLimitsNothingPasses) {
  const auto [output, truth] = sound(64, 64);
  const auto result = compare(output, truth, std::nullopt);
  EXPECT_EQ(result.verdict, Verdict::unknown);
  EXPECT_FALSE(result.note.empty());
  auto [bad, bad_truth] = sound(64, 64);
  bad.as<std::uint16_t>()[5] = 0x7fc0;
  EXPECT_EQ(compare(bad, bad_truth, std::nullopt).verdict, Verdict::failed) << "NaN needs no limit";
}

TEST(Compare, MissingTruthIsUnknown) {
  const auto [output, truth] = sound(64, 64);
  const auto result = compare(output, std::span<const float>(truth).first(10), kLimits);
  EXPECT_EQ(result.verdict, Verdict::unknown);
}

TEST(Compare, PoisonIsUnwrittenAndNotMerelyNan) {
  auto [output, truth] = sound(64, 64);
  auto poison = Tensor::create("p", Dtype::bfloat16, {1});
  fill_poison(*poison);
  output.as<std::uint16_t>()[70] = poison->as<std::uint16_t>()[0];
  output.as<std::uint16_t>()[71] = 0x7fff;  // the NaN that arithmetic gives
  const auto result = compare(output, truth, kLimits);
  EXPECT_EQ(result.unwritten, 1u);
  EXPECT_EQ(result.nan, 1u);
  EXPECT_EQ(result.verdict, Verdict::failed);
}

TEST(Compare, PoisonIsNanInEveryFloatingType) {
  for (const Dtype dtype :
       {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float8_e4m3fn, Dtype::float8_e5m2}) {
    auto tensor = Tensor::create("p", dtype, {16});
    fill_poison(*tensor);
    float value = 0;
    to_float(dtype, tensor->data(), 7, 1, &value);
    EXPECT_TRUE(std::isnan(value)) << to_string(dtype);
    EXPECT_TRUE(is_poison(*tensor, 7)) << to_string(dtype);
  }
}

TEST(Compare, BlockAndRowLimitsCatchLocalErrors) {
  auto [output, truth] = sound(8192, 32);
  // One row of 8192 off by 2 %: invisible in the tensor's norm.
  auto values = output.as<std::uint16_t>();
  for (std::size_t column = 0; column < 32; ++column) {
    values[5000 * 32 + column] = to_bfloat16(truth[5000 * 32 + column] * 1.02f);
  }
  const auto result = compare(output, truth, kLimits);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_LT(result.tensor_l2, kLimits.tensor_l2);
  EXPECT_EQ(result.worst_row, 5000);
  EXPECT_EQ(result.worst_block_row, 4992);
}

TEST(Compare, ZeroRowsDoNotDivideByZero) {
  auto [output, truth] = sound(64, 64);
  for (std::size_t column = 0; column < 64; ++column) {
    truth[column] = 0;
    output.as<std::uint16_t>()[column] = 0;
  }
  EXPECT_EQ(compare(output, truth, kLimits).verdict, Verdict::passed);
  const std::vector<float> zeros(64 * 64, 0.0f);
  auto blank = Tensor::create("C", Dtype::bfloat16, {64, 64});
  EXPECT_EQ(compare(*blank, zeros, kLimits).verdict, Verdict::passed) << "zero is right when the truth is zero";
  EXPECT_EQ(compare(output, zeros, kLimits).verdict, Verdict::failed);
}

TEST(Compare, ThreadsDoNotMatter) {
  auto [output, truth] = sound(512, 300);
  output.as<std::uint16_t>()[40000] = to_bfloat16(50);
  output.as<std::uint16_t>()[70000] = to_bfloat16(50);
  CompareOptions one, many;
  one.threads = 1;
  many.threads = 7;
  const base::Json json = to_json(compare(output, truth, kLimits, one));
  EXPECT_EQ(json, to_json(compare(output, truth, kLimits, many)));
  EXPECT_EQ(json["limits"].size(), 5u);
  EXPECT_EQ(json["limits"]["row_l2"]["limit"], kLimits.row_l2);
  EXPECT_EQ(json["limits"]["row_l2"]["value"], json["worst_row_l2"]);
}

TEST(Compare, ErrorMapCountsCells) {
  auto [output, truth] = sound(100, 100);
  output.as<std::uint16_t>()[99 * 100 + 99] = to_bfloat16(50);
  const auto result = compare(output, truth, kLimits);
  EXPECT_EQ(result.cell_count, 4u);
  ASSERT_EQ(result.wrong_cells.size(), 1u);
  EXPECT_EQ(result.wrong_cells[0].row, 64);
  EXPECT_EQ(result.wrong_cells[0].column, 64);
  EXPECT_EQ(result.wrong_cells[0].known, 36u * 36u);
}

TEST(Compare, SquareMatricesMayBeTransposedWhole) {
  auto [output, truth] = sound(96, 96);
  std::vector<float> transposed(truth.size());
  for (std::size_t i = 0; i < 96; ++i) {
    for (std::size_t j = 0; j < 96; ++j) transposed[i * 96 + j] = truth[j * 96 + i];
  }
  from_float(Dtype::bfloat16, transposed.data(), 0, transposed.size(), output.data());
  const auto result = compare(output, truth, kLimits);
  ASSERT_FALSE(result.hypotheses.empty());
  EXPECT_EQ(result.hypotheses[0].pattern, "transposed_matrix");
}

TEST(Compare, Fp16LimitsSaySoWhenNotCalibrated) {
  const auto [output, truth] = sound(64, 512, Dtype::float16);
  const auto limits = limits_for("gemm", Dtype::float16);
  ASSERT_TRUE(limits);
  const auto result = compare(output, truth, limits);
  EXPECT_EQ(result.verdict, Verdict::passed) << describe(result);
  EXPECT_NE(result.note.find("not calibrated"), std::string::npos);
  EXPECT_FALSE(limits_for("gemm", Dtype::float32));
  EXPECT_FALSE(limits_for("no_such_op", Dtype::bfloat16));
}

TEST(Compare, TheReferencesRuleDecidesOnRequest) {
  auto [output, truth] = sound(64, 512);
  CompareOptions options;
  options.tolerance = Tolerance::reference;
  // 0.5 % too large everywhere: strictly wrong, and what the reference lets pass.
  std::vector<float> scaled = truth;
  for (float& value : scaled) value *= 1.005f;
  from_float(Dtype::bfloat16, scaled.data(), 0, scaled.size(), output.data());
  EXPECT_EQ(compare(output, truth, kLimits).verdict, Verdict::failed);
  auto result = compare(output, truth, kLimits, options);
  EXPECT_EQ(result.verdict, Verdict::passed) << describe(result);
  EXPECT_EQ(result.rule, Tolerance::reference);
  EXPECT_EQ(result.wrong, 0u);
  EXPECT_NE(result.note.find("the strict rule is broken"), std::string::npos) << result.note;
  EXPECT_NE(describe(result).find("by the reference's rule"), std::string::npos);
  EXPECT_EQ(compare(output, truth, std::nullopt, options).verdict, Verdict::passed) << "it needs no limits";

  // One element of 32,768.
  scaled[700] = truth[700] + 1;
  from_float(Dtype::bfloat16, scaled.data(), 0, scaled.size(), output.data());
  result = compare(output, truth, std::nullopt, options);
  EXPECT_EQ(result.verdict, Verdict::failed);
  ASSERT_TRUE(result.first_wrong);
  EXPECT_EQ(result.first_wrong->row, 1);
  EXPECT_EQ(result.first_wrong->column, 188);
  options.matched_ratio = 0.995;
  EXPECT_EQ(compare(output, truth, std::nullopt, options).verdict, Verdict::passed) << "1 of 32,768 is allowed";
  output.as<std::uint16_t>()[3] = 0x7fc0;
  EXPECT_EQ(compare(output, truth, std::nullopt, options).verdict, Verdict::failed) << "but no NaN";
}

TEST(Compare, PoisonIsUnwrittenEvenWhereTheTruthIsNan) {
  auto output = Tensor::create("C", Dtype::float32, {4});
  fill_poison(*output);
  const std::vector<float> truth(4, NAN);
  for (const Tolerance rule : {Tolerance::strict, Tolerance::reference}) {
    CompareOptions options;
    options.tolerance = rule;
    const auto result = compare(*output, truth, std::nullopt, options);
    EXPECT_EQ(result.verdict, Verdict::failed);
    EXPECT_EQ(result.unwritten, 4u);
  }
}

TEST(Compare, ATruthThatIsNanProvesNothing) {
  auto output = Tensor::create("C", Dtype::float32, {4});
  const std::vector<float> truth = {1, NAN, 3, 4};
  from_float(Dtype::float32, truth.data(), 0, 4, output->data());
  CompareOptions options;
  options.tolerance = Tolerance::reference;
  auto result = compare(*output, truth, std::nullopt, options);
  EXPECT_EQ(result.verdict, Verdict::unknown);
  EXPECT_NE(result.note.find("NaN"), std::string::npos) << result.note;
  output->as<float>()[1] = 2;
  result = compare(*output, truth, std::nullopt, options);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_NE(result.failures.front().find("not NaN"), std::string::npos) << result.failures.front();
}

TEST(Compare, IntegersAndBoolsMustBeEqual) {
  CompareOptions options;
  options.tolerance = Tolerance::reference;
  const auto verdict = [&](Dtype dtype, std::vector<float> values, const std::vector<float>& truth) {
    auto output = Tensor::create("C", dtype, {static_cast<std::int64_t>(values.size())});
    from_float(dtype, values.data(), 0, values.size(), output->data());
    return compare(*output, truth, std::nullopt, options).verdict;
  };
  for (const Dtype dtype : {Dtype::int64, Dtype::int32, Dtype::int16}) {
    EXPECT_EQ(verdict(dtype, {10000, -5}, {10000, -5}), Verdict::passed) << to_string(dtype);
    EXPECT_EQ(verdict(dtype, {10001, -5}, {10000, -5}), Verdict::failed) << to_string(dtype);
  }
  EXPECT_EQ(verdict(Dtype::int8, {100, 0}, {100, 0}), Verdict::passed);
  EXPECT_EQ(verdict(Dtype::int8, {101, 0}, {100, 0}), Verdict::failed);
  EXPECT_EQ(verdict(Dtype::boolean, {1, 0}, {1, 0}), Verdict::passed);
  EXPECT_EQ(verdict(Dtype::boolean, {1, 1}, {1, 0}), Verdict::failed);
  EXPECT_EQ(verdict(Dtype::int32, {16777216}, {16777216}), Verdict::unknown) << "it may stand for 16777217";
  EXPECT_EQ(verdict(Dtype::int32, {16777218}, {16777216}), Verdict::failed);
  EXPECT_EQ(verdict(Dtype::int32, {2}, {2.5f}), Verdict::unknown);
  EXPECT_EQ(verdict(Dtype::int8, {127}, {300}), Verdict::unknown);
}

TEST(Compare, UnwrittenOutputsOfEveryTypeFail) {
  const std::vector<float> truths[] = {std::vector<float>(16, 0), std::vector<float>(16, 1), std::vector<float>(16, -1),
                                       std::vector<float>(16, 6), std::vector<float>(16, -6)};
  CompareOptions options;
  options.tolerance = Tolerance::reference;
  for (const Dtype dtype :
       {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float8_e4m3fn, Dtype::float8_e5m2, Dtype::float4_e2m1,
        Dtype::int64, Dtype::int32, Dtype::int16, Dtype::int8, Dtype::boolean}) {
    auto output = Tensor::create("C", dtype, {16});
    fill_poison(*output);
    for (const auto& truth : truths) {
      const auto result = compare(*output, truth, std::nullopt, options);
      EXPECT_EQ(result.verdict, Verdict::failed) << to_string(dtype) << " " << truth[0];
      EXPECT_EQ(result.unwritten, has_poison(dtype) ? 16u : 0u) << to_string(dtype);
    }
  }
}

TEST(Compare, NoElementsPass) {
  const auto output = Tensor::create("C", Dtype::bfloat16, {0, 64});
  EXPECT_EQ(compare(*output, {}, kLimits).verdict, Verdict::passed);
  EXPECT_EQ(compare(*output, {}, std::nullopt).verdict, Verdict::passed);
}

}  // namespace
}  // namespace ptxbench::problem

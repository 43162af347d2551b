// `ptxbench check` of candidates: wrong numbers are findings with the explanation that the numbers themselves confirm.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/process.h"

namespace ptxbench {
namespace {

const std::string kData = "tests/evaluation/data";
const std::string kCandidates = "tests/evaluation/candidates/";

struct Checked {
  int exit_code = 0;
  base::Json report;
  std::string errors;

  std::vector<std::string> rules() const {
    std::vector<std::string> out;
    for (const base::Json& finding : report["findings"]) out.push_back(finding["rule"]);
    return out;
  }
};

Checked check(const std::string& candidate, int rows, std::vector<std::string> more = {"--policies", "eager"}) {
  base::ProcessOptions options;
  options.argv = {TEST_PROGRAM, "check",  kCandidates + candidate,     "-p",     "gemm_small", "--data",
                  kData,        "--axis", "M=" + std::to_string(rows), "--json", "-"};
  options.argv.insert(options.argv.end(), more.begin(), more.end());
  options.environment["PTXBENCH_CACHE"] = TEST_CACHE;
  options.wall_limit = std::chrono::minutes(3);
  const auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  auto report = base::parse_json(result->stdout_text, "output");
  EXPECT_TRUE(report) << result->stdout_text << result->stderr_text;
  return {result->exit_code, report ? std::move(*report) : base::Json::object(), result->stderr_text};
}

struct NumericFault {
  int mode;  ///< of candidates/numeric_faults.cu
  const char* rule;
};

class NumericFaults : public ::testing::TestWithParam<NumericFault> {};

TEST_P(NumericFaults, AreExplained) {
  const Checked result = check("numeric_faults.cu", 64 + GetParam().mode);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.report["verdict"], "hazardous");
  ASSERT_EQ(result.rules(), std::vector<std::string>{GetParam().rule}) << result.report.dump(2);
  const base::Json& finding = result.report["findings"][0];
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["output"], "C");
  EXPECT_NE(finding["kernel"].get<std::string>().find("gemm"), std::string::npos);
  const std::string message = finding["message"], fix = finding["fix"];
  EXPECT_NE(message.find("first wrong element: ["), std::string::npos) << message;
  EXPECT_NE(message.find("64x64 cells have wrong elements"), std::string::npos) << message;
  EXPECT_FALSE(fix.empty());
  EXPECT_EQ(fix.find('\n'), std::string::npos);
  EXPECT_FALSE(finding.contains("follows_from"));
}

constexpr NumericFault kNumericFaults[] = {
    {1, "numeric.missing-k"},        {2, "numeric.missing-k"},         {3, "numeric.repeated-k"},
    {4, "numeric.repeated-k"},       {5, "numeric.stale-k"},           {6, "numeric.stale-k"},
    {7, "numeric.constant-scale"},   {8, "numeric.constant-scale"},    {9, "numeric.missing-rescale"},
    {10, "numeric.missing-rescale"}, {11, "numeric.transposed-tile"},  {12, "numeric.transposed-operand"},
    {13, "numeric.stale-tile"},      {14, "numeric.stale-tile"},       {15, "numeric.tail-only"},
    {16, "numeric.tail-only"},       {17, "numeric.not-finite"},       {18, "numeric.not-finite"},
    {19, "numeric.all-zero"},        {20, "numeric.constant-value"},   {21, "numeric.permuted-rows"},
    {22, "numeric.permuted-rows"},   {23, "numeric.permuted-columns"}, {24, "numeric.permuted-columns"},
    {25, "numeric.permuted-chunks"}, {26, "numeric.permuted-chunks"},  {27, "numeric.mismatch"},
};
INSTANTIATE_TEST_SUITE_P(Modes, NumericFaults, ::testing::ValuesIn(kNumericFaults), [](const auto& one) {
  std::string name = std::to_string(one.param.mode) + one.param.rule;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

TEST(CheckCommand, TheSoundKernelIsClean) {
  // A whole number of tiles, and one with a tail.
  for (const int rows : {64, 100}) {
    const Checked result = check("numeric_faults.cu", rows, {"--policies", "eager,lazy"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.report["verdict"], "clean") << result.report.dump(2);
    EXPECT_TRUE(result.rules().empty());
  }
}

TEST(CheckCommand, WrongNumbersComeAfterTheHazardThatExplainsThem) {
  const Checked result = check("numeric_faults.cu", 64 + 28);
  const auto rules = result.rules();
  ASSERT_GE(rules.size(), 2u) << result.report.dump(2);
  EXPECT_TRUE(rules.front().starts_with("race.")) << rules.front();
  EXPECT_TRUE(rules.back().starts_with("numeric."));
  EXPECT_EQ(result.report["findings"].back()["follows_from"], rules.front());
}

}  // namespace
}  // namespace ptxbench

// The Hopper packs on a real GPU: the same programs on the real CUDA runtime, and the patterns through the executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shipped.h"

namespace ptxbench::knowledge {
namespace {

using ::testing::HasSubstr;

/// Empty, or why the test cannot run here.
std::string no_gpu() {
  if (!std::filesystem::exists("/dev/nvidiactl")) return "no NVIDIA GPU";
  const auto result = run_native("attributes", {});
  return result.exit_code == 0 ? "" : "the CUDA runtime does not work: " + result.stderr_text;
}

TEST(OnGpu, HelpersDoWhatTheySay) {
  if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  for (const char* name : {"helpers", "wgmma_shapes"}) {
    const auto result = run_native(name, {});
    EXPECT_EQ(result.exit_code, 0) << name << "\n" << result.stdout_text << result.stderr_text;
    EXPECT_THAT(result.stdout_text, HasSubstr("\n0 failures\n"));
  }
}

TEST(OnGpu, TablesAreTheSame) {
  if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  for (const auto& [option, file] : {std::pair{"--phases", "tables/phases.md"}, {"--bytes", "tables/bytes.md"}}) {
    EXPECT_EQ(run_native("helpers", {option}).stdout_text, read_inside(shipped().folder(), file).value()) << file;
  }
}

TEST(OnGpu, NumbersAreThoseOfTheDevice) {
  if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  const auto attributes = pairs_of(run_native("attributes", {}).stdout_text);
  for (const Number* number : shipped().numbers().of("sm_90a")) {
    if (number->attribute.empty()) continue;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& pair) { return pair.first == number->attribute; });
    ASSERT_NE(found, attributes.end()) << number->attribute;
    EXPECT_EQ(found->second, std::to_string(number->value)) << number->name();
  }
}

class PatternOnGpu : public ::testing::TestWithParam<PatternCase> {};
TEST_P(PatternOnGpu, IsRight) {
  if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  const PatternCase& one = GetParam();
  std::vector<std::string> arguments = {"eval",       candidate(one.pattern, "sm_90a", one.macros, one.name),
                                        "--problem",  one.problem,
                                        "--backend",  "gpu",
                                        "--no-timing"};
  for (const std::string& axis : one.axes) arguments.insert(arguments.end(), {"--axis", axis});
  const auto result = ptxbench(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
}
INSTANTIATE_TEST_SUITE_P(Patterns, PatternOnGpu, ::testing::ValuesIn(pattern_cases()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace ptxbench::knowledge

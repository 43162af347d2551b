// `ptxbench check` of candidates: wrong numbers are findings with the explanation that the numbers themselves confirm.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"

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

const std::vector<std::string> kOnce{"--fresh", "--policies", "eager"};

Checked check(const std::string& candidate, int rows, const std::vector<std::string>& more = kOnce,
              const std::string& cache = TEST_CACHE) {
  base::ProcessOptions options;
  const std::string file = candidate.starts_with('/') ? candidate : kCandidates + candidate;
  options.argv = {
      TEST_PROGRAM, "check", file, "-p", "gemm_small", "--data", kData, "--axis", "M=" + std::to_string(rows),
      "--json",     "-"};
  options.argv.insert(options.argv.end(), more.begin(), more.end());
  options.environment["PTXBENCH_CACHE"] = cache;
  options.wall_limit = std::chrono::minutes(3);
  const auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  auto report = base::parse_json(result->stdout_text, "output");
  EXPECT_TRUE(report) << result->stdout_text << result->stderr_text;
  return {result->exit_code, report ? std::move(*report) : base::Json::object(), result->stderr_text};
}

TEST(CheckCommand, WritesATimeline) {
  auto folder = base::TempDir::create();
  const std::string out = (folder->path() / "out.json").string();
  const Checked result = check("numeric_faults.cu", 64, {"--fresh", "--policies", "lazy", "--timeline", out});
  EXPECT_NE(result.errors.find("cycles by the model"), std::string::npos) << result.errors;
  const auto text = base::read_file(out);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("\"traceEvents\""), std::string::npos);
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
  std::vector<std::string> expected{GetParam().rule};
  // What it adds to its result is memory that nobody wrote.
  constexpr int kReadsOutput = 17;
  if (GetParam().mode == kReadsOutput) expected.insert(expected.begin(), "memory.uninitialised");
  ASSERT_EQ(result.rules(), expected) << result.report.dump(2);
  const base::Json& finding = result.report["findings"].back();
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["output"], "C");
  EXPECT_NE(finding["kernel"].get<std::string>().find("gemm"), std::string::npos);
  const std::string message = finding["message"], fix = finding["fix"];
  EXPECT_NE(message.find("first wrong element: ["), std::string::npos) << message;
  EXPECT_NE(message.find("64x64 cells have wrong elements"), std::string::npos) << message;
  EXPECT_FALSE(fix.empty());
  EXPECT_EQ(fix.find('\n'), std::string::npos);
  EXPECT_EQ(finding.contains("follows_from"), GetParam().mode == kReadsOutput);
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
    const Checked result = check("numeric_faults.cu", rows, {"--fresh", "--policies", "eager,lazy"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.report["verdict"], "clean") << result.report.dump(2);
    EXPECT_TRUE(result.rules().empty());
    EXPECT_EQ(result.report["stored"], false);
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

TEST(CheckCommand, OutputsThatCannotBeComparedAreUnknown) {
  base::ProcessOptions options;
  options.argv = {
      TEST_PROGRAM, "check", kCandidates + "scale.cu", "-p", "scale_n256", "--data", kData, "--axis", "M=8", "--fresh",
      "--policies", "eager"};
  options.environment["PTXBENCH_CACHE"] = TEST_CACHE;
  const auto result = base::run_process(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, 1);
  EXPECT_NE(result->stdout_text.find("not known: whether the outputs are right"), std::string::npos)
      << result->stdout_text;
  EXPECT_NE(result->stdout_text.find("verdict: unknown"), std::string::npos);
}

// --- reports of earlier checks

/// Checks of a copy of a candidate with a cache of its own. Compilations are this build folder's: those that checkouts
/// share name the folder of whoever made them, and are not the same for two texts of which only comments differ.
class StoredReports : public ::testing::Test {
 protected:
  StoredReports() : folder_(base::TempDir::create("stored").value()) {
    const auto own = std::filesystem::absolute(TEST_CACHE) / "own-artifacts";
    std::filesystem::create_directories(own);
    std::filesystem::create_symlink(own, folder_.path() / "artifacts");
    source_ = base::read_file(kCandidates + "numeric_faults.cu").value();
  }
  Checked run(const std::string& source, int rows = 64, std::vector<std::string> more = {"--policies", "eager"}) {
    const auto path = folder_.path() / "candidate.cu";
    EXPECT_TRUE(base::write_file_atomic(path, source));
    return check(path.string(), rows, more, folder_.path().string());
  }
  std::string with(std::string_view from, std::string_view to) const {
    std::string out = source_;
    EXPECT_NE(out.find(from), std::string::npos) << from;
    return out.replace(out.find(from), from.size(), to);
  }
  base::TempDir folder_;
  std::string source_;
};

TEST_F(StoredReports, TheSameCheckIsNotRunAgain) {
  const Checked first = run(source_, 64 + 3);
  EXPECT_EQ(first.report["stored"], false);
  EXPECT_EQ(first.errors, "");
  const Checked second = run(source_, 64 + 3);
  EXPECT_EQ(second.report["stored"], true);
  EXPECT_EQ(second.exit_code, first.exit_code);
  EXPECT_EQ(second.report["findings"], first.report["findings"]);
  EXPECT_EQ(second.report["fidelity"], first.report["fidelity"]);
  // On demand it is, and what it gives replaces the old one.
  EXPECT_EQ(run(source_, 64 + 3, {"--policies", "eager", "--fresh"}).report["stored"], false);
  EXPECT_NE(run(source_, 64 + 3).report["stored_at"], "");
}

TEST_F(StoredReports, AnyOtherQuestionIsAskedAnew) {
  run(source_);
  ASSERT_EQ(run(source_).report["stored"], true);
  const auto is_new = [&](int rows, const std::vector<std::string>& more) {
    return run(source_, rows, more).report["stored"] == false;
  };
  EXPECT_TRUE(is_new(80, {"--policies", "eager"})) << "another axis";
  EXPECT_TRUE(is_new(64, {"--policies", "lazy"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager,lazy"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager", "--seed", "2"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager", "--pedantic"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager", "--instructions", "400000000"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager", "--full"}));
  EXPECT_TRUE(is_new(64, {"--policies", "eager", "--sample-clusters", "2"}));
  EXPECT_TRUE(is_new(64, {"--replay", "5"}));
}

TEST_F(StoredReports, OnlyCommentsMayDiffer) {
  run(source_);
  EXPECT_EQ(run(with("kTile = 16,", "kTile =   16,  /* rows and columns */")).report["stored"], true);
  EXPECT_EQ(run(with("kDepth = 32", "kDepth = 16")).report["stored"], false) << "a kernel that does the same otherwise";
  EXPECT_EQ(run(with("dim3(kTile, kTile), 0, stream", "dim3(kTile, kTile), 16, stream")).report["stored"], false)
      << "host code alone";
}

TEST_F(StoredReports, FindingsWithLinesAreNotMovedToOthers) {
  // Host code without line numbers, so that moving lines changes nothing in it.
  const std::string check_of_launch =
      "  if (launched != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(launched);\n";
  const std::string quiet = with(check_of_launch, "  static_cast<void>(launched);\n");
  const auto moved = [&] {
    std::string out = quiet;
    return out.replace(out.find("constexpr int kTile"), 0, "// a line more\n");
  }();
  run(quiet);
  EXPECT_EQ(run(moved).report["stored"], true) << "nothing was found, so no line is named";
  const Checked race = run(quiet, 64 + 28);
  const Checked race_moved = run(moved, 64 + 28);
  EXPECT_EQ(race_moved.report["stored"], false);
  ASSERT_EQ(race.rules().front(), race_moved.rules().front());
  EXPECT_EQ(race.report["findings"][0]["location"]["line"].get<int>() + 1,
            race_moved.report["findings"][0]["location"]["line"].get<int>());
  EXPECT_EQ(run(quiet, 64 + 28).report["stored"], true);
}

TEST_F(StoredReports, DamagedOnesAreMadeAgain) {
  run(source_);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() / "checks")) {
    if (entry.is_regular_file()) std::ofstream(entry.path(), std::ios::app) << "x";
  }
  const Checked again = run(source_);
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.report["stored"], false);
  EXPECT_NE(again.errors.find("damaged"), std::string::npos) << again.errors;
  EXPECT_EQ(run(source_).report["stored"], true);
}

TEST_F(StoredReports, WhatDependsOnTheMachineIsNotKept) {
  // Crashes: another time it might not.
  const std::string source = base::read_file(kCandidates + "host_faults.cu").value();
  EXPECT_EQ(run(source, 1).rules(), std::vector<std::string>{"host.crash"});
  EXPECT_EQ(run(source, 1).report["stored"], false);
  // Does not compile.
  const std::string broken = base::read_file(kCandidates + "compile_error.cu").value();
  run(broken);
  EXPECT_EQ(run(broken).report["stored"], false);
}

TEST_F(StoredReports, WorkForPtxToo) {
  const std::string ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  mad.wide.u32 %rd1, %r0, 4, %rd0;
  st.global.u32 [%rd1], %r0;
  ret;
}
)";
  const std::string launch = R"(block = 32
argument = [{name = "out", type = "u32", shape = [32], output = true, expect = "index"}]
)";
  const auto run_ptx = [&](const std::string& text, const std::string& description) {
    EXPECT_TRUE(base::write_file_atomic(folder_.path() / "k.ptx", text));
    EXPECT_TRUE(base::write_file_atomic(folder_.path() / "k.toml", description));
    base::ProcessOptions options;
    options.argv = {
        TEST_PROGRAM, "check", (folder_.path() / "k.ptx").string(), "--launch", (folder_.path() / "k.toml").string(),
        "--json",     "-"};
    options.environment["PTXBENCH_CACHE"] = folder_.path().string();
    const auto result = base::run_process(options);
    EXPECT_TRUE(result);
    return base::parse_json(result->stdout_text, "output").value_or(base::Json::object());
  };
  EXPECT_EQ(run_ptx(ptx, launch)["stored"], false);
  const base::Json again = run_ptx(ptx, launch);
  EXPECT_EQ(again["stored"], true);
  EXPECT_EQ(again["verdict"], "clean");
  EXPECT_EQ(run_ptx("// a comment\n" + ptx, launch)["stored"], true);
  EXPECT_EQ(run_ptx(ptx, launch + "repeat = 2\n")["stored"], false);
  const base::Json wrong = run_ptx(base::replace_all(ptx, "%rd1], %r0", "%rd1], 7"), launch);
  EXPECT_EQ(wrong["stored"], false);
  ASSERT_EQ(wrong["findings"].size(), 1u);
  EXPECT_EQ(wrong["findings"][0]["rule"], "numeric.mismatch");
  EXPECT_EQ(wrong["findings"][0]["kernel"], "k");
  EXPECT_EQ(wrong["findings"][0]["output"], "out");
}

}  // namespace
}  // namespace ptxbench

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"

namespace ptxbench {
namespace {

base::ProcessResult eval(std::vector<std::string> arguments,
                         std::map<std::string, std::optional<std::string>> environment = {}) {
  base::ProcessOptions options;
  options.argv = {TEST_PROGRAM, "eval"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = std::move(environment);
  options.environment.try_emplace("PTXBENCH_CACHE", TEST_CACHE);
  options.wall_limit = std::chrono::minutes(3);
  auto result = base::run_process(options);
  EXPECT_TRUE(result);
  return result ? std::move(*result) : base::ProcessResult();
}

const std::string kData = "tests/evaluation/data";
const std::string kCandidates = "tests/evaluation/candidates/";

TEST(EvalCommand, PassedIsZeroAndPlainInAPipe) {
  const auto result =
      eval({kCandidates + "device_faults.cu", "--problem", "gemm_small", "--data", kData, "--axis", "M=7"});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  EXPECT_NE(result.stdout_text.find("verdict: passed"), std::string::npos) << result.stdout_text;
  EXPECT_EQ(result.stdout_text.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.stderr_text, "");
}

TEST(EvalCommand, NotPassedIsOneAndJsonIsOneObject) {
  const auto result =
      eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=8", "--json"});
  EXPECT_EQ(result.exit_code, 1) << result.stderr_text;
  const auto json = base::parse_json(result.stdout_text, "output");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->at("schema"), "ptxbench.evaluation/1");
  EXPECT_EQ(json->at("verdict").at("status"), "failed");
  EXPECT_EQ(json->at("definition"), "gemm_small");
}

TEST(EvalCommand, WritesATimelineBesideTheVerdict) {
  auto folder = base::TempDir::create();
  const auto file = folder->path() / "deep" / "out.json";
  const auto result = eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7",
                            "--timeline", file.string()});
  EXPECT_EQ(result.exit_code, 0) << result.stderr_text;
  EXPECT_NE(result.stdout_text.find("verdict: passed"), std::string::npos) << result.stdout_text;
  EXPECT_NE(result.stderr_text.find("cycles by the model"), std::string::npos) << result.stderr_text;
  const auto text = base::read_file(file);
  ASSERT_TRUE(text) << text.error().message;
  const auto trace = base::parse_json(*text, "trace");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->at("otherData").at("schema"), "ptxbench.timeline/1");
  EXPECT_EQ(trace->at("otherData").at("subject"), kCandidates + "device_faults.cu");
  EXPECT_EQ(trace->at("otherData").at("clusters").at(0).at("complete"), true);

  const auto compressed = eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7",
                                "--timeline", file.string() + ".gz", "--timeline-cluster", "99"});
  EXPECT_EQ(compressed.exit_code, 0) << compressed.stderr_text;
  EXPECT_NE(compressed.stderr_text.find("has none of the clusters asked for"), std::string::npos);
  const auto packed = base::read_file(file.string() + ".gz");
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(packed->substr(0, 2), "\x1f\x8b");
  EXPECT_LT(packed->size(), text->size());
}

TEST(EvalCommand, ATimelineOfWhatCannotBeShownSaysSo) {
  auto folder = base::TempDir::create();
  const std::string broken = (folder->path() / "broken.cu").string(), out = (folder->path() / "out.json").string();
  std::ofstream(broken) << "this is no kernel\n";
  const auto compiles_not = eval({broken, "-p", "gemm_small", "--data", kData, "--axis", "M=7", "--timeline", out});
  EXPECT_EQ(compiles_not.exit_code, 1);
  EXPECT_NE(compiles_not.stderr_text.find("no kernel was launched"), std::string::npos) << compiles_not.stderr_text;
  EXPECT_FALSE(std::filesystem::exists(out));
  const auto remote = eval(
      {kCandidates + "device_faults.cu", "-p", "gemm_small", "--service", "http://127.0.0.1:1", "--timeline", out});
  EXPECT_EQ(remote.exit_code, 2);
  EXPECT_NE(remote.stderr_text.find("--timeline and --service"), std::string::npos) << remote.stderr_text;
  const auto nowhere = eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7",
                             "--timeline", "/proc/nowhere/out.json"});
  EXPECT_NE(nowhere.exit_code, 0);
  EXPECT_NE(nowhere.stderr_text.find("/proc/nowhere"), std::string::npos) << nowhere.stderr_text;
  EXPECT_NE(nowhere.stdout_text.find("verdict: passed"), std::string::npos) << "the verdict stands";
}

TEST(EvalCommand, FeedbackIsWhatAModelWouldBeTold) {
  const auto terse = eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=6",
                           "--feedback", "terse", "--feedback-tokens", "200"});
  EXPECT_EQ(terse.exit_code, 1) << terse.stderr_text;
  EXPECT_EQ(terse.stdout_text.rfind("Evaluation FAILED:", 0), 0u) << terse.stdout_text;
  EXPECT_NE(terse.stdout_text.find("Do first: "), std::string::npos) << terse.stdout_text;
  EXPECT_NE(terse.stdout_text.find("hazard check"), std::string::npos) << terse.stdout_text;
  const auto wrong = eval(
      {kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=6", "--feedback", "loud"});
  EXPECT_EQ(wrong.exit_code, 2);
}

TEST(EvalCommand, ARequiredStageThatCannotBeJudgedIsOne) {
  const auto result = eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7",
                            "--require", "speedup=1.0"});
  EXPECT_EQ(result.exit_code, 1) << result.stdout_text;
  EXPECT_NE(result.stdout_text.find("verdict: unknown"), std::string::npos) << result.stdout_text;
}

TEST(EvalCommand, WorkloadByUuidPrefix) {
  const auto result = eval({"examples/kernels/gemm_tma_wgmma.cu", "-p", "gemm_small", "--data", kData, "--workload",
                            "5e0c5c5e-0002", "--require", "target"});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
}

TEST(EvalCommand, AModelsAnswerIsTakenApart) {
  const auto folder = base::TempDir::create("eval-test");
  ASSERT_TRUE(folder);
  const auto path = folder->path() / "answer.md";
  const auto source = base::read_file(kCandidates + "device_faults.cu");
  ASSERT_TRUE(source);
  std::ofstream(path) << "Here is the kernel:\n\n```cuda\n" << *source << "```\n";
  const auto result = eval({path.string(), "-p", "gemm_small", "--data", kData, "--axis", "M=7"});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
}

TEST(EvalCommand, UsageErrorsAreTwo) {
  const std::string kernel = kCandidates + "device_faults.cu";
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } kCases[] = {
      {{kernel, "-p", "gem_small", "--data", kData, "--axis", "M=7"}, "gemm_small"},  // the nearest name
      {{"no/such/file.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7"}, "no/such/file.cu"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--axis", "Q=7"}, "Q"},
      {{kernel, "-p", "gemm_small", "--data", "no/such/folder"}, "no/such/folder"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--require", "speed"}, "--require speed"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--backend", "cloud"}, "--backend cloud"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--full", "--sample-clusters", "3"}, "--sample-clusters"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--workload", "5e0c5c5e-0001", "--axis", "M=7"}, "--axis"},
      {{"LICENSE", "-p", "gemm_small", "--data", kData, "--answer", "--axis", "M=7"}, "block"},
      {{kernel, "-p", "gemm_small", "--data", kData, "--backend", "emulator", "--sanitize", "memcheck"}, "--sanitize"},
      {{kernel}, "--problem"},
  };
  for (const auto& test : kCases) {
    const auto result = eval(test.arguments);
    EXPECT_EQ(result.exit_code, 2) << test.says << '\n' << result.stdout_text << result.stderr_text;
    EXPECT_NE(result.stderr_text.find(test.says), std::string::npos) << test.says << " in " << result.stderr_text;
  }
}

TEST(EvalCommand, AxesThatDoNotFitAreRefusedAtOnce) {
  const auto refused = [](const std::string& rows, const char* says) {
    const auto started = std::chrono::steady_clock::now();
    const auto result =
        eval({kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=" + rows});
    EXPECT_EQ(result.exit_code, 2) << rows << result.stdout_text << result.stderr_text;
    EXPECT_NE(result.stderr_text.find(says), std::string::npos) << result.stderr_text;
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  };
  // A: 384 bytes a row, C: 512. The GPU has 79.6 GiB.
  refused("200000000", "the tensors take 166.9 GiB, the GPU has 79.6: choose smaller axes");
  refused("100000000000000", "is not a number that can be an extent");
  refused("4611686018427387904", "is not a number that can be an extent");
  // Fits the GPU, but with truth and copies 262 GiB of this machine: no test where there is that much.
  const auto memory = base::read_file("/proc/meminfo");
  ASSERT_TRUE(memory);
  const std::size_t at = memory->find("MemAvailable:");
  ASSERT_NE(at, std::string::npos);
  if (std::strtoull(memory->c_str() + at + 13, nullptr, 10) < (std::uint64_t{240} << 20)) {
    refused("95000000", "judging this workload takes about 249.1 GiB of memory");
  }
}

TEST(EvalCommand, OptionsMayStandBeforeTheFile) {
  // Options that may be repeated take one value each.
  const auto result = eval({"-p", "gemm_small", "--data", kData, "--axis", "M=7", kCandidates + "device_faults.cu"});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
}

TEST(EvalCommand, MissingToolsAreThree) {
  const std::vector<std::string> arguments = {
      kCandidates + "device_faults.cu", "-p", "gemm_small", "--data", kData, "--axis", "M=7"};
  // Neither a toolkit named by the environment nor the set-up's own one.
  const auto no_nvcc =
      eval(arguments, {{"PTXBENCH_HOME", "tests/evaluation/data"}, {"PTXBENCH_FORCE_WHEEL_CUDA", "1"}});
  EXPECT_EQ(no_nvcc.exit_code, 3) << no_nvcc.stdout_text << no_nvcc.stderr_text;
  auto gpu = arguments;
  gpu.insert(gpu.end(), {"--backend", "gpu", "--device", "99"});
  const auto no_gpu = eval(gpu);
  EXPECT_EQ(no_gpu.exit_code, 3);
  // No driver, no executor in this build, or no such GPU.
  EXPECT_TRUE(no_gpu.stderr_text.find("use --backend emulator") != std::string::npos ||
              no_gpu.stderr_text.find("no GPU 99") != std::string::npos)
      << no_gpu.stderr_text;
}

}  // namespace
}  // namespace ptxbench

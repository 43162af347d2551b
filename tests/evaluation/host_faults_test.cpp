#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files.h"
#include "evaluator_fixture.h"

namespace ptxbench::evaluation {
namespace {

// The number of rows chooses the fault: see candidates/host_faults.cu.
Evaluation run(std::int64_t mode) { return evaluate(candidate_source("host_faults.cu"), small_problem(mode)); }

const Finding* expect_failure(const Evaluation& result, std::string_view rule) {
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  const Finding* finding = find(result, rule);
  EXPECT_NE(finding, nullptr) << dump(result);
  return finding;
}

TEST(HostFaults, Crash) { expect_failure(run(1), "host.crash"); }
TEST(HostFaults, Exit) { expect_failure(run(2), "host.exit"); }
TEST(HostFaults, EndlessLoop) { expect_failure(run(3), "host.timeout"); }
TEST(HostFaults, Sleep) { expect_failure(run(14), "host.timeout"); }
TEST(HostFaults, TouchingDeviceMemory) { expect_failure(run(4), "memory.host-access"); }
TEST(HostFaults, NoLaunch) { expect_failure(run(5), "host.no-launch"); }
TEST(HostFaults, HugeAllocation) {
  const Evaluation result = run(6);
  expect_failure(result, "host.error");
  // What was asked for and what there is.
  const Finding* memory = find(result, "launch.out-of-memory");
  ASSERT_NE(memory, nullptr) << dump(result);
  EXPECT_NE(memory->message.find("107374182400"), std::string::npos) << memory->message;
}
TEST(HostFaults, CopyIntoAnOutput) { expect_failure(run(7), "host.writes-tensor"); }

TEST(HostFaults, ExceptionNamesItsLine) {
  const Evaluation result = run(8);
  const Finding* finding = expect_failure(result, "host.error");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->message.find("ValueError: eight rows are not supported"), std::string::npos) << finding->message;
  EXPECT_EQ(finding->place.file, "kernel.cu");
  EXPECT_EQ(finding->place.line, line_with(candidate_source("host_faults.cu"), "[throw]"));
}

TEST(HostFaults, UnmodelledCallIsUnknown) {
  const Evaluation result = run(9);
  EXPECT_EQ(result.verdict, Status::unknown) << dump(result);
  EXPECT_EQ(result.stage(StageName::execute).status, Status::unknown);
  EXPECT_FALSE(result.fidelity.unsupported.empty());
}

TEST(HostFaults, FloodOfOutputDoesNoHarm) {
  const Evaluation result = run(10);
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  ASSERT_EQ(result.runs.size(), 1u);
  EXPECT_LT(result.runs[0].host_output.size(), 64u * 1024);
}

TEST(HostFaults, GarbageReportsDoNotPass) { EXPECT_EQ(run(11).verdict, Status::failed); }

TEST(HostFaults, ForgedReportDoesNotPass) {
  const Evaluation result = run(12);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
}

TEST(HostFaults, RefusedLaunchIsExplained) {
  const Evaluation result = run(13);
  const Finding* finding = expect_failure(result, "launch.threads");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->place.kernel.find("gemm"), std::string::npos);
  EXPECT_EQ(finding->place.host_call, "cudaLaunchKernel (<<<>>>)");
  EXPECT_NE(finding->message.find("2048"), std::string::npos) << finding->message;
}

TEST(HostFaults, LaunchingForEverIsRefused) {
  EvaluateOptions options = quick_options();
  options.instruction_budget = 100'000;
  const Evaluation result = evaluate(candidate_source("host_faults.cu"), small_problem(15), options);
  const Finding* finding = expect_failure(result, "launch.refused");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->message.find("more than any solution needs"), std::string::npos) << finding->message;
  // It was not the host's time limit that ended it.
  EXPECT_EQ(find(result, "host.timeout"), nullptr) << dump(result);
}

TEST(HostFaults, FilesCannotBeChanged) {
  const auto folder = base::TempDir::create("untrusted");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "old", "as it was"));
  // Of the environment a candidate gets no more than a few variables: this one tells it the folder.
  const char* before = std::getenv("HOME");
  const std::optional<std::string> home = before == nullptr ? std::nullopt : std::optional<std::string>(before);
  ::setenv("HOME", folder->path().c_str(), 1);
  const Evaluation result = run(16);
  if (home) {
    ::setenv("HOME", home->c_str(), 1);
  } else {
    ::unsetenv("HOME");
  }
  // The candidate went on and did its work.
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  EXPECT_EQ(base::read_file(folder->path() / "old").value_or("gone"), "as it was");
  EXPECT_FALSE(std::filesystem::exists(folder->path() / "new"));
}

/// Whether a process descends from another run of these tests: they may run at the same time, with the same candidate.
bool belongs_to_another_test(int process) {
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored).filename();
  for (int depth = 0; process > 1 && depth < 32; ++depth) {
    const auto stat = base::read_file("/proc/" + std::to_string(process) + "/stat");
    if (!stat) return false;
    // "PID (NAME) STATE PARENT ...", and the name may hold anything.
    int parent = 0;
    if (std::sscanf(stat->c_str() + std::min(stat->rfind(')'), stat->size() - 1), ") %*c %d", &parent) != 1)
      return false;
    if (parent != getpid() &&
        std::filesystem::read_symlink("/proc/" + std::to_string(parent) + "/exe", ignored).filename() == own)
      return true;
    process = parent;
  }
  return false;
}

TEST(HostFaults, NoProcessOutlivesTheCall) {
  const auto started = std::chrono::steady_clock::now();
  const Evaluation result = run(17);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(60));
  ASSERT_EQ(result.runs.size(), 1u) << dump(result);
  EXPECT_NE(result.runs[0].host_output.find("no child"), std::string::npos) << result.runs[0].host_output;
  // The child holds the device's library, whose name nothing else of this process's does once the call is over.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code ignored;
    const auto program = std::filesystem::read_symlink(entry.path() / "exe", ignored);
    if (ignored || program.filename() != "ptxbench-runner") continue;
    const auto status = base::read_file(entry.path() / "stat");
    const auto arguments = base::read_file(entry.path() / "cmdline");
    const bool ours = arguments && arguments->find(result.artifact_id) != std::string::npos;
    if (ours && belongs_to_another_test(std::atoi(entry.path().filename().c_str()))) continue;
    EXPECT_FALSE(ours) << "left behind: " << (status ? *status : "");
  }
}

TEST(HostFaults, TheSameCodeWithoutFaultPasses) {
  const Evaluation result = run(20);
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
}

}  // namespace
}  // namespace ptxbench::evaluation

#include "evaluator_fixture.h"

namespace ptxbench::evaluation {
namespace {

// The number of rows chooses the fault: see candidates/device_faults.cu.
Evaluation run(std::int64_t mode, const EvaluateOptions& options = quick_options()) {
  return evaluate(candidate_source("device_faults.cu"), small_problem(mode), options);
}

void expect_fault(std::int64_t mode, std::string_view rule, std::string_view marker) {
  const Evaluation result = run(mode);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_EQ(result.stage(StageName::execute).status, Status::failed);
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::skipped);
  const Finding* finding = find(result, rule);
  ASSERT_NE(finding, nullptr) << dump(result);
  EXPECT_EQ(finding->severity, Severity::error);
  if (marker.empty()) return;
  EXPECT_EQ(finding->place.file, "kernel.cu");
  EXPECT_EQ(finding->place.line, line_with(candidate_source("device_faults.cu"), marker)) << dump(result);
  EXPECT_GT(finding->place.ptx_line, 0u);
}

TEST(DeviceFaults, MissingArrivalIsADeadlockAtTheWait) { expect_fault(1, "sync.deadlock", "[deadlock]"); }
TEST(DeviceFaults, WriteBehindTheOutput) { expect_fault(2, "memory.out-of-bounds", "[bounds]"); }
TEST(DeviceFaults, EndlessLoopUsesUpItsBudget) { expect_fault(3, "sync.budget", ""); }
TEST(DeviceFaults, WildPointer) { expect_fault(4, "memory.out-of-bounds", "[wild]"); }
TEST(DeviceFaults, Trap) { expect_fault(9, "launch.trap", ""); }

TEST(DeviceFaults, ModifiedInput) {
  const Evaluation result = run(5);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  const Finding* finding = find(result, "memory.input-modified");
  ASSERT_NE(finding, nullptr) << dump(result);
  EXPECT_NE(finding->message.find("input A"), std::string::npos);
}

TEST(DeviceFaults, UnwrittenRowsAreNamed) {
  const Evaluation result = run(6);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_EQ(result.stage(StageName::execute).status, Status::passed);
  const Finding* finding = find(result, "memory.unwritten");
  ASSERT_NE(finding, nullptr) << dump(result);
  // The last two of six rows of 256 columns.
  EXPECT_NE(finding->message.find("512 of 1536"), std::string::npos) << finding->message;
  EXPECT_NE(finding->message.find("rows 4-5"), std::string::npos) << finding->message;
  EXPECT_TRUE(std::none_of(result.findings.begin(), result.findings.end(),
                           [](const Finding& one) { return one.rule.starts_with("numeric."); }));
  EXPECT_EQ(finding->place.output, "C");
}

TEST(DeviceFaults, TwoPercentTooMuchFails) {
  const Evaluation result = run(8);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  const Finding* finding = find(result, "numeric.constant-scale");
  ASSERT_NE(finding, nullptr) << dump(result);
  EXPECT_EQ(finding->place.output, "C");
  EXPECT_NE(finding->message.find("1.02"), std::string::npos) << finding->message;
  EXPECT_FALSE(finding->remedy.empty());
}

TEST(DeviceFaults, TheSameKernelWithoutFaultPasses) {
  EvaluateOptions options = quick_options();
  options.seeds = 2;
  const Evaluation result = run(7, options);
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  EXPECT_EQ(result.runs.size(), 2u);
  EXPECT_NE(result.runs[0].distribution, result.runs[1].distribution);
}

TEST(DeviceFaults, AllCompletionPoliciesAgreeOnASoundKernel) {
  for (const auto policy : {emulator::CompletionPolicy::lazy, emulator::CompletionPolicy::random}) {
    EvaluateOptions options = quick_options();
    options.completion = policy;
    const Evaluation result = evaluate(example_source("gemm_warp_specialized.cu"), small_problem(200), options);
    EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  }
}

}  // namespace
}  // namespace ptxbench::evaluation

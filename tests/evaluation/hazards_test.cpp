#include <algorithm>

#include "base/text.h"
#include "evaluator_fixture.h"
#include "timeline/schedule.h"

namespace ptxbench::evaluation {
namespace {

using Hazards = EvaluateOptions::Hazards;

/// Right numbers where copies and products are done at once; in truth a box is filled while wgmma may still read it.
std::string kernel_that_waits_too_little() {
  return base::replace_all(example_source("gemm_tma_wgmma.cu"), "wgmma.wait_group.sync.aligned 0",
                           "wgmma.wait_group.sync.aligned 1");
}

EvaluateOptions with(Hazards hazards) {
  EvaluateOptions options = quick_options();
  options.hazards = hazards;
  return options;
}

TEST(HazardsOfAnEvaluation, FailAKernelWhoseNumbersAreRight) {
  const Evaluation result = evaluate(kernel_that_waits_too_little(), small_problem(64), with(Hazards::always));
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::passed) << dump(result);
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_EQ(result.hazards.status, Status::failed);
  EXPECT_EQ(result.hazards.policies.size(), 3u);
  const Finding* finding = find(result, "async.wrong-group");
  ASSERT_NE(finding, nullptr) << dump(result);
  // Both accesses, each with the calls that lead to it.
  ASSERT_TRUE(finding->other.has_value());
  EXPECT_FALSE(finding->place.called_from.empty());
  EXPECT_NE(finding->place.access.find("TMA"), std::string::npos) << finding->place.access;
  EXPECT_NE(finding->other->access.find("wgmma"), std::string::npos) << finding->other->access;
  EXPECT_FALSE(finding->policies.empty());
}

TEST(CpuSeconds, CountWhatWorkedForAnEvaluation) {
  EvaluateOptions options = quick_options();
  options.threads = 2;
  options.full = true;
  const std::string source = example_source("gemm_simt.cu");
  evaluate(source, small_problem(512), options);  // compiles
  const double small = evaluate(source, small_problem(512), options).timings.cpu;
  const Evaluation large = evaluate(source, small_problem(8192), options);
  EXPECT_EQ(large.verdict, Status::passed) << dump(large);
  EXPECT_GT(small, 0);
  EXPECT_GT(large.timings.cpu, 2 * small) << "sixteen times the work";
  options.hazards = Hazards::always;
  EXPECT_GT(evaluate(source, small_problem(8192), options).timings.cpu, large.timings.cpu);
}

TEST(Timeline, OfACandidate) {
  const auto recorded = evaluator().record(example_source("gemm_tma_wgmma.cu"), small_problem(64), quick_options());
  ASSERT_TRUE(recorded) << recorded.error().message;
  ASSERT_EQ(recorded->launches.size(), 1U);
  ASSERT_EQ(recorded->launches[0].clusters.size(), 1U);
  const timeline::ClusterRecord& cluster = recorded->launches[0].clusters[0];
  EXPECT_TRUE(cluster.finished);
  const timeline::ClusterSchedule timed = timeline::schedule(recorded->launches[0], cluster);
  EXPECT_GT(timed.product_cycles, 0);
  EXPECT_GT(timed.copy_bytes, 0);
  EXPECT_GT(timed.releases.size(), 0U);
  // The device is free again.
  EXPECT_EQ(evaluate(example_source("gemm_tma_wgmma.cu"), small_problem(64)).verdict, Status::passed);
}

TEST(HazardsOfAnEvaluation, AreLookedForOnlyWhereAsked) {
  const std::string source = kernel_that_waits_too_little();
  for (const Hazards hazards : {Hazards::off, Hazards::failed}) {
    const Evaluation result = evaluate(source, small_problem(64), with(hazards));
    EXPECT_EQ(result.hazards.status, Status::skipped);
    EXPECT_EQ(find(result, "async.wrong-group"), nullptr) << dump(result);
  }
}

TEST(HazardsOfAnEvaluation, AreNoneInAGoodKernel) {
  const Evaluation result = evaluate(example_source("gemm_tma_wgmma.cu"), small_problem(64), with(Hazards::always));
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  EXPECT_EQ(result.hazards.status, Status::passed) << result.hazards.reason;
}

TEST(HazardsOfAnEvaluation, ExplainAFailure) {
  // Rows 4-5 of 6 are not written, which is no hazard.
  const Evaluation result = evaluate(candidate_source("device_faults.cu"), small_problem(6), with(Hazards::failed));
  EXPECT_EQ(result.verdict, Status::failed);
  EXPECT_EQ(result.hazards.status, Status::passed) << dump(result);
  EXPECT_EQ(std::count_if(result.findings.begin(), result.findings.end(),
                          [](const Finding& one) { return one.rule == "memory.unwritten"; }),
            1);
}

TEST(HazardsOfAnEvaluation, AreNotLookedForInAKernelThatNeverEnds) {
  const Evaluation result = evaluate(candidate_source("device_faults.cu"), small_problem(3), with(Hazards::always));
  EXPECT_NE(find(result, "sync.budget"), nullptr);
  EXPECT_EQ(result.hazards.status, Status::skipped);
}

TEST(HazardsOfAnEvaluation, KnowTheShapeOfALaunch) {
  const Evaluation result = evaluate(example_source("gemm_tma_wgmma.cu"), small_problem(64));
  ASSERT_FALSE(result.runs.empty());
  ASSERT_FALSE(result.runs[0].launches.empty());
  EXPECT_EQ(result.runs[0].launches[0].block[0], 128u);
  EXPECT_GT(result.runs[0].launches[0].grid[0], 0u);
  EXPECT_EQ(result.runs[0].launches[0].cluster[0], 1u);
}

}  // namespace
}  // namespace ptxbench::evaluation

#include "evaluator_fixture.h"

namespace ptxbench::evaluation {
namespace {

EvaluateOptions sampled_options(unsigned clusters) {
  EvaluateOptions options = quick_options();
  options.sample_clusters = clusters;
  return options;
}

TEST(Sampling, ChecksWhatTheSampleWroteAndSaysSo) {
  // Tiles of 128x128: a grid of 2 x 10 blocks, of which the four corners and three others run.
  const Evaluation result = evaluate(example_source("gemm_tma_wgmma.cu"), small_problem(1280), sampled_options(3));
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  EXPECT_TRUE(result.sampled);
  ASSERT_EQ(result.runs.size(), 1u);
  const evaluation::Run& run = result.runs[0];
  EXPECT_TRUE(run.sampled);
  ASSERT_EQ(run.launches.size(), 1u);
  EXPECT_EQ(run.launches[0].clusters_run, 7u);
  EXPECT_EQ(run.launches[0].clusters_total, 20u);
  EXPECT_DOUBLE_EQ(run.coverage, 7.0 / 20);
  ASSERT_TRUE(result.instructions && result.instructions->mac_share);
  EXPECT_TRUE(result.instructions->scaled);
  // Whole tiles: the sampled blocks do exactly the work of what they cover.
  EXPECT_DOUBLE_EQ(*result.instructions->mac_share, 1.0);
}

TEST(Sampling, WrongValuesInTheSampleFail) {
  std::string source = example_source("gemm_simt.cu");
  const std::string right = "pair0 = __floats2bfloat162_rn(acc[i][4 * half], acc[i][4 * half + 1])";
  const auto at = source.find(right);
  ASSERT_NE(at, std::string::npos);
  source.replace(at, right.size(), "pair0 = __floats2bfloat162_rn(1.02f * acc[i][4 * half], acc[i][4 * half + 1])");
  const Evaluation result = evaluate(source, small_problem(1280), sampled_options(1));
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_NE(find(result, "numeric.constant-scale"), nullptr);
}

TEST(Sampling, PersistentClustersCoverAllTheirTiles) {
  const Evaluation result =
      evaluate(example_source("gemm_persistent_cluster.cu"), small_problem(4096), sampled_options(1));
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
}

TEST(Sampling, OfSeveralKernelsOnlyTheLastIsCut) {
  const Evaluation result = evaluate(candidate_source("device_faults.cu"), small_problem(10), sampled_options(1));
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  ASSERT_EQ(result.runs.size(), 1u);
  const evaluation::Run& run = result.runs[0];
  ASSERT_EQ(run.launches.size(), 2u);
  EXPECT_EQ(run.launches[0].clusters_run, run.launches[0].clusters_total);
  EXPECT_LT(run.launches[1].clusters_run, run.launches[1].clusters_total);
  // 2560 elements in ten blocks of 256, of which both ends and one more ran.
  EXPECT_DOUBLE_EQ(run.coverage, 0.3);
}

TEST(Sampling, DeadlockOfASampleIsUnknown) {
  const Evaluation result = evaluate(candidate_source("device_faults.cu"), small_problem(1), sampled_options(1));
  EXPECT_EQ(result.verdict, Status::unknown) << dump(result);
  EXPECT_NE(find(result, "sync.deadlock"), nullptr);
}

}  // namespace
}  // namespace ptxbench::evaluation

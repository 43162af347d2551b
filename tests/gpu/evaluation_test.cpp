// Candidates on a real GPU. Without one every test skips itself.

#include <gtest/gtest.h>

#include "evaluation/evaluator.h"
#include "evaluator_fixture.h"
#include "gpu/executor_process.h"

namespace ptxbench::evaluation {
namespace {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::has_gpu()) GTEST_SKIP() << "no GPU on this machine";
  }
  static EvaluateOptions options() {
    EvaluateOptions out = quick_options();
    out.backend = EvaluateOptions::Backend::gpu;
    out.timing = false;
    return out;
  }
  static const FamilyCount* family(const Evaluation& evaluation, std::string_view name) {
    if (!evaluation.instructions) return nullptr;
    for (const FamilyCount& one : evaluation.instructions->families) {
      if (one.family == name) return &one;
    }
    return nullptr;
  }
};

TEST_F(OnGpu, ExamplesPassAndAreTimed) {
  EvaluateOptions timed = options();
  timed.timing = true;
  for (const char* name : {"gemm_simt.cu", "gemm_warp_specialized.cu", "gemm_persistent_cluster.cu"}) {
    const Evaluation got = evaluate(example_source(name), small_problem(256), timed);
    EXPECT_EQ(got.verdict, Status::passed) << name << dump(got);
    ASSERT_EQ(got.performance.size(), 1u) << name;
    EXPECT_TRUE(got.performance[0].times.speedup.has_value()) << got.performance[0].no_baseline;
    EXPECT_GT(got.performance[0].times.candidate.value, 0);
    EXPECT_TRUE(got.performance[0].fresh_inputs);
    EXPECT_GE(got.performance[0].verified_calls, 1u);
  }
}

// What the emulator counts in PTX is what the hardware executes.
TEST_F(OnGpu, CensusAgreesWithTheEmulators) {
  for (const char* name : {"gemm_mma_cp_async.cu", "gemm_tma_wgmma.cu", "gemm_persistent_cluster.cu"}) {
    const std::string source = example_source(name);
    const Evaluation hardware = evaluate(source, small_problem(256), options());
    const Evaluation emulated = evaluate(source, small_problem(256));
    ASSERT_TRUE(hardware.instructions && emulated.instructions) << name << dump(hardware);
    EXPECT_EQ(hardware.instructions->source, "machine code");
    EXPECT_EQ(hardware.instructions->mac_share, emulated.instructions->mac_share) << name;
    EXPECT_EQ(hardware.instructions->legacy_mma_share, emulated.instructions->legacy_mma_share) << name;
    EXPECT_EQ(hardware.instructions->compat_target, emulated.instructions->compat_target) << name;
    for (const char* kind : {"wgmma", "mma.sync", "tma.load", "tma.store", "ldmatrix", "stmatrix", "cp.async"}) {
      const FamilyCount *left = family(hardware, kind), *right = family(emulated, kind);
      ASSERT_EQ(left == nullptr, right == nullptr) << name << " " << kind;
      if (left == nullptr) continue;
      EXPECT_EQ(left->warps, right->warps) << name << " " << kind;
      EXPECT_EQ(left->lanes, right->lanes) << name << " " << kind;
    }
  }
}

TEST_F(OnGpu, FaultsEndOneEvaluationAndNoOther) {
  // The number of rows chooses the fault: a wild pointer.
  const Evaluation bad = evaluate(candidate_source("device_faults.cu"), small_problem(4), options());
  EXPECT_EQ(bad.verdict, Status::failed) << dump(bad);
  EXPECT_NE(find(bad, "memory.illegal-address"), nullptr) << dump(bad);
  const Evaluation good = evaluate(example_source("gemm_simt.cu"), small_problem(64), options());
  EXPECT_EQ(good.verdict, Status::passed) << dump(good);
}

TEST_F(OnGpu, AnEndlessKernelIsEnded) {
  const Evaluation bad = evaluate(candidate_source("device_faults.cu"), small_problem(1), options());
  EXPECT_EQ(bad.verdict, Status::failed) << dump(bad);
  EXPECT_NE(find(bad, "sync.timeout"), nullptr) << dump(bad);
  const Evaluation good = evaluate(example_source("gemm_simt.cu"), small_problem(64), options());
  EXPECT_EQ(good.verdict, Status::passed) << dump(good);
}

TEST_F(OnGpu, AGpuThatIsNotThereIsAnInfrastructureError) {
  EvaluateOptions wrong = options();
  wrong.gpu = 99;
  const auto got = evaluator().evaluate(example_source("gemm_simt.cu"), {small_problem(64)}, wrong);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(got.error().message.find("no GPU 99"), std::string::npos) << got.error().message;
}

}  // namespace
}  // namespace ptxbench::evaluation

// Triton candidates on a real GPU. Without one every test skips itself.

#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluator_fixture.h"
#include "gpu/executor_process.h"

namespace ptxbench::evaluation {
namespace {

class TritonOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!gpu::has_gpu()) GTEST_SKIP() << "no GPU on this machine";
  }
};

TEST_P(TritonOnGpu, PassesAsOnTheEmulator) {
  const std::string source = base::read_file(std::string("knowledge/triton/patterns/") + GetParam()).value();
  EvaluateOptions options = quick_options();
  options.compile.language = candidate::Language::triton;
  options.backend = EvaluateOptions::Backend::both;
  const Evaluation got = evaluate(source, small_problem(200), options);
  EXPECT_EQ(got.verdict, Status::passed) << dump(got);
  ASSERT_EQ(got.performance.size(), 1U);
  EXPECT_GT(got.performance[0].times.candidate.value, 0);
}

INSTANTIATE_TEST_SUITE_P(All, TritonOnGpu,
                         testing::Values("gemm_pointers.py", "gemm_descriptors.py", "gemm_device_descriptors.py",
                                         "gemm_split_k.py"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           return std::string(test.param).substr(0, std::string(test.param).find('.'));
                         });

}  // namespace
}  // namespace ptxbench::evaluation

#include "base/text.h"
#include "evaluator_fixture.h"

namespace ptxbench::evaluation {
namespace {

struct Example {
  const char* file;
  bool wgmma, tma;
  bool legacy;
};

class ExampleKernels : public testing::TestWithParam<Example> {};

// 200 rows: no multiple of any tile, so every bounds check matters.
TEST_P(ExampleKernels, PassesAndCountsItsInstructions) {
  const Example& example = GetParam();
  EvaluateOptions options = quick_options();
  options.seeds = 3;
  const Evaluation result = evaluate(example_source(example.file), small_problem(200), options);
  ASSERT_EQ(result.verdict, Status::passed) << dump(result);
  EXPECT_EQ(result.runs.size(), 3u);
  for (const evaluation::Run& run : result.runs) {
    EXPECT_EQ(run.correctness, Status::passed);
    EXPECT_FALSE(run.sampled);
    EXPECT_EQ(run.coverage, 1.0);
  }
  EXPECT_EQ(result.stage(StageName::performance).status, Status::skipped);
  ASSERT_TRUE(result.instructions);
  const InstructionEvidence& evidence = *result.instructions;
  EXPECT_EQ(evidence.wgmma_executed, example.wgmma);
  EXPECT_EQ(evidence.tma_executed, example.tma);
  EXPECT_EQ(evidence.compat_target, example.wgmma || example.tma);
  ASSERT_TRUE(evidence.mac_share && evidence.legacy_mma_share);
  // 200 rows are two tiles of 128, so tensor cores do at least 256/200 of the required work.
  constexpr double kTiled = 256.0 / 200;
  if (example.wgmma) {
    EXPECT_GE(*evidence.mac_share, kTiled);
    EXPECT_EQ(evidence.threshold, Status::passed);
    EXPECT_EQ(evidence.strict, Status::unknown);
  } else {
    EXPECT_EQ(*evidence.mac_share, 0.0);
    EXPECT_EQ(evidence.threshold, Status::failed);
    EXPECT_EQ(evidence.strict, Status::failed);
  }
  if (example.legacy) {
    EXPECT_NEAR(*evidence.legacy_mma_share, kTiled, 1e-9);
  } else {
    EXPECT_EQ(*evidence.legacy_mma_share, 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExampleKernels,
                         testing::Values(Example{"gemm_simt.cu", false, false, false},
                                         Example{"gemm_mma_cp_async.cu", false, false, true},
                                         Example{"gemm_tma_wgmma.cu", true, true, false},
                                         Example{"gemm_warp_specialized.cu", true, true, false},
                                         Example{"gemm_persistent_cluster.cu", true, true, false}),
                         [](const auto& parameter) {
                           const std::string file = parameter.param.file;
                           return file.substr(0, file.find('.'));
                         });

TEST(Requirements, TargetDecidesOnlyWhenRequired) {
  EvaluateOptions options = quick_options();
  options.require_target = true;
  const Evaluation scalar = evaluate(example_source("gemm_simt.cu"), small_problem(37), options);
  EXPECT_EQ(scalar.verdict, Status::failed) << dump(scalar);
  EXPECT_EQ(scalar.stage(StageName::correctness).status, Status::passed);
  EXPECT_EQ(scalar.stage(StageName::instructions).status, Status::failed);
  const Evaluation tensor = evaluate(example_source("gemm_tma_wgmma.cu"), small_problem(37), options);
  EXPECT_EQ(tensor.verdict, Status::passed) << dump(tensor);
}

TEST(Requirements, SpeedupWithoutGpuIsUnknown) {
  EvaluateOptions options = quick_options();
  options.require_speedup = 1.0;
  const Evaluation result = evaluate(example_source("gemm_simt.cu"), small_problem(37), options);
  EXPECT_EQ(result.verdict, Status::unknown) << dump(result);
}

TEST(WrongSwizzle, IsANumericalFailureWithALocalCause) {
  // Tiles arrive unswizzled, while the matrix descriptors say 128 bytes.
  const std::string source = base::replace_all(example_source("gemm_tma_wgmma.cu"), "CU_TENSOR_MAP_SWIZZLE_128B",
                                               "CU_TENSOR_MAP_SWIZZLE_NONE");
  const Evaluation result = evaluate(source, small_problem(200));
  EXPECT_EQ(result.verdict, Status::failed);
  EXPECT_EQ(result.stage(StageName::execute).status, Status::passed) << dump(result);
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::failed);
  const Finding* finding = find(result, "numeric.operand-swizzle");
  ASSERT_NE(finding, nullptr) << dump(result);
  EXPECT_EQ(finding->stage, StageName::correctness);
  // Tensor cores ran all the same.
  EXPECT_EQ(result.stage(StageName::instructions).status, Status::passed);
}

TEST(Definitions, WithoutNativeReferenceCorrectnessIsUnknown) {
  const Evaluation result = evaluate(candidate_source("scale.cu"), small_problem(8, "scale_n256"));
  EXPECT_EQ(result.stage(StageName::execute).status, Status::passed) << dump(result);
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::unknown);
  EXPECT_EQ(result.verdict, Status::unknown);
}

TEST(Compilation, ErrorsNameTheLine) {
  const std::string source = candidate_source("compile_error.cu");
  const Evaluation result = evaluate(source, small_problem(8));
  EXPECT_EQ(result.verdict, Status::failed);
  EXPECT_EQ(result.stage(StageName::compile).status, Status::failed);
  EXPECT_EQ(result.stage(StageName::execute).status, Status::skipped);
  const Finding* finding = find(result, "compile.error");
  ASSERT_NE(finding, nullptr) << dump(result);
  EXPECT_EQ(finding->place.file, "kernel.cu");
  EXPECT_EQ(finding->place.line, line_with(source, "no_such_function"));
}

TEST(Compilation, AMissingExportIsAFailure) {
  const Evaluation result = evaluate(candidate_source("no_export.cu"), small_problem(8));
  EXPECT_EQ(result.verdict, Status::failed) << dump(result);
  EXPECT_NE(find(result, "candidate.no_entry"), nullptr) << dump(result);
}

}  // namespace
}  // namespace ptxbench::evaluation

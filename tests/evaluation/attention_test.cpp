// Attention from end to end: several outputs of different types and ranks, derived inputs, checks, samples.
#include "base/text.h"
#include "evaluator_fixture.h"
#include "problem/dataset.h"

namespace ptxbench::evaluation {
namespace {

const problem::Dataset& shipped() {
  static const problem::Dataset kData = *problem::Dataset::load(*problem::dataset_roots({}));
  return kData;
}

problem::Problem attention(const char* name, const std::vector<std::string>& axes) {
  const problem::Definition& definition = **shipped().find_definition(name);
  return *problem::make_problem(definition, *shipped().workload_for_axes(definition, axes));
}

/// The candidate with one line replaced by another; `marker` is a comment in it.
std::string changed(std::string_view candidate, std::string_view marker, const std::string& line) {
  std::string source = candidate_source(candidate);
  const std::size_t at = source.find(marker), begin = source.rfind('\n', at) + 1, end = source.find('\n', at);
  EXPECT_NE(at, std::string::npos) << marker;
  return source.replace(begin, end - begin, line);
}

std::string masked(std::string_view candidate) {
  return changed(candidate, "// MASKED", "constexpr bool kCausal = true;");
}

EvaluateOptions options() {
  EvaluateOptions quick = quick_options();
  quick.instruction_budget = 0;
  return quick;
}

const std::vector<std::string> kSmall = {"B=1", "H=2", "S=100"};

TEST(Attention, ChecksPass) {
  for (const char* name : {"mha_with_lse_d64", "mha_bwd_d64_causal"}) {
    const problem::Definition& definition = **shipped().find_definition(name);
    std::vector<problem::Problem> problems;
    const auto workloads = shipped().default_workloads(definition);
    ASSERT_TRUE(workloads);
    for (const problem::Workload* workload : *workloads) {
      problems.push_back(*problem::make_problem(definition, *workload));
    }
    ASSERT_EQ(problems.size(), 2u);
    const std::string source =
        definition.name.starts_with("mha_bwd") ? masked("mha_backward.cu") : candidate_source("mha_forward.cu");
    const auto result = evaluator().evaluate(source, problems, options());
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->stage(StageName::correctness).status, Status::passed) << dump(*result);
    ASSERT_EQ(result->runs.size(), 2u);
    EXPECT_EQ(result->runs[0].outputs.size(), definition.outputs.size());
    for (const problem::TensorComparison& output : result->runs[0].outputs) EXPECT_TRUE(output.compat.passed);
  }
}

TEST(Attention, ATimelineHasEachLaunchOnce) {
  // Several kernels on a sample of the clusters: the candidate runs again with only the last launch cut down.
  EvaluateOptions how = options();
  how.sample_clusters = 0;
  const auto recorded =
      evaluator().record(candidate_source("mha_backward.cu"), attention("mha_bwd_d64", {"B=1", "H=4", "S=256"}), how,
                         {.clusters = {0, 1}});
  ASSERT_TRUE(recorded) << recorded.error().message;
  ASSERT_GE(recorded->launches.size(), 1U);
  for (std::size_t i = 0; i < recorded->launches.size(); ++i) {
    EXPECT_EQ(recorded->launches[i].number, i);
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_NE(recorded->launches[i].kernel, recorded->launches[k].kernel) << "each of its kernels runs once";
    }
    if (recorded->launches[i].clusters_total > 1) {
      EXPECT_EQ(recorded->launches[i].clusters.size(), 2U) << "a cluster asked for runs in any sample";
    }
  }
}

TEST(Attention, EveryDistributionPasses) {
  EvaluateOptions all = options();
  all.seeds = 6;
  const Evaluation forward = evaluate(masked("mha_forward.cu"), attention("mha_with_lse_d64_causal", kSmall), all);
  EXPECT_EQ(forward.stage(StageName::correctness).status, Status::passed) << dump(forward);
  const Evaluation backward = evaluate(candidate_source("mha_backward.cu"), attention("mha_bwd_d64", kSmall), all);
  EXPECT_EQ(backward.stage(StageName::correctness).status, Status::passed) << dump(backward);
  ASSERT_EQ(backward.runs.size(), 6u);
  EXPECT_EQ(backward.runs[5].distribution, "tiny");
}

TEST(Attention, MistakesAreNamed) {
  const auto expect = [](const std::string& source, const char* name, const char* rule, const char* output) {
    const Evaluation result = evaluate(source, attention(name, kSmall), options());
    EXPECT_EQ(result.verdict, Status::failed) << dump(result);
    const Finding* finding = find(result, rule);
    ASSERT_NE(finding, nullptr) << rule << "\n" << dump(result);
    EXPECT_EQ(finding->place.output, output) << dump(result);
  };
  expect(candidate_source("mha_forward.cu"), "mha_with_lse_d64_causal", "numeric.causal-mask", "O");
  expect(masked("mha_forward.cu"), "mha_with_lse_d64", "numeric.causal-mask", "O");
  expect(changed("mha_forward.cu", "// RESCALE", "    const float rescale = 1;"), "mha_with_lse_d64",
         "numeric.missing-online-rescale", "O");
  expect(changed("mha_forward.cu", "// LSE", "  lse[head + query] = (top + logf(total)) * 1.44269504f;"),
         "mha_with_lse_d64", "numeric.lse-base", "LSE");
  expect(changed("mha_forward.cu", "// LSE", "  if (query < 70) lse[head + query] = top + logf(total);"),
         "mha_with_lse_d64", "memory.unwritten", "LSE");
  expect(changed("mha_backward.cu", "// ROW SUM", "  const float delta = 0;"), "mha_bwd_d64", "numeric.missing-row-sum",
         "dQ");
}

struct ExampleProblem {
  const char* file;
  const char* problem;
};
class AttentionExamples : public testing::TestWithParam<ExampleProblem> {};

// Several tiles for each block, and lengths that are no multiples of any.
TEST_P(AttentionExamples, AreRight) {
  const auto problem = attention(GetParam().problem, {"B=1", "H=2", "S=330"});
  const Evaluation result = evaluate(example_source(GetParam().file), problem, options());
  EXPECT_EQ(result.verdict, Status::passed) << dump(result);
  ASSERT_TRUE(result.instructions && result.instructions->mac_share);
  EXPECT_TRUE(result.instructions->wgmma_executed);
  EXPECT_TRUE(result.instructions->tma_executed);
  EXPECT_GE(*result.instructions->mac_share, 1.0);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionExamples,
                         testing::Values(ExampleProblem{"attention_forward.cu", "mha_with_lse_d64"},
                                         ExampleProblem{"attention_forward.cu", "mha_with_lse_d128"},
                                         ExampleProblem{"attention_forward_causal.cu", "mha_with_lse_d64_causal"},
                                         ExampleProblem{"attention_forward_causal.cu", "mha_with_lse_d128_causal"},
                                         ExampleProblem{"attention_backward.cu", "mha_bwd_d64"},
                                         ExampleProblem{"attention_backward.cu", "mha_bwd_d128"},
                                         ExampleProblem{"attention_backward_causal.cu", "mha_bwd_d64_causal"},
                                         ExampleProblem{"attention_backward_causal.cu", "mha_bwd_d128_causal"}),
                         [](const auto& parameter) { return std::string(parameter.param.problem); });

// The first of three kernels keeps row sums where dQ will be, and the last one, of which a sample runs, writes dQ.
TEST(Attention, WhatEarlierKernelsLeaveInASampledOutputIsNoAnswer) {
  EvaluateOptions sampled = options();
  sampled.sample_clusters = 1;
  const auto problem = attention("mha_bwd_d64", {"B=1", "H=6", "S=640"});
  const Evaluation result = evaluate(example_source("attention_backward.cu"), problem, sampled);
  // It looks the same where the first kernel's values are the candidate's answer, and wrong.
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::unknown) << dump(result);
  EXPECT_EQ(result.verdict, Status::unknown);
  ASSERT_EQ(result.runs.size(), 1u);
  EXPECT_TRUE(result.runs[0].sampled);
  ASSERT_EQ(result.runs[0].outputs.size(), 3u);
  EXPECT_LT(result.runs[0].outputs[0].known, 6u * 640 * 64) << "of dQ a part";
  EXPECT_EQ(result.runs[0].outputs[0].wrong, 0u);
  EXPECT_EQ(result.runs[0].outputs[1].known, 6u * 640 * 64) << "of dK everything";

  const Evaluation wrong =
      evaluate(base::replace_all(example_source("attention_backward.cu"), "0.125", "0.25"), problem, sampled);
  EXPECT_EQ(wrong.verdict, Status::failed) << dump(wrong);
}

// Of a sample each output is judged where it was written: rows of O, stretches of LSE.
TEST(Attention, SamplesOfSeveralOutputs) {
  EvaluateOptions sampled = options();
  sampled.sample_clusters = 1;
  const auto problem = attention("mha_with_lse_d64", {"B=1", "H=4", "S=320"});
  const Evaluation result = evaluate(candidate_source("mha_forward.cu"), problem, sampled);
  EXPECT_EQ(result.stage(StageName::correctness).status, Status::passed) << dump(result);
  ASSERT_EQ(result.runs.size(), 1u);
  EXPECT_TRUE(result.runs[0].sampled);
  EXPECT_DOUBLE_EQ(result.runs[0].coverage, 5.0 / 20);
  ASSERT_EQ(result.runs[0].outputs.size(), 2u);
  EXPECT_EQ(result.runs[0].outputs[1].known, 5u * 64);

  const Evaluation wrong = evaluate(
      changed("mha_forward.cu", "// LSE", "  lse[head + query] = top + logf(total) + 0.01f;"), problem, sampled);
  EXPECT_EQ(wrong.verdict, Status::failed) << dump(wrong);
  EXPECT_NE(find(wrong, "numeric.lse-offset"), nullptr) << dump(wrong);
}

}  // namespace
}  // namespace ptxbench::evaluation

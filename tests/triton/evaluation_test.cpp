// Triton candidates judged whole: right ones pass, faulty ones fail for the right reason, at the right line.

#include <gmock/gmock.h>

#include "base/files.h"
#include "base/text.h"
#include "evaluation/candidate_check.h"
#include "evaluator_fixture.h"

namespace ptxbench::evaluation {
namespace {

using testing::HasSubstr;

std::string pattern(const std::string& name) { return base::read_file("knowledge/triton/patterns/" + name).value(); }

EvaluateOptions triton_options() {
  EvaluateOptions options = quick_options();
  options.compile.language = candidate::Language::triton;
  return options;
}

std::string changed(std::string text, std::string_view from, std::string_view to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return base::replace_all(text, from, to);
}

class Example : public testing::TestWithParam<const char*> {};

TEST_P(Example, Passes) {
  const Evaluation got = evaluate(pattern(GetParam()), small_problem(200), triton_options());
  EXPECT_EQ(got.verdict, Status::passed) << dump(got);
  EXPECT_EQ(got.language, "triton");
  EXPECT_THAT(got.compile.compiler, HasSubstr("triton 3."));
  ASSERT_TRUE(got.instructions);
  EXPECT_GE(got.instructions->mac_share.value_or(0), 0.99) << "tl.dot becomes wgmma";
}

INSTANTIATE_TEST_SUITE_P(All, Example,
                         testing::Values("gemm_pointers.py", "gemm_descriptors.py", "gemm_device_descriptors.py",
                                         "gemm_split_k.py"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           return std::string(test.param).substr(0, std::string(test.param).find('.'));
                         });

// What Triton emits is right, and the checker says nothing worse than a note of it.
TEST(TritonUnderTheChecker, IsClean) {
  for (const char* name : {"gemm_pointers.py", "gemm_descriptors.py", "gemm_split_k.py"}) {
    CandidateCheck how;
    how.compile.language = candidate::Language::triton;
    check::CheckReport report;
    const auto done = check_candidate(pattern(name), {small_problem(70)}, how, evaluator(), report);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(report.verdict(), check::Verdict::clean) << name << check::to_text(report);
  }
}

TEST(TritonEvaluation, OneArtifactServesSeveralShapes) {
  const std::string source = pattern("gemm_pointers.py");
  const std::vector<problem::Problem> both = {small_problem(64), small_problem(200)};
  const auto got = evaluator().evaluate(source, both, triton_options());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->verdict, Status::passed) << dump(*got);
  EXPECT_EQ(got->runs.size(), 2U);
  EXPECT_EQ(got->compile.kernels.size(), 2U) << "BLOCK_M is 64 for the one and 128 for the other";
  // The same again comes from the cache, and other shapes are another artifact.
  const auto options = triton_options().compile;
  const auto again = evaluator().compile(source, both, options);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->report.cached);
  EXPECT_EQ(again->artifact->id, got->artifact_id);
  const auto one = evaluator().compile(source, {small_problem(200)}, options);
  ASSERT_TRUE(one && one->artifact);
  EXPECT_NE(one->artifact->id, got->artifact_id);
}

TEST(TritonEvaluation, AMissingMaskIsOutOfBoundsAtItsLine) {
  const std::string source =
      changed(pattern("gemm_pointers.py"), "mask=(m[:, None] < M) & (n[None, :] < N))", "mask=n[None, :] < N)  # HERE");
  const Evaluation got = evaluate(source, small_problem(200), triton_options());
  EXPECT_EQ(got.verdict, Status::failed);
  const Finding* finding = find(got, "memory.out-of-bounds");
  ASSERT_NE(finding, nullptr) << dump(got);
  EXPECT_EQ(finding->place.file, "kernel.py");
  EXPECT_EQ(finding->place.line, line_with(source, "# HERE"));
}

/// A candidate that says that Triton is missing fails; it is not the machine that failed.
TEST(TritonEvaluation, ThatTritonIsMissingIsNotBelievedOfACandidate) {
  const Evaluation got = evaluate(
      "import triton\n"
      "import triton.language as tl\n"
      "@triton.jit\n"
      "def k(x, n): tl.store(x, n)\n"
      "main = triton.runtime.jit.inspect.sys.modules['__main__']\n"
      "def lies(request, answer):\n"
      "    answer['status'], answer['message'] = 'missing', 'no Triton'\n"
      "    write(request, answer)\n"
      "write, main.write_answer = main.write_answer, lies\n"
      "def run(a, b, c): k[(1,)](c, 1)\n",
      small_problem(64), triton_options());
  EXPECT_EQ(got.verdict, Status::failed) << dump(got);
  EXPECT_EQ(got.compile.status, candidate::CompileStatus::failed);
}

TEST(TritonEvaluation, WrongNumbersAreWrong) {
  const Evaluation got =
      evaluate(changed(pattern("gemm_pointers.py"), "range(0, K, BLOCK_K)", "range(BLOCK_K, K, BLOCK_K)"),
               small_problem(200), triton_options());
  EXPECT_EQ(got.verdict, Status::failed) << dump(got);
  EXPECT_EQ(got.stage(StageName::execute).status, Status::passed);
  EXPECT_EQ(got.stage(StageName::correctness).status, Status::failed);
}

TEST(TritonEvaluation, ErrorsOfTheCompilerHaveTheirLine) {
  const std::string source = changed(pattern("gemm_split_k.py"), "tl.load(sum_ptr + i, mask=i < count)",
                                     "tl.lode(sum_ptr + i, mask=i < count)");
  const Evaluation got = evaluate(source, small_problem(200), triton_options());
  EXPECT_EQ(got.verdict, Status::failed);
  const Finding* finding = find(got, "triton.compile");
  ASSERT_NE(finding, nullptr) << dump(got);
  EXPECT_THAT(finding->message, HasSubstr("lode"));
  EXPECT_EQ(finding->place.line, line_with(source, "tl.lode"));
}

TEST(TritonEvaluation, WhatIsAgainstTheRulesIsNotRun) {
  const std::string source = pattern("gemm_pointers.py");
  const Evaluation product =
      evaluate(source + "\n\ndef other(a, b):\n    return torch.matmul(a, b)\n", small_problem(200), triton_options());
  EXPECT_EQ(product.verdict, Status::failed);
  EXPECT_NE(find(product, "candidate.banned_library"), nullptr) << dump(product);
  EXPECT_EQ(product.stage(StageName::execute).status, Status::skipped);
}

}  // namespace
}  // namespace ptxbench::evaluation

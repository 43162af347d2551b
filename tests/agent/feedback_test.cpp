#include "agent/feedback.h"

#include <gtest/gtest.h>

#include <limits>

#include "evaluation/evaluation_reader.h"

namespace ptxbench::agent {
namespace {

using evaluation::Evaluation;
using evaluation::Finding;
using evaluation::Severity;
using evaluation::StageName;
using evaluation::Status;

TEST(FeedbackText, NamesCauseLineAndFixOfAFinding) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.compile.status = candidate::CompileStatus::succeeded;
  evaluation.stage(StageName::execute) = {Status::failed, "deadlock", 0.1, true};
  Finding finding;
  finding.rule = "sync.deadlock";
  finding.message = "no warp can make progress";
  finding.place.kernel = "gemm";
  finding.place.file = "kernel.cu";
  finding.place.line = 2;
  finding.remedy = "count the bytes again";
  evaluation.findings.push_back(finding);
  const std::string text = feedback_text(evaluation, "first\nwait(barrier);\nthird\n");
  EXPECT_EQ(text.rfind("Evaluation FAILED:", 0), 0u);
  for (const char* part :
       {"sync.deadlock", "kernel.cu:2", "wait(barrier);", "fix: count the bytes again", "execute: failed"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("third"), std::string::npos);
}

TEST(FeedbackText, ErrorsComeBeforeNotesAndTheRestIsCounted) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.compile.status = candidate::CompileStatus::succeeded;
  for (int i = 0; i < 10; ++i) {
    Finding finding;
    finding.rule = i == 9 ? "memory.out-of-bounds" : "note.number-" + std::to_string(i);
    finding.severity = i == 9 ? Severity::error : Severity::note;
    evaluation.findings.push_back(finding);
  }
  const std::string text = feedback_text(evaluation, "", {.max_findings = 3, .max_compiler_bytes = 100});
  EXPECT_LT(text.find("memory.out-of-bounds"), text.find("note.number-0"));
  EXPECT_EQ(text.find("note.number-3"), std::string::npos);
  EXPECT_NE(text.find("and 7 more"), std::string::npos);
}

TEST(FeedbackText, ACompilerErrorIsShownShortened) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.compile.status = candidate::CompileStatus::failed;
  evaluation.compile.log = "kernel.cu(3): error\n" + std::string(20000, 'x');
  const std::string text = feedback_text(evaluation, "");
  EXPECT_NE(text.find("kernel.cu(3): error"), std::string::npos);
  EXPECT_LT(text.size(), 8000u);
}

TEST(FeedbackText, IsTheSameForAnEvaluationThatCameAsJson) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.summary = "failed: numbers";
  evaluation.compile.status = candidate::CompileStatus::succeeded;
  candidate::KernelReport kernel;
  kernel.name = "_Z1kv";
  kernel.demangled = "k()";
  kernel.registers = 40;
  kernel.spill_store_bytes = 8;
  evaluation.compile.kernels.push_back(kernel);
  evaluation.stage(StageName::compile) = {Status::passed, "", 1, true};
  evaluation.stage(StageName::correctness) = {Status::failed, "wrong", 0.1, true};
  Finding finding;
  finding.rule = "numeric.transposed";
  finding.severity = Severity::warning;
  finding.stage = StageName::correctness;
  finding.message = "two lines\nof text";
  finding.place = {"k", "kernel.cu", 2, 5, 17, "wgmma.x", "C", "cudaLaunchKernel"};
  finding.remedy = "swap";
  evaluation.findings.push_back(finding);
  evaluation::Run run;
  run.axes = {{"M", 4}, {"N", 8}};
  run.execute = Status::passed;
  run.correctness = Status::failed;
  run.reason = "off";
  problem::TensorComparison output;
  output.name = "C";
  output.rows = 4;
  output.columns = 8;
  output.verdict = problem::Verdict::failed;
  output.failures = {"too far"};
  output.known = 32;
  output.wrong = 3;
  output.first_wrong = problem::ElementError{1, 2, 3.5, std::numeric_limits<double>::quiet_NaN()};
  output.cell_size = 4;
  output.cell_count = 2;
  output.wrong_cell_count = 1;
  output.wrong_cells = {{0, 4, 3, 0, 16}};
  output.hypotheses = {{"transposed_tile", "transposed", 0.9}};
  run.outputs.push_back(output);
  evaluation.runs.push_back(run);
  evaluation.instructions.emplace();
  evaluation.instructions->mac_share = 0.5;
  evaluation.instructions->legacy_mma_share = 0.25;
  evaluation::Performance performance;
  performance.axes = {{"M", 4}};
  performance.times.candidate = {0.5, 0.4, 0.6, 12};
  performance.times.baseline = gpu::Median{0.4, 0.4, 0.4, 12};
  performance.times.speedup = gpu::Median{0.8, 0.7, 0.9, 12};
  performance.baseline = "cuBLASLt";
  performance.baseline_version = "13.1";
  evaluation.performance.push_back(performance);
  const std::string source = "first\nsecond line\n";
  const auto read = evaluation::evaluation_from_json(evaluation::to_json(evaluation), "test");
  ASSERT_TRUE(read) << read.error().message;
  const std::string text = feedback_text(*read, source);
  EXPECT_EQ(text, feedback_text(evaluation, source));
  for (const char* part : {"numeric.transposed", "second line", "[M=4 N=8] numbers are wrong", "0.800x of cuBLASLt",
                           "it looks like this: transposed", "50.0 %"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(FeedbackText, AnyDamageToTheJsonIsAnErrorOrATextAndNeverACrash) {
  Evaluation evaluation;
  evaluation.findings.emplace_back();
  auto& run = evaluation.runs.emplace_back();
  run.execute = Status::passed;
  auto& output = run.outputs.emplace_back();
  output.verdict = problem::Verdict::failed;
  output.rows = output.columns = output.cell_size = 4;
  output.wrong_cells = {{0, 0, 1, 1, 1}};
  evaluation.instructions.emplace();
  evaluation.performance.emplace_back();
  const base::Json json = evaluation::to_json(evaluation);
  const base::Json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (const base::Json& other : {base::Json(nullptr), base::Json(-1), base::Json("x"), base::Json::array(),
                                    base::Json::object(), base::Json(true), base::Json(1e300)}) {
      base::Json changed = json;
      changed[base::Json::json_pointer(pointer)] = other;
      const auto read = evaluation::evaluation_from_json(changed, "test");
      if (read) static_cast<void>(feedback_text(*read, "x"));
    }
  }
}

TEST(NoCodeFeedback, GivesTheReason) {
  candidate::Extraction extraction;
  extraction.reason = candidate::NoCodeReason::no_block;
  extraction.message = "no fenced block";
  EXPECT_NE(no_code_feedback(extraction).find("no_block"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::agent

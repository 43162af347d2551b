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
  for (const char* part : {"sync.deadlock", "kernel.cu:2", "wait(barrier);", "fix: count the bytes again",
                           "execute failed", "Do first: count the bytes again"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("third"), std::string::npos);
}

Evaluation with_findings(const std::vector<const char*>& rules) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.compile.status = candidate::CompileStatus::succeeded;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Finding finding;
    finding.rule = rules[i];
    finding.remedy = std::string("remedy of ") + rules[i];
    finding.place.file = "kernel.cu";
    finding.place.line = static_cast<std::uint32_t>(i + 1);
    evaluation.findings.push_back(finding);
  }
  return evaluation;
}

TEST(FeedbackText, CausesComeBeforeWhatTheyLeadTo) {
  const Evaluation evaluation =
      with_findings({"memory.unwritten", "memory.uninitialised", "sync.deadlock", "mbarrier.tx-mismatch"});
  const std::string text = feedback_text(evaluation, "a\nb\nc\nd\n");
  EXPECT_NE(text.find("Do first: remedy of mbarrier.tx-mismatch"), std::string::npos) << text;
  EXPECT_LT(text.find("Cause 1: mbarrier.tx-mismatch"), text.find("Cause 2: sync.deadlock")) << text;
  // Reads of what no copy brought are counted, not told.
  EXPECT_EQ(text.find(": memory.uninitialised at"), std::string::npos) << text;
  EXPECT_NE(text.find("Probably follows from it: 2 findings (memory.uninitialised, sync.deadlock)"), std::string::npos)
      << text;
}

TEST(FeedbackText, ARaceOfWarpsHidesThatOfTheirLanes) {
  const std::string text = feedback_text(with_findings({"race.warp", "race.shared"}), "a\nb\n");
  EXPECT_NE(text.find("Cause 1: race.shared"), std::string::npos) << text;
  EXPECT_EQ(text.find("Cause 2"), std::string::npos) << text;
}

TEST(FeedbackText, FindingsOfOneRuleAreOneCauseWithTheirLines) {
  const std::string text =
      feedback_text(with_findings({"proxy.async", "proxy.async", "proxy.async"}), "one\ntwo\nthree\n");
  EXPECT_NE(text.find("The same at 2 more places (kernel.cu:1, 2, 3)"), std::string::npos) << text;
  EXPECT_EQ(text.find("Cause 2"), std::string::npos) << text;
}

TEST(FeedbackText, ACompilerErrorHidesEverythingElse) {
  Evaluation evaluation = with_findings({"sync.deadlock"});
  evaluation.compile.status = candidate::CompileStatus::failed;
  candidate::CompilerMessage message;
  message.tool = "nvcc";
  message.where = {"kernel.cu", 2, 0};
  message.text = "identifier \"mbar_wait_parity\" is undefined";
  evaluation.compile.messages.push_back(message);
  const std::string text = feedback_text(evaluation, "void mbarrier_wait_parity(int);\nmbar_wait_parity(3);\n");
  EXPECT_EQ(text.find("deadlock"), std::string::npos) << text;
  EXPECT_NE(text.find("the source has 'mbarrier_wait_parity'"), std::string::npos) << text;
  EXPECT_NE(text.find("   2 | mbar_wait_parity(3);"), std::string::npos) << text;
}

TEST(FeedbackText, NamesAreLookedForInThePackToo) {
  Evaluation evaluation;
  evaluation.compile.status = candidate::CompileStatus::failed;
  candidate::CompilerMessage message;
  message.tool = "nvcc";
  message.where = {"kernel.cu", 1, 0};
  message.text = "identifier \"tma_load_2D\" is undefined";
  evaluation.compile.messages.push_back(message);
  const std::string pack = "```cpp\n__device__ void tma_load_2d(int x) {}\n```\n";
  const std::string text = feedback_text(evaluation, "tma_load_2D(q);\n", {.knowledge = pack});
  EXPECT_NE(text.find("the reference text has 'tma_load_2d'"), std::string::npos) << text;
}

TEST(FeedbackText, CopiesOfOnePtxErrorAreOneWithTheAsmStatement) {
  Evaluation evaluation;
  evaluation.compile.status = candidate::CompileStatus::failed;
  for (int copy = 0; copy < 64; ++copy) {
    candidate::CompilerMessage message;
    message.tool = "ptxas";
    message.where = {"kernel.cu", 3, 1};
    message.inlined_from = {{"kernel.cu", 9, 1}};
    message.ptx_line = 100 + copy;
    message.text = "Arguments mismatch for instruction 'mma'";
    message.excerpt = "mma.sync {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, %r1;";
    message.hint = "expected 4 operands, found 2";
    evaluation.compile.messages.push_back(message);
  }
  const std::string source = "void f() {\n  asm volatile(\n      \"mma.sync;\"\n      ::\"r\"(1));\n}\n\n\n\nf();\n";
  const std::string text = feedback_text(evaluation, source);
  for (const char* part : {"asm volatile(", "::\"r\"(1));", "and 63 more of the same", "called from kernel.cu:9",
                           "PTX grammar: expected 4 operands, found 2", "8 registers}"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << '\n' << text;
  }
  EXPECT_EQ(text.find("Error 2"), std::string::npos) << text;
}

TEST(FeedbackText, ACompilersTextThatNobodyUnderstandsIsShownShortened) {
  Evaluation evaluation;
  evaluation.verdict = Status::failed;
  evaluation.compile.status = candidate::CompileStatus::failed;
  evaluation.compile.log = "odd words\n" + std::string(20000, 'x');
  const std::string text = feedback_text(evaluation, "", {.level = FeedbackLevel::rich});
  EXPECT_NE(text.find("odd words"), std::string::npos) << text;
  EXPECT_LT(text.size(), 8000u);
}

TEST(FeedbackText, ErrorsComeBeforeNotes) {
  Evaluation evaluation = with_findings({"memory.out-of-bounds"});
  Finding note;
  note.rule = "launch.unchecked";
  note.severity = Severity::note;
  evaluation.findings.insert(evaluation.findings.begin(), note);
  const std::string text = feedback_text(evaluation, "");
  EXPECT_LT(text.find("memory.out-of-bounds"), text.find("launch.unchecked")) << text;
}

TEST(FeedbackText, WhatIsNotModelledIsNeverCalledWrong) {
  Evaluation evaluation = with_findings({"unsupported.instruction"});
  evaluation.verdict = Status::unknown;
  evaluation.findings[0].severity = Severity::warning;
  evaluation.findings[0].message = "vavrg4 is not modelled";
  const std::string text = feedback_text(evaluation, "x\n");
  EXPECT_EQ(text.find("FAILED"), std::string::npos) << text;
  EXPECT_NE(text.find("vavrg4"), std::string::npos) << text;
  EXPECT_NE(text.find("UNKNOWN"), std::string::npos) << text;
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
  finding.place = {"k",     "kernel.cu", 2, 5, 17, "wgmma.x", "C", "cudaLaunchKernel", {{"kernel.cu", 1}},
                   "reads", "warp 1"};
  finding.other = finding.place;
  finding.address = "C + 4";
  finding.occurrences = 3;
  finding.policies = {"lazy"};
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
  for (const char* part :
       {"transposed", "[1, 2] is NaN", "at M=4 N=8: 3 of 32", "looks like transposed_tile: transposed", "50.0 %"}) {
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

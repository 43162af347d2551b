#include "agent/feedback.h"

#include <gtest/gtest.h>

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

TEST(NoCodeFeedback, GivesTheReason) {
  candidate::Extraction extraction;
  extraction.reason = candidate::NoCodeReason::no_block;
  extraction.message = "no fenced block";
  EXPECT_NE(no_code_feedback(extraction).find("no_block"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::agent

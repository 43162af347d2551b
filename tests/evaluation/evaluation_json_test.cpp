#include <gtest/gtest.h>

#include <limits>

#include "evaluation/evaluation.h"
#include "evaluation/evaluation_text.h"

namespace ptxbench::evaluation {
namespace {

Evaluation passed() {
  Evaluation evaluation;
  evaluation.definition = "gemm_small";
  evaluation.candidate_sha256 = std::string(64, 'a');
  for (const StageName name : {StageName::compile, StageName::execute, StageName::correctness}) {
    evaluation.stage(name).status = Status::passed;
    evaluation.stage(name).decisive = true;
  }
  evaluation.stage(StageName::instructions).status = Status::failed;
  Run run;
  run.axes = {{"M", 200}, {"N", 256}, {"K", 192}};
  run.execute = run.correctness = Status::passed;
  run.coverage = 1;
  evaluation.runs.push_back(run);
  return evaluation;
}

Finding finding(Severity severity, std::string rule = "race.shared") {
  Finding out;
  out.rule = std::move(rule);
  out.severity = severity;
  out.message = "two writes\nsecond line";
  return out;
}

TEST(Conclude, OnlyDecisiveStagesDecide) {
  Evaluation evaluation = passed();
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::passed);
  EXPECT_FALSE(evaluation.sampled);
  evaluation.stage(StageName::instructions).decisive = true;
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::failed);
}

TEST(Conclude, ASkippedStageThatIsRequiredLeavesTheVerdictUnknown) {
  Evaluation evaluation = passed();
  evaluation.stage(StageName::performance) = {Status::skipped, "no GPU", 0, true};
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::unknown);
  EXPECT_EQ(evaluation.summary, "performance skipped: no GPU");
}

TEST(Conclude, UnknownIsNeverPassed) {
  Evaluation evaluation = passed();
  evaluation.stage(StageName::correctness).status = Status::unknown;
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::unknown);
}

TEST(Conclude, FailedWinsOverUnknown) {
  Evaluation evaluation = passed();
  evaluation.stage(StageName::execute).status = Status::unknown;
  evaluation.stage(StageName::correctness).status = Status::failed;
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::failed);
}

TEST(Conclude, WarningsDecideNotesDoNot) {
  Evaluation evaluation = passed();
  evaluation.findings = {finding(Severity::note)};
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::passed);
  evaluation.findings.push_back(finding(Severity::warning));
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::failed);
  EXPECT_EQ(evaluation.summary, "race.shared: two writes");
}

TEST(Conclude, ASampleIsSaidToBeOne) {
  Evaluation evaluation = passed();
  evaluation.runs[0].sampled = true;
  evaluation.runs[0].coverage = 0.25;
  conclude(evaluation);
  EXPECT_EQ(evaluation.verdict, Status::passed);
  EXPECT_TRUE(evaluation.sampled);
  EXPECT_EQ(evaluation.coverage, 0.25);
  EXPECT_NE(evaluation.summary.find("25 %"), std::string::npos);
}

TEST(EvaluationJson, HasTheDocumentedMembers) {
  Evaluation evaluation = passed();
  evaluation.findings = {finding(Severity::note)};
  evaluation.instructions.emplace();
  conclude(evaluation);
  const base::Json json = to_json(evaluation);
  EXPECT_EQ(json.at("schema"), "ptxbench.evaluation/1");
  for (const char* member : {"definition", "target", "candidate_sha256", "artifact", "backend", "verdict", "stages",
                             "findings", "compile", "runs", "instructions", "fidelity", "timings"}) {
    EXPECT_TRUE(json.contains(member)) << member;
  }
  EXPECT_EQ(json.at("verdict").at("status"), "passed");
  ASSERT_EQ(json.at("stages").size(), kStageCount);
  EXPECT_EQ(json.at("stages")[0].at("name"), "compile");
  EXPECT_EQ(json.at("stages")[4].at("name"), "performance");
  EXPECT_EQ(json.at("runs")[0].at("axes").dump(), R"({"M":200,"N":256,"K":192})");
  EXPECT_EQ(json.at("findings")[0].at("severity"), "note");
  EXPECT_TRUE(json.at("instructions").at("mac_share").is_null());
  EXPECT_EQ(json.at("instructions").at("strict").at("status"), "unknown");
}

TEST(EvaluationJson, ForeignBytesBecomeValidText) {
  Evaluation evaluation = passed();
  evaluation.runs[0].host_output = "caf\xe9 \xff";
  evaluation.compile.log = "\x80";
  const std::string text = to_json(evaluation).dump();
  EXPECT_TRUE(base::parse_json(text, "evaluation"));
}

TEST(EvaluationText, NamesStagesFindingsAndVerdict) {
  Evaluation evaluation = passed();
  evaluation.findings = {finding(Severity::error)};
  evaluation.findings[0].place.file = "kernel.cu";
  evaluation.findings[0].place.line = 12;
  evaluation.findings[0].remedy = "add a barrier";
  conclude(evaluation);
  const std::string text = to_text(evaluation, base::Style(false));
  for (const char* part : {"compile", "execute", "correctness", "instructions", "performance", "error race.shared",
                           "kernel.cu:12", "second line", "fix: add a barrier", "verdict: failed"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// Not measured is a state, and no time of 0; not compared with a truth is not verified.
TEST(PerformanceJson, WhatWasNotMeasuredIsNull) {
  Performance performance;
  EXPECT_TRUE(to_json(performance).at("latency_ms").is_null());
  EXPECT_TRUE(to_json(performance).at("speedup").is_null());
  EXPECT_TRUE(to_json(performance).at("baseline").is_null());
  EXPECT_EQ(to_json(performance).at("verified").at("status"), "unknown");
  EXPECT_EQ(describe(performance), "not measured");
  performance.verified = false;
  EXPECT_EQ(to_json(performance).at("verified").at("status"), "failed");
}

TEST(PerformanceJson, MediansHaveTheirLimits) {
  Performance performance;
  performance.verified_elements = 64;
  performance.baseline = "cuBLASLt";
  std::vector<gpu::TimedCall> calls(8);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].candidate = calls[i].candidate_stamps = 1 + 0.01 * static_cast<double>(i);
    calls[i].baseline = 2.0;
  }
  performance.times = gpu::summarise(calls);
  const base::Json json = to_json(performance);
  EXPECT_NEAR(json.at("latency_ms").at("value").get<double>(), 1.035, 1e-9);
  EXPECT_EQ(json.at("latency_ms").at("count"), 8);
  EXPECT_NEAR(json.at("latency_ms").at("low").get<double>(), 1.0, 1e-9);
  EXPECT_NEAR(json.at("latency_ms").at("high").get<double>(), 1.07, 1e-9);
  EXPECT_EQ(json.at("baseline").at("name"), "cuBLASLt");
  EXPECT_EQ(json.at("verified").at("status"), "passed");
}

}  // namespace
}  // namespace ptxbench::evaluation

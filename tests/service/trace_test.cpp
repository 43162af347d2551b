#include "service/trace.h"

#include <gtest/gtest.h>

#include "problem/definition.h"
#include "service/tool_logs.h"

namespace ptxbench::service {
namespace {

using base::Json;

/// An answer whose stages have these statuses.
Json answer(const char* verdict, const char* compile, const char* execute, const char* correctness,
            const char* rule = nullptr) {
  Json stages = Json::array({{{"name", "compile"}, {"status", compile}},
                             {{"name", "execute"}, {"status", execute}},
                             {{"name", "correctness"}, {"status", correctness}}});
  Json findings = Json::array();
  if (rule != nullptr) findings.push_back({{"rule", rule}, {"severity", "error"}, {"message", "PASSED"}});
  Json output{{"compat", {{"max_absolute_error", 0.002}, {"max_relative_error", 0.5}}}};
  return Json{{"evaluation",
               {{"verdict", {{"status", verdict}}},
                {"target", "sm_90a"},
                {"backend", {{"name", "emulator"}}},
                {"compile", {{"compiler", "nvcc 13.0.88"}}},
                {"stages", stages},
                {"findings", findings},
                {"runs", Json::array({{{"outputs", Json::array({output})}}})}}},
              {"text", "PASSED, says the candidate\n"},
              {"timestamp", 1767225600.0}};
}

std::string status(const Json& from, Tolerances tolerances = {}) {
  const Json evaluation = trace_evaluation(from, tolerances);
  // What we write, a reader of the format accepts; unmeasured times and NaN arrive as null over HTTP, as with FIBServe.
  Json file = evaluation;
  if (file["performance"].is_object()) {
    for (auto& [key, value] : file["performance"].items()) value = 1.0;
  }
  if (file["correctness"].is_object()) {
    for (auto& [key, value] : file["correctness"].items()) {
      if (value.is_null() && key != "extra") value = "NaN";
    }
  }
  const auto checked = problem::check_evaluation(file, "trace");
  EXPECT_TRUE(checked) << checked.error().message;
  return evaluation.at("status").get<std::string>();
}

TEST(Trace, StatusFollowsFromStages) {
  EXPECT_EQ(status(answer("passed", "passed", "passed", "passed")), "PASSED");
  EXPECT_EQ(status(answer("failed", "failed", "skipped", "skipped")), "COMPILE_ERROR");
  EXPECT_EQ(status(answer("unknown", "unknown", "skipped", "skipped")), "COMPILE_ERROR");
  EXPECT_EQ(status(answer("failed", "passed", "failed", "skipped", "memory.out-of-bounds")), "RUNTIME_ERROR");
  EXPECT_EQ(status(answer("failed", "passed", "failed", "skipped", "sync.deadlock")), "TIMEOUT");
  EXPECT_EQ(status(answer("failed", "passed", "failed", "skipped", "host.timeout")), "TIMEOUT");
  EXPECT_EQ(status(answer("failed", "passed", "passed", "failed")), "INCORRECT_NUMERICAL");
  EXPECT_EQ(status(answer("failed", "passed", "passed", "passed", "memory.overrun")), "RUNTIME_ERROR");
  EXPECT_EQ(status(answer("unknown", "passed", "passed", "unknown")), "RUNTIME_ERROR");
  EXPECT_EQ(status(Json{{"timed_out", 3.0}, {"timestamp", 0.0}}), "TIMEOUT");
}

TEST(Trace, WhatWasNotMeasuredIsNull) {
  const Json evaluation = trace_evaluation(answer("passed", "passed", "passed", "passed"), {});
  EXPECT_TRUE(evaluation.at("performance").at("latency_ms").is_null());
  EXPECT_EQ(evaluation.at("timestamp"), "2026-01-01T00:00:00");
  EXPECT_EQ(evaluation.at("environment").at("libs").at("cuda"), "13.0.88");
  Json nan = answer("failed", "passed", "passed", "failed");
  nan["evaluation"]["runs"][0]["outputs"][0]["compat"]["max_absolute_error"] = "NaN";
  EXPECT_TRUE(trace_evaluation(nan, {}).at("correctness").at("max_absolute_error").is_null());
}

TEST(Trace, WhatWasMeasuredIsThere) {
  Json timed = answer("passed", "passed", "passed", "passed");
  timed["evaluation"]["performance"] =
      Json::array({{{"latency_ms", {{"value", 0.5}}},
                    {"baseline", {{"name", "cuBLASLt"}, {"latency_ms", {{"value", 0.4}}}}},
                    {"speedup", {{"value", 0.8}}},
                    {"device", {{"name", "NVIDIA H200"}}}}});
  const Json evaluation = trace_evaluation(timed, {});
  EXPECT_EQ(evaluation.at("performance"),
            (Json{{"latency_ms", 0.5}, {"reference_latency_ms", 0.4}, {"speedup_factor", 0.8}}));
  EXPECT_EQ(evaluation.at("environment").at("hardware"), "NVIDIA H200");
  timed["evaluation"]["performance"][0]["baseline"] = nullptr;
  timed["evaluation"]["performance"][0]["speedup"] = nullptr;
  EXPECT_TRUE(trace_evaluation(timed, {}).at("performance").at("speedup_factor").is_null());
  EXPECT_EQ(trace_evaluation(timed, {}).at("performance").at("latency_ms"), 0.5);
}

TEST(Trace, TolerancesOnlyTighten) {
  const Json passed = answer("passed", "passed", "passed", "passed");  // off by 0.002, relatively by 0.5
  EXPECT_EQ(status(passed, {1e9, 1e9}), "PASSED");
  EXPECT_EQ(status(passed, {0.01, 0.001}), "PASSED");
  EXPECT_EQ(status(passed, {0.002, 0.0}), "PASSED");
  EXPECT_EQ(status(passed, {0.001, 0.001}), "INCORRECT_NUMERICAL");
  EXPECT_EQ(status(answer("failed", "passed", "passed", "failed"), {1e9, 1e9}), "INCORRECT_NUMERICAL");
}

Json finding(const char* rule, const char* severity) {
  return Json{{"rule", rule},
              {"severity", severity},
              {"kernel", "k"},
              {"message", "two\nlines"},
              {"fix", "do this"},
              {"location", {{"file", "kernel.cu"}, {"line", 2}, {"ptx_line", 9}, {"what", "writes"}, {"thread", "t"}}}};
}

Json report(const char* verdict, Json findings) {
  return Json{{"check",
               {{"verdict", verdict},
                {"findings", std::move(findings)},
                {"fidelity", {{"unknown", Json::array({"a cluster did not run"})}, {"unsupported", Json::array()}}}}},
              {"text", "verdict: " + std::string(verdict) + "\n"}};
}

TEST(SanitizeLog, CountsWhatCounts) {
  const std::string clean =
      sanitize_log(report("clean", Json::array({finding("launch.unchecked", "note")})), Json::object());
  EXPECT_EQ(clean.find("Program hit"), std::string::npos) << clean;
  EXPECT_NE(clean.find("ERROR SUMMARY: 0 errors"), std::string::npos);
  const Json two = Json::array({finding("race.shared", "error"), finding("race.global", "warning")});
  const std::string hazardous = sanitize_log(report("hazardous", two), Json::object());
  EXPECT_NE(hazardous.find("Program hit race.shared"), std::string::npos) << hazardous;
  EXPECT_NE(hazardous.find("ERROR SUMMARY: 2 errors"), std::string::npos);
  const std::string limited = sanitize_log(report("hazardous", two), Json{{"print_limit", 1}});
  EXPECT_EQ(limited.find("race.global"), std::string::npos) << limited;
  EXPECT_NE(limited.find("ERROR SUMMARY: 2 errors"), std::string::npos);
}

TEST(SanitizeLog, WhatIsUnknownIsNeverClean) {
  const std::string unknown = sanitize_log(report("unknown", Json::array()), Json::object());
  EXPECT_NE(unknown.find("Program hit unknown: a cluster did not run"), std::string::npos) << unknown;
  EXPECT_NE(sanitize_log(Json{{"timed_out", 2.0}}, Json::object()).find("Program hit unknown"), std::string::npos);
}

TEST(DebugMetadata, ShowsTheFaultInItsSource) {
  const Json sections = debug_metadata(report("hazardous", Json::array({finding("race.shared", "error")})),
                                       Json{{"source_context_lines", 1}}, "one\ntwo\nthree\nfour\n");
  const std::string fault = sections.at("Most precise fault").at("msg").get<std::string>();
  EXPECT_TRUE(sections.at("Most precise fault").at("exist").get<bool>());
  EXPECT_NE(fault.find(">    2 | two"), std::string::npos) << fault;
  EXPECT_EQ(fault.find("four"), std::string::npos) << fault;
  EXPECT_FALSE(sections.at("Core-dump analysis").at("exist").get<bool>());
}

}  // namespace
}  // namespace ptxbench::service

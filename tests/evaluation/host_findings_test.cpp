#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "evaluation/candidate_process.h"

namespace ptxbench::evaluation {
namespace {

CallOutcome ended(RunnerStep step, RunnerOutcome outcome, const char* message = "", const char* backtrace = "") {
  CallOutcome out;
  out.last.emplace();
  out.last->step = step;
  out.last->outcome = outcome;
  std::strncpy(out.last->message, message, sizeof out.last->message - 1);
  std::strncpy(out.last->backtrace, backtrace, sizeof out.last->backtrace - 1);
  return out;
}

TEST(HostFindings, NoneAfterSuccess) {
  EXPECT_TRUE(host_findings(ended(RunnerStep::done, RunnerOutcome::finished), false).empty());
}

TEST(HostFindings, AnExceptionNamesTheInnermostLineOfTheCandidate) {
  CallOutcome outcome = ended(RunnerStep::calling, RunnerOutcome::threw, "bad shape",
                              "  File \"/usr/include/tvm/ffi/error.h\", line 10, in throw\n"
                              "  File \"/some/where/kernel.cu\", line 77, in void check()\n"
                              "  File \"/some/where/kernel.cu\", line 90, in void run()\n");
  std::strcpy(outcome.last->kind, "ValueError");
  const auto findings = host_findings(outcome, false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].rule, "host.error");
  EXPECT_EQ(findings[0].message, "run() failed with ValueError: bad shape");
  EXPECT_EQ(findings[0].place.file, "kernel.cu");
  EXPECT_EQ(findings[0].place.line, 77u);
}

TEST(HostFindings, WhatFollowsFromAFaultIsANote) {
  const auto findings =
      host_findings(ended(RunnerStep::synchronizing, RunnerOutcome::cuda_error, "illegal address"), true);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::note);
}

TEST(HostFindings, ASignalIsACrashAtItsStep) {
  CallOutcome outcome = ended(RunnerStep::calling, RunnerOutcome::pending);
  outcome.process.end = cuda_shim::HostOutcome::End::crashed;
  outcome.process.signal = SIGSEGV;
  outcome.process.text = "was killed by signal 11";
  const auto findings = host_findings(outcome, false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].rule, "host.crash");
  EXPECT_NE(findings[0].message.find("inside run()"), std::string::npos);
}

TEST(HostFindings, AnEarlyExitCodeZeroIsNoSuccess) {
  const auto findings = host_findings(ended(RunnerStep::calling, RunnerOutcome::pending), false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].rule, "host.exit");
}

TEST(HostFindings, ControlCharactersOfTheCandidateAreNotPrinted) {
  const auto findings = host_findings(ended(RunnerStep::calling, RunnerOutcome::threw, "red \x1b[31m text"), false);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].message.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::evaluation

#include "check/check_report.h"

#include <gtest/gtest.h>

namespace ptxbench::check {
namespace {

CheckFinding finding(std::string rule, checker::Severity severity = checker::Severity::error) {
  CheckFinding out;
  out.rule = std::move(rule);
  out.severity = severity;
  return out;
}

std::vector<std::string> rules(const CheckReport& report) {
  std::vector<std::string> out;
  for (const CheckFinding& one : report.findings) out.push_back(one.rule);
  return out;
}

TEST(CheckReport, CausesComeBeforeWhatTheyLeadTo) {
  CheckReport report;
  report.add(finding("numeric.stale-k"), "eager");
  report.add(finding("proxy.fence-late", checker::Severity::note), "eager");
  report.add(finding("memory.unwritten"), "eager");
  report.add(finding("sync.deadlock"), "eager");
  report.add(finding("launch.shared-memory"), "eager");
  report.add(finding("async.unwaited-read"), "eager");
  report.sort();
  EXPECT_EQ(rules(report), (std::vector<std::string>{"launch.shared-memory", "async.unwaited-read", "memory.unwritten",
                                                     "sync.deadlock", "numeric.stale-k", "proxy.fence-late"}));
  // A refused launch does not spoil numbers; a missing wait does.
  EXPECT_EQ(report.findings[4].follows_from, "async.unwaited-read");
  EXPECT_EQ(report.findings[1].follows_from, "");
}

TEST(CheckReport, NotesExplainNoWrongNumbers) {
  CheckReport report;
  report.add(finding("numeric.mismatch"), "eager");
  report.add(finding("race.equal-writes", checker::Severity::note), "eager");
  report.sort();
  EXPECT_EQ(report.findings[0].follows_from, "");
}

TEST(CheckReport, OutputsAreToldApart) {
  CheckReport report;
  for (const char* output : {"C", "D", "C"}) {
    CheckFinding one = finding("numeric.all-zero");
    one.output = output;
    report.add(std::move(one), "eager");
  }
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].occurrences, 2u);
}

}  // namespace
}  // namespace ptxbench::check

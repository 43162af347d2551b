// Every kernel of the planted-fault corpus under the checker: the fault is found, under the right rule and at the right
// line, and nothing at all is found in the correct variants. README.md describes the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "check/check_launch.h"
#include "hazard_case.h"

namespace ptxbench::hazards {
namespace {

using check::CheckFinding;
using check::CheckReport;
using emulator::CompletionPolicy;

constexpr const char* kCases[] = {
#include "hazard_cases.inc"
};

std::filesystem::path case_path(const char* name) { return std::filesystem::path(HAZARD_FOLDER) / name; }

bool names_line(const check::Location& location, const std::filesystem::path& file, uint32_t line) {
  const auto same = [&](const std::string& name, uint32_t at) {
    return at == line && std::filesystem::path(name).filename() == file.filename();
  };
  return same(location.file, location.line) ||
         std::any_of(location.called_from.begin(), location.called_from.end(),
                     [&](const auto& call) { return same(call.first, call.second); });
}

CheckReport check(const HazardCase& hazard, bool faulty) {
  CheckReport report;
  const auto ptx = compile_variant(hazard, faulty, TEST_CACHE);
  if (!ptx) {
    ADD_FAILURE() << ptx.error().message;
    return report;
  }
  check::CheckOptions options;
  options.threads = 1;
  options.instruction_budget = 50'000'000;
  const std::vector<check::PolicyRun> runs{
      {CompletionPolicy::eager, 1}, {CompletionPolicy::lazy, 1}, {CompletionPolicy::random, 11}};
  const auto done = check::check_launch(*ptx, hazard.path.filename().string(), hazard.launch, runs, options, report);
  EXPECT_TRUE(done) << done.error().message;
  return report;
}

/// Of two racing accesses the checker may name either first; unwritten memory has no place.
bool is_at_the_fault(const CheckFinding& finding, const HazardCase& hazard) {
  if (finding.rule == "memory.unwritten") return true;
  if (names_line(finding.location, hazard.path, hazard.fault_line)) return true;
  return finding.rule.starts_with("race.") && finding.has_other &&
         names_line(finding.other, hazard.path, hazard.fault_line) &&
         names_line(finding.location, hazard.path, hazard.other_line);
}

class CheckTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckTest, FindsTheFaultAndNothingElse) {
  const auto hazard = read_case(case_path(GetParam()));
  ASSERT_TRUE(hazard) << hazard.error().message;
  const CheckReport correct = check(*hazard, false);
  EXPECT_EQ(correct.verdict(), check::Verdict::clean);
  // Contested practice gets a note, which decides nothing.
  const bool only_notes =
      std::all_of(correct.findings.begin(), correct.findings.end(),
                  [](const CheckFinding& finding) { return finding.severity == checker::Severity::note; });
  EXPECT_TRUE(only_notes && (correct.findings.empty() || hazard->rules.empty())) << "correct variant:\n"
                                                                                 << check::to_text(correct);
  if (hazard->rules.empty()) return;

  const CheckReport faulty = check(*hazard, true);
  const bool found = std::any_of(faulty.findings.begin(), faulty.findings.end(), [&](const CheckFinding& finding) {
    return std::find(hazard->rules.begin(), hazard->rules.end(), finding.rule) != hazard->rules.end() &&
           is_at_the_fault(finding, *hazard);
  });
  EXPECT_TRUE(found) << "wanted " << hazard->rules.front() << " at line " << hazard->fault_line << "\n"
                     << check::to_text(faulty);
}

std::string test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = std::filesystem::path(info.param).replace_extension().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Files, CheckTest, ::testing::ValuesIn(kCases), test_name);

}  // namespace
}  // namespace ptxbench::hazards

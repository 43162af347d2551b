#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "checker/findings.h"
#include "emulator/device.h"

/// Verdicts about a kernel's hazards: named findings, what was not looked at, and their text and JSON forms.
namespace ptxbench::check {

/// Where an instruction stands, ready to print.
struct Location {
  std::string file;  ///< empty: not known (no -lineinfo)
  uint32_t line = 0, ptx_line = 0;
  std::string instruction;
  /// Call chain of inlined functions, innermost first; the last one is the call in the kernel's body.
  std::vector<std::pair<std::string, uint32_t>> called_from;
  std::string what;    ///< "TMA copy writes", "reads", ...
  std::string thread;  ///< "CTA (1,0,0) warp 2 lanes 0-15"

  /// The place in the kernel's own body: the outermost call.
  std::string text() const;
};

struct CheckFinding {
  std::string rule;
  checker::Severity severity = checker::Severity::error;
  std::string kernel;
  std::string message;
  std::string fix;
  Location location;
  bool has_other = false;
  Location other;
  std::string address;    ///< "A + 0x40", "shared + 0x400"
  std::string host_call;  ///< of a launch: "cudaLaunchKernel (<<<>>>)"
  std::string output;     ///< of wrong numbers: the output they are in
  /// Of wrong numbers: the rule of a hazard that may be their cause, found in the same check.
  std::string follows_from;
  uint64_t occurrences = 1;
  std::set<std::string> policies;  ///< completion policies and seeds under which it showed
  bool suppressed = false;
};

enum class Verdict : uint8_t { clean, hazardous, unknown };
std::string_view to_string(Verdict verdict);
std::string_view to_string(checker::Severity severity);

struct CheckReport {
  static constexpr std::string_view kSchema = "ptxbench.check/1";

  /// Rules of docs/hazards.md about which "clean" would say nothing; every report names them. There are none.
  static constexpr std::array<std::string_view, 0> kRulesNotChecked{};

  std::vector<CheckFinding> findings;  ///< most causal first
  std::vector<std::string> policies;   ///< that ran
  bool one_policy_is_enough = false;   ///< nothing asynchronous was executed: the others would be the same
  std::set<std::string> unknown;       ///< reasons why the answer is incomplete
  std::set<std::string> approximate;   ///< instructions whose results only approximate the hardware's
  std::set<std::string> unsupported;
  uint64_t launches = 0, warp_instructions = 0, clusters_run = 0, clusters_total = 0;
  uint64_t findings_dropped = 0;
  double seconds = 0;
  /// When the report was made, if it comes from an earlier check; empty if from this one.
  std::string stored_at;

  Verdict verdict() const;
  /// Joins a finding with one that says the same, or appends it.
  void add(CheckFinding finding, const std::string& policy);
  /// Sorts: errors first, and what hazards may lead to after them: kernels that stop, then wrong numbers.
  void sort();
};

/// Names the place of an instruction; `party` adds who executed it.
Location locate(const emulator::CodePlace& place, const checker::Party* party, const uint32_t cta[3]);

base::Json to_json(const CheckReport& report);
/// What to_json wrote.
Result<CheckReport> report_from_json(const base::Json& json);
/// SARIF 2.1.0, one run.
base::Json to_sarif(const CheckReport& report);
/// For a person: findings, each with both places and the fix, then the verdict and the fidelity line.
std::string to_text(const CheckReport& report);

}  // namespace ptxbench::check

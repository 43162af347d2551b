#pragma once

#include <functional>
#include <memory>
#include <string>

#include "check/check_report.h"
#include "checker/checker.h"
#include "emulator/device.h"
#include "emulator/launch_trace.h"

namespace ptxbench::check {

struct CheckOptions {
  bool pedantic = false;
  uint64_t seed = 1;  ///< of the random policy
  unsigned threads = 0;
  /// `watch` finds out whether a run reads values that nobody wrote; one that does is to be repeated with `track`.
  emulator::DefinednessMode definedness = emulator::DefinednessMode::watch;
  bool accept_proofs = true;  ///< else every kernel is watched, for runs in which Checker::needs_watching()
  uint64_t instruction_budget = 5'000'000'000;  ///< warp instructions per launch
  /// What runs of the same program under several policies share (DeviceOptions::traces); null: each is watched.
  std::shared_ptr<emulator::TraceStore> traces;
};

/// A device under the checker's eyes, for one run under one completion policy. The caller loads and launches; what is
/// found goes into the report.
class Watch {
 public:
  static Result<std::unique_ptr<Watch>> start(const CheckOptions& options, emulator::CompletionPolicy policy,
                                              std::function<void(std::string_view)> print);
  ~Watch();

  emulator::Device& device() { return *device_; }
  /// "eager", "lazy" or "random:SEED".
  const std::string& policy() const { return policy_; }
  checker::Checker& checker() { return *checker_; }
  /// A launch returned this.
  void add(const emulator::LaunchReport& launch);
  void add(CheckFinding finding) { extra_.push_back(std::move(finding)); }
  /// Whether a finding of this rule at this PTX line was added in this run.
  bool has(std::string_view rule, uint32_t ptx_line) const;
  void add_unknown(std::string reason) { unknown_.insert(std::move(reason)); }
  /// Nothing asynchronous was executed: a run under another policy would be the same.
  bool same_under_all_policies() const { return asynchronous_ == 0; }
  /// The run read values that nobody wrote: only its repetition under DefinednessMode::track tells whether they matter.
  bool needs_tracking() const { return device_->met_undefined(); }
  /// Ends the run and adds what it found to the report. `repeated`: it will be repeated if it needs tracking; if not,
  /// the report says that something was not looked at.
  void finish(CheckReport& report, bool repeated = false);
  /// Ends a repetition under DefinednessMode::track: adds only what the first run could not know.
  void finish_tracking(CheckReport& report);

 private:
  Watch() = default;
  void found(const checker::Finding& finding);
  std::string address_text(emulator::Space space, uint64_t address) const;

  std::string policy_;
  std::unique_ptr<checker::Checker> checker_;
  std::unique_ptr<emulator::Device> device_;
  std::vector<CheckFinding> named_;  ///< parallel to the checker's findings
  std::vector<CheckFinding> extra_;
  std::set<std::string> unknown_, approximate_, unsupported_;
  uint64_t launches_ = 0, asynchronous_ = 0, warp_instructions_ = 0, clusters_run_ = 0, clusters_total_ = 0;
  double seconds_ = 0;
};

/// The fault that stopped a kernel, as a finding.
CheckFinding finding_of(const emulator::Fault& fault, const std::string& kernel);

}  // namespace ptxbench::check

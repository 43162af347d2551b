#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "check/watch.h"
#include "launch/description.h"

namespace ptxbench::check {

/// One execution: a completion policy, and its seed.
struct PolicyRun {
  emulator::CompletionPolicy policy{};
  uint64_t seed = 1;
};

/// What is left to do after a run.
struct RunOutcome {
  bool repeat = false;  ///< to follow values that nobody wrote to where they matter
  bool last = false;    ///< other policies would show the same
  bool again = false;   ///< the run said too little and was not added to the report
};

/// Each of `runs` by once(run, definedness), and once more where values were read that nobody wrote.
Result<void> run_all(const std::vector<PolicyRun>& runs,
                     const std::function<Result<RunOutcome>(const PolicyRun&, emulator::DefinednessMode)>& once);

/// Ends a run under `definedness` that run_all started: adds what it found, and says what is left.
RunOutcome finish_run(Watch& watch, emulator::DefinednessMode definedness, CheckReport& report);

/// Runs one kernel of a PTX module as `description` says, once for each of `runs`, and adds what was found: hazards,
/// unwritten outputs, and outputs that are not what was expected. Errors are those of the PTX and of the description.
Result<void> check_launch(std::string_view ptx, const std::string& name, const launch::LaunchDescription& description,
                          const std::vector<PolicyRun>& runs, const CheckOptions& options, CheckReport& report);

}  // namespace ptxbench::check

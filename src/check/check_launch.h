#pragma once

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

/// Runs one kernel of a PTX module as `description` says, once for each of `runs`, and adds what was found: hazards,
/// unwritten outputs, and outputs that are not what was expected. Errors are those of the PTX and of the description.
Result<void> check_launch(std::string_view ptx, const std::string& name, const launch::LaunchDescription& description,
                          const std::vector<PolicyRun>& runs, const CheckOptions& options, CheckReport& report);

}  // namespace ptxbench::check

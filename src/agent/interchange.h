#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "agent/trajectory.h"

namespace ptxbench::agent {

/// What a turn came to, in the public benchmark's words: "Correct", "Compilation error", "Runtime error", "Numerical
/// error", "Kernel Execution Timeout", "Extraction error", "Other error".
std::string_view failure_label(const Turn& turn);

struct InterchangeReport {
  std::size_t trajectories = 0, turns = 0;
};

/// Writes an experiment in the layout of the public benchmark's runs: `plan.json`, `resume_plan.json`, `summary.json`,
/// `trajectories/exp_NNN.json`, `logs/exp_NNN.log`, `success/exp_NNN/`, `exp_NNN/` with the last candidate,
/// `figures/turn_correctness_arch.csv`. The folder `to` must not exist or be empty.
Result<InterchangeReport> export_reference_run(const std::filesystem::path& run, const std::filesystem::path& to);

/// Reads such a folder, the public benchmark's or an exported one, as an experiment of ours: `plan.json`,
/// `summary.json` and trajectories. What looks like a key is left out. The folder `to` must not exist or be empty.
Result<InterchangeReport> import_reference_run(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace ptxbench::agent

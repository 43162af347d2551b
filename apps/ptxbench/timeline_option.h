#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "timeline/recorder.h"

/// The options --timeline and --timeline-cluster of `eval` and `check`.
namespace ptxbench::app {

struct TimelineChoice {
  std::string file;  ///< empty: none is asked for
  std::vector<std::uint32_t> clusters;

  bool wanted() const { return !file.empty(); }
  timeline::RecorderOptions recorder() const;
};

void add_timeline(CLI::App& command, TimelineChoice& choice);

/// Writes the file and tells on the error stream what is in it. `subject` is what ran. No launches: says so and writes
/// nothing.
Result<void> write_timeline(const TimelineChoice& choice, const std::vector<timeline::LaunchRecord>& launches,
                            std::uint64_t launches_left_out, const std::string& subject);

}  // namespace ptxbench::app

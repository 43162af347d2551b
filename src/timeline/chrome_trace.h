#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "timeline/record.h"
#include "timeline/schedule.h"

namespace ptxbench::timeline {

struct TraceOptions {
  std::string subject;  ///< what ran: a file, a program
  std::uint64_t launches_left_out = 0;
  std::size_t most_events = 2'000'000;  ///< what does not fit is left out, and `otherData` says so
};

/// The launches in the JSON object format of Chrome's trace events, which Perfetto (ui.perfetto.dev) and
/// chrome://tracing open. One microsecond of the format's unit is a thousand cycles of an SM: viewers show a cycle as a
/// nanosecond. A cluster is a process; its warps, copies, tensor cores and mbarriers are threads; arrows go from what
/// ended a wait to the wait.
std::string chrome_trace(const std::vector<LaunchRecord>& launches, const TraceOptions& options = {},
                         const CostModel& model = {});

/// The file, compressed if its name ends in .gz; viewers read both.
Result<void> write_trace(const std::string& file, const std::vector<LaunchRecord>& launches,
                         const TraceOptions& options = {}, const CostModel& model = {});

/// Figures of each cluster for a person, a few lines.
std::string summary(const std::vector<LaunchRecord>& launches, const CostModel& model = {});

}  // namespace ptxbench::timeline

#include "timeline_option.h"

#include <fmt/format.h>

#include "base/demangle.h"
#include "timeline/chrome_trace.h"

namespace ptxbench::app {

timeline::RecorderOptions TimelineChoice::recorder() const {
  timeline::RecorderOptions options;
  if (!clusters.empty()) options.clusters = clusters;
  return options;
}

void add_timeline(CLI::App& command, TimelineChoice& choice) {
  command.add_option("--timeline", choice.file,
                     "Also write what the warps, copies, tensor cores and mbarriers did to this file, for "
                     "ui.perfetto.dev or chrome://tracing (.json, or .json.gz; docs/timeline.md)");
  command
      .add_option("--timeline-cluster", choice.clusters,
                  "Which cluster of each launch it shows, by linear index (repeatable; default: 0)")
      ->allow_extra_args(false);
}

Result<void> write_timeline(const TimelineChoice& choice, const std::vector<timeline::LaunchRecord>& launches,
                            std::uint64_t launches_left_out, const std::string& subject) {
  if (launches.empty()) {
    fmt::print(stderr, "timeline: no kernel was launched, {} is not written\n", choice.file);
    return {};
  }
  timeline::TraceOptions options;
  options.subject = subject;
  options.launches_left_out = launches_left_out;
  if (auto written = timeline::write_trace(choice.file, launches, options); !written) return written;
  fmt::print(stderr, "{}timeline: {} (open it at https://ui.perfetto.dev)\n", timeline::summary(launches), choice.file);
  for (const timeline::LaunchRecord& launch : launches) {
    if (launch.clusters.empty())
      fmt::print(stderr, "timeline: {} #{} has none of the clusters asked for: its grid has {}\n",
                 base::short_name(launch.kernel), launch.number, launch.clusters_total);
  }
  return {};
}

}  // namespace ptxbench::app

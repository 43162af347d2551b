#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "evaluation/evaluator.h"

namespace ptxbench::evaluation {

Result<CandidateTimeline> Evaluator::record(std::string_view source, const problem::Problem& workload,
                                            const EvaluateOptions& options, const timeline::RecorderOptions& recorder,
                                            bool whole) {
  const std::unique_lock turn(device_);
  EvaluateOptions how = options;
  timeline::RecorderOptions what = recorder;
  bool corners = !whole && !options.full && !options.sample_clusters;
  for (bool added = false;;) {
    if (corners) how.sample_clusters = 0;
    how.also_clusters = what.clusters;
    std::optional<std::uint32_t> missed_fault;
    auto recorded = record_once(source, workload, how, what, missed_fault);
    if (!recorded) return recorded;
    const bool depends_on_the_rest =
        corners && std::any_of(recorded->launches.begin(), recorded->launches.end(), [](const auto& launch) {
          return launch.fault && launch.clusters_run < launch.clusters_total;
        });
    if (depends_on_the_rest) {
      corners = false;
      how.sample_clusters = options.sample_clusters;
    } else if (missed_fault && !added) {
      what.clusters.push_back(*missed_fault);
      added = true;
    } else {
      return recorded;
    }
  }
}

Result<CandidateTimeline> Evaluator::record_once(std::string_view source, const problem::Problem& workload,
                                                 const EvaluateOptions& options,
                                                 const timeline::RecorderOptions& recorder,
                                                 std::optional<std::uint32_t>& missed_fault) {
  emulator::DeviceOptions device;
  device.threads = options.threads;
  device.completion = options.completion;
  device.seed = options.seed;
  device.instruction_budget = options.instruction_budget != 0
                                  ? options.instruction_budget
                                  : Evaluator::default_budget(workload, !options.full && Evaluator::is_big(workload));
  device.print = [](std::string_view) {};
  auto recording = timeline::Recording::start(std::move(device), recorder);
  if (!recording) return tl::unexpected<Error>(recording.error());
  EvaluateOptions once;
  once.compile = options.compile;
  once.seed = options.seed;
  once.seeds = 1;
  once.host = options.host;
  once.full = options.full;
  once.sample_clusters = options.sample_clusters;
  once.also_clusters = options.also_clusters;
  once.cancel = options.cancel;
  once.device = &(*recording)->device();
  once.on_report = [&](const emulator::LaunchReport& report) { (*recording)->recorder().add(report); };
  once.on_restart = [&] { (*recording)->recorder().clear(); };
  if (const auto done = evaluate(source, {workload}, once); !done) return tl::unexpected<Error>(done.error());
  missed_fault = (*recording)->recorder().missed_fault();
  return CandidateTimeline{(*recording)->recorder().take(), (*recording)->recorder().launches_left_out()};
}

}  // namespace ptxbench::evaluation

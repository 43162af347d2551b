#include <mutex>
#include <utility>

#include "evaluation/evaluator.h"

namespace ptxbench::evaluation {

Result<CandidateTimeline> Evaluator::record(std::string_view source, const problem::Problem& workload,
                                            const EvaluateOptions& options,
                                            const timeline::RecorderOptions& recorder) {
  const std::unique_lock turn(device_);
  emulator::DeviceOptions device;
  device.threads = options.threads;
  device.completion = options.completion;
  device.seed = options.seed;
  device.instruction_budget =
      options.instruction_budget != 0
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
  // The rest of the grid is not looked at. A kernel whose clusters wait for each other shows a wait without end.
  once.sample_clusters = options.sample_clusters;
  once.cancel = options.cancel;
  once.device = &(*recording)->device();
  once.on_report = [&](const emulator::LaunchReport& report) { (*recording)->recorder().add(report); };
  if (const auto done = evaluate(source, {workload}, once); !done) return tl::unexpected<Error>(done.error());
  return CandidateTimeline{(*recording)->recorder().take(), (*recording)->recorder().launches_left_out()};
}

}  // namespace ptxbench::evaluation

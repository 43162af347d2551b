#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "candidate/compiler.h"
#include "emulator/device.h"
#include "evaluation/candidate_process.h"
#include "evaluation/evaluation.h"
#include "evaluation/workload_state.h"
#include "gpu/lane.h"
#include "problem/dataset.h"
#include "timeline/recorder.h"
#include "triton/compiler.h"

namespace ptxbench::evaluation {

inline constexpr std::size_t kMostTimedCalls = 10'000;

struct EvaluateOptions {
  candidate::CompileOptions compile;

  std::uint64_t seed = 1;  ///< of the inputs; run i uses seed + i and another distribution
  unsigned seeds = 0;      ///< runs per workload; 0: two for small problems, else one

  unsigned threads = 0;  ///< of the emulator; 0: all cores
  emulator::CompletionPolicy completion = emulator::CompletionPolicy::eager;
  bool exact_tensor_cores = false;     ///< emulator::DeviceOptions::exact_tensor_cores
  emulator::Device* device = nullptr;  ///< DeviceRunOptions::device
  std::function<void(const emulator::LaunchReport&)> on_report;
  std::function<void()> on_restart;  ///< what on_report told was in vain: the candidate runs again from the start
  std::vector<std::uint32_t> also_clusters;  ///< run where a sample of the clusters is
  std::uint64_t instruction_budget = 0;      ///< warp instructions per launch; 0: in proportion to the problem
  CallLimits host;

  /// Clusters to run beside the corners of the grid. Without it, and without `full`, big problems run 4.
  std::optional<unsigned> sample_clusters;
  bool full = false;  ///< run every cluster, whatever it takes

  problem::Tolerance tolerance = problem::Tolerance::strict;

  /// Whether the candidate also runs under the hazard checker: never; to explain a run that stopped or whose numbers
  /// are wrong; or whenever a kernel ran, and then a hazard alone fails it. On the emulator, whatever the backend.
  enum class Hazards { off, failed, always };
  Hazards hazards = Hazards::off;

  /// Where candidates run: on the emulator; on a GPU; or first on the emulator, and then, if nothing is wrong, on a
  /// GPU.
  enum class Backend { emulator, gpu, both };
  Backend backend = Backend::emulator;
  int gpu = 0;                     ///< ordinal
  bool more_to_come = false;       ///< other evaluations on that GPU follow: the next executor is started ahead
  bool timing = true;              ///< on a GPU
  bool count_instructions = true;  ///< on a GPU, where the emulator has not: half a second, once for an artifact
  gpu::StopRule stop;              ///< of timed calls
  bool tuned_baseline = false;     ///< the fastest plan of the baseline's library instead of its first guess
  /// On a GPU: one more run per workload under each of these tools (gpu/sanitizer.h).
  std::vector<std::string> sanitizer_tools;
  std::chrono::seconds sanitizer_limit{120};  ///< of one kernel under a tool

  bool require_target = false;            ///< the instruction stage decides
  std::optional<double> require_speedup;  ///< the performance stage decides

  std::stop_token cancel;
  /// Told what is going on, now and then.
  std::function<void(std::string_view)> progress;
};

/// "off", "failed" or "always"; the error lists them.
Result<EvaluateOptions::Hazards> parse_hazards(std::string_view text);

/// What else is needed to pass: "target" (the instruction stage decides) or "speedup=X" (the performance stage does).
/// The message of an error begins with the text, for the caller to put the name of the option before it.
Result<void> apply_requirement(const std::string& text, EvaluateOptions& options);

/// What the launches of a candidate's call did, to be shown as a timeline.
struct CandidateTimeline {
  std::vector<timeline::LaunchRecord> launches;  ///< none: it does not compile, or launches nothing
  std::uint64_t launches_left_out = 0;           ///< beyond RecorderOptions::launches
};

/// Judges candidates, on the emulated GPU and on real ones. Several evaluations may be under way at a time: they take
/// turns with the emulated device, of which only one can live in a process, and with each GPU. Keeps inputs and truth
/// of recent workloads.
class Evaluator {
 public:
  /// Missing tools are infrastructure errors that name the remedy.
  static Result<std::unique_ptr<Evaluator>> create();
  explicit Evaluator(candidate::Compiler compiler) : compiler_(std::move(compiler)), triton_(compiler_) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Compiles as `evaluate` does, into the same cache. What a Triton candidate becomes depends on the workloads.
  Result<candidate::Compilation> compile(std::string_view source, const std::vector<problem::Problem>& workloads,
                                         const candidate::CompileOptions& options) const;

  /// `workloads` belong to one definition and are not empty. Everything the candidate does is in the evaluation; errors
  /// are infrastructure, or inputs that do not fit the definition.
  Result<Evaluation> evaluate(std::string_view source, const std::vector<problem::Problem>& workloads,
                              const EvaluateOptions& options = {});

  /// Runs the candidate on the emulator, with the inputs that `evaluate` takes first for this workload, and records
  /// its launches. Of `options` those count that say how it is compiled and run. Of each grid the corners and the
  /// clusters asked for run; the rest only if one of these comes to no end, or with `whole`: for candidates that stop
  /// somewhere. A cluster in which a launch faults is recorded as well.
  Result<CandidateTimeline> record(std::string_view source, const problem::Problem& workload,
                                   const EvaluateOptions& options, const timeline::RecorderOptions& recorder = {},
                                   bool whole = false);

  /// Warp instructions a launch may take when no budget is given: ample for any kernel that solves the problem with
  /// scalar code, in full or on a sample.
  static std::uint64_t default_budget(const problem::Problem& problem, bool sampled);
  /// Whether a problem of this size is run on a sample of clusters unless `full` is asked for.
  static bool is_big(const problem::Problem& problem);

  const candidate::Compiler& compiler() const { return compiler_; }

 private:
  class Judge;
  Result<CandidateTimeline> record_once(std::string_view source, const problem::Problem& workload,
                                        const EvaluateOptions& options, const timeline::RecorderOptions& recorder,
                                        std::optional<std::uint32_t>& missed_fault);
  Result<Evaluation> evaluate_unmetered(std::string_view source, const std::vector<problem::Problem>& workloads,
                                        const EvaluateOptions& options);
  candidate::Compiler compiler_;
  triton::Compiler triton_;
  WorkloadCache cache_;
  std::mutex device_;
  gpu::Lanes lanes_;
  std::mutex counted_mutex_;
  std::map<std::string, InstructionEvidence> counted_;  ///< on GPUs, by artifact and axes
};

}  // namespace ptxbench::evaluation

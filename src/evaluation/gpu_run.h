#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "evaluation/device_run.h"
#include "evaluation/performance.h"
#include "evaluation/permuted_inputs.h"
#include "evaluation/workload_state.h"
#include "gpu/executor_process.h"
#include "gpu/lane.h"
#include "problem/dataset.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {

/// What an executor is to time beside a candidate (gpu/baseline.h); null where no library is known to do the same, and
/// where the inputs decide how it does it and are not given.
base::Json baseline_for(const problem::Problem& problem, const std::vector<problem::Tensor>& inputs = {});

/// The same with the fastest plan that the library has instead of its first guess, where it offers several.
base::Json tuned_baseline(base::Json description);

struct GpuRunOptions {
  int device = 0;
  CallLimits limits;
  std::chrono::milliseconds kernel_limit{10'000};  ///< a kernel that takes longer hangs
  gpu::StopRule stop;
  bool timing = true;  ///< time() will be called
  bool tuned = false;  ///< beside tuned_baseline()
  /// Told when it has to wait for its turn, and when it has it.
  std::function<void(bool waits)> on_wait;
  gpu::Lane* lane = nullptr;  ///< whose turn is held while kernels run; null: nobody else uses the GPU
  std::stop_token cancel;
};

/// A candidate on a real GPU, with one workload: its host code in a sandboxed process, its kernels in an executor's
/// context; truth and verdict stay here.
class GpuRun {
 public:
  struct Candidate {
    std::filesystem::path library, ffi_runtime;
    std::set<std::string> cubins;  ///< SHA-256 of the machine code that may run
  };
  /// `executor` may have been started ahead; null: one is started. `problem` and `state` must outlive the run.
  static Result<std::unique_ptr<GpuRun>> start(const Candidate& candidate, const problem::Problem& problem,
                                               const WorkloadState& state, const problem::InputOptions& inputs,
                                               const std::vector<DeviceArgument>& arguments,
                                               std::unique_ptr<gpu::ExecutorProcess> executor, GpuRunOptions options);
  ~GpuRun();
  GpuRun(const GpuRun&) = delete;
  GpuRun& operator=(const GpuRun&) = delete;

  /// One call with the state's inputs, as run_on_device() makes one on the emulator. The outputs are valid until the
  /// next request.
  Result<DeviceObservation> call();
  /// Timed calls, after call() has gone well. A failure of the candidate in one of them is in `failure`.
  struct Timed {
    Performance performance;
    std::vector<Finding> failure;
  };
  Result<Timed> time();
  /// What one more call executes, by machine code: adds it to the census. The last thing to do. Errors say why it
  /// cannot be counted; the evidence is unknown then.
  Result<void> count(const std::filesystem::path& cubin, Census& census);
  /// Ends the candidate's process. What it printed in all calls.
  std::string host_output();
  /// Ends both processes, the executor by itself if it can within `time`.
  void finish(std::chrono::milliseconds time);

 private:
  GpuRun(const problem::Problem& problem, const WorkloadState& state, const problem::InputOptions& inputs,
         GpuRunOptions options)
      : problem_(problem), state_(state), inputs_(inputs), options_(std::move(options)) {}
  Result<void> prepare(const Candidate& candidate, const std::vector<DeviceArgument>& arguments);
  Result<pid_t> start_runner(const Candidate& candidate, int fd);
  CallOutcome end_runner();
  void take_report(const base::Json& reply, DeviceObservation& observation);
  /// Tiles of all outputs of one timed call, chosen at random before it and unknown to everybody but this process and
  /// the executor.
  struct Sample {
    std::size_t call = 0;
    std::vector<std::vector<problem::Tile>> tiles;  ///< per output
    base::Json parts;                               ///< argument, offset and bytes of each row of them, in order
    std::uint64_t bytes = 0;
  };
  Sample choose_sample(std::size_t call, std::uint64_t seed) const;
  /// Of a timed call with permuted inputs, by its seed.
  gpu::SlicePermutation permutation(std::uint64_t seed) const;
  /// Whether each timed call has this input, if it is random, anew.
  bool is_renewed(std::size_t input) const;
  /// Compares what was kept of a timed call, at `from` in the bulk memory, with the truth for `seed`.
  Result<bool> verify(const Sample& sample, std::uint64_t from, std::uint64_t seed, Performance& performance);
  std::chrono::milliseconds patience() const;
  /// A request that runs kernels.
  Result<base::Json> in_turn(const base::Json& request);
  void spent(const char* step, std::chrono::steady_clock::time_point since);

  const problem::Problem& problem_;
  const WorkloadState& state_;
  problem::InputOptions inputs_;
  GpuRunOptions options_;
  std::unique_ptr<gpu::ExecutorProcess> executor_;
  std::unique_ptr<cuda_shim::SharedMemory> bulk_;
  bool orderly_ = true;         ///< every request was answered
  std::uint64_t download_ = 0;  ///< where outputs go in the bulk memory
  std::size_t sets_ = 1;
  std::optional<problem::ReferenceFunction> reference_ = problem::find_reference(problem_.definition);
  TimedInputs timed_inputs_ = TimedInputs::fresh;
  PermutedInputs permuted_;  ///< if timed_inputs_ says so
  base::Json description_;   ///< of the baseline, without a plan
  std::string baseline_, baseline_version_, no_baseline_;
  std::vector<bool> random_;                   ///< per input
  base::Json seconds_ = base::Json::object();  ///< spent, by step

  std::stop_source stop_runner_;
  std::thread runner_;
  Result<CallOutcome> runner_outcome_ = CallOutcome{};
};

}  // namespace ptxbench::evaluation

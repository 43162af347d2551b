#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda_shim/guarded_backend.h"
#include "cuda_shim/session.h"
#include "emulator/device.h"
#include "evaluation/candidate_process.h"
#include "evaluation/census.h"
#include "evaluation/evaluation.h"
#include "problem/tensor.h"

namespace ptxbench::evaluation {

/// One argument of the call, in the order of the definition.
struct DeviceArgument {
  std::string name;
  problem::Dtype dtype = problem::Dtype::float32;
  bool scalar = false;
  double floating = 0;       ///< a scalar's value, for floating types
  std::int64_t integer = 0;  ///< for the others
  bool output = false;
  problem::Shape shape;
  const problem::Tensor* input = nullptr;  ///< contents of an input tensor; must outlive the run
};

/// How the runner hands it to the candidate; a tensor's address is still open. Errors: more dimensions than there is
/// room for.
Result<CallArgument> describe_argument(const DeviceArgument& argument);

struct DeviceRunOptions {
  unsigned threads = 0;
  emulator::CompletionPolicy completion = emulator::CompletionPolicy::eager;
  bool exact_tensor_cores = false;
  std::uint64_t seed = 1;
  std::uint64_t instruction_budget = 0;
  CallLimits limits;
  std::optional<unsigned> sample_clusters;  ///< beside the corners; nothing: run everything
  std::uint64_t sample_seed = 1;
  std::vector<std::uint32_t> also_clusters;    ///< of each grid that is cut down
  std::optional<std::uint64_t> sample_launch;  ///< cut down only this launch (from 0); nothing: every one
  std::string ptx_sha256;                      ///< the only code that may be loaded; empty: any
  std::stop_token cancel;
  /// Called in the executing thread before each launch.
  std::function<void(const std::string& kernel)> on_launch;
  /// The device to run on, instead of one made for this run; what depends on how it was made (threads, completion,
  /// seed, budget, tensor cores) is then its own. Not owned.
  emulator::Device* device = nullptr;
  /// Called after each launch, in the executing thread.
  std::function<void(const emulator::LaunchReport&)> on_report;
};

/// Everything one call of the candidate on a fresh emulated device showed.
struct DeviceObservation {
  CallOutcome host;
  cuda_shim::ShimReport shim;
  cuda_shim::GuardedBackend::Observed backend;
  std::vector<LaunchSummary> launches;
  Census census;
  std::vector<problem::Tensor> outputs;  ///< what they hold now; poison where nothing was written
  /// Of several launches only the last was cut down to a sample, and it changed this output: the same with poison where
  /// it changed nothing, for each output; no elements where it changed nothing at all. Else none.
  std::vector<problem::Tensor> changed_last;
  std::vector<std::string> changed_inputs;
  std::vector<std::string> overrun_tensors;  ///< bytes behind these changed
  std::uint64_t launches_cut = 0;            ///< of which only a sample of the clusters ran
  double seconds = 0, kernel_seconds = 0;
};

/// Loads the tensors onto a device of its own, lets the sandboxed runner call the candidate, and collects what
/// happened. Errors are infrastructure (or tensors that do not fit the device).
Result<DeviceObservation> run_on_device(const std::filesystem::path& library, const std::filesystem::path& ffi_runtime,
                                        const std::vector<DeviceArgument>& arguments, const DeviceRunOptions& options);

}  // namespace ptxbench::evaluation

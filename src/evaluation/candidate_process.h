#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "candidate/call_protocol.h"
#include "cuda_shim/host_process.h"
#include "evaluation/evaluation.h"

namespace ptxbench::evaluation {

using candidate::Call;
using candidate::CallArgument;
using candidate::RunnerOutcome;
using candidate::RunnerReport;
using candidate::RunnerStep;

/// Limits of a candidate's host code. Kernels execute elsewhere and do not count.
struct CallLimits {
  std::chrono::milliseconds idle{10'000};  ///< longest time without a kernel running
  std::uint64_t cpu_seconds = 60;
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  ///< private writable memory
  std::size_t output_bytes = 16 * 1024;                 ///< what is kept of its standard output and error, each
};

/// What became of the process that made the call.
struct CallOutcome {
  cuda_shim::HostOutcome process;
  std::optional<RunnerReport> last;  ///< the last report that is well formed; its texts end with a zero byte
  bool idle_timeout = false;
  bool cancelled = false;

  bool finished() const { return last && last->outcome == RunnerOutcome::finished; }
};

struct HostCall {
  std::filesystem::path library;      ///< the candidate's kernel.so
  std::filesystem::path ffi_runtime;  ///< our libtvm_ffi.so
  std::filesystem::path socket;       ///< of the device
  const Call* call = nullptr;
  /// Instead of `call`: the runner's end of a socket over which calls come (`idle` is not asked then, and the outcome
  /// has no report).
  int serve_fd = -1;
  /// The runner has been started, and has its descriptors. Its process is the device's only client.
  std::function<void(pid_t)> on_started;
  CallLimits limits;
  /// Time since the last kernel ended; nothing while one runs.
  std::function<std::optional<std::chrono::milliseconds>()> idle;
  std::stop_token cancel;
};

/// The program that makes the call: $PTXBENCH_RUNNER, else ptxbench-runner beside the running program or in the build
/// folder.
Result<std::filesystem::path> find_runner();

/// Runs the call in a sandboxed process and waits for its end. Errors are infrastructure; everything the candidate does
/// is in the outcome.
Result<CallOutcome> run_candidate(const HostCall& call);

/// What the outcome says as findings; empty when the call finished. `explained`: a kernel fault or a refused request
/// already explains why the call failed, so that errors that merely follow from it become notes.
std::vector<Finding> host_findings(const CallOutcome& outcome, bool explained);

}  // namespace ptxbench::evaluation

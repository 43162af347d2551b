#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "candidate/call_protocol.h"
#include "cuda_shim/server.h"
#include "gpu/baseline.h"
#include "gpu/channel.h"
#include "gpu/clocks.h"
#include "gpu/gpu_backend.h"
#include "gpu/timing.h"
#include "gpu/workspace.h"

namespace ptxbench::gpu {

/// Owns a GPU context on behalf of one candidate: its device code, its tensors, the clock. It knows neither truth nor
/// verdict. A process has one, for one candidate, and ends with it.
///
/// Requests come over a channel, one answer each (docs/gpu.md has the fields):
///   prepare  tensors, baseline, machine code that may run, the runner's process, which is the only one that may be a
///            client; descriptors: the runner's socket, memory for bulk data
///   call     one call of the candidate, each kernel waited for
///   download all outputs of that call, to the bulk memory
///   time     calls under the clock, each with fresh inputs at other addresses, the baseline in between; `keep` names
///            parts of outputs that are copied aside as soon as their call has ended: nothing written later counts
///   count    one more call, whose machine instructions are counted; nothing is timed after it, as code stays patched
class Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(int ordinal, Channel channel);
  ~Executor();
  /// Until the other side goes. An error means that this process is of no more use.
  Result<void> serve();

 private:
  struct Marks {
    CUevent start = nullptr, end = nullptr, stamped = nullptr;
    std::uint64_t stamp_start = 0, stamp_end = 0;  ///< addresses
    std::uint32_t ticket = 0;
  };
  static constexpr std::uint64_t kKeptBytes = std::uint64_t{2} << 20;
  static constexpr std::size_t kStamps = 4;  ///< of one timed call: candidate and baseline, start and end
  class Batch;
  enum class Waited { answered, runner_gone, host_timeout, kernel_timeout };

  Executor(std::unique_ptr<Device> device, Channel channel);
  Result<void> start(std::chrono::steady_clock::time_point began);
  base::Json answer(const base::Json& request, std::vector<cuda_shim::OwnedFd>& descriptors);
  /// A baseline that will probably be asked for.
  base::Json plan(const base::Json& request);
  Result<base::Json> prepare(const base::Json& request, std::vector<cuda_shim::OwnedFd>& descriptors);
  Result<base::Json> call(const base::Json& request);
  Result<base::Json> time(const base::Json& request);
  Result<base::Json> download(const base::Json& request);
  Result<base::Json> count(const base::Json& request);

  /// The tensors of this set become those that the candidate may see.
  void present(std::size_t set);
  /// Why the call that has just ended counts as failed though it finished; null if it does not.
  base::Json refused_in_call() const;
  Result<void> tell_runner(std::size_t set);
  /// Until the runner's report of this call, or its end.
  Waited await_runner(candidate::RunnerReport& report);
  static base::Json fault_json(const emulator::Fault& fault);
  static base::Json report_json(const candidate::RunnerReport& report);
  base::Json observations(Waited waited, const candidate::RunnerReport& report);

  Result<void> flush_cache();
  Result<void> clear_baseline_outputs();
  Result<void> mark_start(Marks& marks);
  Result<void> mark_end(Marks& marks);
  /// For all who wait with this ticket or an earlier one.
  void open_gate(std::uint32_t ticket);
  /// Until the event has passed; false when that takes too long or the GPU has failed.
  bool await(CUevent event, const std::string& what);

  std::unique_ptr<Device> device_;
  Channel channel_;
  std::unique_ptr<DeviceMemory> memory_;
  GpuBackend* backend_ = nullptr;  ///< in guarded_
  std::unique_ptr<cuda_shim::GuardedBackend> guarded_;
  std::shared_ptr<cuda_shim::DeviceOutput> output_ = std::make_shared<cuda_shim::DeviceOutput>();
  std::unique_ptr<cuda_shim::ShimServer> server_;
  Kernels kernels_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Baseline> baseline_;
  bool baseline_has_run_ = false;
  base::Json tuned_;  ///< what Baseline::tune() said
  /// Made ahead, with its description.
  std::optional<std::pair<base::Json, Result<std::unique_ptr<Baseline>>>> planned_;
  std::unique_ptr<ClockSampler> clocks_;

  cuda_shim::OwnedFd runner_;
  std::span<std::byte> bulk_view_;
  candidate::Call call_;  ///< addresses are filled in per call
  std::vector<std::uint64_t> baseline_outputs_;
  std::uint64_t flush_ = 0, flush_bytes_ = 0, stamps_ = 0, kept_ = 0;
  std::uint64_t changes_ = 0;      ///< two counters: words of inputs and bytes of guard zones that timed calls changed
  std::uint32_t* gate_ = nullptr;  ///< host memory that gate kernels look at
  std::uint64_t gate_address_ = 0;
  std::uint32_t ticket_ = 0;
  std::chrono::milliseconds host_limit_{10'000}, kernel_limit_{10'000};
  std::string timed_out_kernel_;
  std::chrono::steady_clock::time_point since_kernel_;

  std::mutex launches_mutex_;
  base::Json launches_ = base::Json::array();
};

}  // namespace ptxbench::gpu

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "emulator/address_space.h"
#include "emulator/observer.h"

namespace ptxbench::ptx {
struct Module;
}

namespace ptxbench::emulator {

class TraceStore;

/// When asynchronous operations take effect (docs/memory-model.md). All three are legal executions.
enum class CompletionPolicy : uint8_t { eager, lazy, random };

/// How values that nobody wrote are looked for (docs/memory-model.md, section 7). Both ways need an observer.
enum class DefinednessMode : uint8_t {
  off,
  watch,  ///< finds out whether any are read: nearly free
  track,  ///< follows every bit to where it matters: slow, on one thread
};

struct DeviceOptions {
  unsigned threads = 0;  ///< worker threads; 0 = one per core
  CompletionPolicy completion = CompletionPolicy::eager;
  uint64_t seed = 1;
  uint64_t instruction_budget = 200'000'000'000;  ///< warp instructions per launch, then sync.budget is reported
  uint64_t memory_bytes = 85'520'809'984;         ///< an H100 SXM's 79.6 GiB
  /// Sums of 16-bit and tf32 tensor-core products bit for bit as the hardware forms them, at about a fifth of the
  /// speed. Without it they are fp32 fused multiply-adds, within a few units in the last place.
  bool exact_tensor_cores = false;
  Observer* observer = nullptr;  ///< not owned
  DefinednessMode definedness = DefinednessMode::off;
  /// Runs of one program under several policies share it: launches that were watched in the first one, and in which
  /// nothing was found, need only be compared with it afterwards (launch_trace.h). Null: every run is watched.
  std::shared_ptr<TraceStore> traces;
  std::function<void(std::string_view)> print;  ///< device printf; default: standard output
};

/// Source position of an instruction as far as the module tells (needs -lineinfo).
struct CodePlace {
  std::string kernel;  ///< entry or function name as in PTX
  std::string file;    ///< source file, empty if unknown
  uint32_t line = 0;   ///< source line, 0 if unknown
  /// Where the inlined function that holds the line was called, innermost first: file and line.
  std::vector<std::pair<std::string, uint32_t>> called_from;
  uint32_t ptx_line = 0;    ///< line in the PTX text
  std::string instruction;  ///< the PTX instruction's text
};

/// A kernel stopped: the first fault of a launch. `rule` is one of the finding families (memory.out-of-bounds,
/// sync.deadlock, unsupported.instruction, ...), `message` one or more lines for a person, `remedy` the smallest fix.
struct Fault {
  std::string rule;
  std::string message;
  std::string remedy;
  CodePlace place;
  uint32_t cta[3]{};
  uint32_t warp = 0;
  uint32_t lanes = 0;
  uint64_t address = 0;
};

/// Exact execution counts of one PTX instruction over a launch (scaled to nothing: what really ran).
struct InstructionCount {
  uint32_t instruction = 0;  ///< index in the kernel function's (or called function's) instruction list
  uint32_t function = 0;     ///< index in Module::functions
  uint64_t warps = 0;        ///< warp-level executions, predicated-off ones excluded
  uint64_t lanes = 0;        ///< predicate-true lanes
};

struct LaunchReport {
  std::string kernel;
  std::optional<Fault> fault;
  uint64_t warp_instructions = 0;
  uint64_t clusters_run = 0, clusters_total = 0;
  double seconds = 0;
  std::vector<InstructionCount> counts;       ///< instructions that ran at least once
  std::shared_ptr<const ptx::Module> module;  ///< for reading counts
  uint64_t tensor_core_macs = 0;              ///< multiply-adds by wgmma
  uint64_t legacy_mma_macs = 0;               ///< multiply-adds by mma.sync
  uint64_t asynchronous = 0;                  ///< asynchronous operations issued; 0: completion policies do not matter
  uint64_t tma_bytes = 0;                     ///< bytes moved by tensor copies, loads and stores
  std::vector<std::string> approximate;       ///< executed instructions whose results only approximate the hardware's
};

using ModuleId = uint32_t;
/// A kernel of a loaded module.
struct FunctionId {
  ModuleId module = 0;
  uint32_t function = 0;
  bool operator==(const FunctionId&) const = default;
};

struct FunctionAttributes {
  uint32_t static_shared_bytes = 0;  ///< without the reserved KiB
  uint32_t local_bytes = 0;
  uint32_t constant_bytes = 0;
  uint32_t registers = 0;  ///< an estimate (PTX has no allocation), capped by maxnreg and launch bounds
  uint32_t max_threads_per_block = 1024;
  uint32_t parameter_bytes = 0;
  std::vector<uint32_t> parameter_offsets, parameter_sizes;
  uint32_t required_cluster[3]{};  ///< .reqnctapercluster, 0 if none
  bool explicit_cluster = false;
};

struct LaunchRequest {
  FunctionId function;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {0, 0, 0};  ///< 0 = not given: the kernel's own or 1x1x1
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;              ///< laid out as parameter_offsets say
  uint32_t max_dynamic_shared_bytes = 48 * 1024;  ///< opt-in limit set for the function
  bool non_portable_cluster = false;
  /// Run only these clusters (linear indices); empty = all. The rest stays unrun, which the report shows.
  std::vector<uint32_t> sample;
  uint64_t stream = 0;
  std::shared_ptr<const StreamOrder> order;  ///< for the observer; null: after everything that was launched before
  /// Ends the launch early when stop is requested; the report then carries the fault launch.cancelled.
  std::stop_token stop{};
};

/// Why a launch was refused before anything ran. `cuda_error` is the runtime's error code.
struct LaunchError {
  int cuda_error = 1;
  std::string message;
  std::string rule = "launch.refused";  ///< docs/hazards.md
};

/// One emulated GPU (an H100 SXM: 132 SMs, compute capability 9.0). Methods are thread safe; launches run one at a
/// time, on the calling thread plus workers, and return when the kernel has finished or faulted. The device stays
/// usable after a fault: whoever models a CUDA context on top of it makes errors sticky.
class Device {
 public:
  static Result<std::unique_ptr<Device>> create(DeviceOptions options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  AddressSpace& memory();
  /// Loads PTX text: parses, lays out and initialises module variables. Errors carry name:line:column.
  Result<ModuleId> load_ptx(std::string_view text, std::string name);
  Result<ModuleId> load_module(std::shared_ptr<const ptx::Module> module, std::string name);
  Result<void> unload(ModuleId module);
  std::shared_ptr<const ptx::Module> module(ModuleId module) const;

  Result<FunctionId> find_kernel(ModuleId module, std::string_view name) const;
  Result<FunctionAttributes> attributes(FunctionId function) const;
  struct Symbol {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  Result<Symbol> find_symbol(ModuleId module, std::string_view name) const;

  /// Largest number of CTAs of this shape that one SM holds (registers, threads, shared memory as on sm_90); 0 = none
  /// fits.
  Result<uint32_t> occupancy(FunctionId function, uint32_t block_threads, uint32_t dynamic_shared_bytes) const;

  tl::expected<LaunchReport, LaunchError> launch(const LaunchRequest& request);

  /// Copies between host and device memory with bounds checks against live allocations.
  Result<void> write(uint64_t address, std::span<const std::byte> bytes);
  Result<void> read(uint64_t address, std::span<std::byte> bytes) const;
  Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes);
  Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count);

  /// For host code that writes device memory without write(), fill() or copy(): the bytes count as written.
  void note_written(uint64_t address, uint64_t bytes);
  /// The bytes count as never written, whatever they hold.
  void note_undefined(uint64_t address, uint64_t bytes);
  /// DefinednessMode::watch: some kernel read a value that nobody wrote.
  bool met_undefined() const;
  /// DefinednessMode::track: reports elements of an output that hold undefined bits, to the observer.
  void check_defined(uint64_t address, uint64_t bytes, uint32_t element_bytes);
  /// Why the search for undefined values is incomplete; empty if it is not.
  std::set<std::string> definedness_gaps() const;
  /// Tells the observer, between launches, of a copy or fill that a stream asked for.
  void observe(const StreamCopyEvent& event) const;

  CodePlace describe(Site site) const;
  /// PTX instructions of the basic block of `site` from that one on.
  uint32_t rest_of_block(Site site) const;
  const DeviceOptions& options() const;

  class State;  // the emulator's own rooms share it
 private:
  explicit Device(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Modelled part, for device properties and launch checks.
struct DeviceLimits {
  static constexpr uint32_t kSmCount = 132;
  static constexpr uint32_t kMaxThreadsPerBlock = 1024;
  static constexpr uint32_t kMaxThreadsPerSm = 2048;
  static constexpr uint32_t kMaxBlocksPerSm = 32;
  static constexpr uint32_t kRegistersPerSm = 65536;
  static constexpr uint32_t kSharedPerSm = 233472;
  static constexpr uint32_t kSharedPerBlockOptIn = 232448;
  static constexpr uint32_t kMaxPortableCluster = 8;
  static constexpr uint32_t kMaxCluster = 16;
  static constexpr uint32_t kMaxGridX = 0x7fffffff, kMaxGridYZ = 65535;
};

}  // namespace ptxbench::emulator

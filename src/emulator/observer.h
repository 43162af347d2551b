#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

/// What a tool may watch while kernels execute: the boundary between the emulator, which executes, and the checker,
/// which judges. The emulator fills these plain structs; they hold no emulator types, so race logic can be tested
/// alone. The contract (when each event is sent, in what order, and what a tool may rely on) is docs/memory-model.md.
namespace ptxbench::emulator {

enum class Space : uint8_t { global, shared, local, constant, param, tensor_map, registers };
enum class Proxy : uint8_t { generic, async, tensor_map, read_only };
enum class Semantics : uint8_t { weak, volatile_, relaxed, acquire, release, acq_rel, sc };
enum class Scope : uint8_t { none, cta, cluster, gpu, sys };
enum class AccessKind : uint8_t { read, write, atomic };

/// Place of an instruction, resolved lazily: `program` and `instruction` identify it, Device::describe() names it.
struct Site {
  uint32_t program = 0;
  uint32_t instruction = 0;
};

/// The threads an event is about: lanes `lanes` of one warp. Indices are linear: cluster in grid, CTA rank in cluster,
/// warp in CTA.
struct Agent {
  uint64_t launch = 0;
  uint32_t cluster = 0;
  uint32_t cta_rank = 0;
  uint32_t warp = 0;
  uint32_t lanes = 0;
  uint64_t time = 0;  ///< digest of how far the cluster's warps have come, and in which turns
  /// PTX instructions the warp has begun, up to the end of the basic block it is in: Device::rest_of_block() tells how
  /// many of them are still to come. In a called function the rest of the callers' blocks counts as well.
  uint64_t begun = 0;
};

/// Bytes [address, address + bytes). Shared addresses are those of the cluster window: (CTA rank << 24) + offset.
struct ByteRange {
  uint64_t address = 0;
  uint32_t bytes = 0;
};

/// One warp-level memory instruction. Lane l (set in agent.lanes) touches [addresses[l], addresses[l] + bytes).
struct AccessEvent {
  Agent agent;
  Site site;
  Space space{};
  AccessKind kind{};
  Semantics semantics{};
  Scope scope{};
  Proxy proxy{};
  uint32_t bytes = 0;
  const uint64_t* addresses = nullptr;  ///< 32 entries
  uint32_t unchanged = 0;               ///< stores: lanes that store what the bytes hold already
  uint32_t clashing = 0;                ///< stores: lanes whose bytes another lane gives another value
};

/// An ordinary instruction touches registers that some wgmma of the function uses. Registers are named by their offsets
/// in the warp's register file, as in AsyncIssueEvent.
struct RegisterEvent {
  Agent agent;
  Site site;
  std::span<const uint32_t> reads, writes;
};

enum class FenceKind : uint8_t { thread, proxy_async, proxy_tensor_map, proxy_alias, mbarrier_init, wgmma };
struct FenceEvent {
  Agent agent;
  Site site;
  FenceKind kind{};
  Semantics semantics{};
  Scope scope{};
  bool global_space = true, shared_space = true;  ///< for proxy fences: which spaces the fence names
  ByteRange tensor_map{};                         ///< for tensormap acquire: the 128 bytes it names
};

enum class BarrierKind : uint8_t { cta, cluster, warp, grid_dependency };
enum class BarrierAction : uint8_t { arrive, wait_begin, wait_end };
struct BarrierEvent {
  Agent agent;
  Site site;
  BarrierKind kind{};
  BarrierAction action{};
  uint32_t id = 0;          ///< named barrier 0..15
  uint64_t generation = 0;  ///< number of completed phases of this barrier before this event
  bool aligned = false;
  Semantics semantics{};  ///< cluster barriers: release / acquire / relaxed
};

enum class MbarrierAction : uint8_t {
  init,
  invalidate,
  arrive,
  arrive_drop,
  expect_tx,
  complete_tx,
  wait_success,
  wait_failure
};
struct MbarrierEvent {
  Agent agent;
  Site site;
  MbarrierAction action{};
  uint64_t address = 0;  ///< cluster shared address
  uint32_t count = 0;    ///< arrivals, or the initial count
  int64_t bytes = 0;     ///< transaction bytes
  uint64_t phase = 0;    ///< phases completed before this event
  Semantics semantics{};
  Scope scope{};              ///< none: the instruction names none
  uint64_t completed_by = 0;  ///< complete_tx: id of the asynchronous operation, 0 if a thread did it
};

enum class AsyncKind : uint8_t {
  cp_async,
  bulk_copy,
  tensor_copy,
  bulk_reduce,
  tensor_reduce,
  wgmma,
  st_async,
  red_async,
  prefetch
};
enum class Completion : uint8_t { none, mbarrier, bulk_group, cp_async_group, wgmma_group };

/// An asynchronous operation was issued. Its effects happen at on_async_effect; ranges are valid during the call only.
struct AsyncIssueEvent {
  uint64_t id = 0;
  Agent agent;
  Site site;
  AsyncKind kind{};
  Completion completion{};
  uint64_t completion_target = 0;  ///< mbarrier address, or index of the group the operation belongs to
  uint64_t completion_phase = 0;   ///< mbarrier: phases it has completed at the issue
  Space source_space{}, destination_space{};
  std::span<const ByteRange> reads, writes;
  uint64_t tensor_map = 0;  ///< generic address of the tensor map read through its proxy, 0 if none
  /// How a tile lies in shared memory: [0] of a tensor copy's box or of wgmma's A, [1] of wgmma's B.
  struct TileLayout {
    uint32_t swizzle_bytes = 0;  ///< 0, 32, 64 or 128
    uint32_t row_bytes = 0;      ///< tensor copies: bytes of the box's innermost dimension
    bool mn_major = false;       ///< wgmma: transposed operand
    /// Tensor copies: the elements of the box and where it lies in the tensor, innermost dimension first.
    uint32_t box[5]{1, 1, 1, 1, 1};
    int32_t origin[5]{};
    /// wgmma: the descriptor in bytes (the start as a cluster shared address) and the operand in elements.
    uint64_t start = 0;
    uint32_t leading_offset = 0, stride_offset = 0, base_offset = 0;
    uint32_t mn = 0, k = 0, element_bytes = 0;

    /// Tensor copies by one map: the rows of `next` are those that follow this box's in the tensor.
    bool continued_by(const TileLayout& next) const {
      unsigned moved = 0, dimension = 0;
      for (unsigned d = 0; d < 5; ++d) {
        if (origin[d] == next.origin[d]) continue;
        ++moved;
        dimension = d;
      }
      return moved == 1 && dimension != 0 && int64_t{next.origin[dimension]} - origin[dimension] == box[dimension];
    }
  };
  TileLayout layout[2];
  /// wgmma only. `reads` holds the shared bytes of A (the first `a_reads` ranges, none when A is in registers), then of
  /// B; `writes` the accumulators in Space::registers, where a register's address is its offset in the warp's register
  /// file.
  uint32_t a_reads = 0;
  std::span<const ByteRange> register_reads;  ///< A fragments in registers
  bool accumulates = true;                    ///< false: scale-d is 0, the accumulators' old values are not used
};
enum class AsyncEffect : uint8_t { reads_done, writes_done };
/// A thread learned that groups up to and including `group` are complete (`reads_only`: `.read` waits free sources
/// only).
struct GroupWaitEvent {
  Agent agent;
  Site site;
  Completion kind{};
  uint64_t group = 0;
  bool reads_only = false;
  bool all = false;   ///< cp.async.wait_all: what no commit has taken yet is complete, too
  bool none = false;  ///< wgmma: the wait was executed, but no group was committed that it could cover
};

/// How a value that depends on memory or a register nobody wrote was used.
enum class UndefinedUse : uint8_t {
  branch,   ///< a branch's predicate or index
  guard,    ///< the predicate of any other instruction
  address,  ///< a memory address, coordinates, a descriptor
  barrier,  ///< an operand of a barrier or mbarrier
  control,  ///< lanes, membermasks, sizes
  output,   ///< stored to an output that holds it when the run ends
};
/// DefinednessMode::track: an undefined value mattered. `origin` is where it came from: the instruction that read the
/// memory, or the first one that read the register.
struct UndefinedEvent {
  Agent agent;
  Site site;
  UndefinedUse use{};
  bool has_origin = false;
  Agent origin_agent;
  Site origin_site;
  bool from_register = false;
  Space space{};         ///< of the memory nobody wrote
  uint64_t address = 0;  ///< the same; 0 bytes: a register
  uint32_t bytes = 0;
};

/// The first `count` pieces of work that were put on a stream.
struct StreamPosition {
  uint64_t stream = 0;
  uint64_t count = 0;
};
using StreamPositions = std::vector<StreamPosition>;  ///< by stream

/// Where a piece of work stands among the streams of a process, and what is complete when it begins (CUDA C++
/// Programming Guide, "Streams", "Programmatic Dependent Launch and Synchronization").
struct StreamOrder {
  uint64_t process = 0;  ///< work of different processes has nothing in common
  uint64_t stream = 0;
  uint64_t position = 0;      ///< number in its stream, from 1
  uint64_t own_before = 0;    ///< pieces of its own stream that are complete before it begins
  StreamPositions before;     ///< of other streams (and of its own, if that is more)
  bool programmatic = false;  ///< griddepcontrol.wait completes what precedes it in its stream
  bool single_stream = true;  ///< no other stream has been used so far
  bool known = true;          ///< false: there are too many streams to keep their order

  bool after(uint64_t other_stream, uint64_t other_position) const {
    if (other_stream == stream && other_position <= own_before) return true;
    for (const StreamPosition& one : before) {
      if (one.stream == other_stream) return other_position <= one.count;
    }
    return false;
  }
};

struct LaunchEvent {
  uint64_t launch = 0;
  uint32_t program = 0;
  uint32_t grid[3]{}, block[3]{}, cluster[3]{};
  uint32_t shared_bytes = 0;
  uint64_t stream = 0;
  ByteRange parameters{};              ///< global memory that holds the parameters while the kernel runs
  const StreamOrder* order = nullptr;  ///< null: everything earlier is complete
};

/// The host side copied or filled memory, at the place in a stream that `order` says.
struct StreamCopyEvent {
  struct Range {
    uint64_t address = 0, bytes = 0;
  };
  std::string_view what;  ///< "a copy to the device", ...
  const StreamOrder* order = nullptr;
  std::span<const Range> reads, writes;
  bool parts_only = false;  ///< only parts of the ranges are touched: there are too many to list
};

/// All callbacks default to nothing. Calls for one cluster come from one thread at a time; different clusters may call
/// concurrently unless Observer::serial() is true.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual bool serial() const { return true; }
  virtual void on_launch_begin(const LaunchEvent&) {}
  virtual void on_launch_end(const LaunchEvent&) {}
  /// Never during a launch.
  virtual void on_stream_copy(const StreamCopyEvent&) {}
  /// Asked before a launch begins: is it enough to learn that nothing in it can race, and what it wrote, if that can be
  /// shown at the speed of a launch that nobody watches? Then on_proved comes instead of the launch's other events.
  virtual bool accepts_proof(const LaunchEvent&) { return false; }
  /// No two threads of the launch touched the same bytes, one of them writing, without a barrier of their CTA between
  /// them, other than by atomics that reach each other. `written`: all global bytes that were written, in no order.
  virtual void on_proved(const LaunchEvent&, std::span<const ByteRange> /*written*/) {}
  /// Asked before a launch begins in which nothing orders one cluster after another: may `workers` host threads run its
  /// clusters, each sending the events of its own? Then on_worker comes on each of them, and after all the other
  /// events on_workers_end, which says whether nothing was found. If something was, the observer forgets what it saw,
  /// memory is put back, and the launch runs again on one thread.
  virtual bool accepts_workers(const LaunchEvent&, unsigned /*workers*/) { return false; }
  /// The same, before some clusters of the launch run as examples for others that do the same. What the launch as a
  /// whole wrote follows by on_proved, if nothing is found.
  virtual bool accepts_examples(const LaunchEvent&, unsigned /*workers*/) { return false; }
  virtual void on_worker(unsigned /*worker*/) {}
  virtual bool on_workers_end(const LaunchEvent&) { return false; }
  virtual void on_access(const AccessEvent&) {}
  virtual void on_registers(const RegisterEvent&) {}
  virtual void on_fence(const FenceEvent&) {}
  virtual void on_barrier(const BarrierEvent&) {}
  virtual void on_mbarrier(const MbarrierEvent&) {}
  virtual void on_async_issue(const AsyncIssueEvent&) {}
  virtual void on_async_effect(uint64_t /*id*/, AsyncEffect) {}
  virtual void on_group_commit(const Agent&, Site, Completion, uint64_t /*group*/) {}
  virtual void on_group_wait(const GroupWaitEvent&) {}
  virtual void on_exit(const Agent&, Site) {}
  virtual void on_undefined_use(const UndefinedEvent&) {}
};

}  // namespace ptxbench::emulator

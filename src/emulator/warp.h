#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/address_space.h"
#include "emulator/async.h"
#include "emulator/device.h"
#include "emulator/program.h"
#include "emulator/touches.h"

/// Run-time state: a launch runs clusters; a cluster interleaves the warps of its CTAs on one thread.
namespace ptxbench::emulator {

struct Cta;
struct Cluster;
struct Launch;
class Definedness;
struct CtaDefinedness;
struct WarpDefinedness;

/// One activation of a function by (part of) a warp.
struct Frame {
  const FunctionCode* function = nullptr;
  std::byte* registers = nullptr;  ///< frame_bytes, 128-byte aligned
  std::vector<std::byte> storage;
  uint32_t local_base = 0;  ///< offset of this activation's locals in each thread's local memory
  Frame* caller = nullptr;
  const Inst* call_site = nullptr;
};

/// Where diverged lanes meet again. `pending` lanes have not arrived (nor exited); `arrived` lanes wait at `target`.
struct Join {
  const Inst* target = nullptr;  ///< first instruction of the post-dominator block, or the return point of a call
  Frame* frame = nullptr;        ///< frame that continues at target
  uint32_t pending = 0;
  uint32_t arrived = 0;
  int32_t parent = -1;
  bool in_use = false;
  bool is_call = false;
};

enum class FragmentState : uint8_t {
  ready,
  barrier,    ///< CTA barrier `wait_id`
  warp_sync,  ///< waits for the lanes `wait_mask` to reach the same `.sync` instruction
  mbarrier,   ///< try_wait: phase `wait_parity` of the barrier at `wait_address`
  cluster_barrier,
  async_group,    ///< cp.async / bulk / wgmma wait_group
  register_pool,  ///< setmaxnreg.inc
  grid_dependency,
  rendezvous,  ///< convergent warpgroup or warp operation waits for other lanes
};

/// A set of lanes with one program counter.
struct Fragment {
  const Inst* pc = nullptr;
  uint32_t mask = 0;
  Frame* frame = nullptr;
  int32_t join = -1;
  FragmentState state = FragmentState::ready;
  bool timed_out = false;        ///< a try_wait that gave up: returns false once
  bool at_warp_barrier = false;  ///< warp_sync: the instruction is bar.warp.sync, at `wait_address`
  uint32_t wait_id = 0;
  uint32_t wait_mask = 0;
  uint32_t wait_parity = 0;
  uint64_t wait_address = 0;
  uint64_t wait_generation = 0;
  uint64_t poll_hash = 0;  ///< what the last polling round read
};

/// Why a run loop ended.
enum class Stop : uint8_t { none, yield, blocked, exited, switched, fault };

struct Warp {
  // Hot part: what handlers touch.
  std::byte* regs = nullptr;
  uint32_t mask = kFullMask;  ///< active lanes of the running fragment
  int32_t quantum = 0;
  int32_t forfeited = 0;  ///< part of the quantum given up without executing anything
  /// The CTA's own shared memory for the short paths of isa/memory.cpp: a 32-bit shared address a is good for n bytes
  /// if (a - shared_begin) + n <= shared_span; its host address is shared_origin + a.
  uint32_t shared_begin = 0;
  uint32_t shared_span = 0;
  std::byte* shared_origin = nullptr;
  Cta* cta = nullptr;
  Cluster* cluster = nullptr;
  Frame* frame = nullptr;
  uint64_t* block_counts = nullptr;  ///< pairs (warps, lanes) per block counter
  uint64_t* guard_counts = nullptr;
  Touches* touches = nullptr;                            ///< during a launch that is to be proved free of races
  alignas(64) std::array<uint32_t, kLanes> lane_mask{};  ///< mask, one word per lane, 0 or ~0

  Stop stop = Stop::none;
  bool polled = false;  ///< executed a polling operation since the last yield
  uint64_t poll_hash = 0;
  const Inst* resume = nullptr;       ///< where the fragment goes on, set with stop
  const Inst* join_target = nullptr;  ///< block entry where the running fragment meets its siblings, null if none

  // Cold part.
  uint32_t index = 0;               ///< in CTA
  uint32_t live = 0;                ///< lanes that have not exited
  std::vector<Fragment> fragments;  ///< fragments[current] is loaded into the hot part while it runs
  size_t current = 0;
  std::vector<Join> joins;
  std::vector<std::unique_ptr<Frame>> frames, spare_frames;
  std::vector<std::byte> local;  ///< lanes * local_stride
  uint32_t local_stride = 0;
  AllocationCache allocation_cache;
  std::array<ThreadAsyncState, kLanes> async{};  ///< per-thread cp.async and bulk groups
  WarpgroupState wgmma;                          ///< this warp's wgmma groups
  uint32_t registers_per_thread = 0;             ///< setmaxnreg bookkeeping
  uint64_t executed = 0;                         ///< PTX instructions in earlier turns
  std::shared_ptr<WarpDefinedness> definedness;  ///< null unless the launch has one

  template <class T>
  T* slot(uint32_t offset) {
    return reinterpret_cast<T*>(regs + offset);
  }
  void set_mask(uint32_t m) {
    mask = m;
    for (unsigned l = 0; l < kLanes; ++l) lane_mask[l] = 0u - ((m >> l) & 1u);
  }
  std::byte* local_pointer(unsigned lane, uint64_t offset) { return local.data() + lane * local_stride + offset; }

  /// Ends the run loop; the fragment resumes at `next`.
  const Inst* leave(Stop why, const Inst* next) {
    stop = why;
    resume = next;
    return nullptr;
  }
  const Inst* fault(const Inst& inst, std::string rule, std::string message, std::string remedy = {},
                    uint64_t address = 0, uint32_t lanes = 0);
  /// Blocks the running fragment; it resumes at `next` once the scheduler finds the condition fulfilled.
  const Inst* block(FragmentState state, const Inst* next);
  void side_effect();
  void forfeit(int32_t turns) {
    quantum -= turns;
    forfeited += turns;
  }
  /// Marks a polling operation: what it read decides whether the warp is waiting (docs/memory-model.md, "Waiting").
  void poll(uint64_t hash) {
    polled = true;
    poll_hash = (poll_hash ^ hash) * 0x9e3779b97f4a7c15ull;
    forfeit(quantum);
  }

  Fragment& fragment() { return fragments[current]; }
  /// Splits the lanes `taken` off to `taken_pc`; the running fragment goes on at `other_pc` with the rest. They meet at
  /// `join` (null: never before the enclosing join).
  const Inst* diverge(uint32_t taken, const Inst* taken_pc, const Inst* other_pc, const Inst* join);
  /// The running fragment is at its join. True: it goes on (merged); false: it is gone, leave the run loop.
  bool reach_join(const Inst& inst);
  /// Takes lanes out of every join that waits for them, releasing joins that become complete.
  void drop_lanes(uint32_t lanes);
  int32_t new_join(const Join& join);
  void release_join(int32_t which);
  void remove_current_fragment();
  void load_fragment(size_t which);
  void use_frame(Frame* next);
  Frame* push_frame(const FunctionCode& function, uint32_t local_base);
  void pop_frame(Frame* frame);
  void update_join_target();
  /// Moves the warp to general code, where no register is shared between lanes (see FunctionCode::general). Only
  /// between run loops.
  void make_general();
  bool general = false;
  bool parted = false;  ///< lanes went different ways where the code has no branch: general code from the next run loop
  void init_frame(Frame& frame_to_fill);
};

struct CtaBarrier {
  uint32_t expected = 0;               ///< threads; 0 = all of the CTA
  std::array<uint32_t, 32> arrived{};  ///< per warp: lanes that arrived in the pending phase
  uint64_t generation = 0;
  uint32_t red_popc = 0;
  bool red_and = true, red_or = false;
  uint32_t last_popc = 0;
  bool last_and = false, last_or = false;
  bool active = false;
  bool reducing = false;  ///< the pending phase is a barrier.red
  uint32_t counted = 0;   ///< per warp: bit set once its 32 threads are in `count`
  uint32_t count = 0;     ///< threads that arrived, in whole warps
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  uint32_t id[3]{};
  std::byte* shared = nullptr;  ///< shared_bytes, offset 0 = shared address (rank << 24)
  uint32_t shared_bytes = 0;    ///< reserved KiB + static + dynamic
  std::vector<Warp*> warps;
  std::array<CtaBarrier, 16> barriers{};
  uint32_t live_warps = 0;
  uint32_t register_pool = 0;                   ///< free registers for setmaxnreg
  std::shared_ptr<CtaDefinedness> definedness;  ///< null unless the launch has one
  uint64_t shared_version = 0;                  ///< bumped by every shared store and async write: wgmma packing cache
};

struct ClusterBarrier {
  uint64_t generation = 0;
  uint32_t arrived_threads = 0;
  uint32_t expected_threads = 0;
  /// Per warp of the cluster: lanes that arrived in the pending phase, lanes that owe a wait for their last arrive.
  std::vector<uint32_t> arrived, unwaited;
};

struct Cluster {
  Launch* launch = nullptr;
  Touches* touches = nullptr;  ///< of the host thread that runs the cluster
  uint32_t index = 0;          ///< linear in grid
  uint32_t id[3]{};
  std::vector<Cta> ctas;
  std::vector<Warp> warps;
  std::vector<std::byte> shared_storage;
  uint32_t shared_stride = 0;
  ClusterBarrier barrier;
  AsyncEngine async;
  uint64_t progress = 0;  ///< side effects so far
  uint64_t global_progress_seen = 0;
  uint32_t fruitless_rounds = 0;
  uint32_t live_warps = 0;
  std::vector<uint64_t> block_counts, guard_counts;
  uint64_t instructions = 0;
  uint64_t pace = 0;         ///< digest of which warps ran how far, turn by turn
  bool charged = false;      ///< its CTAs' start has been charged to the budget
  uint64_t clock_reads = 0;  ///< reads of %clock and its kin so far
  uint64_t tensor_core_macs = 0, legacy_mma_macs = 0, tma_bytes = 0;
  std::optional<Fault> fault;
  bool serial_fault = false;

  Cta* cta_of_shared(uint64_t shared_address);
  /// Host pointer of `bytes` bytes at a shared::cluster address, null if they leave the CTA's shared memory.
  std::byte* shared_pointer(uint64_t shared_address, uint32_t bytes);
};

/// What all clusters of a launch share.
struct Launch {
  const Program* program = nullptr;
  const FunctionCode* kernel = nullptr;
  const LaunchRequest* request = nullptr;
  AddressSpace* memory = nullptr;
  Device::State* device = nullptr;
  Observer* observer = nullptr;
  Definedness* definedness = nullptr;  ///< DeviceOptions::definedness
  uint64_t id = 0;
  uint64_t parameters = 0;              ///< device address of the parameter block
  uint32_t shared_bytes = 0;            ///< per CTA, reserved KiB included
  std::vector<uint32_t> shared_offset;  ///< per Program::shared_variables: offset in the CTA's shared memory
  bool explicit_cluster = false;
  bool aligned_warps = false;         ///< warps are rows of x: specialised code may run
  uint32_t local_stride = 0;          ///< local bytes per thread, stack for calls included
  uint32_t registers_per_thread = 0;  ///< at kernel start, for setmaxnreg
  uint32_t register_pool = 0;         ///< free registers per CTA at kernel start
  std::function<CodePlace(Site)> describe;
  bool host_can_write = false;  ///< memory shared with a host process exists: the host may end a wait
  uint32_t clusters = 0;
  uint32_t ctas_per_cluster = 1;
  uint32_t cluster_dim[3] = {1, 1, 1};
  uint32_t grid_clusters[3]{};
  uint32_t threads_per_cta = 0, warps_per_cta = 0;
  CompletionPolicy completion{};
  uint64_t seed = 0;
  uint64_t instruction_budget = 0;
  std::atomic<uint64_t> instructions{0};
  std::atomic<uint64_t> global_progress{0};
  std::atomic<bool> stopped{false};
  std::atomic<bool> unproven{false};  ///< a proof by touches has failed
  bool skips_products = false;        ///< tensor cores leave their accumulators as they are
  const std::function<void(std::string_view)>* print = nullptr;
  /// Touches are recorded, by host thread; empty if nothing is to be proved.
  std::vector<std::unique_ptr<Touches>> touches;
  UndoLog undo;
};

inline void Warp::side_effect() { ++cluster->progress; }

/// PTX instructions a warp may execute in one turn.
inline constexpr int32_t kQuantum = 100'000;

/// Describes the agent for observer events.
Agent agent_of(const Warp& warp, uint32_t lanes);
/// Site of a decoded instruction; FunctionCode::site_base makes it unique in the module.
inline Site site_of(const Warp& warp, const Inst& inst) {
  return {warp.cluster->launch->program->id, warp.frame->function->site_base + inst.site};
}
/// Writes a launch-constant special register into a fresh frame.
void write_special(const Warp& warp, const FunctionCode::SpecialSlot& special, std::byte* registers);
/// Re-examines a CTA barrier after lanes exited.
void recheck_barriers(Cta& cta);

}  // namespace ptxbench::emulator

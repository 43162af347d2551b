#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/address_space.h"
#include "emulator/launch.h"
#include "emulator/observer.h"
#include "emulator/touches.h"

/// What every thread of a launch did, as digests, to see whether another completion policy changes anything. A launch
/// in which nothing can race is determined by what its threads do and by which of their synchronisations meet: if each
/// thread makes the same accesses, issues and waits in the same phases under another policy, its order and its values
/// are the same, and so is all that can be said about it. docs/hazards.md, section 5.
namespace ptxbench::emulator {

/// Global bytes that were written.
class WrittenBytes {
 public:
  void add(uint64_t address, uint64_t bytes);
  void absorb(WrittenBytes&& other);
  /// In order of addresses, neighbours joined.
  std::vector<ByteRange> ranges() const;

 private:
  static constexpr uint64_t kPageBytes = 4096;
  struct Page {
    std::array<uint64_t, kPageBytes / 64> bits{};
  };
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~0ull;
  Page* last_ = nullptr;
};

/// The state of device memory between launches. Equal states have equal digests; others practically never.
using MemoryDigest = uint64_t;

/// One launch under the first policy.
struct LaunchTrace {
  uint64_t shape = 0;  ///< digest of kernel, grid, blocks and clusters
  /// Which bytes of memory had been written before (Definedness::digest), where no more than that is known of them.
  std::optional<uint64_t> defined;
  std::vector<uint64_t> clusters;  ///< digest by cluster; 0: it did not run
  /// The same but for where in global memory the threads worked. Clusters that agree in this do the same with their
  /// shared memory, and all their synchronisation is the same.
  std::vector<uint64_t> kinds;
  /// How far the warps had come when things happened. Clusters of one kind that agree in this ran in lockstep.
  std::vector<uint64_t> schedules;
  std::vector<ByteRange> written;  ///< global bytes
  /// Where clusters are of few kinds and schedules, do not see each other and cannot tell how long they waited: some of
  /// each. Under another policy they stand for all, if memory is the same.
  std::vector<uint32_t> examples;
  /// Tensor-core results decide nothing but what is stored, so products need not be formed again.
  bool stores_products_only = false;
  /// Memory before the launch, and the pages that it wrote: from equal memory an equal launch leaves the same behind.
  bool has_results = false;
  MemoryDigest before = 0;
  LaunchTotals totals;
  std::vector<uint64_t> pages;      ///< numbers, of UndoLog::kPageBytes
  std::vector<std::byte> contents;  ///< of these pages after the launch

  size_t memory() const {
    return (clusters.size() + kinds.size() + schedules.size() + totals.block_counts.size() +
            totals.guard_counts.size()) *
               sizeof(uint64_t) +
           examples.size() * sizeof(uint32_t) + written.size() * sizeof(ByteRange) + pages.size() * sizeof(uint64_t) +
           contents.size();
  }
};

/// The launches of a program under one policy, for runs of the same program under others. Thread safe.
class TraceStore {
 public:
  /// `max_bytes` bounds what is kept; later launches are then not remembered.
  /// Below `many_products` multiply-adds forming them again is cheaper than keeping what they lead to.
  explicit TraceStore(size_t max_bytes = size_t{2} << 30, uint64_t many_products = 2'000'000'000)
      : many_products_(many_products), room_(max_bytes) {}
  uint64_t many_products() const { return many_products_; }
  /// Null if launch number `launch` of the run is not known, or was another one.
  std::shared_ptr<const LaunchTrace> find(uint64_t launch, uint64_t shape) const;
  void keep(uint64_t launch, LaunchTrace trace);
  size_t room() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const LaunchTrace>> traces_;
  uint64_t many_products_;
  size_t room_;
};

/// Forms the digests of a launch from its events, and passes the events on to `inner` if there is one.
class TraceObserver final : public Observer {
 public:
  TraceObserver(Observer* inner, const LaunchEvent& launch, uint32_t clusters, unsigned workers);
  /// From now on also remembers which threads touched which global bytes, so that finish() knows whether any two may
  /// conflict there, and saves what is written. Sets `stop` once that is clear, when it takes more than `touch_bytes`
  /// in all, or, with `few_kinds`, when there are too many kinds of clusters for kinds to be of use.
  void watch_global(const AddressSpace& memory, UndoLog& undo, std::atomic<bool>& stop, bool few_kinds,
                    size_t touch_bytes = size_t{4} << 30);

  bool serial() const override { return false; }
  void on_worker(unsigned worker) override;
  void on_access(const AccessEvent& event) override;
  void on_registers(const RegisterEvent& event) override;
  void on_fence(const FenceEvent& event) override;
  void on_barrier(const BarrierEvent& event) override;
  void on_mbarrier(const MbarrierEvent& event) override;
  void on_async_issue(const AsyncIssueEvent& event) override;
  void on_async_effect(uint64_t id, AsyncEffect effect) override {
    if (inner_ != nullptr) inner_->on_async_effect(id, effect);
  }
  void on_group_commit(const Agent& agent, Site site, Completion kind, uint64_t group) override;
  void on_group_wait(const GroupWaitEvent& event) override;
  void on_exit(const Agent& agent, Site site) override;

  /// After the launch: digests and what was written. False: the launch did something whose order a digest does not
  /// tell, or not all of its threads came to their end.
  bool finish(LaunchTrace& trace);

 private:
  /// The threads of a cluster while it runs: by warp and lane.
  struct Digests {
    uint64_t whole = 0, kind = 0;
  };
  struct WarpTrace {
    std::array<uint64_t, 32> lanes{};  ///< with global addresses
    std::array<uint64_t, 32> kinds{};  ///< without
    /// Lanes whose last act was to ask for a phase that was not complete, and where. They have to ask again: a thread
    /// that does something else instead shows when the phase completed.
    uint32_t turned_away = 0;
    uint32_t asked_at = 0;
  };
  struct Operation {
    Digests digests;
    bool several = false;  ///< it completes on the barriers of several CTAs
  };
  struct PlacedBox {
    uint64_t tensor_map = 0, end = 0;
    AsyncIssueEvent::TileLayout layout;
  };
  struct Running {
    std::vector<WarpTrace> warps;
    /// Asynchronous operations that complete on an mbarrier: who issued them and when in its own order.
    std::unordered_map<uint64_t, Operation> operations;
    Digests completions;  ///< sums: they come in any order
    uint32_t threads_left = 0;
    Digests ended;  ///< of the threads once all have exited
    uint64_t schedule = 0;
    /// The last tensor copy to each place in shared memory, and by where such places end.
    std::unordered_map<uint64_t, PlacedBox> boxes;
    std::unordered_map<uint64_t, uint64_t> box_that_ends;
    /// Shared addresses of the cluster's mbarriers.
    std::set<uint64_t> barriers;
  };
  struct Worker {
    std::unordered_map<uint32_t, Running> running;
    uint32_t last_cluster = ~0u;
    Running* last = nullptr;
    WrittenBytes written;
    std::unique_ptr<GlobalTouches> global;  ///< null unless watch_global() asks for it
    uint64_t touches = 0;
    bool unsuitable = false;
  };
  Worker& worker();
  Running& running_of(Worker& worker, const Agent& agent);
  /// Null once all threads of the cluster have exited: what still happens shows in `completions`.
  WarpTrace* warp_of(Worker& worker, const Agent& agent);
  void add(const Agent& agent, uint64_t event) { add(agent, {event, event}); }
  void add(const Agent& agent, const Digests& event);
  Digests digest_issue(const AsyncIssueEvent& event);
  /// Whether a box goes on in the tensor where its neighbours in shared memory do: the only thing that matters of where
  /// in the tensor it lies.
  uint64_t place_box(Running& running, const AsyncIssueEvent& event);
  void touch_lanes(const AccessEvent& event);
  /// The bytes are read. What an mbarrier holds at some moment is a matter of chance.
  void look_for_barriers(const Agent& agent, uint64_t address, uint64_t bytes);
  void bound_memory(Worker& worker) {
    if ((++worker.touches & 0xfff) == 0 && worker.global->memory() > touch_bytes_) give_up();
  }
  /// An asynchronous operation touches the bytes, at some time.
  void touch(uint64_t address, uint64_t bytes, TouchKind kind);
  /// Something that the digests do not tell, or may be a race.
  void give_up() {
    worker().unsuitable = true;
    if (stop_ != nullptr) stop_->store(true);
  }
  void count_kind(uint64_t kind);

  Observer* inner_;
  uint32_t clusters_, warps_per_cta_, ctas_, threads_;
  std::vector<Worker> workers_;
  const AddressSpace* memory_ = nullptr;
  std::atomic<bool>* stop_ = nullptr;
  bool few_kinds_ = false;
  size_t touch_bytes_ = 0;  ///< of one worker
  std::mutex kinds_mutex_;
  std::unordered_set<uint64_t> kinds_;  ///< of clusters that have ended
  size_t ended_ = 0;
};

/// Digest of what is launched how.
uint64_t digest_shape(const LaunchEvent& launch, uint32_t function, std::span<const uint32_t> sample);
/// Digest of all memory that is allocated. `undo`: as it was before the launch whose writes it holds.
MemoryDigest digest_memory(const AddressSpace& memory, const UndoLog* undo);
/// Bytes of all live allocations.
uint64_t live_bytes(const AddressSpace& memory);

}  // namespace ptxbench::emulator

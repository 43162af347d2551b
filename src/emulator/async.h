#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "emulator/observer.h"

namespace ptxbench::emulator {

struct Cluster;
struct Warp;

/// One asynchronous operation between issue and effect. `execute` moves the bytes and signals the completion mechanism.
/// Operations whose reads can be waited for alone (`wait_group.read`) take a snapshot of their source in `read`, which
/// runs before `execute`, at the latest together with it.
struct AsyncOperation {
  uint64_t id = 0;
  std::function<void(Cluster&)> read;
  std::function<void(Cluster&)> execute;
  bool reads_done = false;
  bool done = false;
};

/// cp.async and bulk groups of one thread. Group indices count up from 0; `committed` groups exist, the open one
/// follows.
struct ThreadAsyncState {
  struct Group {
    std::vector<std::shared_ptr<AsyncOperation>> operations;
  };
  std::vector<Group> cp_async, bulk;  ///< committed groups that may be unfinished, oldest first
  Group cp_async_open, bulk_open;
  uint64_t cp_async_retired = 0, bulk_retired = 0;
};

/// What the emulator knows about a live mbarrier beside its word in shared memory (isa/mbarrier.h).
struct MbarrierRecord {
  uint64_t word = 0;    ///< as last written by an mbarrier operation: a difference means somebody stored over it
  uint64_t phases = 0;  ///< phases completed since init
};

/// Asynchronous operations of a cluster in flight, and the policy that says when each takes effect.
class AsyncEngine {
 public:
  void reset(bool eager, bool random, uint64_t seed);
  bool eager() const { return eager_; }
  uint64_t next_id() { return ++last_id_; }
  uint64_t issued() const { return last_id_; }  ///< since the cluster started
  /// Takes the operation; runs it at once under the eager policy.
  std::shared_ptr<AsyncOperation> submit(Cluster& cluster, std::function<void(Cluster&)> execute);
  /// The same for an operation whose id the caller took from next_id() beforehand and whose reads are separable.
  std::shared_ptr<AsyncOperation> submit(Cluster& cluster, uint64_t id, std::function<void(Cluster&)> read,
                                         std::function<void(Cluster&)> execute);
  void complete_reads(Cluster& cluster, AsyncOperation& operation);
  void complete(Cluster& cluster, AsyncOperation& operation);
  /// Whether an operation issued now takes effect at once: always, never, or by the seed's coin.
  bool completes_at_once() { return eager_ || (random_ && (generator_() & 1) != 0); }
  /// Completes one pending operation (oldest, or any by seed). False if none is pending.
  bool complete_one(Cluster& cluster);
  void complete_all(Cluster& cluster);
  bool idle() const { return pending_.empty(); }

  std::unordered_map<uint64_t, MbarrierRecord> mbarriers;  ///< live ones, by shared::cluster address

 private:
  bool eager_ = true, random_ = false;
  std::mt19937_64 generator_;
  std::vector<std::shared_ptr<AsyncOperation>> pending_;
  uint64_t last_id_ = 0;
};

/// wgmma operations a warp has issued and not yet executed, see isa/wgmma.cpp.
struct WarpgroupState {
  std::shared_ptr<void> pending;  ///< owned by isa/wgmma.cpp
  uint64_t committed = 0, retired = 0;
};

}  // namespace ptxbench::emulator

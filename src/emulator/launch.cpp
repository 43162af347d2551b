#include "emulator/launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "base/cpu_meter.h"
#include "emulator/scheduler.h"

namespace ptxbench::emulator {
namespace {

class Runner {
 public:
  Runner(Launch& launch, const std::vector<uint32_t>& indices, unsigned threads, uint32_t resident, bool proving)
      : launch_(launch), indices_(indices), active_(threads), resident_limit_(resident) {
    touch_bytes_ = kTouchBytes / std::max(1u, threads);
    // Where what workers did is compared afterwards, neighbours should be one worker's: they touch the same pages.
    if (threads > 1 && (proving || launch.observer != nullptr))
      batch_clusters_ = std::clamp<uint64_t>(total() / (uint64_t{threads} * 8), 1, 64);
    totals_.block_counts.assign(size_t{launch.program->counters} * 2, 0);
    totals_.guard_counts.assign(size_t{launch.program->guard_counters} * 2, 0);
  }

  /// One worker. What it throws (memory exhausted by the kernel's demands, above all) ends the launch, not the process.
  /// `touches`: null unless the launch is to be proved free of races.
  void work(unsigned worker, Touches* touches) noexcept {
    try {
      if (launch_.observer != nullptr) launch_.observer->on_worker(worker);
      serve(touches);
    } catch (const std::exception& reason) {
      std::lock_guard lock(mutex_);
      if (!totals_.fault) {
        totals_.fault.emplace();
        totals_.fault->rule = "launch.resources";
        totals_.fault->message = fmt::format("the emulator could not go on: {}", reason.what());
        totals_.fault->remedy = "lower the registers, local and shared memory that the launch needs at once";
      }
      launch_.stopped.store(true);
      --active_;
      changed_.notify_all();
    }
  }

  LaunchTotals totals() { return std::move(totals_); }

 private:
  void serve(Touches* touches) {
    Batch batch;
    std::list<std::unique_ptr<Cluster>> resident;
    std::vector<std::unique_ptr<Cluster>> spare;
    bool all_stuck = true;
    while (!launch_.stopped.load(std::memory_order_relaxed)) {
      const uint64_t epoch = epoch_.load(std::memory_order_acquire);
      bool took = false;
      if (resident.empty() || all_stuck) {
        uint32_t index = 0;
        if (take(batch, index)) {
          std::unique_ptr<Cluster> cluster;
          if (spare.empty()) {
            cluster = std::make_unique<Cluster>();
          } else {
            cluster = std::move(spare.back());
            spare.pop_back();
          }
          // Clusters that need each other at the same time hand data over: no case for a proof.
          if (touches != nullptr && !resident.empty()) give_up_proof();
          cluster->touches = touches;
          start_cluster(*cluster, launch_, index);
          resident.push_back(std::move(cluster));
          took = true;
        }
      }
      if (resident.empty()) break;
      all_stuck = true;
      bool moved = took;
      for (auto it = resident.begin(); it != resident.end();) {
        const ClusterStatus status = run_cluster(**it, resident.size() == 1 ? 64 : 4);
        if (status == ClusterStatus::faulted) {
          stop(**it, *(*it)->fault);
          break;
        }
        if (status == ClusterStatus::finished) {
          account(**it);
          if (touches != nullptr && !(touches->shared.close(0) && touches->global.memory() <= touch_bytes_)) {
            give_up_proof();
          }
          spare.push_back(std::move(*it));
          it = resident.erase(it);
          in_flight_.fetch_sub(1, std::memory_order_relaxed);
          moved = true;
          continue;
        }
        if (status == ClusterStatus::running) {
          all_stuck = false;
          moved = true;
        }
        ++it;
      }
      if (moved) {
        epoch_.fetch_add(1, std::memory_order_acq_rel);
        if (idle_.load(std::memory_order_relaxed) != 0) changed_.notify_all();
        continue;
      }
      if (resident.empty() || can_take(batch)) continue;  // what the stuck ones wait for may not have started yet
      wait_for_others(epoch, *resident.front());
    }
    std::lock_guard lock(mutex_);
    for (auto& cluster : resident) account_locked(*cluster, false);
    --active_;
    changed_.notify_all();
  }

  /// Shadow of global memory that all workers together may fill before the proof is given up.
  static constexpr size_t kTouchBytes = size_t{4} << 30;
  void give_up_proof() {
    launch_.unproven.store(true);
    launch_.stopped.store(true);
  }

  /// Consecutive clusters that one worker has taken and not started yet.
  struct Batch {
    uint64_t next = 0, end = 0;
  };

  uint64_t total() const { return indices_.empty() ? launch_.clusters : indices_.size(); }

  bool can_take(const Batch& batch) const {
    return in_flight_.load(std::memory_order_relaxed) < resident_limit_ &&
           (batch.next < batch.end || next_.load(std::memory_order_relaxed) < total());
  }

  bool take(Batch& batch, uint32_t& index) {
    if (in_flight_.load(std::memory_order_relaxed) >= resident_limit_) return false;
    if (batch.next == batch.end) {
      batch.next = next_.fetch_add(batch_clusters_, std::memory_order_relaxed);
      batch.end = std::min(total(), batch.next + batch_clusters_);
      if (batch.next >= batch.end) {
        batch.next = batch.end;
        return false;
      }
    }
    const uint64_t next = batch.next++;
    index = indices_.empty() ? static_cast<uint32_t>(next) : indices_[next];
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void account(Cluster& cluster) {
    std::lock_guard lock(mutex_);
    account_locked(cluster, true);
  }

  void account_locked(Cluster& cluster, bool finished) {
    for (size_t i = 0; i < totals_.block_counts.size(); ++i) totals_.block_counts[i] += cluster.block_counts[i];
    for (size_t i = 0; i < totals_.guard_counts.size(); ++i) totals_.guard_counts[i] += cluster.guard_counts[i];
    totals_.instructions += cluster.instructions;
    totals_.tensor_core_macs += cluster.tensor_core_macs;
    totals_.legacy_mma_macs += cluster.legacy_mma_macs;
    totals_.tma_bytes += cluster.tma_bytes;
    totals_.asynchronous += cluster.async.issued();
    if (finished) ++totals_.clusters_run;
  }

  void stop(Cluster& cluster, Fault fault) {
    std::lock_guard lock(mutex_);
    // Of several faults the one of the lowest cluster is kept: most runs then report the same one.
    if (!totals_.fault || cluster.index < fault_cluster_) {
      totals_.fault = std::move(fault);
      fault_cluster_ = cluster.index;
    }
    launch_.stopped.store(true);
    changed_.notify_all();
  }

  /// Deadlock is quiescence: every worker's clusters are stuck and nothing has changed since each looked.
  void wait_for_others(uint64_t epoch, Cluster& stuck) {
    std::unique_lock lock(mutex_);
    if (epoch_.load(std::memory_order_acquire) != epoch) return;
    idle_.fetch_add(1, std::memory_order_relaxed);
    while (!launch_.stopped.load() && epoch_.load(std::memory_order_acquire) == epoch) {
      const bool quiet = idle_.load(std::memory_order_relaxed) >= active_;
      const bool host_may_write = launch_.host_can_write;
      const auto now = std::chrono::steady_clock::now();
      if (!quiet || quiet_epoch_ != epoch) {
        quiet_epoch_ = quiet ? epoch : ~0ull;
        quiet_since_ = now;
      }
      const auto waited = now - quiet_since_;
      if (quiet && (!host_may_write || waited > std::chrono::seconds(10))) {
        lock.unlock();
        stop(stuck, describe_deadlock(stuck));
        lock.lock();
        break;
      }
      changed_.wait_for(lock, std::chrono::milliseconds(host_may_write ? 1 : 50));
      if (host_may_write && quiet) break;  // look at the shared pages again
    }
    idle_.fetch_sub(1, std::memory_order_relaxed);
  }

  Launch& launch_;
  const std::vector<uint32_t>& indices_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// Since when nothing has moved at all, and at which epoch: the workers keep looking at memory the host may write.
  std::chrono::steady_clock::time_point quiet_since_;
  uint64_t quiet_epoch_ = ~0ull;
  unsigned active_;
  std::atomic<unsigned> idle_{0};
  std::atomic<uint64_t> epoch_{0}, next_{0};
  std::atomic<uint32_t> in_flight_{0};
  uint64_t batch_clusters_ = 1;
  size_t touch_bytes_ = 0;  ///< one worker's part of kTouchBytes
  uint32_t resident_limit_;
  uint32_t fault_cluster_ = 0;
  LaunchTotals totals_;
};

}  // namespace

LaunchTotals run_clusters(Launch& launch, const std::vector<uint32_t>& indices, unsigned threads, uint32_t resident,
                          bool proving) {
  const uint64_t total = indices.empty() ? launch.clusters : indices.size();
  threads = static_cast<unsigned>(std::clamp<uint64_t>(std::min<uint64_t>(threads, total), 1, std::max(1u, resident)));
  Runner runner(launch, indices, threads, std::max(1u, resident), proving);
  launch.touches.clear();
  for (unsigned t = 0; proving && t < threads; ++t) launch.touches.push_back(std::make_unique<Touches>(launch.undo));
  const auto touches = [&](unsigned t) { return proving ? launch.touches[t].get() : nullptr; };
  std::vector<std::thread> workers;
  for (unsigned t = 1; t < threads; ++t) {
    workers.emplace_back([&, t, meter = base::CpuMeter::current()] {
      const base::CpuScope scope(meter);
      runner.work(t, touches(t));
    });
  }
  runner.work(0, touches(0));
  for (auto& worker : workers) worker.join();
  for (size_t i = 1; i < launch.touches.size() && !launch.unproven; ++i) {
    if (!launch.touches.front()->global.absorb(launch.touches[i]->global)) launch.unproven.store(true);
  }
  if (!launch.touches.empty()) launch.touches.resize(1);
  return runner.totals();
}

}  // namespace ptxbench::emulator

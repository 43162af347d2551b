#pragma once

#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_shim/shared_memory.h"
#include "gpu/executor_process.h"

namespace ptxbench::gpu {

/// Whoever runs kernels holds it, and for no longer than they run: one of all processes of this user, so that
/// evaluations do not disturb each other's times. The kernel takes it back from a process that dies.
class Turn {
 public:
  /// Between processes it is a lock on a file in the cache, named after this machine and the GPU. Where that cannot be
  /// opened, it holds in this process only, and is_shared() is false.
  explicit Turn(int device);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void lock();
  bool try_lock();
  void unlock();
  bool is_shared() const { return fd_ >= 0; }

 private:
  std::mutex mutex_;
  int fd_ = -1;
};

/// One GPU as several evaluations share it: they take turns with it, and find an executor that has been started
/// already.
class Lane {
 public:
  explicit Lane(int device) : device_(device), turn_(device) {}

  /// An executor for one candidate: the one started ahead, or a new one. `ahead`: the next ones are started now, more
  /// of them the more evaluations are under way, so that nobody waits for a context. `baseline`: what this one's
  /// candidate, and probably the next, is timed beside (ExecutorOptions).
  Result<std::unique_ptr<ExecutorProcess>> take(bool ahead, const base::Json& baseline);
  /// One that was taken and has seen no candidate.
  void put_back(std::unique_ptr<ExecutorProcess> executor);
  /// Ends one that has served: taking a context down is nothing to wait for.
  void retire(std::unique_ptr<ExecutorProcess> executor);

  /// Mapped memory for what goes to and from an executor: of an earlier evaluation, where it fits, as the pages of new
  /// memory have to be cleared first. What it holds is undefined.
  Result<std::unique_ptr<cuda_shim::SharedMemory>> take_memory(std::uint64_t bytes);
  /// Only what no executor can write to any more.
  void return_memory(std::unique_ptr<cuda_shim::SharedMemory> memory);
  Turn& turn() { return turn_; }

  /// A baseline's description, with the plan that tuning it here has chosen before (Baseline::tune()).
  base::Json with_plan(base::Json description);
  void keep_plan(const base::Json& description, const base::Json& plan);

 private:
  int device_;
  std::mutex mutex_;
  Turn turn_;
  std::size_t serving_ = 0;  ///< taken and not retired
  std::deque<std::unique_ptr<ExecutorProcess>> ahead_;
  std::vector<std::unique_ptr<cuda_shim::SharedMemory>> memory_;
  std::map<std::string, base::Json> plans_;  ///< by description
  std::vector<std::future<void>> ending_;
};

/// The lanes of one process, by ordinal.
class Lanes {
 public:
  Lane& lane(int device);

 private:
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Lane>> lanes_;
};

}  // namespace ptxbench::gpu

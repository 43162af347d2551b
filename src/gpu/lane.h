#pragma once

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/executor_process.h"

namespace ptxbench::gpu {

/// One GPU as several evaluations share it: they take turns with it, and find an executor that has been started
/// already.
class Lane {
 public:
  explicit Lane(int device) : device_(device) {}

  /// An executor for one candidate: the one started ahead, or a new one. `ahead`: the next one is started now, so that
  /// nobody waits for a context. `baseline`: what this one's candidate, and probably the next, is timed beside
  /// (ExecutorOptions).
  Result<std::unique_ptr<ExecutorProcess>> take(bool ahead, const base::Json& baseline);
  /// Ends one that has served: taking a context down is nothing to wait for.
  void retire(std::unique_ptr<ExecutorProcess> executor);
  /// Whoever runs kernels holds this, and for no longer than they run.
  std::mutex& turn() { return turn_; }

 private:
  int device_;
  std::mutex mutex_, turn_;
  std::unique_ptr<ExecutorProcess> next_;
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

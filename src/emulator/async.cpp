#include "emulator/async.h"

#include <algorithm>

#include "emulator/warp.h"

namespace ptxbench::emulator {

void AsyncEngine::reset(bool eager, bool random, uint64_t seed) {
  eager_ = eager;
  random_ = random;
  if (random) generator_.seed(seed);  // costs more than a small block does
  pending_.clear();
  mbarriers.clear();
  last_id_ = 0;
}

std::shared_ptr<AsyncOperation> AsyncEngine::submit(Cluster& cluster, std::function<void(Cluster&)> execute) {
  return submit(cluster, next_id(), nullptr, std::move(execute));
}

std::shared_ptr<AsyncOperation> AsyncEngine::submit(Cluster& cluster, uint64_t id, std::function<void(Cluster&)> read,
                                                    std::function<void(Cluster&)> execute) {
  auto operation = std::make_shared<AsyncOperation>();
  operation->id = id;
  operation->read = std::move(read);
  operation->execute = std::move(execute);
  ++cluster.progress;
  // Under the random policy half of the operations complete at once, so that early and late completions both occur.
  if (completes_at_once()) {
    complete(cluster, *operation);
  } else {
    pending_.push_back(operation);
    // Completing early is always allowed; a loop that never waits must not grow without bound.
    constexpr size_t kMostPending = 4096;
    if (pending_.size() > kMostPending) (void)complete_one(cluster);
  }
  return operation;
}

void AsyncEngine::complete_reads(Cluster& cluster, AsyncOperation& operation) {
  if (operation.done || operation.reads_done) return;
  operation.reads_done = true;
  if (operation.read == nullptr) return;
  ++cluster.progress;
  operation.read(cluster);
  operation.read = nullptr;
}

void AsyncEngine::complete(Cluster& cluster, AsyncOperation& operation) {
  if (operation.done) return;
  complete_reads(cluster, operation);
  operation.done = true;
  auto it = std::find_if(pending_.begin(), pending_.end(), [&](const auto& p) { return p.get() == &operation; });
  std::shared_ptr<AsyncOperation> keep;
  if (it != pending_.end()) {
    keep = *it;
    pending_.erase(it);
  }
  ++cluster.progress;
  operation.execute(cluster);
  operation.execute = nullptr;
}

bool AsyncEngine::complete_one(Cluster& cluster) {
  if (pending_.empty()) return false;
  const size_t which = random_ ? generator_() % pending_.size() : 0;
  const auto operation = pending_[which];
  complete(cluster, *operation);
  return true;
}

void AsyncEngine::complete_all(Cluster& cluster) {
  while (complete_one(cluster)) {
  }
}

}  // namespace ptxbench::emulator

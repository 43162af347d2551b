#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "problem/inputs.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {

/// Inputs of one workload with one seed and, once somebody needed it, the whole truth.
struct WorkloadState {
  std::vector<problem::Tensor> inputs;
  std::optional<problem::Truth> truth;  ///< nothing: not computed, or no reference
  bool truth_from_python = false;       ///< by the definition's own reference, where there is no native one
  std::string no_truth;                 ///< why there is none though it was asked for
  double inputs_seconds = 0, truth_seconds = 0;
};

/// Keeps the states of the last workloads, so that the turns of a trajectory make inputs and truth once. Thread safe.
class WorkloadCache {
 public:
  /// `max_bytes`: older states are dropped beyond this.
  explicit WorkloadCache(std::uint64_t max_bytes = std::uint64_t{3} << 30) : max_bytes_(max_bytes) {}

  /// `with_truth`: also the complete truth. A definition without a native reference always has it, as its Python
  /// reference can compute nothing less.
  Result<std::shared_ptr<const WorkloadState>> get(const problem::Problem& problem,
                                                   const problem::InputOptions& options, bool with_truth,
                                                   std::stop_token cancel = {});

 private:
  struct Entry {
    std::string key;
    std::mutex making;  ///< held while the state is made or completed
    std::shared_ptr<WorkloadState> state;
    bool try_again = false;  ///< there is no truth for a reason that does not last
    std::uint64_t bytes = 0;
  };
  std::shared_ptr<Entry> find(const std::string& key);
  void trim();

  std::mutex mutex_;
  std::uint64_t max_bytes_;
  std::list<std::shared_ptr<Entry>> entries_;  ///< most recently used first
};

}  // namespace ptxbench::evaluation

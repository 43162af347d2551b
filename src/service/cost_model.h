#pragma once

#include <map>
#include <mutex>
#include <string>

#include "problem/dataset.h"
#include "service/task.h"

namespace ptxbench::service {

/// How long a unit is expected to take: by the size of its problem, and by what equal ones took. Thread safe.
class CostModel {
 public:
  /// Seconds on this lane.
  double estimate(const std::string& key, const problem::Problem& problem, TaskKind kind, Lane lane) const;
  void observe(const std::string& key, double seconds);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> seen_;  ///< smoothed seconds
};

}  // namespace ptxbench::service

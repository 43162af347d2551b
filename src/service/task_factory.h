#pragma once

#include <memory>

#include "base/error.h"
#include "problem/dataset.h"
#include "service/cost_model.h"
#include "service/requests.h"
#include "service/task.h"

namespace ptxbench::service {

/// Makes tasks of requests: looks up what they name and cuts the work into units. What is wrong is an input error for
/// the client.
class TaskFactory {
 public:
  struct Options {
    bool has_gpu = false;
    bool screen = true;                ///< candidates for a GPU run on the emulator first
    std::string tolerance = "strict";  ///< rule for /evaluate
  };
  TaskFactory(const problem::Dataset& dataset, const CostModel& costs, Options options)
      : dataset_(dataset), costs_(costs), options_(std::move(options)) {}

  Result<Task> make(const SubmitRequest& request) const;
  Result<Task> make(const NativeRequest& request) const;

 private:
  Result<std::vector<const problem::Workload*>> choose(const SubmitRequest& request,
                                                       const problem::Definition& definition) const;
  Result<Unit> unit_of(const problem::Definition& definition, const std::vector<problem::Workload>& workloads,
                       TaskKind kind, Lane lane, base::Json request) const;
  /// Puts a unit in front that compiles and screens for those of the GPU lane.
  Result<void> add_preparation(Task& task, const problem::Definition& definition,
                               const std::vector<problem::Workload>& workloads, bool screen) const;

  const problem::Dataset& dataset_;
  const CostModel& costs_;
  Options options_;
};

}  // namespace ptxbench::service

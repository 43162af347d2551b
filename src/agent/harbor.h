#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "problem/dataset.h"

namespace ptxbench::agent {

struct HarborOptions {
  std::string name;         ///< "ptxbench/gemm-n7168-k5120"; empty: from the problem
  std::string service_url;  ///< as the container sees the service
  std::string knowledge;    ///< the pack's text, laid beside the task; empty for none
  double target_speedup = 1.0;
  bool tell_shape = true;
};

/// Writes a problem as a task for Harbor (task.toml of schema version 1.4): `task.toml`, `instruction.md`,
/// `environment/` with a Dockerfile, the tool that asks the service and the pack, `tests/` with the verifier. The
/// folder must not exist or be empty. `workloads` belong to one definition, are not empty, and are stored ones: the
/// service finds them by uuid.
Result<void> write_harbor_task(const std::filesystem::path& folder, const std::vector<problem::Problem>& workloads,
                               const HarborOptions& options);

}  // namespace ptxbench::agent

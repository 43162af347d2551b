#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/check_launch.h"
#include "evaluation/evaluator.h"

/// Judging a candidate under the hazard checker.
namespace ptxbench::evaluation {

struct CandidateCheck {
  check::CheckOptions check;
  /// What runs; empty: all completion policies, the random one with `check.seed`.
  std::vector<check::PolicyRun> runs;
  bool full = false;
  std::optional<unsigned> sample_clusters;
  candidate::CompileOptions compile;
};

/// Runs the candidate on `problems` once for each policy and adds what was found to the report.
Result<void> check_candidate(std::string_view source, const std::vector<problem::Problem>& problems,
                             const CandidateCheck& options, Evaluator& evaluator, check::CheckReport& report);

}  // namespace ptxbench::evaluation

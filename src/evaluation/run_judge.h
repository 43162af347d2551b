#pragma once

#include <string>
#include <vector>

#include "evaluation/device_run.h"
#include "evaluation/evaluation.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {

/// Judges whether a call did what it should on the way, apart from the numbers: faults, host code, refused requests,
/// inputs, guard zones. Appends findings; sets run.execute and run.reason.
void judge_execution(const DeviceObservation& observation, Run& run, std::vector<Finding>& findings,
                     Fidelity& fidelity);

struct CorrectnessInput {
  const problem::Problem& problem;
  const std::vector<problem::Tensor>& inputs;
  const problem::Truth* truth = nullptr;  ///< complete; null: computed here for what was written
  std::string no_truth = {};              ///< why there is none where the definition's own reference was to give it
  problem::Tolerance tolerance = problem::Tolerance::strict;
  int threads = 0;
};
struct CorrectnessTimes {
  double truth = 0, compare = 0;
};

/// Compares the outputs with the truth; of a sampled run only the elements that were written. Appends findings; sets
/// run.outputs, run.coverage, run.correctness and, unless passed, run.reason.
Result<CorrectnessTimes> judge_correctness(const DeviceObservation& observation, const CorrectnessInput& input,
                                           Run& run, std::vector<Finding>& findings);

/// Rectangles of rows and columns (of the last dimension) in which no element is poison any more, disjoint, and
/// complete as long as they are fewer than `limit`; nothing when there are more.
std::optional<std::vector<problem::Tile>> written_tiles(const problem::Tensor& tensor, std::size_t limit = 1u << 20);

}  // namespace ptxbench::evaluation

#pragma once

#include <string_view>
#include <vector>

#include "evaluation/evaluation.h"
#include "evaluation/evaluator.h"

/// The hazard check as a part of an evaluation.
namespace ptxbench::evaluation {

/// Whether running the candidate once more can tell something: what is not modelled stops it again, and an endless loop
/// takes as long again.
bool worth_another_run(const Evaluation& evaluation);

/// Whether the options ask for one and there is something to look at: kernels ran, and what stopped them, if anything
/// did, is not a limit of this program.
bool worth_checking(const Evaluation& evaluation, const EvaluateOptions& options);

/// Runs the candidate under the checker and adds what was found that the evaluation does not know. The caller has
/// the turn with the emulated device.
Result<void> check_hazards(std::string_view source, const std::vector<problem::Problem>& workloads,
                           const EvaluateOptions& options, Evaluator& evaluator, Evaluation& evaluation);

}  // namespace ptxbench::evaluation

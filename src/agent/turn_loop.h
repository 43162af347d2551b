#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>

#include "agent/trajectory.h"
#include "evaluation/evaluator.h"
#include "models/model.h"
#include "problem/dataset.h"

namespace ptxbench::agent {

struct TurnLoopOptions {
  unsigned max_turns = 8;
  std::string knowledge;  ///< text of the knowledge pack, empty for none
  evaluation::EvaluateOptions evaluate;
  std::filesystem::path trajectory;  ///< file to write; must not exist
  std::stop_token cancel;
  /// Told when a turn starts, and what it is waiting for.
  std::function<void(unsigned turn, std::string_view state)> progress;
  /// Called after each turn has been written; the evaluation is null for an answer without a candidate.
  std::function<void(const Turn&, const evaluation::Evaluation*)> on_turn;
};

/// Asks the model, judges, tells it what was found, until a turn passes or the turns are used up. Every turn is on disk
/// before the next one starts. Errors of the model's endpoint or of this machine end the trajectory with "Error" and
/// are never counted as turns.
Result<Trajectory> run_turns(models::Model& model, evaluation::Evaluator& evaluator, const problem::Problem& problem,
                             const TurnLoopOptions& options);

}  // namespace ptxbench::agent

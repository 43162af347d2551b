#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/experiment_config.h"
#include "agent/judge.h"
#include "agent/run_folder.h"
#include "models/model.h"

namespace ptxbench::agent {

/// The text of a knowledge pack by its tag; an unknown tag is an error.
using PackText = std::function<Result<std::string>(std::string_view tag)>;
/// Knows the tag "none", which has no text.
Result<std::string> no_packs(std::string_view tag);

/// What an experiment runs on.
struct ExperimentParts {
  std::map<std::string, std::unique_ptr<models::Model>> models;  ///< by their names in the configuration
  std::vector<std::vector<problem::Problem>> problems;           ///< as in the configuration
  std::unique_ptr<Judge> judge;
  PackText pack_text = no_packs;
};

/// How far an experiment is.
struct ExperimentProgress {
  std::size_t planned = 0, done = 0, failed = 0;  ///< trajectories; failed ones are not done
  std::size_t correct = 0;                        ///< trajectories with a correct turn
  std::size_t turns = 0, correct_turns = 0;
  std::size_t asking = 0, judging = 0, waiting = 0;  ///< questions under way; candidates in work; candidates waiting
  std::optional<double> best_speedup;
  std::optional<double> cost;  ///< US dollars of the whole experiment, if known of all answers
  std::optional<std::uint64_t> tokens;
  double seconds = 0;                  ///< of this run
  std::optional<double> seconds_left;  ///< estimated
  bool draining = false;
};

struct RunOptions {
  std::filesystem::path folder;
  bool resume = false, retry_failed = false;
  unsigned extend_turns = 0;    ///< so many more than there are
  unsigned turns = 0;           ///< at least so many in all; unlike the other, the same when it is said twice
  std::string experiment_text;  ///< the file, kept in the folder
  /// Asked now and then: how often the user wants it to end. Once: no new questions, what runs is finished. More often:
  /// everything is broken off.
  std::function<unsigned()> interrupts;
  std::function<void(const ExperimentProgress&)> progress;
  std::chrono::milliseconds judge_pause{2000};  ///< before judging is tried again after a failure of the machine
  std::chrono::milliseconds tick{100};
};

struct ExperimentResult {
  ExperimentProgress progress;
  /// Why it ended before its plan did: "interrupted", "the budget of ... is used up", "model 'x' ...". Empty: all is
  /// done that can be.
  std::vector<std::string> stops;
  bool interrupted = false;
  base::Json summary;
};

/// Runs the experiment's trajectories, many at a time, on a few threads, and keeps everything in the folder. Whatever
/// ends the process, a later run goes on exactly where this one stopped. A model or judge that fails again and again is
/// not asked any more; its trajectories stay open.
Result<ExperimentResult> run_experiment(const ExperimentConfig& config, ExperimentParts& parts,
                                        const RunOptions& options);

}  // namespace ptxbench::agent

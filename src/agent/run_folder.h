#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/experiment_config.h"

namespace ptxbench::agent {

/// One trajectory of an experiment's matrix.
struct PlannedTrajectory {
  std::string name;         ///< "exp_000"
  std::string model;        ///< as configured
  std::size_t problem = 0;  ///< index into the experiment's problems
  std::string pack;
  unsigned replica = 0;  ///< from 0
};

/// Replicas outermost and models innermost, so that early results cover the whole matrix and all endpoints are busy.
std::vector<PlannedTrajectory> plan_of(const ExperimentConfig& config);

/// What is known of a trajectory without its texts.
struct TrajectorySummary {
  bool started = false, pending = false;
  std::string exit_status, stop_reason, error;  ///< as in Trajectory; empty while it runs
  std::size_t turns = 0, correct_turns = 0;
  std::optional<double> best_speedup;
  bool target_met = false;
  std::uint64_t tokens = 0;  ///< of the answers that tell
  double cost = 0;           ///< of the answers that tell
  std::size_t answers = 0, answers_without_tokens = 0, answers_without_cost = 0;
  double model_seconds = 0, judge_seconds = 0;
};
TrajectorySummary summary_of(const Trajectory& trajectory, std::optional<double> target_speedup);

/// What the names of a plan stood for when it was made. Compared when it is gone on with.
struct PlanInputs {
  std::map<std::string, base::Json> models;        ///< name: the model's description, addresses and prices left out
  std::map<std::string, std::string> packs;        ///< tag: the text's SHA-256
  std::map<std::string, std::string> definitions;  ///< name: the SHA-256 of definition and workloads
};
PlanInputs plan_inputs(const std::map<std::string, base::Json>& descriptions,
                       const std::map<std::string, std::string>& pack_texts,
                       const std::vector<std::vector<problem::Problem>>& problems);

/// The folder of an experiment: `plan.json`, `experiment.toml`, `resume_plan.json`, `summary.json` and
/// `trajectories/NAME.jsonl`. While it is open, no other process can open it.
class RunFolder {
 public:
  /// Writes the plan of a new experiment. A folder that has one already is an error.
  static Result<RunFolder> create(const std::filesystem::path& folder, const ExperimentConfig& config,
                                  const std::vector<std::vector<problem::Problem>>& problems, const PlanInputs& inputs,
                                  std::string_view experiment_text);
  /// Opens the folder of an experiment that has the same plan; the error names what differs.
  static Result<RunFolder> reopen(const std::filesystem::path& folder, const ExperimentConfig& config,
                                  const std::vector<std::vector<problem::Problem>>& problems, const PlanInputs& inputs);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path trajectory(const std::string& name) const;
  /// Turns per trajectory: the plan's, or more after an extension.
  unsigned turns() const { return turns_; }
  /// What earlier runs of the experiment asked in vain and may have to pay, as of their last summary.
  const models::Lost& lost() const { return lost_; }
  /// Notes that the experiment goes on, and with how many turns.
  Result<void> note_resume(unsigned turns, bool retry_failed);

 private:
  RunFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  static Result<RunFolder> lock(const std::filesystem::path& folder);
  std::filesystem::path path_;
  int lock_ = -1;
  unsigned turns_ = 0;
  models::Lost lost_;
};

/// The plan as it is written: `config` and `plan`.
base::Json plan_json(const ExperimentConfig& config, const std::vector<std::vector<problem::Problem>>& problems);

/// The `summary.json` of these trajectories, which are in the plan's order.
base::Json summary_json(const base::Json& plan, const std::vector<TrajectorySummary>& summaries,
                        const models::Lost& lost, double seconds);

}  // namespace ptxbench::agent

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "models/model.h"

namespace ptxbench::agent {

/// One turn: the model's answer and what became of it.
struct Turn {
  unsigned number = 0;  ///< from 1
  std::string answer, reasoning;
  models::Usage usage;
  double model_seconds = 0;
  std::string event;     ///< "evaluation", "no_code", "test_failed" (does not compile)
  std::string feedback;  ///< what the model is told next
  std::optional<std::string> source;
  base::Json evaluation;  ///< object of schema ptxbench.evaluation/1, or null without a candidate
  std::string timestamp;  ///< UTC, ISO 8601
  bool passed() const;
};

/// A sequence of turns on one problem, as it lies on disk. Schema "ptxbench.trajectory/1": a file of JSON lines, each
/// record written and synced whole, so that a crash loses at most the turn in progress. Records: `start`, `turn`,
/// `end`.
struct Trajectory {
  static constexpr std::string_view kSchema = "ptxbench.trajectory/1";
  std::string problem;
  base::Json model;  ///< Model::describe()
  base::Json settings;
  std::string system_message, task_message;
  std::vector<Turn> turns;
  std::string exit_status;  ///< "Submitted", "LimitsExceeded", "Error"; empty while it runs
  std::string error;        ///< with exit_status "Error": why it stopped
};

/// Reads a trajectory. A torn last line (a crash) is dropped; any other damage is an error that names the line.
Result<Trajectory> read_trajectory(const std::filesystem::path& path);

/// Appends records to a new file.
class TrajectoryWriter {
 public:
  /// Fails if the file exists: a trajectory is never overwritten.
  static Result<TrajectoryWriter> create(const std::filesystem::path& path, const Trajectory& start);
  Result<void> append(const Turn& turn);
  Result<void> finish(std::string_view exit_status, std::string_view error = {});

 private:
  explicit TrajectoryWriter(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// The same content as a `mini-swe-agent-1.1` trajectory: system, user, then assistant and user messages per turn,
/// `exit`.
base::Json to_mini_swe(const Trajectory& trajectory);

std::string utc_now();

}  // namespace ptxbench::agent

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "candidate/language.h"
#include "models/model.h"

namespace ptxbench::agent {

/// One turn: the model's answer and what became of it.
struct Turn {
  unsigned number = 0;  ///< from 1
  std::string answer, reasoning;
  std::string finish_reason;
  models::Usage usage;
  double model_seconds = 0;
  unsigned attempts = 1;
  std::string event;     ///< "no_code", or Judgement::event
  std::string feedback;  ///< what the model is told next
  std::optional<std::string> source;
  base::Json evaluation;  ///< object of schema ptxbench.evaluation/1, or null without a candidate
  double judge_seconds = 0;
  std::string timestamp;  ///< of the answer: UTC, ISO 8601
  bool passed() const;
  /// The smallest of all workloads, of a turn that passed and was timed on each.
  std::optional<double> speedup() const;
};

/// A sequence of turns on one problem, as it lies on disk. Schema "ptxbench.trajectory/2": a file of JSON lines, each
/// record written whole, answers synced too. Records: `start`; per turn an `answer`, before it is judged, and a `turn`;
/// `end`; `resume`, after which more follow. Version 1 had the answer in the `turn`.
struct Trajectory {
  static constexpr std::string_view kSchema = "ptxbench.trajectory/2";
  static constexpr std::string_view kFirstSchema = "ptxbench.trajectory/1";
  std::string problem;
  base::Json model;  ///< Model::describe()
  base::Json settings;
  std::string system_message, task_message;
  std::vector<Turn> turns;      ///< judged ones
  std::optional<Turn> pending;  ///< answered, and not judged yet
  std::string exit_status;      ///< "Submitted", "LimitsExceeded", "Error"; empty while it runs
  std::string stop_reason;      ///< which rule ended it: "passed", "target", "turns", ...
  std::string error;            ///< with exit_status "Error": why it stopped

  bool ended() const { return !exit_status.empty(); }
  std::size_t correct_turns() const;
  /// Over the turns that passed.
  std::optional<double> best_speedup() const;
  /// Of all answers. Unknown as soon as one answer's is.
  std::optional<std::uint64_t> tokens() const;
  std::optional<double> cost() const;
};

/// That its answers are in, by the settings.
candidate::Language language_of(const Trajectory& trajectory);

/// Reads a trajectory. A torn last line (a crash) is dropped; any other damage is an error that names the line. With
/// `whole_bytes`, the length of the file without the torn line is put there.
Result<Trajectory> read_trajectory(const std::filesystem::path& path, std::uint64_t* whole_bytes = nullptr);

/// Where the timeline of a turn's emulated run is, if one was made: timelines/NAME_turn_1.json.gz beside the
/// trajectory's file. Turns count from 1.
std::filesystem::path timeline_path(const std::filesystem::path& trajectory, unsigned turn);

/// Appends records to a file.
class TrajectoryWriter {
 public:
  /// Fails if the file exists: a trajectory is never overwritten.
  static Result<TrajectoryWriter> create(const std::filesystem::path& path, const Trajectory& start);
  /// Goes on with a file that `read_trajectory` has read; what a crash tore is cut off.
  static Result<TrajectoryWriter> reopen(const std::filesystem::path& path, std::uint64_t whole_bytes);
  Result<void> answer(const Turn& turn);
  Result<void> judged(const Turn& turn);
  Result<void> finish(const Trajectory& trajectory);
  Result<void> resume();

 private:
  explicit TrajectoryWriter(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// All records of the trajectory, as a writer leaves them.
std::string trajectory_text(const Trajectory& trajectory);

std::string utc_now();

}  // namespace ptxbench::agent

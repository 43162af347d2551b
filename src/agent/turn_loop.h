#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>

#include "agent/context.h"
#include "agent/judge.h"
#include "agent/trajectory.h"
#include "candidate/triton_source.h"
#include "models/model.h"
#include "problem/dataset.h"

namespace ptxbench::agent {

/// What ends a trajectory before its turns are used up.
enum class StopWhen : std::uint8_t {
  passed,  ///< a turn passes
  target,  ///< a turn passes with the target speed-up on every workload
  never,
};
/// "passed", "target", "never".
std::string_view to_string(StopWhen when);
Result<StopWhen> parse_stop_when(std::string_view text);

struct LoopRules {
  unsigned max_turns = 8;
  ContextPolicy context = ContextPolicy::full;
  FeedbackLevel feedback = FeedbackLevel::standard;
  std::size_t feedback_tokens = 0;  ///< 0: the level's own
  StopWhen stop = StopWhen::passed;
  std::optional<double> target_speedup;
  unsigned repeated_answers = 0;  ///< this many equal candidates in a row end it; 0: never
  std::optional<std::uint64_t> max_tokens;
  std::optional<double> max_cost;  ///< US dollars
};

/// Whether and how the rules end a trajectory after its last turn.
struct Stop {
  std::string exit_status, reason;
};
/// An error when a budget is set and the model does not tell what it took: it could not be kept.
Result<std::optional<Stop>> stop_of(const Trajectory& trajectory, const LoopRules& rules);

/// A trajectory that goes on: what comes next, and its file, to which each step is written before the next one begins.
/// An answer is on disk before it is judged, so that none is paid for twice. For one thread at a time.
class OpenTrajectory {
 public:
  /// Writes the start. The file must not exist.
  static Result<OpenTrajectory> begin(const std::filesystem::path& path, Trajectory start, LoopRules rules);
  /// Goes on where the file ends. One that has ended goes on if the rules do not end it any more; one that failed only
  /// with `retry_failed`.
  static Result<OpenTrajectory> resume(const std::filesystem::path& path, LoopRules rules, bool retry_failed);

  enum class Step : std::uint8_t { ask, judge, ended };
  /// What comes next. Writes the end when a rule ends it.
  Result<Step> next();

  /// Of the next question.
  unsigned turn() const { return static_cast<unsigned>(trajectory_.turns.size()) + 1; }
  std::vector<models::Message> messages() const { return context_of(trajectory_, rules_.context); }
  Result<void> add_answer(models::Completion completion);

  /// Of the answer that is to be judged; null when there is no candidate in it, and then no judge is needed.
  const std::string* candidate() const { return extraction_.source ? &*extraction_.source : nullptr; }
  Result<void> add_judgement(Judgement judgement, double seconds);
  Result<void> add_no_candidate();

  /// Ends it with "Error": it is not the model's fault, and no turn.
  Result<void> fail(const std::string& message);

  /// Of judged turns only what rules and messages need is kept here: verdict and times of the evaluation, no reasoning.
  const Trajectory& trajectory() const { return trajectory_; }

 private:
  OpenTrajectory(Trajectory trajectory, TrajectoryWriter writer, LoopRules rules)
      : trajectory_(std::move(trajectory)), writer_(std::move(writer)), rules_(std::move(rules)) {}
  Result<void> add_turn(Turn turn);
  Trajectory trajectory_;
  TrajectoryWriter writer_;
  LoopRules rules_;
  candidate::Extraction extraction_;
};

/// How often judging is tried when the machine fails.
inline constexpr unsigned kJudgeAttempts = 3;

struct TurnLoopOptions {
  LoopRules rules;
  std::string knowledge;  ///< text of the knowledge pack, empty for none
  bool tell_shape = true;
  candidate::Language language = candidate::Language::cuda;  ///< that answers are asked for in
  base::Json settings = base::Json::object();                ///< further members of what is recorded
  std::filesystem::path trajectory;                          ///< file to write; must not exist
  bool timelines = false;                                    ///< beside it, of each turn that launched kernels
  std::stop_token cancel;
  /// Told when a turn starts, and what it is waiting for.
  std::function<void(unsigned turn, std::string_view state)> progress;
  /// Called after each turn has been written; the evaluation is null for an answer without a candidate.
  std::function<void(const Turn&, const evaluation::Evaluation*)> on_turn;
};

/// The start of a trajectory: its messages and what is recorded of how it runs.
Trajectory start_of(const models::Model& model, const Judge& judge, const std::vector<problem::Problem>& workloads,
                    const TurnLoopOptions& options);

/// Asks the model, judges, tells it what was found, until the rules say stop. Errors of the model's endpoint or of this
/// machine end the trajectory with "Error" and are never counted as turns.
Result<Trajectory> run_turns(models::Model& model, Judge& judge, const std::vector<problem::Problem>& workloads,
                             const TurnLoopOptions& options);

}  // namespace ptxbench::agent

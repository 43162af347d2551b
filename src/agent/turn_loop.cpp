#include "agent/turn_loop.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "agent/feedback.h"
#include "agent/prompt.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 3> kStopNames = {"passed", "target", "never"};
constexpr std::string_view kSubmitted = "Submitted", kLimits = "LimitsExceeded", kError = "Error";

/// Whether the last answers were all the same, in their code or, without code, word for word.
bool repeats(const Trajectory& trajectory, unsigned times) {
  if (times < 2 || trajectory.turns.size() < times) return false;
  const Turn& last = trajectory.turns.back();
  return std::all_of(trajectory.turns.end() - times, trajectory.turns.end(), [&](const Turn& turn) {
    return turn.source == last.source && (turn.source || turn.answer == last.answer);
  });
}

/// Leaves what rules and messages need; the file has everything. Thousands of evaluations would not fit the memory.
void shrink(Turn& turn) {
  turn.reasoning = {};
  if (!turn.evaluation.is_object()) return;
  Json kept = Json::object();
  for (const char* key : {"schema", "verdict", "performance"}) {
    if (const auto at = turn.evaluation.find(key); at != turn.evaluation.end()) kept[key] = std::move(*at);
  }
  turn.evaluation = std::move(kept);
}

}  // namespace

std::string_view to_string(StopWhen when) { return kStopNames[static_cast<std::size_t>(when)]; }

Result<StopWhen> parse_stop_when(std::string_view text) {
  for (std::size_t i = 0; i < kStopNames.size(); ++i) {
    if (kStopNames[i] == text) return static_cast<StopWhen>(i);
  }
  return input_error("'{}' is no stop rule{}: passed, target or never", text, base::did_you_mean(text, kStopNames));
}

Result<std::optional<Stop>> stop_of(const Trajectory& trajectory, const LoopRules& rules) {
  const auto stop = [](std::string_view status, std::string_view reason) {
    return std::optional<Stop>(Stop{std::string(status), std::string(reason)});
  };
  if (!trajectory.turns.empty() && trajectory.turns.back().passed()) {
    const auto speedup = trajectory.turns.back().speedup();
    if (rules.stop == StopWhen::passed) return stop(kSubmitted, "passed");
    if (rules.stop == StopWhen::target && rules.target_speedup && speedup && *speedup >= *rules.target_speedup) {
      return stop(kSubmitted, "target");
    }
  }
  if (trajectory.turns.size() >= rules.max_turns) return stop(kLimits, "turns");
  if (repeats(trajectory, rules.repeated_answers)) return stop(kLimits, "repeated");
  if (trajectory.turns.empty()) return std::optional<Stop>();
  if (rules.max_tokens) {
    const auto tokens = trajectory.tokens();
    if (!tokens) {
      return input_error(
          "the model does not tell how many tokens its answers take, so that a budget of tokens cannot "
          "be kept");
    }
    if (*tokens >= *rules.max_tokens) return stop(kLimits, "tokens");
  }
  if (rules.max_cost) {
    const auto cost = trajectory.cost();
    if (!cost) {
      return input_error(
          "it is not known what the model's answers cost, so that a budget cannot be kept: configure "
          "its prices");
    }
    if (*cost >= *rules.max_cost) return stop(kLimits, "cost");
  }
  return std::optional<Stop>();
}

Result<OpenTrajectory> OpenTrajectory::begin(const std::filesystem::path& path, Trajectory start, LoopRules rules) {
  auto writer = TrajectoryWriter::create(path, start);
  if (!writer) return tl::unexpected<Error>(writer.error());
  return OpenTrajectory(std::move(start), std::move(*writer), std::move(rules));
}

Result<OpenTrajectory> OpenTrajectory::resume(const std::filesystem::path& path, LoopRules rules, bool retry_failed) {
  std::uint64_t whole = 0;
  auto trajectory = read_trajectory(path, &whole);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  auto writer = TrajectoryWriter::reopen(path, whole);
  if (!writer) return tl::unexpected<Error>(writer.error());
  OpenTrajectory open(std::move(*trajectory), std::move(*writer), std::move(rules));
  Trajectory& mine = open.trajectory_;
  if (mine.ended()) {
    bool again = retry_failed && mine.exit_status == kError;
    if (mine.exit_status == kLimits) {
      auto stop = stop_of(mine, open.rules_);
      if (!stop) return tl::unexpected<Error>(stop.error());
      again = !*stop;
    }
    if (!again) return open;
    if (auto written = open.writer_.resume(); !written) return tl::unexpected<Error>(written.error());
    mine.exit_status.clear();
    mine.stop_reason.clear();
    mine.error.clear();
  }
  for (Turn& turn : mine.turns) shrink(turn);
  if (mine.pending) open.extraction_ = candidate::extract_candidate(mine.pending->answer, language_of(mine));
  return open;
}

Result<OpenTrajectory::Step> OpenTrajectory::next() {
  if (trajectory_.ended()) return Step::ended;
  if (trajectory_.pending) return Step::judge;
  auto stop = stop_of(trajectory_, rules_);
  if (!stop) return tl::unexpected<Error>(stop.error());
  if (!*stop) return Step::ask;
  trajectory_.exit_status = (*stop)->exit_status;
  trajectory_.stop_reason = (*stop)->reason;
  if (auto written = writer_.finish(trajectory_); !written) return tl::unexpected<Error>(written.error());
  return Step::ended;
}

Result<void> OpenTrajectory::add_answer(models::Completion completion) {
  Turn turn;
  turn.number = this->turn();
  turn.answer = std::move(completion.text);
  turn.reasoning = std::move(completion.reasoning);
  turn.finish_reason = std::move(completion.finish_reason);
  turn.usage = completion.usage;
  turn.model_seconds = completion.seconds;
  turn.attempts = completion.attempts;
  turn.timestamp = utc_now();
  if (auto written = writer_.answer(turn); !written) return written;
  extraction_ = candidate::extract_candidate(turn.answer, language_of(trajectory_));
  trajectory_.pending = std::move(turn);
  return {};
}

Result<void> OpenTrajectory::add_turn(Turn turn) {
  if (auto written = writer_.judged(turn); !written) return written;
  trajectory_.pending.reset();
  shrink(turn);
  trajectory_.turns.push_back(std::move(turn));
  extraction_ = {};
  return {};
}

Result<void> OpenTrajectory::add_judgement(Judgement judgement, double seconds) {
  Turn turn = *trajectory_.pending;
  turn.source = extraction_.source;
  turn.event = std::move(judgement.event);
  turn.feedback = std::move(judgement.feedback);
  turn.evaluation = std::move(judgement.evaluation);
  turn.judge_seconds = seconds;
  return add_turn(std::move(turn));
}

Result<void> OpenTrajectory::add_no_candidate() {
  Turn turn = *trajectory_.pending;
  turn.event = "no_code";
  turn.feedback = no_code_feedback(extraction_, language_of(trajectory_));
  return add_turn(std::move(turn));
}

Result<void> OpenTrajectory::fail(const std::string& message) {
  trajectory_.exit_status = kError;
  trajectory_.stop_reason = "error";
  trajectory_.error = message;
  return writer_.finish(trajectory_);
}

Trajectory start_of(const models::Model& model, const Judge& judge, const std::vector<problem::Problem>& workloads,
                    const TurnLoopOptions& options) {
  Trajectory trajectory;
  trajectory.problem = workloads.front().definition.name;
  trajectory.model = model.describe();
  const LoopRules& rules = options.rules;
  trajectory.settings = {{"turns", rules.max_turns},
                         {"target", "sm_90a"},
                         {"language", candidate::to_string(options.language)},
                         {"context", to_string(rules.context)},
                         {"feedback", to_string(rules.feedback)},
                         {"feedback_tokens", rules.feedback_tokens},
                         {"stop", to_string(rules.stop)},
                         {"target_speedup", rules.target_speedup ? Json(*rules.target_speedup) : Json(nullptr)},
                         {"tell_shape", options.tell_shape},
                         {"judge", judge.describe()},
                         {"workloads", Json::array()}};
  for (const problem::Problem& one : workloads) {
    Json axes = Json::object();
    for (const auto& [name, value] : one.axes) axes[name] = value;
    trajectory.settings["workloads"].push_back(
        {{"uuid", one.workload.ad_hoc ? Json(nullptr) : Json(one.workload.uuid)}, {"axes", axes}});
  }
  for (const auto& [key, value] : options.settings.items()) trajectory.settings[key] = value;
  trajectory.system_message = system_message("sm_90a", options.knowledge, options.language);
  trajectory.task_message = task_message(workloads, options.tell_shape);
  return trajectory;
}

Result<Trajectory> run_turns(models::Model& model, Judge& judge, const std::vector<problem::Problem>& workloads,
                             const TurnLoopOptions& options) {
  auto open = OpenTrajectory::begin(options.trajectory, start_of(model, judge, workloads, options), options.rules);
  if (!open) return tl::unexpected<Error>(open.error());
  const auto failed = [&](const Error& error) -> Result<Trajectory> {
    if (auto written = open->fail(error.message); !written) return tl::unexpected<Error>(written.error());
    return tl::unexpected<Error>(error);
  };
  const auto tell = [&](unsigned turn, std::string_view state) {
    if (options.progress) options.progress(turn, state);
  };
  while (true) {
    const auto step = open->next();
    if (!step) return failed(step.error());
    if (*step == OpenTrajectory::Step::ended) return read_trajectory(options.trajectory);
    const unsigned turn = open->turn();
    if (*step == OpenTrajectory::Step::ask) {
      tell(turn, "waiting for the model");
      models::CompletionOptions ask;
      ask.cancel = options.cancel;
      ask.turn = turn;
      auto completion = model.complete(open->messages(), std::move(ask));
      if (!completion) return failed(completion.error());
      if (auto added = open->add_answer(std::move(*completion)); !added) return tl::unexpected<Error>(added.error());
      continue;
    }
    std::shared_ptr<const evaluation::Evaluation> details;
    Result<void> added;
    if (open->candidate() == nullptr) {
      added = open->add_no_candidate();
    } else {
      JudgeOptions how;
      how.language = options.language;
      how.cancel = options.cancel;
      how.feedback = {options.rules.feedback, options.rules.feedback_tokens, options.knowledge};
      how.progress = [&](std::string_view state) { tell(turn, state); };
      if (options.timelines) how.timeline = timeline_path(options.trajectory, open->turn());
      const auto started = Clock::now();
      auto judgement = judge.judge(*open->candidate(), workloads, how);
      for (unsigned attempt = 1; !judgement && judgement.error().kind == ErrorKind::infrastructure &&
                                 attempt < kJudgeAttempts && !options.cancel.stop_requested();
           ++attempt) {
        judgement = judge.judge(*open->candidate(), workloads, how);
      }
      if (!judgement) return failed(judgement.error());
      details = judgement->details;
      added = open->add_judgement(std::move(*judgement), std::chrono::duration<double>(Clock::now() - started).count());
    }
    if (!added) return tl::unexpected<Error>(added.error());
    if (options.on_turn) options.on_turn(open->trajectory().turns.back(), details.get());
  }
}

}  // namespace ptxbench::agent

#include "agent/turn_loop.h"

#include "agent/feedback.h"
#include "agent/prompt.h"
#include "candidate/extraction.h"

namespace ptxbench::agent {

Result<Trajectory> run_turns(models::Model& model, evaluation::Evaluator& evaluator, const problem::Problem& problem,
                             const TurnLoopOptions& options) {
  Trajectory trajectory;
  trajectory.problem = problem.definition.name;
  trajectory.model = model.describe();
  trajectory.settings = {{"turns", options.max_turns},
                         {"target", "sm_90a"},
                         {"require_target", options.evaluate.require_target},
                         {"axes", base::Json::object()}};
  for (const auto& [name, value] : problem.axes) trajectory.settings["axes"][name] = value;
  trajectory.system_message = system_message("sm_90a (Hopper)", options.knowledge);
  trajectory.task_message = task_message(problem);
  auto writer = TrajectoryWriter::create(options.trajectory, trajectory);
  if (!writer) return tl::unexpected<Error>(writer.error());

  std::vector<models::Message> messages = {{models::Role::system, trajectory.system_message},
                                           {models::Role::user, trajectory.task_message}};
  auto stop = [&](const Error& error) -> Result<Trajectory> {
    trajectory.exit_status = "Error";
    trajectory.error = error.message;
    if (auto finished = writer->finish("Error", error.message); !finished)
      return tl::unexpected<Error>(finished.error());
    return tl::unexpected<Error>(error);
  };
  trajectory.exit_status = "LimitsExceeded";
  for (unsigned number = 1; number <= options.max_turns; ++number) {
    if (model.remaining() == 0u) break;
    if (options.progress) options.progress(number, "waiting for the model");
    models::CompletionOptions completion_options;
    completion_options.cancel = options.cancel;
    auto completion = model.complete(messages, completion_options);
    if (!completion) return stop(completion.error());
    Turn turn;
    turn.number = number;
    turn.answer = completion->text;
    turn.reasoning = completion->reasoning;
    turn.usage = completion->usage;
    turn.model_seconds = completion->seconds;
    turn.timestamp = utc_now();

    const candidate::Extraction extraction = candidate::extract_candidate(turn.answer);
    std::optional<evaluation::Evaluation> evaluation;
    if (extraction.source) {
      turn.source = extraction.source;
      evaluation::EvaluateOptions evaluate = options.evaluate;
      evaluate.cancel = options.cancel;
      if (options.progress) {
        evaluate.progress = [&](std::string_view state) { options.progress(number, state); };
      }
      auto judged = evaluator.evaluate(*extraction.source, {problem}, evaluate);
      if (!judged) return stop(judged.error());
      evaluation = std::move(*judged);
      turn.evaluation = evaluation::to_json(*evaluation);
      turn.event = evaluation->compile.succeeded() ? "evaluation" : "test_failed";
      turn.feedback = feedback_text(*evaluation, *extraction.source);
    } else {
      turn.event = "no_code";
      turn.feedback = no_code_feedback(extraction);
    }
    if (auto written = writer->append(turn); !written) return tl::unexpected<Error>(written.error());
    trajectory.turns.push_back(turn);
    if (options.on_turn) options.on_turn(turn, evaluation ? &*evaluation : nullptr);
    if (turn.passed()) {
      trajectory.exit_status = "Submitted";
      break;
    }
    messages.push_back({models::Role::assistant, turn.answer});
    messages.push_back({models::Role::user, turn.feedback});
  }
  if (auto finished = writer->finish(trajectory.exit_status); !finished) return tl::unexpected<Error>(finished.error());
  return trajectory;
}

}  // namespace ptxbench::agent

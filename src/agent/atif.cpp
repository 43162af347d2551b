#include "agent/atif.h"

#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;

constexpr const char* kSchema = "ATIF-v1.7";

std::string text_of(const Json& object, const char* key) {
  const Json* value = base::optional_member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

Json metrics_of(const models::Usage& usage) {
  Json out = Json::object();
  if (usage.prompt_tokens) out["prompt_tokens"] = *usage.prompt_tokens;
  if (usage.completion_tokens) out["completion_tokens"] = *usage.completion_tokens;
  if (usage.cached_tokens) out["cached_tokens"] = *usage.cached_tokens;
  if (usage.cost) out["cost_usd"] = *usage.cost;
  if (usage.reasoning_tokens) out["extra"] = {{"reasoning_tokens", *usage.reasoning_tokens}};
  return out;
}

/// The sum if every turn tells it.
template <class T>
void add_total(Json& out, const char* name, const Trajectory& trajectory, std::optional<T> models::Usage::*member) {
  T sum = 0;
  for (const Turn& turn : trajectory.turns) {
    if (!(turn.usage.*member)) return;
    sum += *(turn.usage.*member);
  }
  if (!trajectory.turns.empty()) out[name] = sum;
}

}  // namespace

Json to_atif(const Trajectory& trajectory, std::string_view name, std::string_view version) {
  Json steps = Json::array();
  const auto add = [&](const Json& step) {
    Json numbered = {{"step_id", steps.size() + 1}};
    numbered.update(step);
    steps.push_back(std::move(numbered));
  };
  if (!trajectory.system_message.empty()) add({{"source", "system"}, {"message", trajectory.system_message}});
  add({{"source", "user"}, {"message", trajectory.task_message}});
  const auto answer = [&](const Turn& turn) {
    Json step = Json::object();
    if (!turn.timestamp.empty()) step["timestamp"] = turn.timestamp;
    step["source"] = "agent";
    step["message"] = turn.answer;
    if (!turn.reasoning.empty()) step["reasoning_content"] = turn.reasoning;
    if (Json metrics = metrics_of(turn.usage); !metrics.empty()) step["metrics"] = std::move(metrics);
    step["llm_call_count"] = 1;
    return step;
  };
  for (const Turn& turn : trajectory.turns) {
    Json step = answer(turn);
    step["observation"] = {{"results", {{{"content", turn.feedback}}}}};
    step["extra"] = {{"event", turn.event},
                     {"passed", turn.passed()},
                     {"speedup", turn.speedup() ? Json(*turn.speedup()) : Json(nullptr)},
                     {"finish_reason", turn.finish_reason},
                     {"model_seconds", turn.model_seconds},
                     {"judge_seconds", turn.judge_seconds}};
    add(step);
  }
  if (trajectory.pending) add(answer(*trajectory.pending));
  Json agent = {{"name", "ptxbench"}, {"version", version}};
  if (const std::string model = text_of(trajectory.model, "model"); !model.empty()) agent["model_name"] = model;
  agent["extra"] = {{"model", trajectory.model}};
  Json totals = Json::object();
  add_total(totals, "total_prompt_tokens", trajectory, &models::Usage::prompt_tokens);
  add_total(totals, "total_completion_tokens", trajectory, &models::Usage::completion_tokens);
  add_total(totals, "total_cached_tokens", trajectory, &models::Usage::cached_tokens);
  add_total(totals, "total_cost_usd", trajectory, &models::Usage::cost);
  totals["total_steps"] = steps.size();
  const auto best = trajectory.best_speedup();
  return {{"schema_version", kSchema},
          {"session_id", name},
          {"agent", agent},
          {"steps", steps},
          {"final_metrics", totals},
          {"extra",
           {{"problem", trajectory.problem},
            {"settings", trajectory.settings},
            {"exit_status", trajectory.exit_status},
            {"stop_reason", trajectory.stop_reason},
            {"error", trajectory.error},
            {"correct_turns", trajectory.correct_turns()},
            {"best_speedup", best ? Json(*best) : Json(nullptr)}}}};
}

}  // namespace ptxbench::agent

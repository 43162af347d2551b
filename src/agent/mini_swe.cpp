#include "agent/mini_swe.h"

#include <algorithm>

#include "base/text.h"
#include "candidate/triton_source.h"
#include "models/secrets.h"
#include "service/trace.h"

namespace ptxbench::agent {
namespace {

using base::Json;

constexpr std::string_view kFormat = "mini-swe-agent-1.1";

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// The traces of a turn, one per workload: those that were imported, or what was judged in their form. Workloads are
/// judged together, and have the same status.
Json traces_of(const Trajectory& trajectory, const Turn& turn) {
  if (!turn.evaluation.is_object()) return nullptr;
  if (const Json* traces = base::optional_member(turn.evaluation, "traces")) return *traces;
  const Json* workloads =
      trajectory.settings.is_object() ? base::optional_member(trajectory.settings, "workloads") : nullptr;
  if (workloads == nullptr || !workloads->is_array() || !turn.evaluation.contains("stages")) return nullptr;
  Json traces = Json::array();
  try {
    const Json evaluation = service::trace_evaluation({{"evaluation", turn.evaluation}, {"text", turn.feedback}}, {});
    for (const Json& workload : *workloads) {
      Json one = evaluation;
      one["timestamp"] = turn.timestamp;
      traces.push_back(
          {{"definition", trajectory.problem},
           {"workload", {{"uuid", workload.at("uuid")}, {"axes", workload.at("axes")}, {"inputs", Json::object()}}},
           {"solution", fmt::format("kernel_v{}", turn.number)},
           {"evaluation", std::move(one)}});
    }
  } catch (const Json::exception&) {
    return nullptr;  // an evaluation that is not whole
  }
  return traces;
}

bool met_target(const Trajectory& trajectory, const Turn& turn) {
  if (!turn.passed()) return false;
  const Json* target =
      trajectory.settings.is_object() ? base::optional_member(trajectory.settings, "target_speedup") : nullptr;
  if (target == nullptr || !target->is_number()) return true;
  const auto speedup = turn.speedup();
  return speedup && *speedup >= target->get<double>();
}

std::string text_of(const Json& object, const char* key) {
  const Json* value = object.is_object() ? base::optional_member(object, key) : nullptr;
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// Replaces the texts of members that hold keys, and remembers them. What a list holds goes by the list's name.
void hide_keys(Json& json, models::Secrets& secrets, const std::string& name = {}) {
  if (json.is_string()) {
    if (!models::may_hold_a_key(name, json.get_ref<const std::string&>())) return;
    std::string key = json.get<std::string>();
    if (key.starts_with("Bearer ")) key.erase(0, 7);
    secrets.add(key);
    json = "[key]";
    return;
  }
  if (!json.is_structured()) return;
  for (auto& item : json.items()) hide_keys(item.value(), secrets, json.is_object() ? item.key() : name);
}

void read_extra(const Json& extra, Turn& turn) {
  turn.event = text_of(extra, "event");
  turn.timestamp = text_of(extra, "timestamp");
  const Json* traces = base::optional_member(extra, "traces");
  const Json* passed = base::optional_member(extra, "all_passed");
  const bool all_passed = passed != nullptr && passed->is_boolean() && passed->get<bool>();
  if (traces == nullptr && !all_passed && turn.event != "evaluation") return;
  Json performance = Json::array();
  if (const Json* speedup = base::optional_member(extra, "min_speedup"); speedup != nullptr && speedup->is_number()) {
    performance.push_back({{"speedup", {{"value", *speedup}}}});
  }
  turn.evaluation = {{"schema", "ptxbench.imported-evaluation/1"},
                     {"verdict", {{"status", all_passed ? "passed" : "failed"}}},
                     {"performance", performance},
                     {"traces", traces != nullptr ? *traces : Json(nullptr)}};
}

}  // namespace

Json to_mini_swe(const Trajectory& trajectory) {
  Json messages = Json::array();
  messages.push_back({{"role", "system"}, {"content", trajectory.system_message}});
  messages.push_back({{"role", "user"}, {"content", trajectory.task_message}});
  std::string submission;
  for (const Turn& turn : trajectory.turns) {
    messages.push_back({{"role", "assistant"},
                        {"content", turn.answer},
                        {"extra",
                         {{"actions", Json::array()},
                          {"response", {{"usage", models::to_json(turn.usage)}, {"reasoning", turn.reasoning}}},
                          {"cost", optional_number(turn.usage.cost)},
                          {"timestamp", turn.timestamp}}}});
    const int code = turn.passed() ? 0 : 1;
    messages.push_back(
        {{"role", "user"},
         {"content", fmt::format("<returncode>{}</returncode>\n<output>\n{}</output>", code, turn.feedback)},
         {"extra",
          {{"raw_output", turn.feedback},
           {"returncode", code},
           {"timestamp", turn.timestamp},
           {"event", turn.event},
           {"traces", traces_of(trajectory, turn)},
           {"all_passed", turn.passed()},
           {"min_speedup", optional_number(turn.speedup())},
           {"target_met", met_target(trajectory, turn)}}}});
    if (turn.passed() && turn.source) submission = *turn.source;
  }
  const std::string status = trajectory.exit_status.empty() ? "LimitsExceeded" : trajectory.exit_status;
  messages.push_back(
      {{"role", "exit"}, {"content", status}, {"extra", {{"exit_status", status}, {"submission", submission}}}});
  return {{"trajectory_format", kFormat},
          {"info",
           {{"model_stats",
             {{"instance_cost", optional_number(trajectory.cost())}, {"api_calls", trajectory.turns.size()}}},
            {"config", {{"model", trajectory.model}, {"settings", trajectory.settings}}},
            {"mini_version", "2.4.6"},
            {"exit_status", status},
            {"submission", submission}}},
          {"messages", messages}};
}

Result<Trajectory> from_mini_swe(const Json& given, std::string_view what) {
  if (!given.is_object())
    return input_error("{}: a trajectory is a JSON object, found {}", what, base::json_type_name(given));
  if (text_of(given, "trajectory_format") != kFormat) {
    return input_error("{}: the trajectory_format is '{}', this program reads '{}'", what,
                       text_of(given, "trajectory_format"), kFormat);
  }
  // Keys first: the rest may repeat them anywhere.
  models::Secrets secrets;
  Json json = given;
  hide_keys(json, secrets);
  auto cleaned =
      base::parse_json(secrets.hide_in_answer(json.dump(-1, ' ', false, Json::error_handler_t::replace)), what);
  if (!cleaned) return tl::unexpected<Error>(cleaned.error());
  json = std::move(*cleaned);

  const Json* messages = base::optional_member(json, "messages");
  if (messages == nullptr || !messages->is_array()) return input_error("{}: messages: a list is needed", what);
  Trajectory trajectory;
  std::size_t i = 0;
  const auto role = [&](std::size_t at) {
    return at < messages->size() ? text_of((*messages)[at], "role") : std::string();
  };
  const auto content = [&](std::size_t at) { return text_of((*messages)[at], "content"); };
  if (role(0) != "system" || role(1) != "user") {
    return input_error("{}: messages: a system and a user message come first", what);
  }
  trajectory.system_message = content(0);
  trajectory.task_message = content(1);
  for (i = 2; role(i) == "assistant"; i += 2) {
    if (role(i + 1) != "user") break;  // an answer that was never judged
    Turn turn;
    turn.number = static_cast<unsigned>(trajectory.turns.size()) + 1;
    turn.answer = content(i);
    turn.feedback = content(i + 1);
    if (const Json* extra = base::optional_member((*messages)[i + 1], "extra");
        extra != nullptr && extra->is_object()) {
      read_extra(*extra, turn);
      if (const std::string raw = text_of(*extra, "raw_output"); !raw.empty()) turn.feedback = raw;
    }
    if (const Json* extra = base::optional_member((*messages)[i], "extra"); extra != nullptr && extra->is_object()) {
      if (const Json* response = base::optional_member(*extra, "response");
          response != nullptr && response->is_object()) {
        if (const Json* usage = base::optional_member(*response, "usage")) turn.usage = models::usage_from_json(*usage);
        turn.reasoning = text_of(*response, "reasoning");
      }
      if (const Json* cost = base::optional_member(*extra, "cost");
          cost != nullptr && cost->is_number() && cost->get<double>() > 0) {
        turn.usage.cost = cost->get<double>();  // the reference writes 0 for what it does not know
      }
    }
    if (turn.event != "no_code") {
      // The format does not say in which language a model was asked.
      turn.source = candidate::extract_candidate(turn.answer).source;
      if (!turn.source) turn.source = candidate::extract_triton_candidate(turn.answer).source;
    }
    trajectory.turns.push_back(std::move(turn));
  }
  const Json* info = base::optional_member(json, "info");
  if (info != nullptr && info->is_object()) {
    trajectory.exit_status = text_of(*info, "exit_status");
    if (const Json* config = base::optional_member(*info, "config"); config != nullptr && config->is_object()) {
      if (const Json* model = base::optional_member(*config, "model")) trajectory.model = *model;
      if (const Json* settings = base::optional_member(*config, "settings")) trajectory.settings = *settings;
    }
  }
  if (trajectory.exit_status.empty()) trajectory.exit_status = "LimitsExceeded";
  trajectory.stop_reason = "imported";
  return trajectory;
}

}  // namespace ptxbench::agent

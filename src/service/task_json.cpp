#include "service/task_json.h"

#include "service/tool_logs.h"
#include "service/trace.h"

namespace ptxbench::service {
namespace {

using base::Json;

/// What we stored ourselves; damage becomes null.
Json parsed(const std::string& text) {
  auto json = base::parse_json(text, "task");
  return json ? std::move(*json) : Json();
}

std::optional<double> number(const Json& options, std::string_view key) {
  const Json* value = base::optional_member(options, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

Json trace_of(const Task& task, const Unit& unit, const Json& answer, const Json& options) {
  return Json{{"definition", task.definition},
              {"workload", parsed(unit.workload)},
              {"solution", task.solution},
              {"evaluation", trace_evaluation(answer, {number(options, "atol"), number(options, "rtol")})}};
}

Json log_of(const Task& task, const Unit& unit, const Json& answer, const Json& options) {
  Json log{{"definition", task.definition}, {"workload", parsed(unit.workload)}, {"solution", task.solution}};
  if (task.kind == TaskKind::sanitize) log["log"] = sanitize_log(answer, options);
  if (task.kind == TaskKind::profile) log["log"] = profile_log(answer, options);
  if (task.kind == TaskKind::debug) {
    log["log"] = debug_log(answer, options);
    log["metadata"] = debug_metadata(answer, options, task.source);
  }
  return log;
}

}  // namespace

Json fib_task(const Task& task) {
  Json json{{"task_id", task.id},
            {"kind", to_string(task.kind)},
            {"status", to_string(task.status)},
            {"definition", task.definition},
            {"solution", task.solution}};
  if (!task.is_final()) return json;
  const Json options = parsed(task.options);
  Json traces = Json::array(), logs = Json::array();
  for (const Unit& unit : task.units) {
    if (unit.role != UnitRole::run || unit.state != UnitState::done) continue;
    const Json answer = parsed(unit.result);
    if (!answer.is_object()) continue;
    if (task.kind == TaskKind::evaluate) {
      traces.push_back(trace_of(task, unit, answer, options));
    } else {
      logs.push_back(log_of(task, unit, answer, options));
    }
  }
  if (!traces.empty()) json["traces"] = std::move(traces);
  if (!logs.empty()) json["logs"] = std::move(logs);
  if (task.status == TaskStatus::failed) json["error"] = task.error;
  return json;
}

Json native_task(const Task& task) {
  Json units = Json::array(), evaluations = Json::array(), texts = Json::array();
  for (const Unit& unit : task.units) {
    if (unit.role != UnitRole::run) continue;
    units.push_back({{"workload", parsed(unit.workload)},
                     {"state", to_string(unit.state)},
                     {"attempts", unit.attempts},
                     {"seconds", unit.seconds},
                     {"error", unit.error.message.empty() ? Json(nullptr) : Json(unit.error.message)}});
    if (unit.state != UnitState::done) continue;
    Json answer = parsed(unit.result);
    if (!answer.is_object()) continue;
    units.back()["screened"] = answer.value("screened", false);
    if (answer.contains("timed_out")) units.back()["error"] = "did not end within the time that the request allows";
    if (!answer.contains("evaluation")) continue;
    evaluations.push_back(std::move(answer["evaluation"]));
    texts.push_back(answer.value("text", ""));
  }
  const bool failed = task.status == TaskStatus::failed;
  return Json{{"schema", "ptxbench.task/1"},
              {"task_id", task.id},
              {"kind", to_string(task.kind)},
              {"status", to_string(task.status)},
              {"definition", task.definition},
              {"solution", task.solution},
              {"created", task.created},
              {"finished", task.is_final() ? Json(task.finished) : Json(nullptr)},
              {"error", failed ? Json{{"kind", task.error_kind == ErrorKind::input ? "input" : "infrastructure"},
                                      {"message", task.error}}
                               : Json(nullptr)},
              {"units", units},
              {"evaluations", evaluations},
              {"texts", texts}};
}

}  // namespace ptxbench::service

#include "agent/interchange.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>
#include <vector>

#include "agent/mini_swe.h"
#include "agent/run_folder.h"
#include "base/files.h"

namespace ptxbench::agent {
namespace {

using base::Json;
namespace fs = std::filesystem;

std::string text_of(const Json& object, const char* key) {
  const Json* value = object.is_object() ? base::optional_member(object, key) : nullptr;
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string stage_status(const Json& evaluation, std::string_view name) {
  const Json* stages = base::optional_member(evaluation, "stages");
  if (stages == nullptr || !stages->is_array()) return "";
  for (const Json& stage : *stages) {
    if (text_of(stage, "name") == name) return text_of(stage, "status");
  }
  return "";
}

bool has_endless_finding(const Json& evaluation) {
  static constexpr std::array<std::string_view, 3> kEndless = {"host.timeout", "sync.deadlock", "sync.budget"};
  const Json* findings = base::optional_member(evaluation, "findings");
  if (findings == nullptr || !findings->is_array()) return false;
  return std::any_of(findings->begin(), findings->end(), [](const Json& finding) {
    return text_of(finding, "severity") == "error" &&
           std::find(kEndless.begin(), kEndless.end(), text_of(finding, "rule")) != kEndless.end();
  });
}

/// By the first trace that did not pass.
std::string_view label_of_traces(const Json& traces) {
  for (const Json& trace : traces) {
    const Json* evaluation = trace.is_object() ? base::optional_member(trace, "evaluation") : nullptr;
    const std::string status = evaluation != nullptr ? text_of(*evaluation, "status") : "";
    if (status == "COMPILE_ERROR") return "Compilation error";
    if (status == "RUNTIME_ERROR") return "Runtime error";
    if (status == "TIMEOUT") return "Kernel Execution Timeout";
    if (status.starts_with("INCORRECT_")) return "Numerical error";
  }
  return "Other error";
}

std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Result<Json> read_json(const fs::path& file) {
  auto text = base::read_file(file, std::uint64_t{1} << 30);
  if (!text) return tl::unexpected<Error>(text.error());
  return base::parse_json(*text, file.string());
}

Result<void> check_target(const fs::path& to) {
  std::error_code error;
  if (fs::exists(to, error) && (!fs::is_directory(to, error) || !fs::is_empty(to, error))) {
    return input_error("{} exists and is not an empty folder; choose another one", to.string());
  }
  return {};
}

/// The files of a folder's trajectories with this ending, in the order of their names.
Result<std::vector<fs::path>> trajectory_files(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder / "trajectories", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() != ending) continue;
    // The name becomes that of a folder elsewhere.
    const std::string name = entry->path().stem();
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-';
    });
    if (!plain) return input_error("{}: a trajectory's name has letters, digits, _ and - only", entry->path().string());
    files.push_back(entry->path());
  }
  if (error) return input_error("{} cannot be read: {}", (folder / "trajectories").string(), error.message());
  if (files.empty()) return input_error("{} holds no {} files", (folder / "trajectories").string(), ending);
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename(), right = b.filename();
    return std::pair(left.size(), left) < std::pair(right.size(), right);  // exp_1000 after exp_999
  });
  return files;
}

std::string log_of(const Trajectory& trajectory) {
  std::string text = fmt::format("problem {}\n", trajectory.problem);
  for (const Turn& turn : trajectory.turns) {
    text += fmt::format("{} turn {}: {}; answer after {:.1f} s\n", turn.timestamp, turn.number, failure_label(turn),
                        turn.model_seconds);
  }
  return text + fmt::format("ended: {}{}{}\n", trajectory.exit_status.empty() ? "not yet" : trajectory.exit_status,
                            trajectory.error.empty() ? "" : ": ", trajectory.error);
}

Result<void> write_success(const Trajectory& trajectory, const Json& messages, const fs::path& folder) {
  const std::string_view ending = language_of(trajectory) == candidate::Language::triton ? ".py" : ".cu";
  Json record = Json::array();
  for (const Turn& turn : trajectory.turns) {
    if (!turn.passed() || !turn.source) continue;
    const unsigned version = turn.number;
    // Turn t's feedback is message 2t+1, with t from 1.
    const Json& extra = messages[2 * turn.number + 1]["extra"];
    record.push_back(
        {{"version", version}, {"turn", turn.number - 1}, {"timestamp", turn.timestamp}, {"traces", extra["traces"]}});
    auto written = base::write_file_atomic(folder / fmt::format("kernel_v{}{}", version, ending), *turn.source);
    if (!written) return written;
  }
  if (record.empty()) return {};
  return base::write_file_atomic(folder / "record.json", dump(record));
}

Json copy_members(const Json& from, std::initializer_list<const char*> keys) {
  Json out = Json::object();
  for (const char* key : keys) {
    if (const auto at = from.find(key); at != from.end()) out[key] = *at;
  }
  return out;
}

}  // namespace

std::string_view failure_label(const Turn& turn) {
  if (turn.event == "no_code") return "Extraction error";
  const Json& evaluation = turn.evaluation;
  if (!evaluation.is_object()) return "Other error";
  if (turn.passed()) return "Correct";
  if (const Json* traces = base::optional_member(evaluation, "traces"); traces != nullptr && traces->is_array()) {
    return label_of_traces(*traces);
  }
  if (stage_status(evaluation, "compile") == "failed") return "Compilation error";
  if (stage_status(evaluation, "execute") == "failed") {
    return has_endless_finding(evaluation) ? "Kernel Execution Timeout" : "Runtime error";
  }
  if (stage_status(evaluation, "correctness") == "failed") return "Numerical error";
  // Right numbers, and something else that was required is missing.
  if (stage_status(evaluation, "correctness") == "passed" && stage_status(evaluation, "execute") == "passed") {
    const Json* findings = base::optional_member(evaluation, "findings");
    const bool faults = findings != nullptr && findings->is_array() &&
                        std::any_of(findings->begin(), findings->end(), [](const Json& finding) {
                          const std::string severity = text_of(finding, "severity");
                          return severity == "error" || severity == "warning";
                        });
    if (!faults) return "Correct";
  }
  return "Other error";
}

Result<InterchangeReport> export_reference_run(const fs::path& run, const fs::path& to) {
  if (auto free = check_target(to); !free) return tl::unexpected<Error>(free.error());
  const auto plan = read_json(run / "plan.json");
  if (!plan) return tl::unexpected<Error>(plan.error());
  const Json* config = plan->is_object() ? base::optional_member(*plan, "config") : nullptr;
  const Json* planned = plan->is_object() ? base::optional_member(*plan, "plan") : nullptr;
  if (config == nullptr || planned == nullptr || !planned->is_array()) {
    return input_error("{}: 'config' and 'plan' are needed", (run / "plan.json").string());
  }
  const auto files = trajectory_files(run, ".jsonl");
  if (!files) return tl::unexpected<Error>(files.error());
  InterchangeReport report;
  std::vector<TrajectorySummary> summaries(planned->size());
  std::string table = "trajectory_id,turn,reasoning_tokens,correctness,speedup,correct_with_arch\n";
  for (const fs::path& file : *files) {
    const std::string name = file.stem();
    const auto trajectory = read_trajectory(file);
    if (!trajectory) return tl::unexpected<Error>(trajectory.error());
    for (std::size_t i = 0; i < planned->size(); ++i) {
      if (text_of((*planned)[i], "exp_name") != name) continue;
      const Json* target = base::optional_member((*planned)[i], "target_speedup");
      summaries[i] = summary_of(
          *trajectory, target != nullptr && target->is_number() ? std::optional(target->get<double>()) : std::nullopt);
    }
    const Json converted = to_mini_swe(*trajectory);
    auto written = base::write_file_atomic(to / "trajectories" / (name + ".json"), dump(converted));
    if (written) written = base::write_file_atomic(to / "logs" / (name + ".log"), log_of(*trajectory));
    if (written) written = write_success(*trajectory, converted["messages"], to / "success" / name);
    const auto last = std::find_if(trajectory->turns.rbegin(), trajectory->turns.rend(),
                                   [](const Turn& turn) { return turn.source.has_value(); });
    if (written && last != trajectory->turns.rend()) {
      written = base::write_file_atomic(to / name / candidate::source_name(language_of(*trajectory)), *last->source);
    }
    if (!written) return tl::unexpected<Error>(written.error());
    for (const Turn& turn : trajectory->turns) {
      const Json* instructions =
          turn.evaluation.is_object() ? base::optional_member(turn.evaluation, "instructions") : nullptr;
      const Json* target = instructions != nullptr && instructions->is_object()
                               ? base::optional_member(*instructions, "compat_target")
                               : nullptr;
      const bool correct = failure_label(turn) == "Correct";
      table += fmt::format("{},{},{},{},{},{}\n", name, turn.number - 1,
                           turn.usage.reasoning_tokens ? std::to_string(*turn.usage.reasoning_tokens) : "",
                           failure_label(turn), correct ? turn.speedup().value_or(0.0) : 0.0,
                           correct && target != nullptr && target->is_boolean() && target->get<bool>() ? 1 : 0);
      ++report.turns;
    }
    ++report.trajectories;
  }
  Json list = Json::array();
  for (std::size_t i = 0; i < planned->size(); ++i) {
    Json one = (*planned)[i].is_object() ? (*planned)[i] : Json(Json::object());
    one["exp_index"] = i;
    list.push_back(std::move(one));
  }
  // The reference's config is a list of groups.
  const Json groups =
      Json::array({{{"num_trajectories", planned->size()},
                    {"num_turns", config->is_object() ? config->value("num_turns", Json()) : Json()},
                    {"target_speedup", config->is_object() ? config->value("target_speedup", Json()) : Json()},
                    {"ptxbench", *config}}});
  Json summary = summary_json(*plan, summaries, {}, 0);
  if (const auto before = read_json(run / "summary.json"); before && before->is_object()) {
    summary["duration"] = before->value("duration", Json());
  }
  for (const char* key : {"infra_failed", "api_failed", "timeout"}) summary[key] = 0;
  summary["error"] = summary["failed"];
  summary["success"] = summary["completed"];
  auto written = base::write_file_atomic(to / "plan.json", dump({{"config", groups}, {"plan", list}}));
  if (written) {
    written = base::write_file_atomic(to / "resume_plan.json", dump({{"timestamp", utc_now()},
                                                                     {"config", groups},
                                                                     {"extend_turns", 0},
                                                                     {"extend_info", Json::object()},
                                                                     {"resume_info", Json::object()},
                                                                     {"plan", list}}));
  }
  if (written) written = base::write_file_atomic(to / "summary.json", dump(summary));
  if (written) written = base::write_file_atomic(to / "figures" / "turn_correctness_arch.csv", table);
  if (!written) return tl::unexpected<Error>(written.error());
  return report;
}

Result<InterchangeReport> import_reference_run(const fs::path& from, const fs::path& to) {
  if (auto free = check_target(to); !free) return tl::unexpected<Error>(free.error());
  const auto files = trajectory_files(from, ".json");
  if (!files) return tl::unexpected<Error>(files.error());
  std::error_code error;
  Json before = Json::object();
  if (fs::exists(from / "plan.json", error)) {
    auto plan = read_json(from / "plan.json");
    if (!plan) return tl::unexpected<Error>(plan.error());
    if (plan->is_object()) before = std::move(*plan);
  }
  const auto entry_of = [&](const std::string& name, std::size_t index) {
    const Json* list = base::optional_member(before, "plan");
    if (list == nullptr || !list->is_array()) return Json(Json::object());
    for (const Json& one : *list) {
      if (text_of(one, "exp_name") == name) return one;
    }
    return index < list->size() && (*list)[index].is_object() ? (*list)[index] : Json(Json::object());
  };
  InterchangeReport report;
  Json plan = Json::array();
  std::vector<TrajectorySummary> summaries;
  for (std::size_t i = 0; i < files->size(); ++i) {
    const std::string name = (*files)[i].stem();
    const auto json = read_json((*files)[i]);
    if (!json) return tl::unexpected<Error>(json.error());
    auto trajectory = from_mini_swe(*json, (*files)[i].string());
    if (!trajectory) return tl::unexpected<Error>(trajectory.error());
    const Json entry = entry_of(name, i);
    trajectory->problem = text_of(entry, "definition");
    std::string model = text_of(entry, "model");
    if (model.empty() && trajectory->model.is_string()) model = trajectory->model.get<std::string>();
    if (model.empty()) model = text_of(trajectory->model, "model_name");
    Json planned = copy_members(entry, {"workloads", "replica", "num_turns", "target_speedup"});
    planned["exp_name"] = name;
    planned["definition"] = trajectory->problem;
    planned["model"] = model;
    planned["prompt_tag"] = text_of(entry, "prompt_tag");
    if (!planned.contains("target_speedup")) planned["target_speedup"] = nullptr;
    if (!trajectory->settings.is_object()) trajectory->settings = Json::object();
    for (const char* key : {"exp_name", "prompt_tag", "target_speedup"}) trajectory->settings[key] = planned[key];
    trajectory->settings["imported"] = true;
    auto written = base::write_file_atomic(to / "trajectories" / (name + ".jsonl"), trajectory_text(*trajectory));
    if (!written) return tl::unexpected<Error>(written.error());
    const Json& target = planned["target_speedup"];
    summaries.push_back(
        summary_of(*trajectory, target.is_number() ? std::optional(target.get<double>()) : std::nullopt));
    report.turns += trajectory->turns.size();
    ++report.trajectories;
    plan.push_back(std::move(planned));
  }
  const Json all = {{"schema", "ptxbench.plan/1"}, {"config", {{"imported_from", from.string()}}}, {"plan", plan}};
  auto written = base::write_file_atomic(to / "plan.json", dump(all));
  if (written) written = base::write_file_atomic(to / "summary.json", dump(summary_json(all, summaries, {}, 0)));
  if (!written) return tl::unexpected<Error>(written.error());
  return report;
}

}  // namespace ptxbench::agent

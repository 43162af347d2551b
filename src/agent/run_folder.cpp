#include "agent/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;
namespace fs = std::filesystem;

constexpr std::string_view kPlanSchema = "ptxbench.plan/1";

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// What decides what the trajectories are. Limits, budgets and addresses may change between two runs.
Json config_json(const ExperimentConfig& config) {
  Json evaluation = config.evaluation;
  evaluation["backend"] = config.backend;
  Json json = {{"name", config.name},
               {"num_turns", config.rules.max_turns},
               {"target_speedup", optional_number(config.rules.target_speedup)},
               {"stop", to_string(config.rules.stop)},
               {"context", to_string(config.rules.context)},
               {"feedback", to_string(config.rules.feedback)},
               {"feedback_tokens", config.rules.feedback_tokens},
               {"repeated_answers", config.rules.repeated_answers},
               {"tell_shape", config.tell_shape},
               {"replicas", config.replicas},
               {"models", config.models},
               {"packs", config.packs},
               {"evaluation", evaluation}};
  // Absent in plans from before there was a choice.
  if (config.language != candidate::Language::cuda) json["language"] = candidate::to_string(config.language);
  return json;
}

/// The first difference of two JSON values, as "config.num_turns is 8, was 4".
std::optional<std::string> difference(const Json& now, const Json& before, const std::string& path) {
  if (now == before) return std::nullopt;
  if (now.is_object() && before.is_object()) {
    for (const auto& [key, value] : before.items()) {
      const std::string inner = path.empty() ? key : fmt::format("{}.{}", path, key);
      if (!now.contains(key)) return fmt::format("{} is gone", inner);
      if (auto found = difference(now[key], value, inner)) return found;
    }
    for (const auto& [key, value] : now.items()) {
      if (!before.contains(key)) return fmt::format("{}.{} is new", path, key);
    }
    return std::nullopt;  // only the order
  }
  if (now.is_array() && before.is_array() && now.size() == before.size()) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (auto found = difference(now[i], before[i], fmt::format("{}[{}]", path, i))) return found;
    }
  }
  const auto shown = [](const Json& json) {
    return base::shorten_middle(json.dump(-1, ' ', false, Json::error_handler_t::replace), 200);
  };
  return fmt::format("{} is {}, was {}", path, shown(now), shown(before));
}

/// The plan of a folder may be anybody's.
std::string text_of(const Json& object, const char* key) {
  const Json* value = object.is_object() ? base::optional_member(object, key) : nullptr;
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

Result<Json> read_json(const fs::path& file) {
  auto text = base::read_file(file, std::uint64_t{1} << 30);
  if (!text) return tl::unexpected<Error>(text.error());
  return base::parse_json(*text, file.string());
}

Json inputs_json(const PlanInputs& inputs) {
  const auto object = [](const auto& map) {
    Json out = Json::object();
    for (const auto& [name, value] : map) out[name] = value;
    return out;
  };
  return {
      {"models", object(inputs.models)}, {"packs", object(inputs.packs)}, {"definitions", object(inputs.definitions)}};
}

}  // namespace

PlanInputs plan_inputs(const std::map<std::string, Json>& descriptions,
                       const std::map<std::string, std::string>& pack_texts,
                       const std::vector<std::vector<problem::Problem>>& problems) {
  PlanInputs inputs;
  for (const auto& [name, description] : descriptions) {
    Json& kept = inputs.models[name] = description;
    if (!kept.is_object()) continue;
    for (const char* may_change : {"base_url", "prices", "answers"}) kept.erase(may_change);
  }
  for (const auto& [tag, text] : pack_texts) inputs.packs[tag] = base::sha256_hex(text);
  std::map<std::string, std::string> texts;
  for (const auto& workloads : problems) {
    std::string& text = texts[workloads.front().definition.name];
    text += problem::to_json(workloads.front().definition).dump();
    for (const problem::Problem& one : workloads) text += problem::to_json(one.workload).dump();
  }
  for (const auto& [name, text] : texts) inputs.definitions[name] = base::sha256_hex(text);
  return inputs;
}

std::vector<PlannedTrajectory> plan_of(const ExperimentConfig& config) {
  std::vector<PlannedTrajectory> plan;
  for (unsigned replica = 0; replica < config.replicas; ++replica) {
    for (std::size_t problem = 0; problem < config.problems.size(); ++problem) {
      for (const std::string& pack : config.packs) {
        for (const std::string& model : config.models) {
          plan.push_back({fmt::format("exp_{:03}", plan.size()), model, problem, pack, replica});
        }
      }
    }
  }
  return plan;
}

TrajectorySummary summary_of(const Trajectory& trajectory, std::optional<double> target_speedup) {
  TrajectorySummary out;
  out.started = true;
  out.pending = trajectory.pending.has_value();
  out.exit_status = trajectory.exit_status;
  out.stop_reason = trajectory.stop_reason;
  out.error = trajectory.error;
  out.turns = trajectory.turns.size();
  const auto add = [&](const Turn& turn) {
    ++out.answers;
    out.model_seconds += turn.model_seconds;
    out.judge_seconds += turn.judge_seconds;
    if (const auto tokens = turn.usage.total_tokens()) {
      out.tokens += *tokens;
    } else {
      ++out.answers_without_tokens;
    }
    if (turn.usage.cost) {
      out.cost += *turn.usage.cost;
    } else {
      ++out.answers_without_cost;
    }
  };
  for (const Turn& turn : trajectory.turns) {
    add(turn);
    if (!turn.passed()) continue;
    ++out.correct_turns;
    const auto speedup = turn.speedup();
    if (speedup) out.best_speedup = std::max(out.best_speedup.value_or(*speedup), *speedup);
    if (!target_speedup || (speedup && *speedup >= *target_speedup)) out.target_met = true;
  }
  if (trajectory.pending) add(*trajectory.pending);
  return out;
}

Json plan_json(const ExperimentConfig& config, const std::vector<std::vector<problem::Problem>>& problems) {
  Json plan = Json::array();
  for (const PlannedTrajectory& one : plan_of(config)) {
    Json workloads = Json::array();
    for (const problem::Problem& workload : problems[one.problem]) {
      Json axes = Json::object();
      for (const auto& [name, value] : workload.axes) axes[name] = value;
      workloads.push_back(
          {{"uuid", workload.workload.ad_hoc ? Json(nullptr) : Json(workload.workload.uuid)}, {"axes", axes}});
    }
    plan.push_back({{"exp_name", one.name},
                    {"model", one.model},
                    {"definition", problems[one.problem].front().definition.name},
                    {"workloads", workloads},
                    {"prompt_tag", one.pack},
                    {"replica", one.replica},
                    {"num_turns", config.rules.max_turns},
                    {"target_speedup", optional_number(config.rules.target_speedup)}});
  }
  return {{"schema", kPlanSchema}, {"config", config_json(config)}, {"plan", plan}};
}

Result<RunFolder> RunFolder::lock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder / "trajectories", error);
  if (error) return infrastructure_error("cannot create the folder {}: {}", folder.string(), error.message());
  const fs::path file = folder / ".lock";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return infrastructure_error("cannot open {}: {}", file.string(), std::strerror(errno));
  RunFolder run(folder, fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = "";
    const ssize_t length = ::pread(fd, &holder[0], sizeof holder - 1, 0);
    return input_error("{} is being written by process {}; one run at a time", folder.string(),
                       length > 0 ? base::trim(std::string_view(&holder[0], static_cast<std::size_t>(length)))
                                  : std::string_view("?"));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return infrastructure_error("cannot write {}: {}", file.string(), std::strerror(errno));
  }
  // Of a run that was killed.
  for (const fs::path& written : {folder, folder / "trajectories"}) base::remove_unfinished(written);
  return run;
}

Result<RunFolder> RunFolder::create(const fs::path& folder, const ExperimentConfig& config,
                                    const std::vector<std::vector<problem::Problem>>& problems,
                                    const PlanInputs& inputs, std::string_view experiment_text) {
  auto run = lock(folder);
  if (!run) return run;
  std::error_code error;
  if (fs::exists(folder / "plan.json", error)) {
    return input_error("{} holds an experiment already; go on with it with --resume, or choose another --out",
                       folder.string());
  }
  if (!experiment_text.empty()) {
    if (auto written = base::write_file_atomic(folder / "experiment.toml", experiment_text); !written)
      return tl::unexpected<Error>(written.error());
  }
  Json plan = plan_json(config, problems);
  plan["inputs"] = inputs_json(inputs);
  auto written =
      base::write_file_atomic(folder / "plan.json", plan.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!written) return tl::unexpected<Error>(written.error());
  run->turns_ = config.rules.max_turns;
  return run;
}

Result<RunFolder> RunFolder::reopen(const fs::path& folder, const ExperimentConfig& config,
                                    const std::vector<std::vector<problem::Problem>>& problems,
                                    const PlanInputs& inputs) {
  std::error_code error;
  if (!fs::exists(folder / "plan.json", error)) {
    return input_error("{} holds no experiment to go on with (no plan.json); leave --resume out to begin one",
                       folder.string());
  }
  auto before = read_json(folder / "plan.json");
  if (!before) return tl::unexpected<Error>(before.error());
  if (!before->is_object()) return input_error("{}: no plan", (folder / "plan.json").string());
  // Plans of earlier versions do not say what their names stand for.
  const Json inputs_before = before->contains("inputs") ? (*before)["inputs"] : Json(nullptr);
  before->erase("inputs");
  auto found = difference(plan_json(config, problems), *before, "");
  if (!found && !inputs_before.is_null()) found = difference(inputs_json(inputs), inputs_before, "inputs");
  if (found) {
    return input_error(
        "{} was begun with another plan: {}. Only limits, budgets and models' addresses may change; more turns are "
        "given with --turns",
        folder.string(), *found);
  }
  auto run = lock(folder);
  if (!run) return run;
  run->turns_ = config.rules.max_turns;
  if (fs::exists(folder / "resume_plan.json", error)) {
    const auto resumed = read_json(folder / "resume_plan.json");
    if (!resumed) return tl::unexpected<Error>(resumed.error());
    const auto turns = base::required<unsigned>(*resumed, "num_turns", (folder / "resume_plan.json").string());
    if (!turns) return tl::unexpected<Error>(turns.error());
    run->turns_ = std::max(run->turns_, *turns);
  }
  if (const auto summary = read_json(folder / "summary.json")) {
    const Json* lost = base::optional_member(*summary, "lost");
    const auto number = [&](const char* key) -> const Json* {
      const Json* value = lost != nullptr ? base::optional_member(*lost, key) : nullptr;
      return value != nullptr && value->is_number() && *value >= 0 ? value : nullptr;
    };
    if (const Json* value = number("attempts")) run->lost_.attempts = value->get<std::uint64_t>();
    if (const Json* value = number("tokens")) run->lost_.tokens = value->get<std::uint64_t>();
    if (const Json* value = number("cost")) run->lost_.cost = value->get<double>();
  }
  return run;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)), turns_(other.turns_), lost_(other.lost_) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

fs::path RunFolder::trajectory(const std::string& name) const { return path_ / "trajectories" / (name + ".jsonl"); }

Result<void> RunFolder::note_resume(unsigned turns, bool retry_failed) {
  turns_ = turns;
  const Json note = {{"schema", "ptxbench.resume-plan/1"},
                     {"timestamp", utc_now()},
                     {"num_turns", turns},
                     {"retry_failed", retry_failed}};
  return base::write_file_atomic(path_ / "resume_plan.json", note.dump(1) + "\n");
}

Json summary_json(const Json& plan, const std::vector<TrajectorySummary>& summaries, const models::Lost& lost,
                  double seconds) {
  struct Group {
    std::size_t total = 0, completed = 0, correct = 0, turns = 0, correct_turns = 0, target_met = 0;
    std::optional<double> best;
    void add(const TrajectorySummary& one) {
      ++total;
      completed += one.exit_status.empty() || one.exit_status == "Error" ? 0 : 1;
      correct += one.correct_turns != 0 ? 1 : 0;
      turns += one.turns;
      correct_turns += one.correct_turns;
      target_met += one.target_met ? 1 : 0;
      if (one.best_speedup) best = std::max(best.value_or(*one.best_speedup), *one.best_speedup);
    }
    Json json() const {
      return {{"total", total},
              {"completed", completed},
              {"correct_trajectory", correct},
              {"correct_kernel_versions", correct_turns},
              {"target_met", target_met},
              {"turns", turns},
              {"best_speedup", optional_number(best)}};
    }
  };
  Group all;
  std::map<std::string, Group> by_tag, by_model, by_definition;
  std::size_t failed = 0, answers_without_cost = 0, answers_without_tokens = 0, answers = 0;
  double cost = 0, model_seconds = 0, judge_seconds = 0;
  std::uint64_t tokens = 0;
  Json results = Json::array();
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const TrajectorySummary& one = summaries[i];
    const Json& planned = plan["plan"][i];
    const std::string name = text_of(planned, "exp_name");
    const Json* target = planned.is_object() ? base::optional_member(planned, "target_speedup") : nullptr;
    all.add(one);
    by_tag[text_of(planned, "prompt_tag")].add(one);
    by_model[text_of(planned, "model")].add(one);
    by_definition[text_of(planned, "definition")].add(one);
    failed += one.exit_status == "Error" ? 1 : 0;
    answers += one.answers;
    answers_without_cost += one.answers_without_cost;
    answers_without_tokens += one.answers_without_tokens;
    cost += one.cost;
    tokens += one.tokens;
    model_seconds += one.model_seconds;
    judge_seconds += one.judge_seconds;
    const std::string status = one.exit_status == "Error" ? "failed"
                               : !one.exit_status.empty() ? "completed"
                               : one.started              ? "unfinished"
                                                          : "planned";
    results.push_back({{"exp_index", i},
                       {"exp_name", name},
                       {"model", text_of(planned, "model")},
                       {"prompt_tag", text_of(planned, "prompt_tag")},
                       {"definition", text_of(planned, "definition")},
                       {"num_turns", one.turns},
                       {"target_speedup", target != nullptr ? *target : Json(nullptr)},
                       {"status", status},
                       {"exit_status", one.exit_status.empty() ? Json(nullptr) : Json(one.exit_status)},
                       {"stop_reason", one.stop_reason.empty() ? Json(nullptr) : Json(one.stop_reason)},
                       {"error", one.error.empty() ? Json(nullptr) : Json(one.error)},
                       {"trajectory", one.started ? Json(fmt::format("trajectories/{}.jsonl", name)) : Json(nullptr)},
                       {"correct_kernel_count", one.correct_turns},
                       {"best_speedup", optional_number(one.best_speedup)},
                       {"tokens", one.answers_without_tokens == 0 ? Json(one.tokens) : Json(nullptr)},
                       {"cost", one.answers_without_cost == 0 ? Json(one.cost) : Json(nullptr)}});
  }
  const auto groups = [](const std::map<std::string, Group>& from) {
    Json out = Json::object();
    for (const auto& [name, group] : from) out[name] = group.json();
    return out;
  };
  Json summary = {{"schema", "ptxbench.summary/1"}, {"timestamp", utc_now()}};
  summary.update(all.json());
  summary["failed"] = failed;
  summary["answers"] = answers;
  summary["tokens"] = answers_without_tokens == 0 ? Json(tokens) : Json(nullptr);
  summary["cost"] = answers_without_cost == 0 ? Json(cost) : Json(nullptr);
  summary["known_tokens"] = tokens;
  summary["known_cost"] = cost;
  summary["lost"] = {{"attempts", lost.attempts}, {"tokens", lost.tokens}, {"cost", lost.cost}};
  summary["duration"] = seconds;
  summary["model_seconds"] = model_seconds;
  summary["judge_seconds"] = judge_seconds;
  summary["by_prompt_tag"] = groups(by_tag);
  summary["by_model"] = groups(by_model);
  summary["by_definition"] = groups(by_definition);
  summary["results"] = results;
  return summary;
}

}  // namespace ptxbench::agent

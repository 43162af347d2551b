#include "agent/experiment_config.h"

#include <algorithm>

#include "base/toml.h"
#include "service/evaluate_options.h"

namespace ptxbench::agent {
namespace {

using base::TomlReader;
using base::TomlValue;

constexpr std::int64_t kMostCount = 1'000'000;
constexpr std::int64_t kMostThreads = 1024;
constexpr std::size_t kMostTrajectories = 1'000'000;

unsigned count(TomlReader& reader, std::string_view key, std::int64_t least, std::int64_t most, unsigned otherwise) {
  const auto value = reader.integer(key, least, most);
  return value ? static_cast<unsigned>(*value) : otherwise;
}

void read_problem(TomlReader& top, const TomlValue& value, std::vector<ProblemChoice>& problems) {
  ProblemChoice choice;
  if (const auto* name = value.get_if<std::string>()) {
    choice.definition = *name;
    problems.push_back(std::move(choice));
    return;
  }
  TomlReader reader(value, top.file(), "problems");
  choice.definition = reader.text("definition").value_or("");
  if (choice.definition.empty()) reader.fail("definition", "is missing: a problem's name (ptxbench problems)");
  choice.workloads = reader.texts("workloads").value_or(std::vector<std::string>());
  if (const auto axes = reader.object("axes")) {
    for (const auto& [name, extent] : axes->items()) {
      if (!extent.is_number_unsigned()) reader.fail("axes", "must hold positive integers, as in { M = 128 }");
      choice.axes.push_back(fmt::format("{}={}", name, extent.dump()));
    }
  }
  if (!choice.axes.empty() && !choice.workloads.empty()) {
    reader.fail("axes", "excludes 'workloads': one names extents, the other stored ones");
  }
  if (auto read = reader.finish(); !read) top.keep(read.error());
  problems.push_back(std::move(choice));
}

void read_rules(TomlReader& top, ExperimentConfig& config) {
  LoopRules& rules = config.rules;
  rules.max_turns = count(top, "turns", 1, 10000, rules.max_turns);
  if (const auto text = top.text("context")) {
    const auto policy = parse_context_policy(*text);
    if (policy) {
      rules.context = *policy;
    } else {
      top.fail("context", "is wrong: " + policy.error().message);
    }
  }
  if (const auto text = top.text("feedback")) {
    const auto level = parse_feedback_level(*text);
    if (level) {
      rules.feedback = *level;
    } else {
      top.fail("feedback", "is wrong: " + level.error().message);
    }
  }
  if (const auto tokens = top.integer("feedback_tokens", kFewestFeedbackTokens, 1'000'000)) {
    rules.feedback_tokens = static_cast<std::size_t>(*tokens);
  }
  rules.target_speedup = top.number("target_speedup", 1e-6, 1e6);
  if (rules.target_speedup) rules.stop = StopWhen::target;
  if (const auto text = top.text("stop")) {
    const auto stop = parse_stop_when(*text);
    if (stop) {
      rules.stop = *stop;
    } else {
      top.fail("stop", "is wrong: " + stop.error().message);
    }
    if (rules.stop == StopWhen::target && !rules.target_speedup) {
      top.fail("stop", "is 'target', which needs 'target_speedup'");
    }
  }
  rules.repeated_answers = count(top, "repeated_answers", 0, 1000, 0);
  if (rules.repeated_answers == 1) top.fail("repeated_answers", "is 1; two answers are the fewest that can be equal");
  config.tell_shape = top.flag("tell_shape").value_or(true);
}

void read_limits(TomlReader& top, ExperimentConfig& config) {
  const TomlValue* value = top.find("limits");
  if (value == nullptr) return;
  TomlReader reader(*value, top.file(), "limits");
  config.limits.generation = count(reader, "generation", 1, 100000, config.limits.generation);
  config.limits.compile = count(reader, "compile", 1, kMostThreads, config.limits.compile);
  config.limits.evaluate = count(reader, "evaluate", 1, kMostThreads, config.limits.evaluate);
  config.limits.in_flight = count(reader, "in_flight", 1, 1'000'000, 0);
  if (auto read = reader.finish(); !read) top.keep(read.error());
}

void read_budget(TomlReader& top, ExperimentConfig& config) {
  const TomlValue* value = top.find("budget");
  if (value == nullptr) return;
  TomlReader reader(*value, top.file(), "budget");
  const auto tokens = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto number = reader.integer(key, 1, std::int64_t{1} << 60);
    return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  };
  config.budget.tokens = tokens("tokens");
  config.budget.cost = reader.number("cost", 0, 1e12);
  config.rules.max_tokens = tokens("trajectory_tokens");
  config.rules.max_cost = reader.number("trajectory_cost", 0, 1e12);
  if (auto read = reader.finish(); !read) top.keep(read.error());
}

void read_evaluation(TomlReader& top, ExperimentConfig& config) {
  const TomlValue* value = top.find("evaluation");
  if (value == nullptr) return;
  if (value->get_if<TomlValue::Table>() == nullptr) {
    top.fail("evaluation", fmt::format("is {}; it must be a table", value->kind()));
    return;
  }
  auto json = base::toml_to_json(*value, top.file());
  if (!json) return top.keep(json.error());
  const auto take = [&](const char* key, std::string& out) {
    const auto at = json->find(key);
    if (at == json->end()) return;
    if (!at->is_string()) {
      top.fail_at(value->line, fmt::format("'evaluation.{}' must be a string", key));
    } else {
      out = at->get<std::string>();
    }
    json->erase(at);
  };
  take("service", config.service);
  take("backend", config.backend);
  if (config.backend != "auto" && config.backend != "emulator" && config.backend != "gpu") {
    top.fail_at(value->line, fmt::format("'evaluation.backend' is '{}': auto, emulator or gpu", config.backend));
  }
  if (const auto at = json->find("timelines"); at != json->end()) {
    if (!at->is_boolean()) {
      top.fail_at(value->line, "'evaluation.timelines' must be true or false");
    } else {
      config.timelines = at->get<bool>();
    }
    json->erase(at);
    if (config.timelines && !config.service.empty()) {
      top.fail_at(value->line,
                  "'evaluation.timelines' needs the emulator on this machine: leave out 'service', or this");
    }
  }
  // The rest is what the service's requests have, checked by the same rules.
  if (const auto options = service::parse_evaluate_options(*json, "evaluation"); !options) {
    top.fail_at(value->line, options.error().message);
  }
  config.evaluation = std::move(*json);
}

void check_names(TomlReader& top, const char* key, const std::vector<std::string>& names, const char* what) {
  if (names.empty()) top.fail(key, fmt::format("is missing: at least one {}", what));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) top.fail(key, "has an empty name");
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      top.fail(key, fmt::format("names '{}' twice; 'replicas' repeats trajectories", names[i]));
    }
  }
}

}  // namespace

Result<ExperimentConfig> parse_experiment(std::string_view text, const std::string& file,
                                          const std::filesystem::path& folder) {
  auto toml = base::read_toml(text, file, "an experiment");
  if (!toml) return tl::unexpected<Error>(toml.error());
  TomlReader top(*toml, file, "");
  ExperimentConfig config;
  config.name = top.text("name").value_or("");
  if (config.name.empty() || config.name.find_first_of("/\\\r\n") != std::string::npos) {
    top.fail("name", "is missing or has a slash: the experiment's name is part of its folder's");
  }
  config.models = top.texts("models_used").value_or(std::vector<std::string>());
  if (const auto language = top.text("language")) {
    if (const auto known = candidate::parse_language(*language)) {
      config.language = *known;
    } else {
      top.fail("language", known.error().message);
    }
  }
  config.packs = top.texts("packs").value_or(config.packs);
  config.replicas = count(top, "replicas", 1, kMostCount, 1);
  for (const std::string& path : top.texts("data").value_or(std::vector<std::string>())) {
    config.data.push_back((folder / path).string());
  }
  for (const std::string& path : top.texts("models_files").value_or(std::vector<std::string>())) {
    config.models_files.push_back(folder / path);
  }
  read_rules(top, config);
  if (const TomlValue* problems = top.find("problems")) {
    const auto* list = problems->get_if<TomlValue::Array>();
    if (list == nullptr) {
      top.fail("problems", "must be a list of names, or of tables [[problems]]");
    } else {
      for (const TomlValue& one : list->items) read_problem(top, one, config.problems);
    }
  }
  if (config.problems.empty()) top.fail("problems", "is missing: at least one problem (ptxbench problems)");
  if (const TomlValue* models = top.find("models")) {
    if (auto configs = models::read_model_configs(*models, file, folder); configs) {
      config.model_configs = std::move(*configs);
    } else {
      top.keep(configs.error());
    }
  }
  // Without a list, the models of this file.
  if (config.models.empty()) {
    for (const auto& [name, model] : config.model_configs) config.models.push_back(name);
  }
  read_limits(top, config);
  read_budget(top, config);
  read_evaluation(top, config);
  if (!config.evaluation.contains("hazards")) config.evaluation["hazards"] = kHazardsOfExperiments;
  check_names(top, "models_used", config.models, "model, from [models.NAME] here or from a models file");
  check_names(top, "packs", config.packs, "knowledge pack; \"none\" is one");
  const double all = static_cast<double>(config.models.size()) * static_cast<double>(config.problems.size()) *
                     static_cast<double>(config.packs.size()) * config.replicas;
  if (all > static_cast<double>(kMostTrajectories)) {
    top.fail("replicas", fmt::format("makes {} trajectories; {} are the most", all, kMostTrajectories));
  }
  if (auto read = top.finish(); !read) return tl::unexpected<Error>(read.error());
  return config;
}

Result<std::vector<std::vector<problem::Problem>>> resolve_problems(const ExperimentConfig& config) {
  const auto roots = problem::dataset_roots(config.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  std::vector<std::vector<problem::Problem>> all;
  for (const ProblemChoice& choice : config.problems) {
    auto problems = dataset->choose(choice.definition, choice.axes, choice.workloads);
    if (!problems) return tl::unexpected<Error>(problems.error());
    all.push_back(std::move(*problems));
  }
  return all;
}

}  // namespace ptxbench::agent

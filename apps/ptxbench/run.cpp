// ptxbench run: an experiment of many trajectories. Options in; everything else is in src/agent.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/experiment.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"
#include "knowledge/hub.h"
#include "model_choice.h"
#include "models/make_model.h"
#include "service/client.h"
#include "service/evaluate_options.h"

namespace ptxbench::app {
namespace {

constexpr int kInterruptedExit = 130;
constexpr std::chrono::seconds kLineEvery{30};  ///< where there is no terminal

struct Options {
  std::string experiment, out;
  std::vector<std::string> models_files;
  bool resume = false, retry_failed = false, dry_run = false, json = false;
  unsigned extend_turns = 0, turns = 0;
};

std::atomic<unsigned> interrupts{0};

/// The first one lets what runs end. The second one ends the program where it stands, which the records survive.
extern "C" void on_interrupt(int) {
  if (interrupts.fetch_add(1) >= 1) ::_exit(kInterruptedExit);
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = &on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Result<agent::ExperimentConfig> read_experiment(const Options& options, std::string& text) {
  auto read = base::read_file(options.experiment, std::uint64_t{4} << 20);
  if (!read) return tl::unexpected<Error>(read.error());
  text = std::move(*read);
  return agent::parse_experiment(text, options.experiment, std::filesystem::path(options.experiment).parent_path());
}

/// The configurations of the models that the experiment names.
Result<models::ModelConfigs> choose_models(const Options& options, const agent::ExperimentConfig& config) {
  std::vector<std::string> files = options.models_files;
  for (const auto& path : config.models_files) files.push_back(path.string());
  models::ModelConfigs known = config.model_configs;
  const bool complete = std::all_of(config.models.begin(), config.models.end(),
                                    [&](const std::string& name) { return known.contains(name); });
  if (!complete || !files.empty()) {
    auto more = find_models(files);
    if (!more) return tl::unexpected<Error>(more.error());
    for (auto& [name, model] : *more) {
      if (known.contains(name)) return input_error("the model '{}' is configured twice", name);
      known.emplace(name, std::move(model));
    }
  }
  models::ModelConfigs chosen;
  for (const std::string& name : config.models) {
    const auto found = find_model(known, name);
    if (!found) return tl::unexpected<Error>(found.error());
    chosen.emplace(name, *found);
  }
  return chosen;
}

Result<std::unique_ptr<agent::Judge>> make_judge(const agent::ExperimentConfig& config) {
  if (!config.service.empty()) {
    const char* token = std::getenv("PTXBENCH_SERVICE_TOKEN");
    auto client = service::Client::connect_to(config.service, token == nullptr ? "" : token);
    if (!client) return tl::unexpected<Error>(client.error());
    return std::unique_ptr<agent::Judge>(
        std::make_unique<agent::ServiceJudge>(std::move(*client), config.service, config.backend, config.evaluation));
  }
  auto evaluate = service::parse_evaluate_options(config.evaluation, "evaluation");
  if (!evaluate) return tl::unexpected<Error>(evaluate.error());
  using Backend = evaluation::EvaluateOptions::Backend;
  if (config.backend == "gpu") {
    evaluate->backend = Backend::gpu;
  } else if (config.backend == "auto") {
    evaluate->backend = gpu::has_gpu() ? Backend::both : Backend::emulator;
  }
  auto evaluator = evaluation::Evaluator::create();
  if (!evaluator) return tl::unexpected<Error>(evaluator.error());
  return std::unique_ptr<agent::Judge>(
      std::make_unique<agent::LocalJudge>(std::move(*evaluator), std::move(*evaluate)));
}

std::string default_folder(const std::string& name) {
  std::string stamp = agent::utc_now();
  std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
  return fmt::format("runs/{}-{}", name, stamp);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(seconds);
  if (whole >= 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{} min", whole / 60);
  return fmt::format("{} s", whole);
}

std::string cost_text(const agent::ExperimentProgress& state) {
  return state.cost ? fmt::format("${:.2f}", *state.cost) : std::string("cost unknown");
}

std::string progress_text(const agent::ExperimentProgress& state) {
  std::string text = fmt::format("{}/{} done, {} correct", state.done, state.planned, state.correct);
  if (state.failed != 0) text += fmt::format(", {} failed", state.failed);
  if (state.best_speedup) text += fmt::format(", best {:.3f}x", *state.best_speedup);
  text +=
      fmt::format(", {}; {} turns, asking {}, judging {}", cost_text(state), state.turns, state.asking, state.judging);
  if (state.waiting != 0) text += fmt::format(" (+{})", state.waiting);
  if (state.draining) {
    text += "; finishing what runs (again: stop at once)";
  } else if (state.seconds_left) {
    text += ", about " + duration_text(*state.seconds_left) + " left";
  }
  return text;
}

/// A line on a terminal, or one every half minute elsewhere.
class Progress {
 public:
  void show(const agent::ExperimentProgress& state) {
    line_.update(progress_text(state));
    if (::isatty(STDERR_FILENO) != 0) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - shown_ < kLineEvery) return;
    shown_ = now;
    fmt::print(stderr, "{}\n", progress_text(state));
  }

 private:
  base::ProgressLine line_{"run"};
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();
};

void print_plan(const agent::ExperimentConfig& config, const models::ModelConfigs& models,
                const std::vector<std::vector<problem::Problem>>& problems) {
  const std::size_t count = agent::plan_of(config).size();
  fmt::print("{}: {} trajectories of at most {} turns, at most {} questions\n", config.name, count,
             config.rules.max_turns, count * config.rules.max_turns);
  for (const auto& [name, model] : models) {
    const auto missing = models::what_is_missing(model);
    fmt::print("  model    {}: {} {}{}\n", name, models::to_string(model.provider),
               model.model.empty() ? model.answers.string() : model.model, missing ? "; " + *missing : "");
  }
  for (const auto& workloads : problems) {
    std::string shapes;
    for (const auto& one : workloads) shapes += (shapes.empty() ? "" : "; ") + one.title();
    fmt::print("  problem  {}\n", shapes);
  }
  for (const std::string& pack : config.packs) fmt::print("  pack     {}\n", pack);
  fmt::print("  replicas {}\n", config.replicas);
  fmt::print("  judged   {}, {}\n", config.service.empty() ? "here" : config.service, config.backend);
  fmt::print("  limits   generation {}, compile {}, evaluate {}\n", config.limits.generation, config.limits.compile,
             config.limits.evaluate);
  if (config.budget.cost) fmt::print("  budget   ${:.2f}\n", *config.budget.cost);
  if (config.budget.tokens) fmt::print("  budget   {} tokens\n", *config.budget.tokens);
}

void print_result(const agent::ExperimentResult& result, const std::string& folder) {
  const base::Style style(base::use_color(stdout));
  const agent::ExperimentProgress& state = result.progress;
  fmt::print("{} of {} trajectories done{}; {} with a correct kernel, {} of {} turns correct{}; {}, {}\n", state.done,
             state.planned,
             state.failed != 0 ? ", " + style.red(fmt::format("{} failed", state.failed)) : std::string(),
             state.correct, state.correct_turns, state.turns,
             state.best_speedup ? fmt::format(", best speed-up {:.3f}x", *state.best_speedup) : "",
             state.tokens ? fmt::format("{} tokens", *state.tokens) : std::string("tokens unknown"), cost_text(state));
  for (const char* key : {"by_model", "by_definition", "by_prompt_tag"}) {
    const base::Json& groups = result.summary[key];
    if (groups.size() < 2) continue;
    for (const auto& [name, group] : groups.items()) {
      fmt::print("  {:<32} {:>5} of {:>5} correct, {:>6} turns\n", name, group["correct_trajectory"].get<std::size_t>(),
                 group["total"].get<std::size_t>(), group["turns"].get<std::size_t>());
    }
  }
  for (const std::string& stop : result.stops) {
    fmt::print("{} {}\n", style.yellow("stopped:"), base::printable(stop, base::Lines::kept));
  }
  if (state.failed != 0) {
    for (const auto& one : result.summary["results"]) {
      if (one["status"] != "failed") continue;
      fmt::print("{} {}: {}\n", style.red("failed:"), one["exp_name"].get<std::string>(),
                 base::printable(base::shorten_middle(one["error"].get<std::string>(), 300)));
      break;
    }
  }
  const std::size_t open = state.planned - state.done - state.failed;
  if (open != 0 || state.failed != 0) {
    fmt::print("go on with: ptxbench run ... --out {} {}\n", folder, state.failed != 0 ? "--retry-failed" : "--resume");
  }
  fmt::print("everything is in {}\n", folder);
}

Result<ExitCode> run(const Options& options) {
  std::string text;
  auto config = read_experiment(options, text);
  if (!config) return tl::unexpected<Error>(config.error());
  auto models = choose_models(options, *config);
  if (!models) return tl::unexpected<Error>(models.error());
  agent::ExperimentParts parts;
  parts.pack_text = [language = config->language](std::string_view tag) {
    return knowledge::pack_text(tag, "sm_90a", candidate::to_string(language));
  };
  auto problems = agent::resolve_problems(*config);
  if (!problems) return tl::unexpected<Error>(problems.error());
  for (const std::string& pack : config->packs) {
    if (auto known = parts.pack_text(pack); !known) return tl::unexpected<Error>(known.error());
  }
  if (options.dry_run) {
    print_plan(*config, *models, *problems);
    return ExitCode::passed;
  }
  parts.problems = std::move(*problems);
  for (const auto& [name, model] : *models) {
    auto made = models::make_model(model);
    if (!made) return tl::unexpected<Error>(made.error());
    parts.models.emplace(name, std::move(*made));
  }
  auto judge = make_judge(*config);
  if (!judge) return tl::unexpected<Error>(judge.error());
  parts.judge = std::move(*judge);

  const bool goes_on = options.resume || options.retry_failed || options.extend_turns != 0 || options.turns != 0;
  if (goes_on && options.out.empty()) return input_error("--out is needed: the folder of the experiment to go on with");
  agent::RunOptions how;
  how.folder = options.out.empty() ? default_folder(config->name) : options.out;
  how.resume = options.resume;
  how.retry_failed = options.retry_failed;
  how.extend_turns = options.extend_turns;
  how.turns = options.turns;
  how.experiment_text = text;
  how.interrupts = [] { return interrupts.load(); };
  catch_interrupts();
  Result<agent::ExperimentResult> result;
  {
    Progress progress;
    how.progress = [&](const agent::ExperimentProgress& state) { progress.show(state); };
    result = agent::run_experiment(*config, parts, how);
  }
  if (!result) return tl::unexpected<Error>(result.error());
  if (options.json) {
    fmt::print("{}\n", result->summary.dump(2, ' ', false, base::Json::error_handler_t::replace));
  } else {
    print_result(*result, how.folder.string());
  }
  const agent::ExperimentProgress& state = result->progress;
  return state.done == state.planned ? ExitCode::passed : ExitCode::infrastructure;
}

}  // namespace

void add_run(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "An experiment: models, problems and replicas, many at a time");
  command->add_option("experiment", options->experiment, "File that describes it (docs/agent.md)")->required();
  command->add_option("--out", options->out, "Folder of its records (default: runs/NAME-TIME)");
  command->add_option("--models", options->models_files, "File with configured models (docs/models.md; repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--resume", options->resume, "Go on where an earlier run of the folder stopped");
  command->add_flag("--retry-failed", options->retry_failed,
                    "Go on, also with trajectories that the machine or endpoint failed");
  command->add_option("--extend-turns", options->extend_turns, "Go on, with this many more turns per trajectory")
      ->check(CLI::Range(1, 10000));
  command->add_option("--turns", options->turns, "Go on, with at least this many turns per trajectory in all")
      ->check(CLI::Range(1, 10000));
  command->add_flag("--dry-run", options->dry_run, "Say what would run, and what is missing");
  command->add_flag("--json", options->json, "Write the summary as one object (ptxbench.summary/1)");
  command->footer(
      "Ctrl-C ends it when what runs is finished; a second one at once. Either way, and after any crash, --resume goes "
      "on.\n"
      "Exit code 0: all trajectories ended. 3: some did not (an interrupt, a budget, an endpoint that failed).");
  command->callback([options, &exit_code] {
    const auto ended = run(*options);
    exit_code = !ended ? report_error(ended.error()) : *ended;
  });
}

}  // namespace ptxbench::app

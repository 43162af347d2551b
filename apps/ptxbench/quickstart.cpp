// ptxbench quickstart: one model, one problem, a few turns, a report.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/mini_swe.h"
#include "agent/turn_loop.h"
#include "base/files.h"
#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"
#include "evaluation/evaluation_text.h"
#include "model_choice.h"
#include "models/make_model.h"
#include "problem/dataset.h"

namespace ptxbench::app {
namespace {

struct Options {
  std::string model = "replay", problem = "gemm_n7168_k5120", answers, output;
  std::string base_url = "https://api.openai.com/v1", key_variable = "OPENAI_API_KEY";
  std::vector<std::string> data, axes, models_files;
  std::string language = "cuda";
  unsigned turns = 0;
  bool require_target = true;
};

Result<std::unique_ptr<models::Model>> make_model(const Options& options) {
  models::ModelConfig config;
  if (options.model == "replay") {
    config = models::default_config(models::Provider::replay, "replay");
    config.answers = options.answers;
    if (config.answers.empty()) {
      auto home = base::home_dir();
      if (!home) return tl::unexpected<Error>(home.error());
      config.answers = *home / "examples" / "replay";
      if (options.language != "cuda") config.answers /= options.language;
      config.answers /= options.problem;
    }
  } else if (options.model.starts_with("openai:")) {
    config = models::default_config(models::Provider::openai, options.model);
    config.model = options.model.substr(7);
    config.base_url = options.base_url;
    config.key_variable = options.key_variable;
    while (config.base_url.ends_with('/')) config.base_url.pop_back();
    if (config.model.empty()) return input_error("a model name is needed, as in --model openai:NAME");
    if (!config.base_url.starts_with("http://") && !config.base_url.starts_with("https://")) {
      return input_error("the base URL '{}' must start with http:// or https://", config.base_url);
    }
  } else {
    const auto configs = find_models(options.models_files);
    if (!configs) return tl::unexpected<Error>(configs.error());
    const auto found = find_model(*configs, options.model);
    if (!found) {
      return input_error("--model: {}; or 'replay', or 'openai:NAME'", found.error().message);
    }
    config = *found;
  }
  return models::make_model(config);
}

Result<problem::Problem> find_problem(const Options& options) {
  auto roots = problem::dataset_roots(options.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  auto definition = dataset->find_definition(options.problem);
  if (!definition) return tl::unexpected<Error>(definition.error());
  std::vector<std::string> axes = options.axes;
  if (axes.empty() && options.problem.starts_with("gemm_")) axes = {"M=128"};  // a size that a laptop judges in seconds
  if (axes.empty()) {
    auto workload = dataset->smallest_workload(**definition);
    if (!workload) return tl::unexpected<Error>(workload.error());
    return problem::make_problem(**definition, **workload);
  }
  auto workload = dataset->workload_for_axes(**definition, axes);
  if (!workload) return tl::unexpected<Error>(workload.error());
  return problem::make_problem(**definition, *workload);
}

/// The model's own words about its answer: what stands before the code.
std::string opening(const std::string& answer) {
  const std::size_t fence = answer.find("```");
  return std::string(base::trim(std::string_view(answer).substr(0, fence)));
}

/// Where a turn's candidate is written.
std::string kernel_file(const agent::Trajectory& trajectory, const agent::Turn& turn) {
  const bool triton = agent::language_of(trajectory) == candidate::Language::triton;
  return fmt::format("kernel_v{}{}", turn.number, triton ? ".py" : ".cu");
}

base::Json result_json(const agent::Trajectory& trajectory, const std::filesystem::path& output, double seconds) {
  const auto correct = static_cast<std::size_t>(
      std::count_if(trajectory.turns.begin(), trajectory.turns.end(), [](const agent::Turn& t) { return t.passed(); }));
  const auto generated = static_cast<std::size_t>(std::count_if(
      trajectory.turns.begin(), trajectory.turns.end(), [](const agent::Turn& t) { return t.source.has_value(); }));
  base::Json kernels = base::Json::array();
  for (const auto& turn : trajectory.turns) {
    if (turn.passed()) kernels.push_back(kernel_file(trajectory, turn));
  }
  return {{"schema_version", 1},
          {"created_at", agent::utc_now()},
          {"output_root", output.string()},
          {"duration_seconds", seconds},
          {"runner",
           {{"planned", 1},
            {"completed_processes", 1},
            {"infra_failed", 0},
            {"api_failed", 0},
            {"timeout", 0},
            {"error", 0}}},
          {"outcome",
           {{"generated_candidate_count", generated},
            {"correct_kernel_count", correct},
            {"target_achieved_count", correct != 0 ? 1 : 0}}},
          {"experiments", base::Json::array({{{"exp_name", "exp_000"},
                                              {"definition", trajectory.problem},
                                              {"launcher_status", "completed"},
                                              {"candidate_kernel", kernels.empty() ? base::Json() : kernels.back()},
                                              {"trajectory", "trajectory.jsonl"},
                                              {"correct_kernels", kernels},
                                              {"exit_status", trajectory.exit_status},
                                              {"feedback_excerpt",
                                               trajectory.turns.empty()
                                                   ? std::string()
                                                   : base::shorten_middle(trajectory.turns.back().feedback, 1200)}}})}};
}

Result<bool> run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  auto model = make_model(options);
  if (!model) return tl::unexpected<Error>(model.error());
  auto problem = find_problem(options);
  if (!problem) return tl::unexpected<Error>(problem.error());
  auto evaluator = evaluation::Evaluator::create();
  if (!evaluator) return tl::unexpected<Error>(evaluator.error());
  std::filesystem::path output = options.output;
  if (output.empty()) {
    std::string stamp = agent::utc_now();
    std::erase_if(stamp, [](char c) { return c == ':' || c == '-'; });
    for (int n = 0;; ++n) {
      output =
          std::filesystem::path("runs") / (n == 0 ? "quickstart-" + stamp : fmt::format("quickstart-{}-{}", stamp, n));
      std::error_code error;
      if (!std::filesystem::exists(output, error)) break;
    }
  }
  const base::Style style(base::use_color(stdout));
  fmt::print("{} on {}, judged on an emulated H100 (sm_90a)\n\n", style.bold((*model)->name()),
             style.bold(problem->title()));
  std::fflush(stdout);

  agent::TurnLoopOptions loop;
  const auto answers = static_cast<unsigned>((*model)->answers("").value_or(3));
  loop.rules.max_turns = options.turns != 0 ? std::min(options.turns, std::max(answers, 1U)) : answers;
  if (options.turns != 0 && !(*model)->answers("")) loop.rules.max_turns = options.turns;
  loop.trajectory = output / "trajectory.jsonl";
  loop.timelines = true;
  const auto language = candidate::parse_language(options.language);
  if (!language) return tl::unexpected<Error>(language.error());
  loop.language = *language;
  loop.settings["require_target"] = options.require_target;
  evaluation::EvaluateOptions evaluate;
  evaluate.require_target = options.require_target;
  evaluate.hazards = evaluation::EvaluateOptions::Hazards::always;
  agent::LocalJudge judge(std::move(*evaluator), std::move(evaluate));
  Result<void> saved;
  std::unique_ptr<base::ProgressLine> line;
  loop.progress = [&](unsigned turn, std::string_view state) {
    if (!line) line = std::make_unique<base::ProgressLine>(fmt::format("turn {}", turn));
    line->update(state);
  };
  loop.on_turn = [&](const agent::Turn& turn, const evaluation::Evaluation* evaluation) {
    line.reset();
    fmt::print("{}\n", style.bold(fmt::format("── turn {} ──", turn.number)));
    if (const std::string words = opening(turn.answer); !words.empty()) {
      fmt::print("{}\n", style.dim(base::shorten_middle(words, 400)));
    }
    if (evaluation != nullptr) {
      fmt::print("{}\n", evaluation::to_text(*evaluation, style));
    } else {
      fmt::print("{}\n", turn.feedback);
    }
    std::fflush(stdout);
    if (turn.source && saved) {
      const std::string_view ending = loop.language == candidate::Language::triton ? ".py" : ".cu";
      saved = base::write_file_atomic(output / fmt::format("kernel_v{}{}", turn.number, ending), *turn.source);
      if (saved) saved = base::write_file_atomic(output / fmt::format("feedback_v{}.txt", turn.number), turn.feedback);
    }
  };
  auto trajectory = agent::run_turns(**model, judge, {*problem}, loop);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  if (!saved) return tl::unexpected<Error>(saved.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const base::Json result = result_json(*trajectory, output, seconds);
  if (auto written = base::write_file_atomic(output / "quickstart-result.json", result.dump(2) + "\n"); !written) {
    return tl::unexpected<Error>(written.error());
  }
  if (auto written =
          base::write_file_atomic(output / "trajectory.json", agent::to_mini_swe(*trajectory).dump(2) + "\n");
      !written) {
    return tl::unexpected<Error>(written.error());
  }
  const bool passed = trajectory->exit_status == "Submitted";
  fmt::print("{}  {} turns in {}; everything is in {}\n", passed ? style.green("PASSED") : style.red("NOT PASSED"),
             trajectory->turns.size(), base::format_seconds(seconds), output.string());
  return passed;
}

}  // namespace

void add_quickstart(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("quickstart", "One model, one problem, a few turns: no GPU, no key needed");
  command->add_option("--model", options->model, "replay (recorded answers), openai:NAME, or a configured model's name")
      ->capture_default_str();
  command->add_option("--problem", options->problem, "Definition to solve")->capture_default_str();
  command->add_option("--axis", options->axes, "Size to judge at, as in M=128 (default for GEMMs)");
  command->add_option("--data", options->data, "Folders with further definitions and workloads");
  command->add_option("--turns", options->turns, "At most this many turns (default: all recorded answers, else 3)");
  command->add_option("--answers", options->answers, "Folder of recorded answers for the replay model");
  command->add_option("--base-url", options->base_url, "OpenAI-compatible endpoint")->capture_default_str();
  command
      ->add_option("--key-variable", options->key_variable, "Environment variable with the endpoint's key, '' for none")
      ->capture_default_str();
  command->add_option("--models", options->models_files, "File with configured models (docs/models.md; repeatable)")
      ->allow_extra_args(false);
  command->add_option("--output", options->output, "New folder for the trajectory (default: runs/quickstart-TIME)");
  command->add_option("--language", options->language, "What the model writes: cuda or triton")
      ->check(CLI::IsMember({"cuda", "triton"}))
      ->capture_default_str();
  command->add_flag("!--any-instructions", options->require_target, "Accept kernels that do not use the tensor cores");
  command->callback([options, &exit_code] {
    auto passed = run(*options);
    exit_code = !passed ? report_error(passed.error()) : *passed ? ExitCode::passed : ExitCode::not_passed;
  });
}

}  // namespace ptxbench::app

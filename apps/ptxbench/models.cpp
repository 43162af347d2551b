// ptxbench models: which models are configured, and whether they answer.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"
#include "model_choice.h"
#include "models/make_model.h"

namespace ptxbench::app {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string name;
  bool json = false;
};

ExitCode list(const Options& options) {
  const auto configs = find_models(options.files);
  if (!configs) return report_error(configs.error());
  if (options.json) {
    base::Json all = base::Json::array();
    for (const auto& [name, config] : *configs) {
      const auto missing = models::what_is_missing(config);
      all.push_back({{"name", name},
                     {"provider", models::to_string(config.provider)},
                     {"model", config.model},
                     {"base_url", config.base_url},
                     {"missing", missing ? base::Json(*missing) : base::Json(nullptr)}});
    }
    fmt::print("{}\n", base::Json{{"schema", "ptxbench.models/1"}, {"models", all}}.dump(2));
    return ExitCode::passed;
  }
  if (configs->empty()) {
    fmt::print(
        "No models are configured: write [models.NAME] tables into a file, and give it with --models or in "
        "$PTXBENCH_MODELS (docs/models.md).\n");
    return ExitCode::passed;
  }
  const base::Style style(base::use_color(stdout));
  for (const auto& [name, config] : *configs) {
    const auto missing = models::what_is_missing(config);
    const bool replay = config.provider == models::Provider::replay;
    fmt::print("{:<20} {:<17} {} {}\n", name, models::to_string(config.provider),
               replay ? config.answers.string() : config.model, replay ? "" : style.dim("at " + config.base_url));
    if (missing) fmt::print("{:<20} {}\n", "", style.yellow(*missing));
  }
  return ExitCode::passed;
}

Result<ExitCode> check(const Options& options) {
  const auto configs = find_models(options.files);
  if (!configs) return tl::unexpected<Error>(configs.error());
  auto config = find_model(*configs, options.name);
  if (!config) return tl::unexpected<Error>(config.error());
  // Few attempts: whoever waits wants to know now.
  config->attempts = std::min(config->attempts, 2U);
  config->record.clear();
  auto model = models::make_model(*config);
  if (!model) return tl::unexpected<Error>(model.error());
  const std::vector<models::Message> question = {{models::Role::user, "Answer with the one word: ready"}};
  base::ProgressLine line("check");
  models::CompletionOptions how;
  how.turn = 1;
  const auto completion = (*model)->complete(question, std::move(how));
  if (!completion) return tl::unexpected<Error>(completion.error());
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string("unknown"); };
  fmt::print("{} answers after {}: {}\n", (*model)->name(), base::format_seconds(completion->seconds),
             base::printable(base::shorten_middle(base::trim(completion->text), 200)));
  fmt::print("finish reason {}; tokens: prompt {}, completion {}, of these reasoning {}; cost: {}\n",
             base::printable(completion->finish_reason), number(completion->usage.prompt_tokens),
             number(completion->usage.completion_tokens), number(completion->usage.reasoning_tokens),
             completion->usage.cost ? fmt::format("${:.6f}", *completion->usage.cost) : std::string("unknown"));
  return ExitCode::passed;
}

}  // namespace

void add_models(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("models", "Configured models, and whether they answer");
  command->require_subcommand(1);
  CLI::App* lists = command->add_subcommand("list", "The configured models, and what is missing to ask them");
  lists->add_flag("--json", options->json, "Write one object of schema ptxbench.models/1");
  CLI::App* checks = command->add_subcommand("check", "Send one tiny request, or say what is missing");
  checks->add_option("name", options->name, "The model's name in the configuration")->required();
  for (CLI::App* one : {lists, checks}) {
    one->add_option("--models", options->files, "File with configured models (docs/models.md; repeatable)")
        ->allow_extra_args(false);
  }
  lists->callback([options, &exit_code] { exit_code = list(*options); });
  checks->callback([options, &exit_code] {
    const auto done = check(*options);
    exit_code = !done ? report_error(done.error()) : *done;
  });
}

}  // namespace ptxbench::app

// `ptxbench prompt`: exactly what a model sees first: the system message and the first user message.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "agent/prompt.h"
#include "base/json.h"
#include "base/terminal.h"
#include "commands.h"
#include "knowledge/hub.h"
#include "knowledge/tokens.h"
#include "problem/dataset.h"
#include "selection.h"

namespace ptxbench::app {
namespace {

using base::Json;

struct Options {
  std::string problem, pack, target, workload, folder, language;
  std::vector<std::string> axes, roots;
  bool json = false;
};

/// The chosen workload, else the largest stored one: what a model's kernel is for.
Result<problem::Problem> choose(const Options& options) {
  ProblemChoice choice{options.roots, options.problem, {}, options.axes};
  if (!options.workload.empty()) choice.workloads = {options.workload};
  if (options.workload.empty() && options.axes.empty()) {
    const auto roots = problem::dataset_roots(options.roots);
    if (!roots) return tl::unexpected(roots.error());
    const auto dataset = problem::Dataset::load(*roots);
    if (!dataset) return tl::unexpected(dataset.error());
    const auto definition = dataset->find_definition(options.problem);
    if (!definition) return tl::unexpected(definition.error());
    const auto largest = dataset->largest_workload(**definition);
    if (!largest) return tl::unexpected(largest.error());
    return problem::make_problem(**definition, **largest);
  }
  auto problems = find_problems(choice);
  if (!problems) return tl::unexpected(problems.error());
  return std::move(problems->front());
}

ExitCode prompt(const Options& options) {
  const auto task = choose(options);
  if (!task) return report_error(task.error());
  std::string knowledge, written = options.language.empty() ? "cuda" : options.language,
                         target = options.target.empty() ? "sm_90a" : options.target;
  if (!options.pack.empty()) {
    auto folder = Result<std::filesystem::path>(options.folder);
    if (options.folder.empty()) folder = knowledge::find_folder();
    if (!folder) return report_error(folder.error());
    const auto hub = knowledge::Hub::load(*folder);
    if (!hub) return report_error(hub.error());
    const auto tag = hub->find(options.pack);
    if (!tag) return report_error(tag.error());
    if (!options.target.empty() && options.target != tag->target) {
      return report_error(
          Error{ErrorKind::input, fmt::format("pack {} is for {}, not for {}", options.pack, tag->target, target)});
    }
    if (!options.language.empty() && options.language != tag->language) {
      return report_error(Error{ErrorKind::input, fmt::format("pack {} is for {}, not for {}", options.pack,
                                                              tag->language, options.language)});
    }
    target = tag->target;
    written = tag->language;
    auto text = hub->text(options.pack);
    if (!text) return report_error(text.error());
    knowledge = std::move(*text);
  }
  const auto language = candidate::parse_language(written);
  if (!language) return report_error(language.error());
  const std::string system = agent::system_message(target, knowledge, *language);
  const std::string user = agent::task_message({*task});
  const std::size_t tokens = knowledge::estimate_tokens(system) + knowledge::estimate_tokens(user);
  if (options.json) {
    fmt::print("{}\n",
               Json{{"schema", "ptxbench.prompt/1"},
                    {"problem", task->definition.name},
                    {"target", target},
                    {"language", candidate::to_string(*language)},
                    {"pack", options.pack.empty() ? Json(nullptr) : Json(options.pack)},
                    {"estimated_tokens", tokens},
                    {"messages", {{{"role", "system"}, {"content", system}}, {{"role", "user"}, {"content", user}}}}}
                   .dump(1, ' ', false, Json::error_handler_t::replace));
    return ExitCode::passed;
  }
  const base::Style style(base::use_color(stdout));
  fmt::print("{}\n{}\n{}\n{}", style.bold("--- system ---"), system, style.bold("--- user ---"), user);
  fmt::print(stderr, "about {} tokens (an estimate)\n", tokens);
  return ExitCode::passed;
}

}  // namespace

void add_prompt(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("prompt", "Show what a model sees first: system message and task");
  command->add_option("-p,--problem", options->problem, "Definition the model is to solve")->required();
  command->add_option("--pack", options->pack, "Knowledge pack (ptxbench knowledge list); none if left out");
  command->add_option("--target", options->target, "Architecture, where no pack says it (default sm_90a)");
  command
      ->add_option("--language", options->language,
                   "What the model is to write, where no pack says it: cuda (default) or triton")
      ->check(CLI::IsMember({"cuda", "triton"}));
  command->add_option("--workload", options->workload, "Stored workload");
  command->add_option("--axis", options->axes, "Axis value, as M=256 (repeatable)");
  command->add_option("--data", options->roots, "Folder in FlashInfer-Trace layout (repeatable)");
  command->add_option("--knowledge", options->folder, "Folder of packs (default: the shipped ones)")
      ->envname("PTXBENCH_KNOWLEDGE");
  command->add_flag("--json", options->json, "One JSON object instead of text");
  command->callback([options, &exit_code] { exit_code = prompt(*options); });
}

}  // namespace ptxbench::app

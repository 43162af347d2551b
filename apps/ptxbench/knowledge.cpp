// `ptxbench knowledge`: which packs there are, what one of them says, how long they are, and whether they are sound.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "commands.h"
#include "knowledge/hub.h"
#include "knowledge/lint.h"
#include "knowledge/tokens.h"

namespace ptxbench::app {
namespace {

using base::Json;
using knowledge::Hub;
using knowledge::Tag;

struct Options {
  std::string folder, tag, file, target = "sm_90a";
  bool json = false, no_compile = false;
};

Result<Hub> load(const Options& options) {
  if (!options.folder.empty()) return Hub::load(options.folder);
  const auto folder = knowledge::find_folder();
  if (!folder) return tl::unexpected(folder.error());
  return Hub::load(*folder);
}

ExitCode list(const Options& options) {
  const auto hub = load(options);
  if (!hub) return report_error(hub.error());
  if (options.json) {
    Json tags = Json::array(), aliases = Json::object(), variants = Json::array(), absent = Json::object();
    for (const Tag& tag : hub->tags()) {
      const auto text = hub->text(tag.name);
      if (!text) return report_error(text.error());
      tags.push_back({{"name", tag.name},
                      {"target", tag.target},
                      {"summary", tag.summary},
                      {"fragments", tag.fragments},
                      {"estimated_tokens", knowledge::estimate_tokens(*text)},
                      {"budget", tag.budget}});
    }
    for (const auto& [alias, tag] : hub->aliases()) aliases[alias] = tag;
    for (const Tag& variant : hub->variants()) {
      variants.push_back({{"suffix", variant.name}, {"target", variant.target}, {"summary", variant.summary}});
    }
    for (const auto& [name, reason] : hub->absent()) absent[name] = reason;
    fmt::print("{}\n", Json{{"schema", "ptxbench.knowledge/1"},
                            {"tags", tags},
                            {"aliases", aliases},
                            {"variants", variants},
                            {"absent", absent}}
                           .dump(1));
    return ExitCode::passed;
  }
  for (const Tag& tag : hub->tags()) {
    const auto text = hub->text(tag.name);
    if (!text) return report_error(text.error());
    fmt::print("{:<20} {:<8} ~{:>6} tokens  {}\n", tag.name, tag.target, knowledge::estimate_tokens(*text),
               tag.summary);
  }
  for (const auto& [alias, tag] : hub->aliases()) fmt::print("{:<20} is {}\n", alias, tag);
  for (const Tag& variant : hub->variants()) {
    fmt::print("{:<20} after any tag{}: {}\n", variant.name, variant.target.empty() ? "" : " of " + variant.target,
               variant.summary);
  }
  for (const auto& [name, reason] : hub->absent()) fmt::print("{:<20} no pack: {}\n", name, reason);
  return ExitCode::passed;
}

ExitCode show(const Options& options) {
  const auto hub = load(options);
  if (!hub) return report_error(hub.error());
  const auto text = hub->text(options.tag);
  if (!text) return report_error(text.error());
  fmt::print("{}", *text);
  return ExitCode::passed;
}

ExitCode tokens(const Options& options) {
  if (!options.file.empty()) {
    const auto text = base::read_file(options.file);
    if (!text) return report_error(text.error());
    fmt::print("{} tokens (an estimate)\n", knowledge::estimate_tokens(*text));
    return ExitCode::passed;
  }
  const auto hub = load(options);
  if (!hub) return report_error(hub.error());
  if (options.tag.empty()) return list(options);
  const auto tag = hub->find(options.tag);
  if (!tag) return report_error(tag.error());
  const auto documents = hub->render(*tag);
  if (!documents) return report_error(documents.error());
  std::size_t all = 0;
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const std::size_t count = knowledge::estimate_tokens((*documents)[i].text);
    all += count;
    fmt::print("{:>7}  {}\n", count, tag->fragments[i]);
  }
  fmt::print("{:>7}  {} (an estimate; budget {})\n", all, tag->name, tag->budget);
  return ExitCode::passed;
}

ExitCode check(const Options& options) {
  const auto hub = load(options);
  if (!hub) return report_error(hub.error());
  knowledge::LintOptions lint_options;
  lint_options.tag = options.tag;
  const auto home = base::home_dir();
  if (!home) return report_error(home.error());
  std::error_code ignored;
  if (std::filesystem::is_regular_file(*home / "docs/hazards.md", ignored)) {
    lint_options.hazard_rules = *home / "docs/hazards.md";
  }
  auto faults = knowledge::lint(*hub, lint_options);
  if (!faults) return report_error(faults.error());

  std::size_t compiled = 0;
  if (!options.no_compile) {
    std::string target;
    if (!options.tag.empty()) target = hub->find(options.tag)->target;
    const auto cache = base::cache_dir("knowledge");
    if (!cache) return report_error(cache.error());
    const auto jobs = knowledge::compile_jobs(*hub, target);
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::optional<Error> failed;
    const auto work = [&] {
      for (std::size_t i = next++; i < jobs.size(); i = next++) {
        const auto said = knowledge::compile(*hub, jobs[i], *cache);
        const std::lock_guard lock(mutex);
        if (!said) {
          failed = said.error();
        } else if (!said->empty()) {
          faults->push_back({"compile", fmt::format("{} for {}", jobs[i].file, jobs[i].target), *said});
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < std::min(2u, std::max(1u, std::thread::hardware_concurrency())); ++i)
        threads.emplace_back(work);
    }
    if (failed) return report_error(*failed);
    compiled = jobs.size();
  }
  if (options.json) {
    Json list = Json::array();
    for (const auto& fault : *faults)
      list.push_back({{"rule", fault.rule}, {"place", fault.place}, {"message", fault.message}});
    fmt::print("{}\n", Json{{"schema", "ptxbench.knowledge.check/1"}, {"compiled", compiled}, {"faults", list}}.dump(
                           1, ' ', false, Json::error_handler_t::replace));
  } else {
    const base::Style style(base::use_color(stdout));
    for (const auto& fault : *faults)
      fmt::print("{} {}: {}\n", style.red(fault.rule + ":"), fault.place, fault.message);
    fmt::print("{}: {} faults{}\n", options.tag.empty() ? "all packs" : options.tag, faults->size(),
               options.no_compile ? ", nothing was compiled" : fmt::format(", {} compilations", compiled));
  }
  return faults->empty() ? ExitCode::passed : ExitCode::not_passed;
}

ExitCode flatten(const Options& options) {
  const auto hub = load(options);
  if (!hub) return report_error(hub.error());
  const auto text = knowledge::flatten(hub->folder(), options.file, options.target);
  if (!text) return report_error(text.error());
  fmt::print("{}", *text);
  return ExitCode::passed;
}

}  // namespace

void add_knowledge(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("knowledge", "The knowledge packs that models are given");
  command->require_subcommand(0, 1);
  command->add_option("--folder", options->folder, "Folder of packs (default: the shipped ones)")
      ->envname("PTXBENCH_KNOWLEDGE");
  command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* list_command = command->add_subcommand("list", "All packs, one a line");
  list_command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* show_command = command->add_subcommand("show", "The text of a pack");
  show_command->add_option("tag", options->tag, "The pack's name")->required();
  CLI::App* tokens_command = command->add_subcommand("tokens", "How long packs are, in estimated tokens");
  tokens_command->add_option("tag", options->tag, "Only this one, by document");
  tokens_command->add_option("--file", options->file, "Of this file instead");
  CLI::App* check_command = command->add_subcommand("check", "Say all that is wrong; exit code 1 if anything is");
  check_command->add_option("tag", options->tag, "Only this one");
  check_command->add_flag("--no-compile", options->no_compile, "Leave out what needs nvcc");
  check_command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* flatten_command = command->add_subcommand(
      "flatten", "A header, pattern or program as one file that stands alone, as a candidate must");
  flatten_command->add_option("file", options->file, "Relative to the packs' folder")->required();
  flatten_command->add_option("--target", options->target, "Architecture")->capture_default_str();

  list_command->callback([options, &exit_code] { exit_code = list(*options); });
  show_command->callback([options, &exit_code] { exit_code = show(*options); });
  tokens_command->callback([options, &exit_code] { exit_code = tokens(*options); });
  check_command->callback([options, &exit_code] { exit_code = check(*options); });
  flatten_command->callback([options, &exit_code] { exit_code = flatten(*options); });
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = list(*options);
  });
}

}  // namespace ptxbench::app

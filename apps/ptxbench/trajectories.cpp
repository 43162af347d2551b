// ptxbench trajectories: looking at records, and taking them to and from other formats.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "agent/atif.h"
#include "agent/interchange.h"
#include "agent/mini_swe.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"

namespace ptxbench::app {
namespace {

struct Options {
  std::string from, to, format = "mini-swe";
};

Result<void> show(const Options& options) {
  const auto trajectory = agent::read_trajectory(options.from);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  const base::Style style(base::use_color(stdout));
  fmt::print("{} on {}\n", base::printable(trajectory->model.dump()), base::printable(trajectory->problem));
  for (const agent::Turn& turn : trajectory->turns) {
    const base::Json* verdict =
        turn.evaluation.is_object() ? base::optional_member(turn.evaluation, "verdict") : nullptr;
    std::string summary;
    if (verdict != nullptr && verdict->is_object()) {
      const base::Json* text = base::optional_member(*verdict, "summary");
      if (text != nullptr && text->is_string()) summary = text->get<std::string>();
    }
    if (summary.empty()) {
      const auto lines = base::split_lines(turn.feedback);
      if (!lines.empty()) summary = lines.back();
    }
    const auto tokens = turn.usage.total_tokens();
    fmt::print("turn {:>2}  {:<24} {}{}  {}\n", turn.number,
               turn.passed() ? style.green("passed") : std::string(agent::failure_label(turn)),
               tokens ? fmt::format("{} tokens  ", *tokens) : "",
               turn.speedup() ? fmt::format("{:.3f}x", *turn.speedup()) : "",
               base::printable(base::shorten_middle(summary, 160)));
  }
  if (trajectory->pending) fmt::print("turn {:>2}  answered, not judged yet\n", trajectory->pending->number);
  fmt::print("{}{}\n",
             trajectory->ended() ? base::printable(trajectory->exit_status + " (" + trajectory->stop_reason + ")")
                                 : "not ended",
             trajectory->error.empty() ? "" : ": " + base::printable(trajectory->error));
  return {};
}

Result<void> convert(const Options& options) {
  const auto trajectory = agent::read_trajectory(options.from);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  const base::Json converted =
      options.format == "atif"
          ? agent::to_atif(*trajectory, std::filesystem::path(options.from).stem().string(), PTXBENCH_VERSION)
          : agent::to_mini_swe(*trajectory);
  const std::string text = converted.dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n";
  if (options.to.empty()) {
    fmt::print("{}", text);
    return {};
  }
  return base::write_file_atomic(options.to, text);
}

Result<void> transfer(const Options& options, bool out) {
  const auto report = out ? agent::export_reference_run(options.from, options.to)
                          : agent::import_reference_run(options.from, options.to);
  if (!report) return tl::unexpected<Error>(report.error());
  fmt::print("{} trajectories with {} turns are in {}\n", report->trajectories, report->turns, options.to);
  return {};
}

}  // namespace

void add_trajectories(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("trajectories", "Look at records, and take them to and from other formats");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* text, const char* from, const char* to, bool needs_to, auto work) {
    CLI::App* one = command->add_subcommand(name, text);
    one->add_option("from", options->from, from)->required();
    if (to != nullptr) {
      CLI::Option* option = one->add_option("--to", options->to, to);
      if (needs_to) option->required();
    }
    if (std::string_view(name) == "convert") {
      one->add_option("--format", options->format, "mini-swe (mini-swe-agent 1.1) or atif (ATIF 1.7)")
          ->check(CLI::IsMember({"mini-swe", "atif"}))
          ->capture_default_str();
    }
    one->callback([options, &exit_code, work] {
      const auto done = work(*options);
      if (!done) exit_code = report_error(done.error());
    });
  };
  add("show", "One trajectory, a line per turn", "trajectories/exp_NNN.jsonl", nullptr, false, show);
  add("convert", "One trajectory in another format", "trajectories/exp_NNN.jsonl",
      "File to write (default: standard output)", false, convert);
  add("export", "An experiment in the layout of the public benchmark's runs", "Folder of an experiment", "New folder",
      true, [](const Options& given) { return transfer(given, true); });
  add("import", "A run of the public benchmark as an experiment", "Folder with trajectories/exp_NNN.json", "New folder",
      true, [](const Options& given) { return transfer(given, false); });
}

}  // namespace ptxbench::app

// `ptxbench harbor`: a problem as a task for Harbor.
#include "agent/harbor.h"

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "knowledge/hub.h"
#include "problem/dataset.h"

namespace ptxbench::app {
namespace {

struct Options {
  std::string problem, pack = "none", to;
  std::vector<std::string> workloads, roots;
  agent::HarborOptions task;
};

Result<void> write(Options& options) {
  const auto roots = problem::dataset_roots(options.roots);
  if (!roots) return tl::unexpected<Error>(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  const auto workloads = dataset->choose(options.problem, {}, options.workloads);
  if (!workloads) return tl::unexpected<Error>(workloads.error());
  auto knowledge = knowledge::pack_text(options.pack, "sm_90a");
  if (!knowledge) return tl::unexpected<Error>(knowledge.error());
  options.task.knowledge = std::move(*knowledge);
  return agent::write_harbor_task(options.to, *workloads, options.task);
}

}  // namespace

void add_harbor(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  options->task.service_url = "http://host.docker.internal:8000";
  CLI::App* command = app.add_subcommand("harbor", "Write a problem as a task for Harbor's agents");
  command->add_option("-p,--problem", options->problem, "Definition")->required();
  command->add_option("--workload", options->workloads, "Stored workload, by uuid or its beginning (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--data", options->roots, "Folder with problems (repeatable; default: the shipped ones)")
      ->allow_extra_args(false);
  command->add_option("--pack", options->pack, "Knowledge pack that the agent may read")->capture_default_str();
  command->add_option("--service-url", options->task.service_url, "The service, as the container sees it")
      ->capture_default_str();
  command->add_option("--name", options->task.name, "ORG/NAME (default: from the problem)");
  command->add_option("--target-speedup", options->task.target_speedup, "What target_met means")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--to", options->to, "New folder")->required();
  command->callback([options, &exit_code] {
    if (const auto written = write(*options); !written) {
      exit_code = report_error(written.error());
    } else {
      fmt::print("the task is in {}\n", options->to);
    }
  });
}

}  // namespace ptxbench::app

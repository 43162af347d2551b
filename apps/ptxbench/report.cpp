// ptxbench report: results as tables, files and a page. Options in; everything else is in src/report.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "commands.h"
#include "report/report.h"

namespace ptxbench::app {

void add_report(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<report::ReportOptions>();
  options->version = PTXBENCH_VERSION;
  CLI::App* command = app.add_subcommand("report", "Figures, tables and a page of experiments' results");
  command
      ->add_option("runs", options->runs,
                   "Folders of experiments, of the public benchmark's runs or of its published results; single "
                   "trajectories; folders of such folders")
      ->required();
  command->add_flag("--json", options->json, "Everything as one JSON object on standard output");
  command->add_option("--csv", options->csv, "Folder to write tables to");
  command->add_option("--html", options->html, "File to write one self-contained page to");
  command->add_option("--title", options->title, "Title of the page");
  command
      ->add_option("--group-by", options->group_by,
                   "model, arch, problem, workload, language, pack, run, pool (comma-separated; default: "
                   "model,arch,problem,language, or pool,arch,language with pools)")
      ->delimiter(',');
  command
      ->add_option("--pool", options->pools,
                   "NAME=run1,run2,...: runs taken together; `*` stands for anything (repeatable)")
      ->allow_extra_args(false);
  command
      ->add_option("--where", options->where,
                   "KEY=VALUE[,VALUE...]: only trajectories with one of these values (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--thresholds", options->thresholds, "Values of p for Fast_p (default: 0,0.5,0.8,1)")
      ->delimiter(',');
  command->add_option("--turn-limits", options->turn_limits, "Values of T (default: 1,4,8)")->delimiter(',');
  command
      ->add_option("--compare", options->compare,
                   "A B: pools, runs or models to compare, paired by problem, with significance")
      ->expected(2);
  command->add_option("--page-texts", options->page_texts, "Bytes of kernels and feedback that the page may hold")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_flag("--serve", options->serve, "Serve the page, and follow experiments that are running");
  command->add_option("--host", options->host, "Address to serve on")->capture_default_str();
  command->add_option("--port", options->port, "Port to serve on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->footer("docs/report.md says what every figure means and what it is a share of.");
  command->callback([options, &exit_code] {
    const auto done = report::run_report(*options, base::Style(base::use_color(stdout)), [](std::string_view text) {
      fmt::print("{}", text);
      std::fflush(stdout);
    });
    if (!done) exit_code = report_error(done.error());
  });
}

}  // namespace ptxbench::app

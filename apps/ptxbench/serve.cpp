// ptxbench serve: the evaluation service. Options in; everything else is in src/service.

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "commands.h"
#include "service/service.h"

namespace ptxbench::app {

void add_serve(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<service::ServiceOptions>();
  options->version = PTXBENCH_VERSION;
  CLI::App* command = app.add_subcommand("serve", "Judge candidates that come over HTTP");
  command
      ->add_option("--data", options->data,
                   "Folder in FlashInfer-Trace layout (repeatable; default: the shipped problems)")
      ->allow_extra_args(false);
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "Processes that judge on the emulator (default: one per 4 cores)")
      ->check(CLI::Range(1, 256));
  command->add_option("--devices", options->devices, "GPUs: cuda:0,cuda:1")->delimiter(',');
  command
      ->add_option("--gpu-workers", options->gpu_workers,
                   "Processes for each GPU: while one's kernels run, the others prepare and compare")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--token-file", options->token_file,
                      "File whose first line clients must show as bearer token (default: $PTXBENCH_SERVICE_TOKEN, "
                      "else none)");
  command->add_option("--state-dir", options->state_dir,
                      "Folder of the tasks (default: $XDG_STATE_HOME/ptxbench/service)");
  command->add_option("--max-queue", options->max_queue, "Workloads that may wait for a worker; more are refused")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-body", options->max_body, "Bytes that a request may have")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--timeout", options->timeout, "Seconds after which a worker is taken to hang on a workload")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command->add_option("--keep-days", options->keep_days, "How long finished tasks are kept")
      ->check(CLI::Range(0.0, 36500.0))
      ->capture_default_str();
  command->add_option("--tolerance", options->tolerance, "Rule for results of /evaluate: strict or reference")
      ->check(CLI::IsMember({"strict", "reference"}))
      ->capture_default_str();
  command->add_flag("!--no-screen", options->screen, "Let candidates reach a GPU without a run on the emulator");
  command->add_option("--log-level", options->log_level, "debug, info, warn, error or off")->capture_default_str();
  command->footer(
      "Prints the address, then one JSON object per event on standard error. SIGTERM, SIGINT and POST /shutdown\n"
      "finish what runs; what waits is taken up at the next start. docs/service.md describes the endpoints.");
  command->callback([options, &exit_code] {
    const auto served = service::serve(*options, [&](int port) {
      fmt::print("listening on http://{}:{}\n", options->host, port);
      std::fflush(stdout);
    });
    if (!served) exit_code = report_error(served.error());
  });
}

}  // namespace ptxbench::app

// ptxbench serve: the evaluation service. Options in; everything else is in src/service.

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "agent/environment_routes.h"
#include "commands.h"
#include "knowledge/hub.h"
#include "service/service.h"

namespace ptxbench::app {
namespace {

/// The reinforcement-learning environment beside the service's own endpoints. It judges by asking this very service,
/// whose port is known when it listens.
Result<std::vector<service::ExtraRoute>> environment_of(const service::ServiceOptions& options,
                                                        const std::shared_ptr<std::atomic<int>>& port) {
  const auto roots = problem::dataset_roots(options.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  const auto token = service::service_token(options);
  if (!token) return tl::unexpected<Error>(token.error());
  const auto state_dir = options.state_dir.empty() ? service::default_state_dir() : options.state_dir;
  if (!state_dir) return tl::unexpected<Error>(state_dir.error());
  const bool everywhere = options.host == "0.0.0.0" || options.host == "::";
  const std::string host = everywhere                                    ? "127.0.0.1"
                           : options.host.find(':') != std::string::npos ? "[" + options.host + "]"
                                                                         : options.host;
  const std::string backend = options.devices.empty() ? "emulator" : "auto";
  agent::Environment::Parts parts;
  parts.dataset = std::make_shared<problem::Dataset>(std::move(*dataset));
  parts.pack_text = [](std::string_view tag, candidate::Language language) {
    return knowledge::pack_text(tag, "sm_90a", candidate::to_string(language));
  };
  parts.folder = *state_dir / "episodes";
  parts.judge = [=, token = *token](const base::Json& evaluation) -> Result<std::unique_ptr<agent::Judge>> {
    const std::string url = fmt::format("http://{}:{}", host, port->load());
    auto client = service::Client::connect_to(url, token);
    if (!client) return tl::unexpected<Error>(client.error());
    return std::unique_ptr<agent::Judge>(
        std::make_unique<agent::ServiceJudge>(std::move(*client), url, backend, evaluation));
  };
  return agent::environment_routes(std::make_shared<agent::Environment>(std::move(parts)), options.version);
}

}  // namespace

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
    const auto port = std::make_shared<std::atomic<int>>(0);
    auto environment = environment_of(*options, port);
    if (!environment) {
      exit_code = report_error(environment.error());
      return;
    }
    const auto listening = [&](int bound) {
      *port = bound;
      fmt::print("listening on http://{}:{}\n", options->host, bound);
      std::fflush(stdout);
    };
    const auto served = service::serve(*options, listening, std::move(*environment));
    if (!served) exit_code = report_error(served.error());
  });
}

}  // namespace ptxbench::app

// ptxbench worker: what `ptxbench serve` starts. Requests on standard input, answers on standard output
// (docs/service.md).

#include <unistd.h>

#include "commands.h"
#include "service/worker_loop.h"

namespace ptxbench::app {

void add_worker(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("worker", "Answer the requests of a service on standard input");
  command->group("");  // not for people
  command->callback([&exit_code] {
    // Nothing but answers may come out where answers are read.
    const int out = ::dup(STDOUT_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    service::WorkerLoop loop;
    exit_code = static_cast<ExitCode>(loop.run(STDIN_FILENO, out));
  });
}

}  // namespace ptxbench::app

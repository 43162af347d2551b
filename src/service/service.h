#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "service/extra_route.h"

namespace ptxbench::service {

struct ServiceOptions {
  std::vector<std::string> data;  ///< problem folders; empty: the usual ones
  std::string host = "127.0.0.1";
  int port = 8000;                   ///< 0: any free one
  unsigned workers = 0;              ///< of the emulator; 0: by the machine
  std::vector<std::string> devices;  ///< "cuda:0"
  unsigned gpu_workers = 3;          ///< for each GPU: while one's kernels run, the others prepare and compare
  std::filesystem::path token_file;  ///< its first line is the token; else $PTXBENCH_SERVICE_TOKEN; else none
  std::filesystem::path state_dir;   ///< of the tasks; empty: default_state_dir()
  std::size_t max_queue = 1024;      ///< units that may wait
  std::size_t max_body = std::size_t{16} << 20;
  double timeout = 600;  ///< seconds after which a worker is taken to hang
  double keep_days = 7;  ///< of finished tasks
  std::string tolerance = "strict";
  bool screen = true;
  std::string log_level = "info";
  std::string version;
};

/// $XDG_STATE_HOME/ptxbench/service, else ~/.local/state/ptxbench/service.
Result<std::filesystem::path> default_state_dir();

/// Serves until SIGTERM, SIGINT or a request to shut down; then what runs is finished and what waits is kept. A second
/// signal ends it at once. `on_ready` is told the port. Call it before any other thread is started.
Result<void> serve(const ServiceOptions& options, const std::function<void(int port)>& on_ready,
                   std::vector<ExtraRoute> extra = {});

/// The token that clients must show: of the options' file or the environment; empty: none.
Result<std::string> service_token(const ServiceOptions& options);

}  // namespace ptxbench::service

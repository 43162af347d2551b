#include "service/service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/files.h"
#include "base/text.h"
#include "problem/dataset.h"
#include "service/api.h"
#include "service/dispatcher.h"
#include "service/http_server.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr unsigned kCoresPerWorker = 4;
constexpr unsigned kMostWorkers = 256;
constexpr double kSecondsPerDay = 86400;
constexpr std::chrono::hours kPruneEvery{1};
constexpr std::chrono::milliseconds kStopTick{50}, kStopPatience{5000};  ///< with clients, once nothing runs

/// CPU workers share the cores; those of a GPU take turns with it.
Result<std::vector<WorkerLane>> make_lanes(const ServiceOptions& options) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned workers =
      options.workers != 0 ? options.workers : std::clamp(cores / kCoresPerWorker, 1U, kMostWorkers);
  if (workers > kMostWorkers) return input_error("--workers {}: at most {}", workers, kMostWorkers);
  if (options.gpu_workers == 0 || options.gpu_workers > kMostWorkers)
    return input_error("--gpu-workers {}: between 1 and {}", options.gpu_workers, kMostWorkers);
  std::vector<WorkerLane> lanes;
  for (unsigned i = 0; i < workers; ++i) {
    lanes.push_back({Lane::cpu, "emulator", fmt::format("emulator:{}", i), std::max(1U, cores / workers)});
  }
  for (const std::string& device : options.devices) {
    const bool is_device = device.starts_with("cuda:") && base::parse_u64(device.substr(5)).has_value();
    if (!is_device) return input_error("--devices {}: a list such as cuda:0,cuda:1", device);
    const bool twice = std::any_of(lanes.begin(), lanes.end(), [&](const auto& lane) { return lane.device == device; });
    if (twice) return input_error("--devices: {} is there twice", device);
    lanes.insert(lanes.end(), options.gpu_workers, {Lane::gpu, "gpu", device, 0});
  }
  return lanes;
}

/// Waits for the signals that end the service.
class Signals {
 public:
  /// Blocks them for this thread and all that it will start.
  Signals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGTERM);
    ::sigaddset(&set_, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }
  /// False when `patience` is over.
  bool wait(std::chrono::milliseconds patience) const {
    timespec time{};
    time.tv_sec = patience.count() / 1000;
    time.tv_nsec = patience.count() % 1000 * 1'000'000;
    return ::sigtimedwait(&set_, nullptr, &time) > 0;
  }

 private:
  sigset_t set_{};
};

}  // namespace

Result<std::filesystem::path> default_state_dir() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::filesystem::path(state) / "ptxbench" / "service";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::filesystem::path(home) / ".local" / "state" / "ptxbench" / "service";
  }
  return input_error("HOME is not set: say with --state-dir where tasks are to be kept");
}

Result<std::string> service_token(const ServiceOptions& options) {
  std::string token;
  if (!options.token_file.empty()) {
    const auto text = base::read_file(options.token_file, 1 << 16);
    if (!text) return tl::unexpected<Error>(text.error());
    const auto lines = base::split_lines(*text);
    if (!lines.empty()) token = base::trim(lines.front());
    if (token.empty())
      return input_error("{}: the first line, which is to be the token, is empty", options.token_file.string());
  } else if (const char* value = std::getenv("PTXBENCH_SERVICE_TOKEN"); value != nullptr) {
    token = base::trim(value);
  }
  return token;
}

Result<void> serve(const ServiceOptions& options, const std::function<void(int port)>& on_ready,
                   std::vector<ExtraRoute> extra) {
  const Signals signals;
  auto log = EventLog::create(options.log_level);
  if (!log) return tl::unexpected<Error>(log.error());
  const auto token = service_token(options);
  if (!token) return tl::unexpected<Error>(token.error());
  const auto lanes = make_lanes(options);
  if (!lanes) return tl::unexpected<Error>(lanes.error());
  const auto roots = problem::dataset_roots(options.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  const auto worker = WorkerCommand::find();
  if (!worker) return tl::unexpected<Error>(worker.error());
  const auto state_dir = options.state_dir.empty() ? default_state_dir() : options.state_dir;
  if (!state_dir) return tl::unexpected<Error>(state_dir.error());
  auto store = TaskStore::open(*state_dir);
  if (!store) return tl::unexpected<Error>(store.error());
  const auto prune = [&] {
    const auto pruned = (*store)->prune(unix_time() - options.keep_days * kSecondsPerDay);
    if (!pruned) (*log)->error("store.failed", Json{{"error", pruned.error().message}});
  };
  prune();

  Metrics metrics;
  CostModel costs;
  DispatcherOptions how;
  how.worker = *worker;
  for (const auto& root : *roots) how.data.push_back(std::filesystem::absolute(root).string());
  how.lanes = *lanes;
  how.unit_limit = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
  how.max_queue = options.max_queue;
  Dispatcher dispatcher(**store, costs, metrics, **log, std::move(how));
  TaskFactory factory(*dataset, costs, {!options.devices.empty(), options.screen, options.tolerance});
  Api::Options api_options;
  api_options.version = options.version;
  // Once: a second signal would end what runs.
  api_options.shutdown = [asked = std::make_shared<std::atomic<bool>>(false)] {
    if (!asked->exchange(true)) ::kill(::getpid(), SIGTERM);
  };
  Api api(*dataset, std::move(factory), dispatcher, metrics, std::move(api_options));
  auto http =
      HttpServer::bind({options.host, options.port, *token, options.max_body}, api, metrics, **log, std::move(extra));
  if (!http) return tl::unexpected<Error>(http.error());
  // Only now, as it takes up what an earlier run has left.
  if (auto started = dispatcher.start(); !started) return started;
  (*http)->run();
  (*log)->info("service.started", Json{{"host", options.host},
                                       {"port", (*http)->port()},
                                       {"workers", lanes->size()},
                                       {"definitions", dataset->definitions().size()},
                                       {"state", state_dir->string()},
                                       {"token", !token->empty()}});
  const bool is_local = options.host == "localhost" || options.host == "::1" || options.host.starts_with("127.");
  if (!is_local && token->empty()) {
    (*log)->warn("service.open", Json{{"reason", "everybody who reaches the address can use it; set a token"}});
  }
  on_ready((*http)->port());

  while (!signals.wait(kPruneEvery)) prune();
  (*log)->info("service.draining");
  std::atomic<bool> drained = false, stopped = false;
  std::jthread drain([&] {
    dispatcher.drain();
    drained = true;
    http->reset();
    stopped = true;
  });
  auto patience = kStopPatience;
  while (!stopped && patience.count() > 0) {
    if (signals.wait(kStopTick)) {
      (*log)->warn("service.killed", Json{{"reason", "a second signal"}});
      ::_exit(3);  // what ran is on the disk as running, and is started again next time
    }
    if (drained) patience -= kStopTick;
  }
  if (!stopped) {
    (*log)->warn("service.killed", Json{{"reason", "a client does not finish its request"}});
    ::_exit(0);
  }
  drain.join();
  (*log)->info("service.stopped", Json{{"pending", dispatcher.pending_tasks()}});
  return {};
}

}  // namespace ptxbench::service

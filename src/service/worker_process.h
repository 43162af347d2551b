#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ptxbench::service {

/// The program that does the work of one lane, and what it is given. It reads requests on its input and answers on its
/// output, a line of JSON each (docs/service.md).
struct WorkerCommand {
  std::vector<std::string> argv;
  std::map<std::string, std::optional<std::string>> environment;

  /// This program's hidden subcommand `worker`, or what $PTXBENCH_WORKER names.
  static Result<WorkerCommand> find();
};

/// One worker, for one caller at a time. It dies with this object, and with this process.
class WorkerProcess {
 public:
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerCommand& command);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  struct Limits {
    std::chrono::milliseconds total{600'000};      ///< a worker that takes longer hangs
    std::optional<std::chrono::milliseconds> run;  ///< from the first sign that the candidate executes
  };
  enum class Outcome : std::uint8_t { answered, died, hung, out_of_time, cancelled };
  struct Answer {
    Outcome outcome = Outcome::died;
    base::Json json;     ///< when answered
    std::string detail;  ///< when died or hung, for people
  };
  /// Sends the request with an id of its own and waits for the answer. After any other outcome than `answered` the
  /// worker is gone.
  Answer call(base::Json request, const Limits& limits, const std::stop_token& cancel = {});

  bool is_alive() const { return !ended_; }
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess() = default;
  void run(const WorkerCommand& command, int theirs, const std::stop_token& stop);
  void kill();
  std::string epitaph();

  int socket_ = -1;
  std::atomic<bool> ended_ = false;
  pid_t pid_ = 0;
  std::uint64_t last_id_ = 0;
  std::string received_;  ///< the beginning of the next line
  std::mutex mutex_;
  std::string end_;  ///< how it ended
  std::jthread runner_;
};

}  // namespace ptxbench::service

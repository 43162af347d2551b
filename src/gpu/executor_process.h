#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/process.h"
#include "gpu/channel.h"

namespace ptxbench::gpu {

struct ExecutorOptions {
  int device = 0;  ///< ordinal
  /// The description (baseline.h) of the baseline that will probably be asked for: planned before anybody waits. Null:
  /// none.
  base::Json baseline;
  /// A tool that the executor runs under, and its arguments.
  std::vector<std::string> tool;
};

/// An executor (executor.h) as seen from the process that judges: started ahead, used for one candidate, ended.
class ExecutorProcess {
 public:
  /// Returns at once; the executor opens its context meanwhile. Errors: no executor program in this build.
  static Result<std::unique_ptr<ExecutorProcess>> start(const ExecutorOptions& options);
  ~ExecutorProcess();
  ExecutorProcess(const ExecutorProcess&) = delete;
  ExecutorProcess& operator=(const ExecutorProcess&) = delete;

  /// Waits until it is ready. Errors say why it is not: no driver, no such GPU, no memory.
  Result<void> await_ready(std::chrono::milliseconds time = std::chrono::seconds(60));
  /// Waits until it has ended by itself, after the channel has been closed; kills it when it does not. For tools that
  /// write what they found at the end.
  void finish(std::chrono::milliseconds time);
  /// For the candidate's process. After await_ready().
  const std::filesystem::path& socket() const { return socket_; }
  /// Name, driver, clocks and sizes, as the executor tells them. After await_ready().
  const base::Json& device() const { return device_; }

  /// A request and its answer. An executor that gives none in time, or has ended, is an infrastructure error, and of no
  /// further use; one that says a request is wrong, an error of the kind it says.
  Result<base::Json> request(const base::Json& request, std::chrono::milliseconds time,
                             const std::vector<int>& descriptors = {});
  /// Ends it now, whatever the GPU does.
  void kill();

 private:
  ExecutorProcess() = default;
  /// After its end of the channel is gone: how it ended, and what it said last.
  std::string epitaph();

  Channel channel_;
  std::stop_source stop_;
  std::thread watcher_;
  /// What became of the process, once `ended`.
  struct End {
    std::atomic<bool> ended = false;
    base::ProcessResult result;
  };
  std::shared_ptr<End> end_ = std::make_shared<End>();
  std::filesystem::path socket_;
  base::Json device_;
  bool ready_ = false;
  bool plans_ = false;  ///< an answer to the first request, which nobody waits for by itself, will come
  int ordinal_ = 0;
};

/// The program; an error names what to build.
Result<std::filesystem::path> find_executor();
/// Whether this machine has a GPU and this build an executor for it.
bool has_gpu();

}  // namespace ptxbench::gpu

#include "gpu/executor_process.h"

#include <cstdlib>

#include "base/files.h"

namespace ptxbench::gpu {

namespace fs = std::filesystem;

Result<fs::path> find_executor() {
  std::vector<fs::path> places;
  if (const char* own = std::getenv("PTXBENCH_EXECUTOR"); own != nullptr && *own != '\0') places.emplace_back(own);
  if (const auto program = base::executable_path()) places.push_back(program->parent_path() / "ptxbench-executor");
  places.push_back(fs::path(PTXBENCH_BUILD_DIR) / "ptxbench-executor");
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place;
  }
  return infrastructure_error(
      "ptxbench-executor, which owns the GPU, is not beside the program: building it takes CUDA 13.0's compiler and "
      "headers; use --backend emulator");
}

bool has_gpu() {
  std::error_code error;
  return fs::exists("/dev/nvidiactl", error) && find_executor().has_value();
}

Result<std::unique_ptr<ExecutorProcess>> ExecutorProcess::start(const ExecutorOptions& wanted) {
  const auto program = find_executor();
  if (!program) return tl::unexpected<Error>(program.error());
  auto ends = Channel::make();
  if (!ends) return tl::unexpected<Error>(ends.error());
  std::unique_ptr<ExecutorProcess> out(new ExecutorProcess);
  out->ordinal_ = wanted.device;
  out->channel_ = std::move(ends->first);
  base::ProcessOptions options;
  options.argv = wanted.tool;
  for (std::string word : {program->string(), std::to_string(wanted.device), std::to_string(ends->second.fd())})
    options.argv.push_back(std::move(word));
  options.inherited_fds = {ends->second.fd()};
  options.cancel = out->stop_.get_token();
  options.max_stdout_bytes = options.max_stderr_bytes = std::size_t{1} << 20;
  // Lies in the channel until the executor is ready for it.
  if (!wanted.baseline.is_null()) {
    if (auto sent = out->channel_.send({{"op", "plan"}, {"baseline", wanted.baseline}}); !sent)
      return tl::unexpected<Error>(sent.error());
    out->plans_ = true;
  }
  // The thread stays as long as the process: that one ends with the thread that started it.
  out->watcher_ = std::thread(
      [options = std::move(options), end = out->end_, far = std::make_shared<Channel>(std::move(ends->second))] {
        base::ProcessOptions mine = options;
        mine.on_started = [&](pid_t) { far->close(); };
        auto ran = base::run_process(mine);
        if (ran) {
          end->result = std::move(*ran);
        } else {
          end->result.stderr_text = ran.error().message;
        }
        end->ended = true;
        far->close();
      });
  return out;
}

ExecutorProcess::~ExecutorProcess() {
  kill();
  if (watcher_.joinable()) watcher_.join();
  // It is killed, and cannot clear up behind itself.
  std::error_code ignored;
  if (!socket_.empty() && socket_.parent_path().filename().string().starts_with("ptxbench-device"))
    fs::remove_all(socket_.parent_path(), ignored);
}

void ExecutorProcess::kill() { stop_.request_stop(); }

void ExecutorProcess::finish(std::chrono::milliseconds time) {
  channel_.close();
  for (const auto until = std::chrono::steady_clock::now() + time;
       !end_->ended && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill();
  if (watcher_.joinable()) watcher_.join();
}

std::string ExecutorProcess::epitaph() {
  // Whoever closes the channel is about to end by itself; how, is lost once we end it.
  for (int i = 0; i < 200 && !end_->ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill();
  if (watcher_.joinable()) watcher_.join();
  // A tool around it may complain on its standard output.
  std::string words = end_->result.stderr_text.empty() ? end_->result.stdout_text : end_->result.stderr_text;
  if (words.size() > 500) words.resize(500);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return end_->result.outcome() + (words.empty() ? "" : ": " + words);
}

Result<void> ExecutorProcess::await_ready(std::chrono::milliseconds time) {
  if (ready_) return {};
  auto message = channel_.receive(time);
  if (message && !*message) {
    kill();
    return infrastructure_error("GPU {} did not answer within {} s", ordinal_, time.count() / 1000);
  }
  if (!message) {
    return infrastructure_error("the executor of GPU {} ended while it started: it {}", ordinal_, epitaph());
  }
  const base::Json& json = (*message)->json;
  if (!json.value("ready", false)) return infrastructure_error("{}", json.value("error", "the executor did not start"));
  socket_ = json.value("socket", "");
  device_ = json.value("device", base::Json::object());
  ready_ = true;
  return {};
}

Result<base::Json> ExecutorProcess::request(const base::Json& request, std::chrono::milliseconds time,
                                            const std::vector<int>& descriptors) {
  if (auto ready = await_ready(); !ready) return tl::unexpected<Error>(ready.error());
  if (plans_) {
    // Whether the plan succeeded is said when the baseline is asked for.
    const auto planned = channel_.receive(std::chrono::seconds(60));
    if (!planned) return infrastructure_error("the executor of GPU {} {}", ordinal_, epitaph());
    if (!*planned) {
      kill();
      return infrastructure_error("the executor of GPU {} did not plan the baseline within 60 s", ordinal_);
    }
    plans_ = false;
  }
  if (auto sent = channel_.send(request, descriptors); !sent) return tl::unexpected<Error>(sent.error());
  auto message = channel_.receive(time);
  if (!message) {
    return infrastructure_error("the executor of GPU {} {}", ordinal_, epitaph());
  }
  if (!*message) {
    kill();
    return infrastructure_error("the executor of GPU {} gave no answer within {:.1f} s", ordinal_,
                                std::chrono::duration<double>(time).count());
  }
  base::Json& json = (*message)->json;
  if (!json.value("ok", false)) {
    Error error{json.value("input", false) ? ErrorKind::input : ErrorKind::infrastructure, json.value("error", "")};
    return tl::unexpected<Error>(std::move(error));
  }
  return std::move(json);
}

}  // namespace ptxbench::gpu

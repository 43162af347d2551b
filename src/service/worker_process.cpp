#include "service/worker_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

namespace ptxbench::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxAnswerBytes = std::size_t{256} << 20;
constexpr std::size_t kKeptErrorBytes = std::size_t{1} << 20;
constexpr std::size_t kShownErrorBytes = 2000;

/// An event that a stop token triggers, to be polled.
class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : callback_(stop, [this] {
          const std::uint64_t one = 1;
          [[maybe_unused]] const ssize_t ignored = ::write(event_.fd, &one, sizeof one);
        }) {}
  int fd() const { return event_.fd; }

 private:
  struct Event {
    Event() : fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~Event() { ::close(fd); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    int fd;
  };
  Event event_;  // closed after the callback is gone
  std::stop_callback<std::function<void()>> callback_;
};

}  // namespace

Result<WorkerCommand> WorkerCommand::find() {
  WorkerCommand command;
  command.environment["PTXBENCH_SERVICE_TOKEN"] = std::nullopt;  // candidates run below it
  if (const char* own = std::getenv("PTXBENCH_WORKER"); own != nullptr && *own != '\0') {
    command.argv = {own};
    return command;
  }
  const auto program = base::executable_path();
  if (!program) return tl::unexpected<Error>(program.error());
  command.argv = {program->string(), "worker"};
  return command;
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerCommand& command) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return infrastructure_error("cannot create a socket for a worker: {}", std::strerror(errno));
  }
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess());
  worker->socket_ = ends[0];
  std::promise<Result<pid_t>> started;
  auto outcome = started.get_future();
  base::ProcessOptions options;
  options.argv = command.argv;
  options.environment = command.environment;
  options.max_stderr_bytes = kKeptErrorBytes;
  options.before_exec = [theirs = ends[1]] { return ::dup2(theirs, 0) < 0 || ::dup2(theirs, 1) < 0 ? errno : 0; };
  WorkerProcess& self = *worker;
  worker->runner_ = std::jthread([&self, options = std::move(options), theirs = ends[1],
                                  started = std::move(started)](const std::stop_token& stop) mutable {
    bool is_started = false;
    options.cancel = stop;
    options.on_started = [&](pid_t pid) {
      ::close(theirs);
      is_started = true;
      started.set_value(pid);
    };
    const auto result = base::run_process(options);
    if (!is_started) {
      ::close(theirs);
      started.set_value(tl::unexpected<Error>(result ? Error{ErrorKind::infrastructure, "the worker did not start"}
                                                     : result.error()));
    }
    {
      const std::lock_guard lock(self.mutex_);
      self.end_ = result ? result->outcome() : result.error().message;
      if (result && !result->stderr_text.empty()) {
        const std::string& text = result->stderr_text;
        self.end_ += ": " + text.substr(text.size() - std::min(text.size(), kShownErrorBytes));
      }
    }
    self.ended_ = true;
  });
  auto pid = outcome.get();
  if (!pid) return tl::unexpected<Error>(pid.error());
  worker->pid_ = *pid;
  return worker;
}

WorkerProcess::~WorkerProcess() {
  kill();
  ::close(socket_);
}

void WorkerProcess::kill() {
  if (!runner_.joinable()) return;
  runner_.request_stop();
  runner_.join();
}

std::string WorkerProcess::epitaph() {
  // Its socket closes a moment before it has ended by itself, and how it ended is worth the moment.
  for (int i = 0; i < 200 && !ended_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill();
  const std::lock_guard lock(mutex_);
  return end_;
}

WorkerProcess::Answer WorkerProcess::call(base::Json request, const Limits& limits, const std::stop_token& cancel) {
  const std::uint64_t id = ++last_id_;
  request["id"] = id;
  const std::string line = request.dump(-1, ' ', false, base::Json::error_handler_t::replace) + "\n";
  std::string_view unsent = line;
  StopEvent stop(cancel);
  auto deadline = Clock::now() + limits.total;
  // The run's own clock stands still while the evaluation waits for something that others hold.
  bool runs = false;
  Clock::duration run_left = limits.run ? Clock::duration(*limits.run) : Clock::duration::max();
  Clock::time_point run_since{};
  std::array<char, 1 << 16> buffer;

  while (true) {
    const auto now = Clock::now();
    const auto of_run = limits.run && runs ? run_left - (now - run_since) : Clock::duration::max();
    const bool run_decides = of_run < deadline - now;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(std::min(deadline - now, of_run));
    if (cancel.stop_requested()) {
      kill();
      return {Outcome::cancelled, {}, {}};
    }
    if (left.count() <= 0) {
      kill();
      if (run_decides) return {Outcome::out_of_time, {}, {}};
      return {Outcome::hung,
              {},
              fmt::format("did not answer within {}",
                          base::format_seconds(static_cast<double>(limits.total.count()) / 1000))};
    }
    const auto events = static_cast<short>(unsent.empty() ? POLLIN : POLLIN | POLLOUT);
    std::array<pollfd, 2> polled = {{{socket_, events, 0}, {stop.fd(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min<std::int64_t>(left.count() + 1, 60'000)));
    if (!unsent.empty() && (polled[0].revents & POLLOUT) != 0) {
      const ssize_t count = ::send(socket_, unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) unsent.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN && errno != EINTR) return {Outcome::died, {}, epitaph()};
    }
    if ((polled[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const ssize_t count = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return {Outcome::died, {}, epitaph()};
    received_.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = received_.find('\n'); end != std::string::npos; end = received_.find('\n')) {
      auto json = base::parse_json(std::string_view(received_).substr(0, end), "answer of a worker");
      received_.erase(0, end + 1);
      if (!json || !json->is_object() || !json->contains("id")) {
        kill();
        return {Outcome::died, {}, "wrote something that is no answer"};
      }
      if (json->at("id") != id) continue;  // of a request that was given up
      if (json->contains("progress")) {
        const bool running = json->value("running", false);
        if (limits.run && running && !runs) run_since = Clock::now();
        if (limits.run && !running && runs) run_left -= Clock::now() - run_since;
        runs = running;
        continue;
      }
      return {Outcome::answered, std::move(*json), {}};
    }
    if (received_.size() > kMaxAnswerBytes) {
      kill();
      return {Outcome::died, {}, fmt::format("wrote more than {} in one answer", base::format_bytes(kMaxAnswerBytes))};
    }
  }
}

}  // namespace ptxbench::service

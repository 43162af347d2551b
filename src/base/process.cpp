#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/cpu_meter.h"
#include "base/text.h"

extern char** environ;

namespace ptxbench::base {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kDrainTime{250};

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return infrastructure_error("cannot create a pipe: {}", std::strerror(errno));
  }
  // A pipe end at 0..2 would be overwritten by the child's own dup2 calls.
  for (int& end : ends) {
    if (end > 2) continue;
    const int moved = ::fcntl(end, F_DUPFD_CLOEXEC, 3);
    ::close(end);
    end = moved;
  }
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  if (!pipe.read.is_open() || !pipe.write.is_open()) {
    return infrastructure_error("cannot create a pipe: {}", std::strerror(errno));
  }
  return pipe;
}

void set_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

std::vector<std::string> build_environment(const ProcessOptions& options) {
  std::vector<std::string> result;
  if (!options.clear_environment) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      if (!options.environment.contains(std::string(text.substr(0, text.find('='))))) result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : options.environment) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

struct Limit {
  int resource;
  rlimit value;
};

std::vector<Limit> collect_limits(const ProcessLimits& limits) {
  std::vector<Limit> result;
  const auto add = [&](int resource, const std::optional<std::uint64_t>& value, std::uint64_t hard_extra = 0) {
    if (value) result.push_back({resource, {static_cast<rlim_t>(*value), static_cast<rlim_t>(*value + hard_extra)}});
  };
  add(RLIMIT_CPU, limits.cpu_seconds, 1);
  add(RLIMIT_AS, limits.address_space_bytes);
  add(RLIMIT_FSIZE, limits.file_size_bytes);
  add(RLIMIT_NPROC, limits.processes);
  add(RLIMIT_NOFILE, limits.open_files);
  result.push_back({RLIMIT_CORE, {0, 0}});
  return result;
}

/// Everything the child needs, prepared before fork: after it no allocation or lock is allowed.
struct ChildPlan {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  const char* working_directory = nullptr;
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int error_fd = -1;
  const std::vector<Limit>* limits = nullptr;
  const std::vector<int>* inherited_fds = nullptr;
  const std::function<int()>* before_exec = nullptr;
  pid_t parent = 0;
};

enum class Step : int { directory, streams, limits, sandbox, exec };

struct StartFailure {
  Step step;
  int code;
};

[[noreturn]] void child_fail(const ChildPlan& plan, Step step, int code) {
  const StartFailure failure{step, code};
  [[maybe_unused]] const ssize_t ignored = ::write(plan.error_fd, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the parent died before prctl took effect
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGTTIN, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  const auto redirect = [&](int from, int to) {
    if (from >= 0 && ::dup2(from, to) < 0) child_fail(plan, Step::streams, errno);
  };
  redirect(plan.stdin_fd, 0);
  redirect(plan.stdout_fd, 1);
  redirect(plan.stderr_fd, 2);
  ::syscall(SYS_close_range, 3U, ~0U, 1U << 2 /* CLOSE_RANGE_CLOEXEC */);
  for (const int fd : *plan.inherited_fds) {
    if (::fcntl(fd, F_SETFD, 0) != 0) child_fail(plan, Step::streams, errno);
  }
  if (plan.working_directory != nullptr && ::chdir(plan.working_directory) != 0) {
    child_fail(plan, Step::directory, errno);
  }
  for (const Limit& limit : *plan.limits) {
    if (::setrlimit(static_cast<__rlimit_resource>(limit.resource), &limit.value) != 0) {
      child_fail(plan, Step::limits, errno);
    }
  }
  if (*plan.before_exec) {
    const int code = (*plan.before_exec)();
    if (code != 0) child_fail(plan, Step::sandbox, code);
  }
  ::execve(plan.program, plan.argv, plan.envp);
  child_fail(plan, Step::exec, errno);
}

/// Reads what is there, closes the pipe at its end. Bounded, or a child that never stops writing would keep us from
/// looking at the clock.
void drain(Fd& pipe, std::string& text, std::size_t limit, bool& truncated) {
  std::array<char, 1 << 16> buffer;
  for (int round = 0; round < 16 && pipe.is_open(); ++round) {
    const ssize_t count = ::read(pipe.get(), buffer.data(), buffer.size());
    if (count > 0) {
      const std::size_t room = limit - std::min(limit, text.size());
      const std::size_t kept = std::min(room, static_cast<std::size_t>(count));
      text.append(buffer.data(), kept);
      truncated = truncated || kept < static_cast<std::size_t>(count);
    } else if (count == 0) {
      pipe.reset();
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      pipe.reset();
    }
  }
}

/// A write to a child that has closed its input raises SIGPIPE, which must not reach the process: it is blocked in
/// this thread and, if the write caused it, consumed.
ssize_t write_without_sigpipe(int fd, std::string_view bytes) {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::sigpending(&pending);
  const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t count = ::write(fd, bytes.data(), bytes.size());
  const int code = errno;
  if (count < 0 && code == EPIPE && !was_pending) {
    const timespec now{};
    ::sigtimedwait(&pipe_signal, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return count;
}

void feed(Fd& pipe, std::string_view& rest) {
  while (pipe.is_open()) {
    if (rest.empty()) {
      pipe.reset();
      return;
    }
    const ssize_t count = write_without_sigpipe(pipe.get(), rest);
    if (count >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      pipe.reset();  // EPIPE: the child does not want the rest
    }
  }
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// The parent's side of a running child. Its destructor guarantees that no child is left behind.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U))) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    if (reaped_) return;
    kill_group();
    reap();
  }

  /// Readable when the child has ended; -1 on kernels without pidfd_open.
  int pidfd() const { return pidfd_.get(); }

  /// Leaves the zombie in place, so that its process group id cannot be reused yet.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }

  void kill_group() const {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
  }

  std::pair<int, rusage> reap() {
    int status = 0;
    rusage usage{};
    while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    return {status, usage};
  }

 private:
  pid_t pid_;
  Fd pidfd_;
  bool reaped_ = false;
};

Result<void> check_started(Fd& error_pipe, const ProcessOptions& options, const fs::path& program) {
  StartFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(error_pipe.get(), &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof failure)) return {};
  const char* reason = std::strerror(failure.code);
  switch (failure.step) {
    case Step::directory:
      return input_error("cannot run {} in {}: {}", program.string(), options.working_directory.string(), reason);
    case Step::limits:
      return infrastructure_error("cannot limit the resources of {}: {}", program.string(), reason);
    case Step::sandbox:
      return infrastructure_error("cannot set up the sandbox of {}: {}", program.string(), reason);
    case Step::streams:
      return infrastructure_error("cannot connect the streams of {}: {}", program.string(), reason);
    case Step::exec:
      break;
  }
  return infrastructure_error("cannot start {}: {}", program.string(), reason);
}

}  // namespace

std::string ProcessResult::outcome() const {
  if (timed_out) return fmt::format("was stopped after {}", format_seconds(elapsed_seconds));
  if (cancelled) return "was cancelled";
  if (signal != 0) return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exited with code {}", exit_code);
}

std::optional<fs::path> find_program(std::string_view name, std::string_view path) {
  const auto is_program = [](const fs::path& candidate) {
    std::error_code ignored;
    return fs::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    const fs::path own(name);
    return is_program(own) ? std::optional(own) : std::nullopt;
  }
  if (path.empty()) {
    const char* inherited = std::getenv("PATH");
    path = inherited != nullptr ? inherited : "/usr/local/bin:/usr/bin:/bin";
  }
  for (const std::string_view folder : split(path, ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (is_program(candidate)) return candidate;
  }
  return std::nullopt;
}

Result<ProcessResult> run_process(const ProcessOptions& options) {
  if (options.argv.empty()) return input_error("no program to run");
  const std::string& name = options.argv.front();
  std::string search_path;
  if (const auto found = options.environment.find("PATH"); found != options.environment.end() && found->second) {
    search_path = *found->second;
  }
  auto program = find_program(name, search_path);
  if (!program) {
    // With a slash, exec gives the precise reason (missing, not executable); without one there is no path to try.
    if (name.find('/') == std::string::npos) return infrastructure_error("program '{}' is not in PATH", name);
    program = fs::path(name);
  }
  // A relative program is meant relative to our folder, not to the child's.
  if (!options.working_directory.empty() && program->is_relative()) program = fs::absolute(*program);

  Pipe in;
  Pipe out;
  Pipe err;
  auto error_pipe = make_pipe();
  if (!error_pipe) return tl::unexpected<Error>(error_pipe.error());
  for (Pipe* pipe : {&in, &out, &err}) {
    const bool inherited = pipe == &in ? options.inherit_stdin : options.inherit_output;
    if (inherited) continue;
    auto made = make_pipe();
    if (!made) return tl::unexpected<Error>(made.error());
    *pipe = std::move(*made);
  }

  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = build_environment(options);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(environment);
  const std::vector<Limit> limits = collect_limits(options.limits);
  ChildPlan plan;
  plan.program = program->c_str();
  plan.argv = argv.data();
  plan.envp = envp.data();
  plan.working_directory = options.working_directory.empty() ? nullptr : options.working_directory.c_str();
  plan.stdin_fd = in.read.get();
  plan.stdout_fd = out.write.get();
  plan.stderr_fd = err.write.get();
  plan.error_fd = error_pipe->write.get();
  plan.limits = &limits;
  plan.inherited_fds = &options.inherited_fds;
  plan.before_exec = &options.before_exec;
  plan.parent = ::getpid();

  const Clock::time_point started = Clock::now();
  const pid_t pid = ::fork();
  if (pid < 0) return infrastructure_error("cannot start {}: fork: {}", program->string(), std::strerror(errno));
  if (pid == 0) run_child(plan);
  ::setpgid(pid, pid);  // also here: whichever of the two processes runs first
  Running child(pid);
  in.read.reset();
  out.write.reset();
  err.write.reset();
  error_pipe->write.reset();
  if (auto start = check_started(error_pipe->read, options, *program); !start) {
    return tl::unexpected<Error>(start.error());
  }
  if (options.on_started) options.on_started(pid);

  Fd cancel_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const std::stop_callback on_cancel(options.cancel, [&cancel_event] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(cancel_event.get(), &one, sizeof one);
  });

  ProcessResult result;
  std::string_view input = options.stdin_text;
  for (Fd* pipe : {&in.write, &out.read, &err.read}) {
    if (pipe->is_open()) set_non_blocking(pipe->get());
  }
  feed(in.write, input);

  const auto pump = [&](std::chrono::milliseconds timeout) {
    std::array<pollfd, 5> polled = {{{out.read.get(), POLLIN, 0},
                                     {err.read.get(), POLLIN, 0},
                                     {in.write.get(), POLLOUT, 0},
                                     {child.pidfd(), POLLIN, 0},
                                     {cancel_event.get(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count()));
    drain(out.read, result.stdout_text, options.max_stdout_bytes, result.stdout_truncated);
    drain(err.read, result.stderr_text, options.max_stderr_bytes, result.stderr_truncated);
    feed(in.write, input);
  };

  while (!child.has_ended()) {
    // Without a pidfd nothing wakes us when the child ends, so look often; else only the wall limit matters.
    std::chrono::milliseconds timeout{child.pidfd() >= 0 ? 1000 : 5};
    if (options.wall_limit) {
      const auto left =
          *options.wall_limit - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started);
      if (left.count() <= 0) {
        result.timed_out = true;
        break;
      }
      timeout = std::min(timeout, left);
    }
    if (options.cancel.stop_requested()) {
      result.cancelled = true;
      break;
    }
    pump(timeout);
  }
  child.kill_group();
  const auto [status, usage] = child.reap();
  result.elapsed_seconds = std::chrono::duration<double>(Clock::now() - started).count();
  in.write.reset();
  const Clock::time_point drain_end = Clock::now() + kDrainTime;
  while (out.read.is_open() || err.read.is_open()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(drain_end - Clock::now());
    drain(out.read, result.stdout_text, options.max_stdout_bytes, result.stdout_truncated);
    drain(err.read, result.stderr_text, options.max_stderr_bytes, result.stderr_truncated);
    if (left.count() <= 0 || (!out.read.is_open() && !err.read.is_open())) break;
    std::array<pollfd, 2> polled = {{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
  }

  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  }
  result.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  if (CpuMeter* meter = CpuMeter::current()) meter->add(result.cpu_seconds);
  result.max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return result;
}

}  // namespace ptxbench::base

#include "evaluation/candidate_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <thread>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::evaluation {
namespace {

namespace fs = std::filesystem;
using candidate::kMaxReports;
using candidate::kReportMagic;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Result<void> make_call_file(const Call& call, Descriptor& file) {
  file.reset(::memfd_create("ptxbench-call", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto failed = [] {
    return infrastructure_error("cannot describe the call to the runner: {}", std::strerror(errno));
  };
  if (file.get() < 0) return failed();
  const char* data = reinterpret_cast<const char*>(&call);
  for (std::size_t done = 0; done < sizeof call;) {
    const ssize_t wrote = ::write(file.get(), data + done, sizeof call - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed();
    done += static_cast<std::size_t>(wrote);
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) return failed();
  return {};
}

bool is_valid(RunnerReport& report) {
  if (report.magic != kReportMagic || report.step < RunnerStep::loading || report.step > RunnerStep::done ||
      report.outcome > RunnerOutcome::internal) {
    return false;
  }
  if (report.outcome == RunnerOutcome::finished && report.step != RunnerStep::done) return false;
  report.kind[sizeof report.kind - 1] = '\0';
  report.message[sizeof report.message - 1] = '\0';
  report.backtrace[sizeof report.backtrace - 1] = '\0';
  return true;
}

/// Takes what lies in the pipe. The writer may be anyone: anything but a row of whole, valid reports ends the reading.
std::optional<RunnerReport> read_reports(int fd) {
  std::optional<RunnerReport> last;
  for (unsigned i = 0; i < kMaxReports; ++i) {
    RunnerReport report;
    std::size_t got = 0;
    while (got < sizeof report) {
      const ssize_t read = ::read(fd, reinterpret_cast<char*>(&report) + got, sizeof report - got);
      if (read < 0 && errno == EINTR) continue;
      if (read <= 0) return last;
      got += static_cast<std::size_t>(read);
    }
    if (!is_valid(report)) return last;
    last = report;
  }
  return last;
}

std::string printable(std::string_view text, std::size_t limit = 2000) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto code = static_cast<unsigned char>(c);
    out += code >= 0x20 || c == '\n' || c == '\t' ? c : '?';
  }
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  return out;
}

std::string_view step_text(RunnerStep step) {
  switch (step) {
    case RunnerStep::loading:
      return "while the candidate's library was loaded";
    case RunnerStep::calling:
      return "inside run()";
    case RunnerStep::synchronizing:
      return "while the device was synchronised after run()";
    case RunnerStep::done:
      return "after run()";
  }
  return "";
}

/// The innermost place of a TVM-FFI backtrace that names the candidate's file.
Place place_of(std::string_view backtrace) {
  static const std::regex kFrame("File \"([^\"]*)\", line ([0-9]+)");
  Place place;
  const std::string text(backtrace);
  for (std::sregex_iterator at(text.begin(), text.end(), kFrame), end; at != end; ++at) {
    const fs::path file = (*at)[1].str();
    const std::string digits = (*at)[2].str();
    if (file.filename() != "kernel.cu" || digits.size() > 8) continue;
    place.file = "kernel.cu";
    place.line = static_cast<std::uint32_t>(std::stoul(digits));
    break;
  }
  return place;
}

}  // namespace

Result<fs::path> find_runner() {
  std::vector<fs::path> places;
  if (const char* own = std::getenv("PTXBENCH_RUNNER"); own != nullptr && *own != '\0') places.emplace_back(own);
  if (const auto program = base::executable_path()) places.push_back(program->parent_path() / "ptxbench-runner");
  places.push_back(fs::path(PTXBENCH_BUILD_DIR) / "ptxbench-runner");
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place;
  }
  return infrastructure_error(
      "ptxbench-runner, which calls candidates, is not beside the program; build the whole project");
}

Result<CallOutcome> run_candidate(const HostCall& call) {
  const auto runner = find_runner();
  if (!runner) return tl::unexpected<Error>(runner.error());
  const bool serves = call.serve_fd >= 0;
  Descriptor call_file;
  int ends[2] = {-1, -1};
  if (!serves) {
    if (auto made = make_call_file(*call.call, call_file); !made) return tl::unexpected<Error>(made.error());
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return infrastructure_error("cannot make a pipe for the runner: {}", std::strerror(errno));
  }
  Descriptor report_in(ends[0]), report_out(ends[1]);

  CallOutcome outcome;
  std::stop_source stop;
  std::atomic<bool> idle_timeout = false, cancelled = false;
  const std::jthread watch([&](const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (call.cancel.stop_requested()) {
        cancelled = true;
        stop.request_stop();
        return;
      }
      const auto idle = call.idle ? call.idle() : std::nullopt;
      if (idle && *idle > call.limits.idle) {
        idle_timeout = true;
        stop.request_stop();
        return;
      }
    }
  });

  cuda_shim::HostRequest request;
  request.argv = {runner->string(), call.library.string(), call.ffi_runtime.string()};
  for (const std::string& descriptor :
       serves ? std::array<std::string, 2>{"--serve", std::to_string(call.serve_fd)}
              : std::array<std::string, 2>{std::to_string(call_file.get()), std::to_string(report_out.get())}) {
    request.argv.push_back(descriptor);
  }
  // What else this process has in its environment, such as the keys of models' endpoints, is none of a candidate's
  // business.
  request.clear_environment = true;
  for (const char* name :
       {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name); value != nullptr) request.environment[name] = value;
  }
  request.environment["LD_LIBRARY_PATH"] = call.ffi_runtime.parent_path().string();
  request.socket = call.socket;
  request.inherited_fds =
      serves ? std::vector<int>{call.serve_fd} : std::vector<int>{call_file.get(), report_out.get()};
  request.on_started = call.on_started;
  request.max_output_bytes = call.limits.output_bytes;
  request.limits.cpu_seconds = call.limits.cpu_seconds;
  request.limits.data_bytes = call.limits.memory_bytes;
  request.limits.file_bytes = 0;
  request.untrusted = true;
  request.candidate = true;
  request.readable = {*runner, runner->parent_path().parent_path() / "lib", call.library.parent_path()};
  for (const char* path : {"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache",
                           "/dev/null", "/dev/zero", "/dev/urandom", "/sys/devices/system/cpu", "/proc/cpuinfo",
                           "/proc/meminfo", "/proc/sys/vm/overcommit_memory"}) {
    request.readable->emplace_back(path);
  }
  request.cancel = stop.get_token();
  auto process = cuda_shim::run_host_process(request);
  if (!process) return tl::unexpected<Error>(process.error());
  outcome.process = std::move(*process);
  if (serves) {
    outcome.idle_timeout = idle_timeout;
    outcome.cancelled = cancelled;
    return outcome;
  }
  report_out.reset();
  // A descendant of the candidate may still hold the other end: what is not there now does not count.
  ::fcntl(report_in.get(), F_SETFL, O_NONBLOCK);
  outcome.last = read_reports(report_in.get());
  outcome.idle_timeout = idle_timeout;
  outcome.cancelled = cancelled;
  return outcome;
}

std::vector<Finding> host_findings(const CallOutcome& outcome, bool explained) {
  if (outcome.finished()) return {};
  Finding finding;
  finding.stage = StageName::execute;
  const RunnerStep step = outcome.last ? outcome.last->step : RunnerStep::loading;
  if (outcome.idle_timeout) {
    finding.rule = "host.timeout";
    finding.message = fmt::format("host code was stopped {}: {} passed without a kernel running", step_text(step),
                                  base::format_seconds(outcome.process.seconds));
    finding.remedy = "look for an endless loop or a wait that nothing ends in the host code";
    return {finding};
  }
  if (outcome.last && outcome.last->outcome != RunnerOutcome::pending) {
    const RunnerReport& report = *outcome.last;
    const std::string message = printable(report.message);
    switch (report.outcome) {
      case RunnerOutcome::load_failed:
        finding.rule = "host.load";
        finding.message = "the candidate's library does not load: " + message;
        finding.remedy = "use only the CUDA runtime and driver, TVM-FFI and the C++ library";
        break;
      case RunnerOutcome::no_entry:
        finding.rule = "candidate.no_entry";
        finding.message = "the library does not export run";
        finding.remedy = "add TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, your_function)";
        break;
      case RunnerOutcome::threw:
        finding.rule = "host.error";
        finding.message = fmt::format("run() failed with {}: {}", printable(report.kind, 60), message);
        finding.place = place_of(report.backtrace);
        break;
      case RunnerOutcome::cuda_error:
        finding.rule = "host.cuda_error";
        finding.message = fmt::format("cudaDeviceSynchronize() after run() gave error {}: {}", report.code, message);
        break;
      default:
        finding.rule = "host.runner";
        finding.message = "the runner could not make the call: " + message;
        break;
    }
    if (explained) finding.severity = Severity::note;
    return {finding};
  }
  using End = cuda_shim::HostOutcome::End;
  if (outcome.process.end == End::timed_out || outcome.process.signal == SIGXCPU) {
    finding.rule = "host.timeout";
    finding.message = fmt::format("host code used too much processor time {} ({})", step_text(step),
                                  base::format_seconds(outcome.process.cpu_seconds));
    finding.remedy = "compute on the device; look for an endless loop in the host code";
  } else if (outcome.process.signal == SIGXFSZ) {
    finding.rule = "host.writes-file";
    finding.message = fmt::format("host code tried to write a file {}", step_text(step));
    finding.remedy = "candidates have no files; print to standard output instead";
  } else if (outcome.process.signal != 0) {
    finding.rule = "host.crash";
    finding.message = fmt::format("host code crashed {}: the process {}", step_text(step), outcome.process.describe());
    finding.remedy = "check host pointers and array bounds; device memory cannot be read from the host";
  } else {
    finding.rule = "host.exit";
    finding.message =
        fmt::format("host code ended the process {} with exit code {}", step_text(step), outcome.process.exit_code);
    finding.remedy = "return from run(); do not call exit() or abort()";
  }
  // Our own client ends the process at a call that is not modelled; that has a finding of its own.
  if (explained) finding.severity = Severity::note;
  return {finding};
}

}  // namespace ptxbench::evaluation

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::base {

/// Kernel-enforced limits of one child; unset means inherited. Core dumps are always off.
struct ProcessLimits {
  std::optional<std::uint64_t> cpu_seconds;          ///< SIGXCPU at the limit, SIGKILL one second later
  std::optional<std::uint64_t> address_space_bytes;  ///< mmap fails beyond it
  std::optional<std::uint64_t> file_size_bytes;      ///< SIGXFSZ beyond it
  std::optional<std::uint64_t> processes;            ///< per user, threads included; the kernel ignores it for root
  std::optional<std::uint64_t> open_files;
};

struct ProcessOptions {
  /// argv[0] is looked up in PATH unless it has a slash; no shell is involved.
  std::vector<std::string> argv;
  /// Set, or with nullopt unset, on top of the inherited environment.
  std::map<std::string, std::optional<std::string>> environment;
  bool clear_environment = false;  ///< start from nothing instead
  std::filesystem::path working_directory;

  std::string stdin_text;
  /// The child's streams are ours instead of captured. Reading from a terminal fails with EIO, as the child is in a
  /// process group of its own.
  bool inherit_stdin = false;
  bool inherit_output = false;
  /// What exceeds these is read and dropped, so that the child never blocks on a full pipe.
  std::size_t max_stdout_bytes = std::size_t{16} << 20;
  std::size_t max_stderr_bytes = std::size_t{16} << 20;

  std::optional<std::chrono::milliseconds> wall_limit;
  ProcessLimits limits;
  /// Another thread may ask for the end; the result then has `cancelled`.
  std::stop_token cancel;

  /// Descriptors the child keeps under the same number; all others above 2 are closed.
  std::vector<int> inherited_fds;
  /// Runs in the child just before exec (sandboxing). Only async-signal-safe calls. Non-zero is an errno and stops it.
  std::function<int()> before_exec;
  /// Called in the parent, in the calling thread, once the program has started.
  std::function<void(pid_t)> on_started;
};

struct ProcessResult {
  int exit_code = -1;  ///< -1 when a signal ended the child
  int signal = 0;      ///< 0 when it exited
  bool timed_out = false;
  bool cancelled = false;
  std::string stdout_text;
  std::string stderr_text;
  bool stdout_truncated = false;
  bool stderr_truncated = false;
  double elapsed_seconds = 0;
  double cpu_seconds = 0;           ///< user and system time of the child and the descendants it waited for
  std::uint64_t max_rss_bytes = 0;  ///< largest of those processes

  bool ok() const { return exit_code == 0 && !timed_out && !cancelled; }
  /// "exited with code 2", "was killed by signal 11 (Segmentation fault)", "was stopped after 5.00 s".
  std::string outcome() const;
};

/// Runs a child to its end and reaps it. Its whole process group is killed when it ends, times out or is cancelled;
/// a descendant that left the group and holds our pipes delays the return by a quarter of a second at most.
/// A program that cannot be started is an error; everything after the start is in the result.
Result<ProcessResult> run_process(const ProcessOptions& options);

/// The file that `name` runs: `name` itself if it has a slash, else the first executable in `path` ($PATH if empty).
std::optional<std::filesystem::path> find_program(std::string_view name, std::string_view path = {});

}  // namespace ptxbench::base

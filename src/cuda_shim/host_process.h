#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::cuda_shim {

/// Limits of the foreign process, kept by the kernel. Address space is not limited, as the device's window needs 1 TiB
/// of it.
struct HostLimits {
  std::optional<std::chrono::milliseconds> wall;
  std::optional<uint64_t> cpu_seconds;
  uint64_t data_bytes = 16ull << 30;  ///< private writable memory (RLIMIT_DATA)
  uint64_t file_bytes = 4ull << 30;   ///< largest file it may write
  std::optional<uint64_t> processes;  ///< threads included; not kept for root
  std::optional<uint64_t> open_files;
};

struct HostRequest {
  std::vector<std::string> argv;  ///< argv[0] is looked up in PATH unless it has a slash
  std::map<std::string, std::optional<std::string>> environment;  ///< on top of ours
  bool clear_environment = false;
  std::filesystem::path working_directory;
  std::filesystem::path socket;  ///< ShimServer::socket_path(); empty: no device
  bool untrusted = false;  ///< may not change files nor leave its process group, nor without a device have sockets
  bool candidate = false;  ///< with `untrusted`: neither starts processes nor makes shared memory (sandbox.h)
  /// Also the client libraries and what LD_LIBRARY_PATH names may be read then, and nothing else (sandbox.h).
  std::optional<std::vector<std::filesystem::path>> readable;
  bool preload = false;          ///< see ProgramInfo::needs_preload
  bool inherit_streams = false;  ///< use our standard streams instead of capturing
  std::string stdin_text;
  std::vector<int> inherited_fds;                        ///< descriptors the process keeps under the same number
  std::size_t max_output_bytes = std::size_t{16} << 20;  ///< of each captured stream
  HostLimits limits;
  std::stop_token cancel;
  std::function<void(pid_t)> on_started;  ///< called here once the program runs
};

/// How foreign host code ended. Whatever it did is a fact about it, never an error of ours.
struct HostOutcome {
  enum class End { exited, crashed, timed_out, cancelled };
  End end{};
  int exit_code = 0;  ///< if exited
  int signal = 0;     ///< if crashed
  std::string stdout_text, stderr_text;
  bool output_truncated = false;
  double seconds = 0, cpu_seconds = 0;
  uint64_t max_rss_bytes = 0;
  bool ok() const { return end == End::exited && exit_code == 0; }
  /// "exited with code 1", "was killed by signal 11 (Segmentation fault)", "was stopped after 5.00 s".
  std::string describe() const;
  std::string text;  ///< for describe()
};

/// Runs a foreign program with the client libraries in front of CUDA's, without network, without capabilities, unable
/// to trace or signal this process. Its whole process group dies with it. Errors are ours: no such program, no client
/// libraries.
Result<HostOutcome> run_host_process(const HostRequest& request);

/// The folder with libcudart.so.13 and libcuda.so.1: $PTXBENCH_SHIM_LIBRARIES, else cuda_shim/ beside the program, else
/// ../lib/ptxbench.
Result<std::filesystem::path> shim_library_folder();

}  // namespace ptxbench::cuda_shim

#include "cuda_shim/host_process.h"

#include <cstdlib>
#include <system_error>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"
#include "cuda_shim/protocol.h"
#include "cuda_shim/sandbox.h"

namespace ptxbench::cuda_shim {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::string& first, const char* variable, const HostRequest& request) {
  std::string rest;
  if (const auto found = request.environment.find(variable); found != request.environment.end()) {
    rest = found->second.value_or("");
  } else if (const char* inherited = std::getenv(variable); inherited != nullptr && !request.clear_environment) {
    rest = inherited;
  }
  return rest.empty() ? first : first + ":" + rest;
}

}  // namespace

std::string HostOutcome::describe() const { return text; }

Result<fs::path> shim_library_folder() {
  const auto complete = [](const fs::path& folder) {
    std::error_code ignored;
    return fs::is_regular_file(folder / "libcudart.so.13", ignored) &&
           fs::is_regular_file(folder / "libcuda.so.1", ignored);
  };
  if (const char* chosen = std::getenv("PTXBENCH_SHIM_LIBRARIES"); chosen != nullptr) {
    if (complete(chosen)) return fs::absolute(chosen);
    return input_error("PTXBENCH_SHIM_LIBRARIES={} has no libcudart.so.13 and libcuda.so.1", chosen);
  }
  const auto self = base::executable_path();
  if (!self) return tl::unexpected<Error>(self.error());
  for (fs::path folder = self->parent_path(); !folder.empty(); folder = folder.parent_path()) {
    // Tests lie some folders below the build folder.
    for (const fs::path& candidate : {folder / "cuda_shim", folder / "lib" / "ptxbench"}) {
      if (complete(candidate)) return candidate;
    }
    if (folder == folder.root_path()) break;
  }
  return infrastructure_error(
      "the CUDA client libraries (cuda_shim/libcudart.so.13, libcuda.so.1) are not beside {}; building them needs CUDA "
      "13.0's "
      "headers: run the setup script, then build again",
      self->string());
}

Result<HostOutcome> run_host_process(const HostRequest& request) {
  base::ProcessOptions options;
  options.argv = request.argv;
  options.environment = request.environment;
  options.clear_environment = request.clear_environment;
  if (!request.socket.empty()) {
    const auto libraries = shim_library_folder();
    if (!libraries) return tl::unexpected<Error>(libraries.error());
    options.environment[kSocketVariable] = request.socket.string();
    options.environment["LD_LIBRARY_PATH"] = joined(libraries->string(), "LD_LIBRARY_PATH", request);
    if (request.preload) {
      const std::string both = (*libraries / "libcuda.so.1").string() + ":" + (*libraries / "libcudart.so.13").string();
      options.environment["LD_PRELOAD"] = joined(both, "LD_PRELOAD", request);
    }
  }
  SandboxOptions sandbox_options;
  sandbox_options.data_bytes = request.limits.data_bytes;
  sandbox_options.sockets = !request.untrusted || !request.socket.empty();
  sandbox_options.untrusted = request.untrusted;
  sandbox_options.candidate = request.candidate;
  sandbox_options.readable = request.readable;
  if (sandbox_options.readable) {
    const auto found = options.environment.find("LD_LIBRARY_PATH");
    const std::string folders = found == options.environment.end() ? "" : found->second.value_or("");
    for (const std::string_view folder : base::split(folders, ':')) {
      if (!folder.empty()) sandbox_options.readable->emplace_back(folder);
    }
  }
  const auto sandbox = Sandbox::prepare(sandbox_options);
  if (!sandbox) return tl::unexpected<Error>(sandbox.error());
  protect_this_process();
  options.working_directory = request.working_directory;
  options.stdin_text = request.stdin_text;
  options.inherited_fds = request.inherited_fds;
  options.inherit_stdin = request.inherit_streams;
  options.inherit_output = request.inherit_streams;
  options.max_stdout_bytes = options.max_stderr_bytes = request.max_output_bytes;
  options.wall_limit = request.limits.wall;
  options.limits.cpu_seconds = request.limits.cpu_seconds;
  options.limits.file_size_bytes = request.limits.file_bytes;
  options.limits.processes = request.limits.processes;
  options.limits.open_files = request.limits.open_files;
  options.cancel = request.cancel;
  options.on_started = request.on_started;
  options.before_exec = [&sandbox] { return sandbox->enter(); };
  auto result = base::run_process(options);
  if (!result) return tl::unexpected<Error>(result.error());

  HostOutcome outcome;
  outcome.end = result->timed_out     ? HostOutcome::End::timed_out
                : result->cancelled   ? HostOutcome::End::cancelled
                : result->signal != 0 ? HostOutcome::End::crashed
                                      : HostOutcome::End::exited;
  outcome.exit_code = result->exit_code;
  outcome.signal = result->signal;
  outcome.text = result->outcome();
  outcome.stdout_text = std::move(result->stdout_text);
  outcome.stderr_text = std::move(result->stderr_text);
  outcome.output_truncated = result->stdout_truncated || result->stderr_truncated;
  outcome.seconds = result->elapsed_seconds;
  outcome.cpu_seconds = result->cpu_seconds;
  outcome.max_rss_bytes = result->max_rss_bytes;
  return outcome;
}

}  // namespace ptxbench::cuda_shim

#include "candidate/run_tool.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace ptxbench::candidate {
namespace {

constexpr std::uint64_t kMaxOutputFile = std::uint64_t{512} << 20;

}  // namespace

Result<base::ProcessResult> run_tool(std::vector<std::string> argv, const std::filesystem::path& work,
                                     const Toolchain& toolchain, const ToolLimits& limits,
                                     const std::map<std::string, std::string>& variables, std::stop_token cancel) {
  base::ProcessOptions process;
  process.argv = std::move(argv);
  process.working_directory = work;
  process.clear_environment = true;
  process.environment["PATH"] = fmt::format("{}:{}:/usr/bin:/bin", toolchain.cuda.nvcc.parent_path().string(),
                                            toolchain.host_compiler.parent_path().string());
  process.environment["TMPDIR"] = work.string();
  process.environment["HOME"] = work.string();
  process.environment.emplace("LC_ALL", std::string("C"));
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "CICC_PATH", "NVVMIR_LIBRARY_DIR"}) {
    if (const auto set = variables.find(name); set != variables.end()) process.environment[name] = set->second;
  }
  process.cancel = std::move(cancel);
  process.wall_limit = std::max(
      std::chrono::duration_cast<std::chrono::milliseconds>(limits.deadline - std::chrono::steady_clock::now()),
      std::chrono::milliseconds(1));
  process.limits.address_space_bytes = limits.memory_bytes;
  process.limits.file_size_bytes = kMaxOutputFile;
  return base::run_process(process);
}

bool out_of_memory(const base::ProcessResult& result) {
  static constexpr std::array<std::string_view, 5> kSigns = {"out of memory", "Out of memory", "bad_alloc",
                                                             "cannot allocate memory", "virtual memory exhausted"};
  const std::string text = result.stderr_text + result.stdout_text;
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return text.find(sign) != std::string::npos; });
}

std::string log_of(const base::ProcessResult& result) {
  std::string text = result.stdout_text;
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += result.stderr_text;
  return text;
}

}  // namespace ptxbench::candidate

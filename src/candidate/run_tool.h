#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "candidate/toolchain.h"

namespace ptxbench::candidate {

struct ToolLimits {
  std::chrono::steady_clock::time_point deadline;
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;  ///< address space
};

/// Runs one tool of the compilation in the folder `work` with an environment of its own: PATH, and what nvcc sets for
/// its tools, out of `variables`.
Result<base::ProcessResult> run_tool(std::vector<std::string> argv, const std::filesystem::path& work,
                                     const Toolchain& toolchain, const ToolLimits& limits,
                                     const std::map<std::string, std::string>& variables = {},
                                     std::stop_token cancel = {});

/// Whether what the tool wrote says that its memory did not suffice.
bool out_of_memory(const base::ProcessResult& result);
/// Both streams, as a log has them.
std::string log_of(const base::ProcessResult& result);

}  // namespace ptxbench::candidate

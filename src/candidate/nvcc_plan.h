#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"

namespace ptxbench::candidate {

/// The commands that nvcc runs one after the other for one source, one target and `-c --keep --keep-dir .`.
struct NvccPlan {
  using Command = std::vector<std::string>;
  std::map<std::string, std::string> variables;  ///< that nvcc sets
  Command preprocess_host, cudafe, preprocess_device, cicc, ptxas, fatbinary, compile_host;
};

/// Reads what `nvcc --dryrun` prints; nothing if it lists other commands than these, or quotes in an unknown way.
std::optional<NvccPlan> parse_plan(std::string_view dry_run);

/// Runs one command in the working folder; the token asks for its end.
using CommandRunner = std::function<Result<base::ProcessResult>(const NvccPlan::Command&, std::stop_token)>;

/// Runs the commands of the plan, side by side where none needs the other's files, and leaves what nvcc would. The
/// result is the first command's that failed, in nvcc's order, or the last one's, with the output of all up to it.
/// Nothing if a signal ended one, of which nvcc has more to say.
Result<std::optional<base::ProcessResult>> run_plan(const NvccPlan& plan, const std::filesystem::path& folder,
                                                    const CommandRunner& run);

}  // namespace ptxbench::candidate

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "candidate/artifact.h"
#include "candidate/compile_report.h"
#include "candidate/language.h"
#include "candidate/static_checks.h"
#include "candidate/toolchain.h"

namespace ptxbench::candidate {

enum class Target { sm_90a };
/// "sm_90a".
std::string_view to_string(Target target);
/// Accepts "sm_90a", "90a", "hopper" and the like; the error lists the known ones.
Result<Target> parse_target(std::string_view text);

enum class HeaderChoice {
  automatic,  ///< our lean headers, and upstream's when those do not suffice
  lean,
  upstream,
};

struct CompileOptions {
  Language language = Language::cuda;
  Target target = Target::sm_90a;
  HeaderChoice headers = HeaderChoice::automatic;
  std::chrono::seconds wall_limit{180};
  std::uint64_t memory_limit_bytes = std::uint64_t{8} << 30;  ///< address space of each tool
  bool use_cache = true;
  bool side_by_side = true;  ///< host and device code at once, where nvcc's commands are the known ones
};

struct Compilation {
  CompileReport report;
  std::optional<Artifact> artifact;            ///< set exactly when the report says `succeeded`
  std::vector<StaticFinding> static_findings;  ///< of the source and, when there is one, of the library
};

/// Compiles candidates, with the commands of one nvcc run each, into a cache that all processes of a user share.
class Compiler {
 public:
  /// With the toolchain found on this machine and the cache at base::cache_dir("artifacts").
  static Result<Compiler> create();
  Compiler(Toolchain toolchain, ArtifactCache cache) : toolchain_(std::move(toolchain)), cache_(std::move(cache)) {}

  /// Errors are infrastructure; a candidate that does not compile is a report.
  Result<Compilation> compile(std::string_view source, const CompileOptions& options = {}) const;

  const Toolchain& toolchain() const { return toolchain_; }
  const ArtifactCache& cache() const { return cache_; }

  /// The id that `source` has in the cache under these options.
  std::string artifact_id(std::string_view source, const CompileOptions& options) const;

 private:
  struct Attempt;
  Result<CompileReport> run(const std::filesystem::path& work, std::string_view source, const CompileOptions& options,
                            HeaderSet headers, std::chrono::steady_clock::time_point deadline) const;
  Result<base::ProcessResult> run_nvcc(const std::vector<std::string>& command, const std::filesystem::path& work,
                                       const CompileOptions& options,
                                       std::chrono::steady_clock::time_point deadline) const;
  std::vector<std::string> compile_command(std::string_view source, const CompileOptions& options,
                                           HeaderSet headers) const;
  std::vector<std::string> link_command(HeaderSet headers) const;

  Toolchain toolchain_;
  ArtifactCache cache_;
};

/// The macros that make the lean headers include what upstream's bring in, as far as `source` uses it without
/// including it ("PTXBENCH_STD_VECTOR" for std::vector).
std::vector<std::string> std_header_macros(std::string_view source);

/// Whether a failed compilation against the lean headers may succeed against upstream's.
bool lean_headers_to_blame(const CompileReport& report, const std::filesystem::path& lean_include);

}  // namespace ptxbench::candidate

#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "candidate/compiler.h"
#include "problem/dataset.h"
#include "triton/installation.h"
#include "triton/record.h"

namespace ptxbench::triton {

/// Compiles Triton candidates into artifacts like those of CUDA ones: a library that exports `run`, its PTX, its
/// machine code and the compilers' remarks. The shapes of the calls are part of what is compiled. Thread safe.
class Compiler {
 public:
  /// Toolkit and cache are those of `cuda`, which must live longer.
  explicit Compiler(const candidate::Compiler& cuda) : cuda_(cuda) {}

  /// Errors are infrastructure, a missing Triton among them; a candidate that does not compile is a report.
  Result<candidate::Compilation> compile(std::string_view source, const std::vector<problem::Problem>& workloads,
                                         const candidate::CompileOptions& options) const;

  /// Only what the compilers say, for Hopper (90) or Blackwell (100): nothing is kept.
  Result<candidate::CompileReport> try_compile(std::string_view source, const std::vector<problem::Problem>& workloads,
                                               unsigned arch) const;

 private:
  struct Found {
    Installation installation;
    std::filesystem::path launcher;
    std::string launcher_digest;
  };
  struct Made {
    candidate::CompileReport report;
    Record record;
    std::vector<std::string> kernel_names;
    bool stable = true;  ///< would be the same again
  };
  Result<const Found*> found() const;
  Result<Made> assemble(const Found& found, std::string_view source, const std::vector<CallArguments>& calls,
                        unsigned arch, const candidate::CompileOptions& options,
                        std::chrono::steady_clock::time_point deadline, const std::filesystem::path& work) const;
  Result<void> assemble_module(const std::string& ptx, unsigned arch, const candidate::CompileOptions& options,
                               std::chrono::steady_clock::time_point deadline, const std::filesystem::path& work,
                               Made& made) const;
  Result<Made> make(const Found& found, std::string_view source, const std::vector<CallArguments>& calls,
                    const candidate::CompileOptions& options, const std::filesystem::path& work) const;
  std::string artifact_id(const Found& found, std::string_view source, const std::vector<CallArguments>& calls,
                          const candidate::CompileOptions& options) const;

  const candidate::Compiler& cuda_;
  mutable std::mutex mutex_;
  mutable std::optional<Found> found_;
};

}  // namespace ptxbench::triton

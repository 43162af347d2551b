#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// NVIDIA's compute-sanitizer around an executor: what it says, in a form that programs can use.
namespace ptxbench::gpu {

/// "memcheck", "racecheck", "initcheck", "synccheck".
bool is_sanitizer_tool(std::string_view tool);

/// The words to put before an executor's own (ExecutorOptions::tool); the report goes to `log`. An error says that
/// compute-sanitizer is not installed.
Result<std::vector<std::string>> sanitizer_command(std::string_view tool, const std::filesystem::path& log);

/// One thing that the tool complains about.
struct SanitizerRecord {
  std::string message;         ///< first line: "Invalid __global__ write of size 4 bytes"
  std::string kernel;          ///< as the tool writes it; may be empty
  std::string file;            ///< its bare name; empty without line information
  std::uint32_t line = 0;      ///< 0: unknown
  std::string text;            ///< the whole record
  bool is_warning = false;     ///< racecheck tells warnings from errors
  std::uint64_t repeated = 1;  ///< records with the same message and place
};

struct SanitizerReport {
  std::string tool;
  std::uint64_t errors = 0;    ///< by the tool's own summary; warnings not included
  std::uint64_t warnings = 0;  ///< racecheck's
  std::vector<SanitizerRecord> records;
};

/// Reads a report. One without its summary is an infrastructure error: the tool did not come to an end, and what it has
/// not found means nothing. Records that nothing here understands are kept by their text.
Result<SanitizerReport> parse_sanitizer_report(std::string_view tool, std::string_view text);

}  // namespace ptxbench::gpu

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/description.h"

/// The planted-fault corpus (tests/hazards/README.md), read and compiled.
namespace ptxbench::hazards {

/// One kernel file. Where `rules` is empty it is a negative control without a faulty variant.
struct HazardCase {
  std::filesystem::path path;
  std::vector<std::string> rules;  ///< the rule to be reported, then those that would be right as well
  bool engine = false;      ///< marked on its rule line: the emulator stops, although docs/hazards.md has no mark
  uint32_t fault_line = 0;  ///< 0: none
  uint32_t other_line = 0;
  launch::LaunchDescription launch;
};

/// Errors name what the file lacks.
Result<HazardCase> read_case(const std::filesystem::path& path);

/// A rule of docs/hazards.md; `id` may end in `.*`.
struct Rule {
  std::string id;
  std::string severity;  ///< error, note, "error, note", unknown
  bool engine = false;
  bool covers(const std::string& rule) const;
};
Result<std::vector<Rule>> read_rules(const std::filesystem::path& document);

/// PTX of one variant, from the cache or from nvcc. At most two compilers run at a time, in all processes together.
Result<std::string> compile_variant(const HazardCase& hazard, bool faulty, const std::filesystem::path& cache);

}  // namespace ptxbench::hazards

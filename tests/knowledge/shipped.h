#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/process.h"
#include "knowledge/hub.h"

namespace ptxbench::knowledge {

/// The shipped packs; a failure ends the test program.
const Hub& shipped();

/// Runs ptxbench with its caches in the build folder.
base::ProcessResult ptxbench(std::vector<std::string> arguments);
/// A program of the packs, as it was built.
std::string program(const std::string& name);
/// Runs a built program as it is, on the real CUDA runtime.
base::ProcessResult run_native(const std::string& name, std::vector<std::string> arguments);

/// A pattern as one file, with macros defined in front; the file's path.
std::string candidate(const std::string& pattern, const std::string& target, const std::vector<std::string>& macros,
                      const std::string& name);

/// How a Hopper pattern is tried: problem and axes of a small workload with tails, and one that fills a GPU's clusters.
struct PatternCase {
  const char* name;
  const char* pattern;
  std::vector<std::string> macros;  ///< "CAUSAL 1"
  const char* problem;
  std::vector<std::string> axes;
};
/// Names tests by the case instead of its bytes.
void PrintTo(const PatternCase& one, std::ostream* out);
const std::vector<PatternCase>& pattern_cases();

/// "name value" of each line.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& text);

}  // namespace ptxbench::knowledge

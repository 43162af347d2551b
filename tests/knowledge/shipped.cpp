#include "shipped.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::knowledge {

const Hub& shipped() {
  static const Result<Hub> hub = Hub::load(TEST_PACKS);
  if (!hub) {
    std::fprintf(stderr, "%s\n", hub.error().message.c_str());
    std::abort();
  }
  return *hub;
}

base::ProcessResult ptxbench(std::vector<std::string> arguments) {
  base::ProcessOptions options;
  options.argv = {TEST_PROGRAM};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment["PTXBENCH_CACHE"] = TEST_CACHE;
  options.wall_limit = std::chrono::seconds(300);
  auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(base::ProcessResult());
}

std::string program(const std::string& name) { return std::string(TEST_PROGRAMS) + "/" + name; }

base::ProcessResult run_native(const std::string& name, std::vector<std::string> arguments) {
  base::ProcessOptions options;
  options.argv = {program(name)};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.wall_limit = std::chrono::seconds(120);
  auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(base::ProcessResult());
}

std::string candidate(const std::string& pattern, const std::string& target, const std::vector<std::string>& macros,
                      const std::string& name) {
  const auto text = flatten(shipped().folder(), target + "/patterns/" + pattern + ".cu", target);
  EXPECT_TRUE(text) << text.error().message;
  std::string source;
  for (const std::string& macro : macros) source += "#define " + macro + "\n";
  source += text.value_or("");
  const std::string path = std::string(TEST_CACHE) + "/knowledge-" + name + ".cu";
  EXPECT_TRUE(base::write_file_atomic(path, source));
  return path;
}

const std::vector<PatternCase>& pattern_cases() {
  static const std::vector<PatternCase> cases = {
      {"gemm_minimal", "gemm_minimal", {}, "gemm_n128_k2048", {"M=200"}},
      {"gemm_specialized", "gemm_specialized", {}, "gemm_n128_k2048", {"M=200"}},
      {"gemm_multicast", "gemm_multicast", {}, "gemm_n128_k2048", {"M=200"}},
      // More pairs of tiles than clusters: the ring runs on from tile to tile.
      {"gemm_multicast_persistent", "gemm_multicast", {}, "gemm_n5120_k2048", {"M=1000"}},
      {"forward", "attention_forward", {}, "mha_with_lse_d128", {"B=1", "H=2", "S=300"}},
      {"forward_causal", "attention_forward", {"CAUSAL 1"}, "mha_with_lse_d128_causal", {"B=1", "H=2", "S=450"}},
      {"forward_simple", "attention_forward", {"OVERLAP 0"}, "mha_with_lse_d128", {"B=1", "H=2", "S=300"}},
      {"forward_simple_causal",
       "attention_forward",
       {"OVERLAP 0", "CAUSAL 1"},
       "mha_with_lse_d128_causal",
       {"B=1", "H=2", "S=300"}},
      {"backward", "attention_backward", {}, "mha_bwd_d128", {"B=1", "H=2", "S=300"}},
      {"backward_causal", "attention_backward", {"CAUSAL 1"}, "mha_bwd_d128_causal", {"B=1", "H=2", "S=300"}},
  };
  return cases;
}

void PrintTo(const PatternCase& one, std::ostream* out) { *out << one.name; }

std::vector<std::pair<std::string, std::string>> pairs_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view line : base::split_lines(text)) {
    const auto words = base::split(line, ' ');
    if (words.size() == 2) pairs.emplace_back(words[0], words[1]);
  }
  return pairs;
}

}  // namespace ptxbench::knowledge

// `ptxbench check -- PROGRAM` on host code that launches wrongly: which rule, about which kernel and call, and nothing
// on the correct twin.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/process.h"

namespace ptxbench {
namespace {

using ::testing::HasSubstr;

base::Json check(std::vector<std::string> arguments) {
  base::ProcessOptions options;
  options.argv = {PTXBENCH_PROGRAM, "check", "--policies", "eager",
                  "--json",         "-",     "--",         PTXBENCH_TEST_PROGRAMS "/launch_faults"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.wall_limit = std::chrono::seconds(100);
  const auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return base::Json::object();
  // The program's own line comes first.
  const std::size_t begin = result->stdout_text.find('{');
  EXPECT_NE(begin, std::string::npos) << result->stdout_text << result->stderr_text;
  auto report = base::parse_json(result->stdout_text.substr(std::min(begin, result->stdout_text.size())), "output");
  EXPECT_TRUE(report) << result->stdout_text << result->stderr_text;
  return report ? std::move(*report) : base::Json::object();
}

struct LaunchFault {
  const char* name;  ///< of programs/launch_faults.cu
  const char* rule;
  const char* severity;
  const char* kernel;   ///< part of its mangled name
  const char* call;     ///< part of the host call
  const char* message;  ///< part of it
};

class LaunchRules : public ::testing::TestWithParam<LaunchFault> {};

TEST_P(LaunchRules, NameTheKernelAndTheCall) {
  const LaunchFault& fault = GetParam();
  const base::Json report = check({fault.name});
  const base::Json* found = nullptr;
  for (const base::Json& finding : report["findings"]) {
    if (finding["rule"] == fault.rule) found = &finding;
  }
  ASSERT_NE(found, nullptr) << report.dump(2);
  EXPECT_EQ((*found)["severity"], fault.severity);
  EXPECT_THAT((*found)["kernel"].get<std::string>(), HasSubstr(fault.kernel));
  ASSERT_TRUE(found->contains("host_call")) << found->dump(2);
  EXPECT_THAT((*found)["host_call"].get<std::string>(), HasSubstr(fault.call));
  EXPECT_THAT((*found)["message"].get<std::string>(), HasSubstr(fault.message));
  EXPECT_NE((*found)["fix"], "");
  // A note alone decides nothing.
  const bool decided = std::any_of(report["findings"].begin(), report["findings"].end(),
                                   [](const base::Json& one) { return one["severity"] != "note"; });
  EXPECT_EQ(report["verdict"] == "hazardous", decided) << report.dump(2);
  if (decided && std::string_view(fault.severity) == "error") {
    EXPECT_EQ(report["findings"].size(), 1u) << report.dump(2);
  }
}

TEST_P(LaunchRules, FindNothingInTheTwin) {
  const base::Json report = check({GetParam().name, "right"});
  EXPECT_EQ(report["verdict"], "clean") << report.dump(2);
  EXPECT_TRUE(report["findings"].empty()) << report.dump(2);
}

constexpr const char* kBrackets = "cudaLaunchKernel (<<<>>>)";
constexpr LaunchFault kLaunchFaults[] = {
    {"shared_opt_in", "launch.shared-memory", "error", "fill_dynamic", kBrackets,
     "65536 bytes of dynamic shared memory, 49152 are allowed (with 0 static): cudaFuncSetAttribute"},
    {"shared_static_too", "launch.shared-memory", "error", "fill_dynamic_and_static", kBrackets,
     "45056 bytes of dynamic shared memory, 40960 are allowed (with 8192 static)"},
    {"shared_opt_in_smaller", "launch.shared-memory", "error", "fill_dynamic", kBrackets, "opted in to fewer"},
    {"shared_too_much", "launch.shared-memory", "error", "fill_dynamic", kBrackets, "232448 with an opt-in"},
    {"cluster_grid", "launch.cluster-shape", "error", "fill", "cudaLaunchKernelEx", "grid 3x1x1 is not a multiple"},
    {"cluster_grid_fixed", "launch.cluster-shape", "error", "fill_pairs", kBrackets, "grid 5x1x1 is not a multiple"},
    {"cluster_mismatch", "launch.cluster-shape", "error", "fill_pairs", "cudaLaunchKernelEx", "2x1x1 in the kernel"},
    {"cluster_sixteen", "launch.cluster-size", "error", "fill", "cudaLaunchKernelEx", "16 blocks, 8 are allowed"},
    {"cluster_thirty_two", "launch.cluster-size", "error", "fill", "cudaLaunchKernelEx", "32 blocks, 16 are allowed"},
    {"cluster_missing", "launch.cluster-attribute", "error", "fill_clusters", kBrackets, ".explicitcluster"},
    {"cluster_missing_peer", "launch.cluster-attribute", "note", "fill_peer", kBrackets, "another CTA"},
    {"cluster_missing_peer_generic", "launch.cluster-attribute", "note", "fill_peer_generic", kBrackets, "another CTA"},
    {"threads_too_many", "launch.threads", "error", "fill", kBrackets, "1025x1x1"},
    {"threads_beyond_bounds", "launch.threads", "error", "fill_bounded", kBrackets, "the kernel allows 128"},
    {"grid_y", "launch.grid", "error", "fill", kBrackets, "1x70000x1"},
    {"grid_empty", "launch.grid", "error", "fill", kBrackets, "0x1x1"},
    {"registers_1024", "launch.resources", "error", "fill_wide", kBrackets, "no block of 1024 threads"},
    {"registers_768", "launch.resources", "error", "fill_wide", kBrackets, "no block of 768 threads"},
    {"cooperative_grid", "launch.cooperative", "error", "fill", "cudaLaunchCooperativeKernel", "265 blocks, 264 fit"},
    {"cooperative_shared", "launch.cooperative", "error", "fill_dynamic", "cudaLaunchCooperativeKernel",
     "133 blocks, 132 fit"},
    {"unchecked", "launch.unchecked", "note", "fill", kBrackets, "1 launch by"},
    {"unchecked_failure", "launch.unchecked", "note", "fill", kBrackets, "failed with error"},
    {"unchecked_before", "launch.unchecked", "note", "fill", kBrackets, "1 launch by"},
};
INSTANTIATE_TEST_SUITE_P(Names, LaunchRules, ::testing::ValuesIn(kLaunchFaults),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace ptxbench

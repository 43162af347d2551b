// `ptxbench check` on programs whose kernels and copies lie on several streams, or overlap as programmatic dependent
// launches: the missing order is found, and nothing in the right twins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/json.h"
#include "base/process.h"

namespace ptxbench {
namespace {

base::Json check(const std::string& name) {
  base::ProcessOptions options;
  options.argv = {PTXBENCH_PROGRAM, "check", "--json", "-", "--", PTXBENCH_TEST_PROGRAMS "/streams", name};
  options.wall_limit = std::chrono::seconds(100);
  const auto result = base::run_process(options);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  auto report = base::Json::parse(result->stdout_text, nullptr, false);
  EXPECT_FALSE(report.is_discarded()) << result->stdout_text << result->stderr_text;
  return report;
}

struct Fault {
  const char* name;
  const char* rule;
  const char* kernel;  ///< that the finding is about
};

class StreamFault : public testing::TestWithParam<Fault> {};

TEST_P(StreamFault, IsFoundAndItsTwinIsClean) {
  const Fault& fault = GetParam();
  const base::Json faulty = check(fault.name);
  EXPECT_EQ(faulty.value("verdict", ""), "hazardous");
  std::set<std::string> rules;
  for (const base::Json& finding : faulty["findings"]) {
    rules.insert(finding.value("rule", ""));
    EXPECT_EQ(finding.value("severity", ""), "error");
    EXPECT_THAT(finding.value("kernel", ""), testing::HasSubstr(fault.kernel));
  }
  EXPECT_EQ(rules, std::set<std::string>{fault.rule}) << faulty.dump(2);

  const base::Json right = check(std::string(fault.name) + "_right");
  EXPECT_EQ(right.value("verdict", ""), "clean") << right.dump(2);
  EXPECT_TRUE(right["findings"].empty()) << right.dump(2);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, StreamFault,
    testing::Values(
        Fault{"no_event", "race.stream", "copy"}, Fault{"event_too_early", "race.stream", "copy"},
        Fault{"overwritten_by_other_stream", "race.stream", "fill"},
        Fault{"copy_before_kernel_ends", "race.stream", "fill"}, Fault{"upload_on_other_stream", "race.stream", "copy"},
        Fault{"two_copies", "race.stream", ""}, Fault{"destroyed_stream", "race.stream", "copy"},
        Fault{"fill_is_asynchronous", "race.stream", "copy"},
        Fault{"copy_on_device_is_asynchronous", "race.stream", "copy"}, Fault{"many_rows", "race.stream", "fill"},
        Fault{"legacy_stream_not_waited_for", "race.stream", "copy"},
        Fault{"overwritten_by_later_stream", "race.stream", "fill"}, Fault{"flag_too_early", "race.stream", "receive"},
        Fault{"counter_without_release", "race.stream", "receive_by_counter"},
        Fault{"counter_without_acquire", "race.stream", "receive_by_counter"},
        Fault{"dependent_reads_early", "race.dependent-launch", "dependent"},
        Fault{"dependent_in_default_stream", "race.dependent-launch", "dependent"},
        Fault{"dependent_without_barrier", "race.dependent-launch", "one_thread_waits"},
        Fault{"dependent_clears_early", "race.dependent-launch", "clear_early"},
        Fault{"dependent_chain", "race.dependent-launch", "dependent"},
        Fault{"dependent_chain_of_warps", "race.dependent-launch", "dependent"}),
    [](const auto& one) { return std::string(one.param.name); });

class RightOrder : public testing::TestWithParam<const char*> {};

TEST_P(RightOrder, IsClean) {
  const base::Json report = check(GetParam());
  EXPECT_EQ(report.value("verdict", ""), "clean") << report.dump(2);
  EXPECT_TRUE(report["findings"].empty()) << report.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Programs, RightOrder,
                         testing::Values("halves", "later_stream_elsewhere", "chain_of_events", "legacy_stream",
                                         "stream_ordered_memory", "flag_between_streams", "flag_after_fill",
                                         "dependent_after_copy"),
                         [](const auto& one) { return std::string(one.param); });

/// A kernel that never lets its dependents go holds them up: a note, as only the visibility of its writes is in doubt.
TEST(DependentLaunch, OfAKernelThatNeverTriggersIsANote) {
  const base::Json report = check("dependent_of_holder");
  EXPECT_EQ(report.value("verdict", ""), "clean");
  ASSERT_EQ(report["findings"].size(), 1u) << report.dump(2);
  EXPECT_EQ(report["findings"][0].value("rule", ""), "race.dependent-launch");
  EXPECT_EQ(report["findings"][0].value("severity", ""), "note");
}

/// What a kernel was told by one kernel and tells another is not followed, so it is no race either.
TEST(HandOver, OverAThirdKernelIsUnknown) {
  const base::Json report = check("chain_of_flags");
  EXPECT_EQ(report.value("verdict", ""), "unknown") << report.dump(2);
  EXPECT_TRUE(report["findings"].empty()) << report.dump(2);
}

/// The rows of a copy that has very many are not kept: what it may meet makes the verdict unknown, never clean.
TEST(RowsOfCopies, TooManyToKeepAreUnknown) {
  for (const char* name : {"too_many_rows", "too_many_rows_first"}) {
    const base::Json report = check(name);
    EXPECT_EQ(report.value("verdict", ""), "unknown") << report.dump(2);
    EXPECT_TRUE(report["findings"].empty()) << report.dump(2);
  }
  EXPECT_EQ(check("too_many_rows_right").value("verdict", ""), "clean");
}

}  // namespace
}  // namespace ptxbench

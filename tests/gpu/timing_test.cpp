#include "gpu/timing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ptxbench::gpu {
namespace {

TimedCall call(double candidate, std::optional<double> baseline = std::nullopt) {
  TimedCall out;
  out.candidate = out.candidate_stamps = candidate;
  out.baseline = out.baseline_stamps = baseline;
  return out;
}

TEST(Median, IsTheMiddleOne) {
  EXPECT_DOUBLE_EQ(median_of({3, 1, 2}).value, 2);
  EXPECT_DOUBLE_EQ(median_of({4, 1, 2, 3}).value, 2.5);
  EXPECT_EQ(median_of({}).count, 0u);
}

TEST(Median, FewValuesSayNothingAboutTheError) {
  EXPECT_TRUE(std::isinf(median_of({1, 1, 1, 1, 1}).relative_error()));
  EXPECT_DOUBLE_EQ(median_of({1, 1, 1, 1, 1, 1}).relative_error(), 0);
}

// Of six values the least and the largest enclose the median with 1 - 2/64 = 96.9 %; of eight the second ones would
// with 93 % only.
TEST(Median, IntervalByOrderStatistics) {
  const Median six = median_of({1, 2, 3, 4, 5, 6});
  EXPECT_DOUBLE_EQ(six.low, 1);
  EXPECT_DOUBLE_EQ(six.high, 6);
  const Median eight = median_of({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_DOUBLE_EQ(eight.low, 1);
  EXPECT_DOUBLE_EQ(eight.high, 8);
  const Median nine = median_of({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_DOUBLE_EQ(nine.low, 2);
  EXPECT_DOUBLE_EQ(nine.high, 8);
}

TEST(Median, IntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(7);
  std::exponential_distribution<double> skewed(1);
  const double truth = std::log(2.0);
  for (const std::size_t count : {12u, 50u, 400u}) {
    int inside = 0;
    constexpr int kTrials = 2000;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> values(count);
      for (double& value : values) value = skewed(random);
      const Median median = median_of(values);
      inside += median.low <= truth && truth <= median.high ? 1 : 0;
    }
    EXPECT_GE(inside, kTrials * 0.94) << count;
  }
}

TEST(Summary, SpeedupIsTakenCallByCall) {
  // A clock that slows down half-way changes both times and no ratio.
  std::vector<TimedCall> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(i < 10 ? call(1, 2) : call(1.5, 3));
  const TimingSummary summary = summarise(calls);
  ASSERT_TRUE(summary.speedup.has_value());
  EXPECT_DOUBLE_EQ(summary.speedup->value, 2);
  EXPECT_DOUBLE_EQ(summary.speedup->relative_error(), 0);
}

TEST(Summary, TimersThatDisagreeShow) {
  std::vector<TimedCall> calls(10, call(1));
  for (TimedCall& one : calls) one.candidate_stamps = 2;
  EXPECT_NEAR(summarise(calls).timer_disagreement, 0.5, 1e-12);
  EXPECT_FALSE(summarise(calls).speedup.has_value());
}

TEST(StopRule, StopsWhenItKnowsEnough) {
  StopRule rule;
  std::vector<TimedCall> calls;
  while (calls.size() < rule.least - 1) calls.push_back(call(1, 1));
  EXPECT_FALSE(rule.enough(calls, 0));
  calls.push_back(call(1, 1));
  EXPECT_TRUE(rule.enough(calls, 0));
}

TEST(StopRule, NoisyCallsGoOnToTheLimits) {
  StopRule rule;
  std::vector<TimedCall> calls;
  for (std::size_t i = 0; i + 1 < rule.most; ++i) calls.push_back(call(i % 2 == 0 ? 1 : 2, 1));
  EXPECT_FALSE(rule.enough(calls, 0));
  EXPECT_TRUE(rule.enough(calls, rule.seconds + 1));
  calls.push_back(call(1, 1));
  EXPECT_TRUE(rule.enough(calls, 0));
}

TEST(Floor, IsTheLargerOfMemoryAndArithmetic) {
  Floor floor;
  floor.bytes = 4e9;
  floor.memory_bytes_per_second = 4e12;
  floor.multiply_adds = 1e11;
  floor.multiply_adds_per_second = 5e14;
  EXPECT_NEAR(floor.milliseconds(), 1, 1e-12);
  floor.multiply_adds = 1e12;
  EXPECT_NEAR(floor.milliseconds(), 2, 1e-12);
}

}  // namespace
}  // namespace ptxbench::gpu

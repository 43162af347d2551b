#include "gpu/clocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ptxbench::gpu {
namespace {

using namespace std::chrono_literals;

ClockSampler::Read numbers(std::atomic<unsigned>& next) {
  return [&next] {
    ClockReader::Reading reading;
    reading.sm_mhz = next++;
    return std::optional(reading);
  };
}

TEST(ClockSampler, EveryRowHasReadingsOfItsOwn) {
  std::atomic<unsigned> next = 0;
  ClockSampler sampler(numbers(next), "");
  unsigned seen = 0;
  for (int row = 0; row < 20; ++row) {
    const unsigned before = next;
    sampler.begin();
    const auto readings = sampler.end();
    ASSERT_GE(readings.size(), 1u);
    for (const auto& reading : readings) {
      EXPECT_GE(reading.sm_mhz, before) << "read before this row began";
      EXPECT_GE(reading.sm_mhz, seen);
      seen = reading.sm_mhz + 1;
    }
  }
  EXPECT_TRUE(sampler.end().empty()) << "nobody has begun";
}

TEST(ClockSampler, AReadingUnderWayCountsForNoLaterRow) {
  std::atomic<unsigned> next = 0;
  std::atomic<bool> released = false;
  ClockSampler sampler(
      [&] {
        ClockReader::Reading reading;
        reading.sm_mhz = next++;
        while (reading.sm_mhz == 1 && !released) std::this_thread::sleep_for(1ms);
        return std::optional(reading);
      },
      "");
  sampler.begin();
  while (next < 2) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(sampler.end().size(), 1u) << "the second one is under way";
  sampler.begin();
  released = true;
  const auto readings = sampler.end();
  ASSERT_GE(readings.size(), 1u);
  EXPECT_GE(readings.front().sm_mhz, 2u);
}

TEST(ClockSampler, ReadsAgainWhileARowLasts) {
  std::atomic<unsigned> next = 0;
  ClockSampler sampler(numbers(next), "");
  sampler.begin();
  for (int i = 0; i < 500 && next < 3; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GE(sampler.end().size(), 2u);
}

TEST(ClockSampler, CanGoAtAnyTime) {
  std::atomic<unsigned> next = 0;
  { const ClockSampler idle(numbers(next), ""); }
  {
    ClockSampler active(numbers(next), "");
    active.begin();
    std::this_thread::sleep_for(5ms);
  }
  ClockSampler nothing({}, "no library");
  nothing.begin();
  EXPECT_TRUE(nothing.end().empty());
  EXPECT_EQ(nothing.missing(), "no library");
}

TEST(ClockSampler, AReadingThatFailsIsNotWaitedForTwice) {
  ClockSampler sampler([] { return std::optional<ClockReader::Reading>(); }, "");
  sampler.begin();
  EXPECT_TRUE(sampler.end().empty());
}

}  // namespace
}  // namespace ptxbench::gpu

#include "gpu/clocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ptxbench::gpu {
namespace {

using namespace std::chrono_literals;

ClockSampler::Read numbers(std::atomic<unsigned>& next, std::chrono::milliseconds takes = 0ms) {
  return [&next, takes] {
    ClockReader::Reading reading;
    reading.sm_mhz = next++;
    std::this_thread::sleep_for(takes);
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

TEST(ClockSampler, ASlowReadingCountsForNoLaterRow) {
  std::atomic<unsigned> next = 0;
  ClockSampler sampler(numbers(next, 30ms), "");
  for (int row = 0; row < 4; ++row) {
    sampler.begin();
    static_cast<void>(sampler.end());
    // The next reading may be under way by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * row));
    const unsigned before = next;
    sampler.begin();
    for (const auto& reading : sampler.end()) EXPECT_GE(reading.sm_mhz, before);
  }
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

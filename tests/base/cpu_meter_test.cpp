#include "base/cpu_meter.h"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "base/process.h"

namespace ptxbench::base {
namespace {

/// Keeps the processor busy for this long, of this thread's own time.
void work(double seconds) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  for (const double end = now() + seconds; now() < end;) {
  }
}

TEST(CpuMeter, CountsTheThreadWhileItWorksForIt) {
  work(0.02);
  CpuMeter meter;
  {
    const CpuScope scope(&meter);
    work(0.03);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  work(0.02);
  EXPECT_GE(meter.seconds(), 0.03);
  EXPECT_LT(meter.seconds(), 0.045);
  EXPECT_EQ(CpuMeter::current(), nullptr);
}

TEST(CpuMeter, CountsThreadsAndProcessesThatWorkForIt) {
  CpuMeter meter;
  {
    const CpuScope scope(&meter);
    std::thread helper([for_whom = CpuMeter::current()] {
      const CpuScope own(for_whom);
      work(0.03);
    });
    helper.join();
    ProcessOptions options;
    options.argv = {"/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"};
    const auto result = run_process(options);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_GT(result->cpu_seconds, 0);
    EXPECT_GE(meter.seconds(), 0.03 + result->cpu_seconds - 1e-6);
  }
  std::thread stranger([] { work(0.03); });
  const double before = meter.seconds();
  stranger.join();
  EXPECT_EQ(meter.seconds(), before);
}

TEST(CpuMeter, WhatAnInnerOneCountsCountsOnceForTheOuterOne) {
  CpuMeter outer;
  double inner_seconds = 0;
  {
    const CpuScope scope(&outer);
    CpuMeter inner;
    {
      const CpuScope inner_scope(&inner);
      work(0.03);
      std::thread helper([for_whom = CpuMeter::current()] {
        const CpuScope own(for_whom);
        work(0.03);
      });
      helper.join();
    }
    inner_seconds = inner.seconds();
    EXPECT_GE(inner_seconds, 0.06);
  }
  EXPECT_GE(outer.seconds(), inner_seconds);
  EXPECT_LT(outer.seconds(), inner_seconds + 0.02);
}

}  // namespace
}  // namespace ptxbench::base

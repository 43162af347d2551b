#include <gtest/gtest.h>

#include "base/cpu_meter.h"
#include "emulator/device.h"

/// A launch's processor time is that of all its host threads.
namespace ptxbench::emulator {
namespace {

double seconds_with(unsigned threads) {
  DeviceOptions options;
  options.threads = threads;
  auto device = Device::create(std::move(options));
  EXPECT_TRUE(device) << device.error().message;
  const auto module = (*device)->load_ptx(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n  .reg .b32 %r<4>; .reg .pred %q<2>;\n"
      "  mov.u32 %r0, %tid.x;\n  mov.u32 %r1, 0;\nAGAIN:\n  mad.lo.u32 %r0, %r0, %r0, %r1;\n  add.u32 %r1, %r1, 1;\n"
      "  setp.lt.u32 %q0, %r1, 2000;\n  @%q0 bra AGAIN;\n  ret;\n}\n",
      "loop.ptx");
  EXPECT_TRUE(module) << module.error().message;
  LaunchRequest request;
  request.function = *(*device)->find_kernel(*module, "k");
  request.grid[0] = 600;
  request.block[0] = 128;
  base::CpuMeter meter;
  {
    const base::CpuScope scope(&meter);
    const auto report = (*device)->launch(request);
    EXPECT_TRUE(report && !report->fault);
  }
  return meter.seconds();
}

TEST(CpuSeconds, CountEveryThreadOfALaunch) {
  const double one = seconds_with(1);
  EXPECT_GT(one, 0.005);
  // The same work: the calling thread alone has about a third of it.
  EXPECT_GT(seconds_with(3), 0.6 * one);
}

}  // namespace
}  // namespace ptxbench::emulator

#include "timeline/issue_cost.h"

#include <gtest/gtest.h>

#include "ptx/parser.h"

namespace ptxbench::timeline {
namespace {

TEST(IssueCost, OfInstructions) {
  const auto module = ptx::parse_module(
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n"
      "  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .f64 %fd<4>; .reg .b16 %h<4>;\n"
      "  mov.u32 %r0, 1;\n  fma.rn.f32 %f0, %f1, %f2, %f3;\n  ex2.approx.f32 %f0, %f1;\n  add.s32 %r0, %r1, %r2;\n"
      "  add.s64 %rd0, %rd1, %rd2;\n  add.f64 %fd0, %fd1, %fd2;\n  cvt.rn.f16.f32 %h0, %f0;\n  cvt.f64.f32 %fd0, %f0;\n"
      "  shfl.sync.idx.b32 %r0, %r1, 0, 31, -1;\n  ret;\n}\n",
      "test.ptx");
  ASSERT_TRUE(module) << module.error().message;
  const auto& code = module->functions.at(0).instructions;
  const double expected[] = {0, 1, 8, 2, 4, 4, 2, 8, 4, 1};
  ASSERT_EQ(code.size(), std::size(expected));
  for (std::size_t i = 0; i < code.size(); ++i) EXPECT_EQ(issue_cycles(code[i]), expected[i]) << "instruction " << i;

  emulator::LaunchReport report;
  report.module = std::make_shared<ptx::Module>(*module);
  report.counts = {{1, 0, 30, 960}, {2, 0, 10, 320}};
  EXPECT_DOUBLE_EQ(average_issue_cycles(report), (30 * 1 + 10 * 8) / 40.0);
  report.legacy_mma_macs = 2560;
  EXPECT_DOUBLE_EQ(average_issue_cycles(report), (30 * 1 + 10 * 8 + 10) / 40.0);
  report.counts.clear();
  EXPECT_DOUBLE_EQ(average_issue_cycles(report), 1);
}

TEST(IssueCost, IgnoresCountsOfWhatIsNotThere) {
  emulator::LaunchReport report;
  EXPECT_DOUBLE_EQ(average_issue_cycles(report), 1);
  report.module = std::make_shared<ptx::Module>();
  report.counts = {{5, 7, 30, 960}};
  EXPECT_DOUBLE_EQ(average_issue_cycles(report), 1);
}

}  // namespace
}  // namespace ptxbench::timeline

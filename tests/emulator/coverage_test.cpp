#include "emulator/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "ptx/instruction_samples.h"
#include "ptx/parser.h"

namespace ptxbench::emulator {
namespace {

class Coverage : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Device::create();
    ASSERT_TRUE(made.has_value()) << made.error().message;
    device = std::move(*made);
  }

  /// What becomes of each line.
  std::vector<InstructionFidelity> judge(const std::vector<std::string>& lines, const DeviceOptions& options = {}) {
    auto module = ptx::parse_module(ptx::sample_module(lines), "test");
    if (!module) {
      ADD_FAILURE() << module.error().message;
      return {};
    }
    const size_t first = module->functions.size() - lines.size();
    const auto all =
        instruction_fidelity(std::make_shared<const ptx::Module>(std::move(*module)), device->memory(), options);
    if (!all) {
      ADD_FAILURE() << all.error().message;
      return {};
    }
    std::vector<InstructionFidelity> found;
    for (size_t i = first; i < all->size(); ++i) found.push_back((*all)[i].front());
    return found;
  }

  std::unique_ptr<Device> device;
};

TEST_F(Coverage, AsksTheDecodedCode) {
  const auto found = judge({"add.u32 %r1, %r2, %r3;", "ex2.approx.f32 %f1, %f2;", "mov.u32 %r1, %envreg3;",
                            "@%p1 mov.u32 %r1, %envreg3;", "multimem.red.add.u32 [%rd1], %r1;"});
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].fidelity, Fidelity::exact);
  EXPECT_EQ(found[1].fidelity, Fidelity::approximate);
  EXPECT_EQ(found[2].fidelity, Fidelity::unsupported);
  EXPECT_THAT(found[2].reason, testing::HasSubstr("%envreg3"));
  EXPECT_EQ(found[3].fidelity, Fidelity::unsupported);
  EXPECT_EQ(found[4].fidelity, Fidelity::unsupported);
}

TEST_F(Coverage, ControlFlowHasItsSurroundings) {
  for (const InstructionFidelity& found :
       judge({"bra out;", "brx.idx %r1, ts;", "call (r0), fn, (pa1);", "call (r0), %rd1, (pa1), proto;", "exit;"}))
    EXPECT_EQ(found.fidelity, Fidelity::exact) << found.reason;
}

TEST_F(Coverage, DependsOnTheDevice) {
  const std::vector<std::string> product = {
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, %f3, "
      "%f4};"};
  DeviceOptions exact;
  exact.exact_tensor_cores = true;
  EXPECT_EQ(judge(product).at(0).fidelity, Fidelity::approximate);
  EXPECT_EQ(judge(product, exact).at(0).fidelity, Fidelity::exact);
}

TEST_F(Coverage, ThePageIsCurrent) {
  const auto page = base::read_file("docs/ptx-coverage.md");
  ASSERT_TRUE(page.has_value()) << page.error().message;
  const auto made = coverage_page(device->memory());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_TRUE(*page == *made) << "run: build/ptx_coverage > docs/ptx-coverage.md";
}

}  // namespace
}  // namespace ptxbench::emulator

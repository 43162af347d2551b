#include "evaluation/census.h"

#include <gtest/gtest.h>

#include "ptx/parser.h"

namespace ptxbench::evaluation {
namespace {

constexpr std::string_view kModule = R"(.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %q;
  .reg .b32 %r<4>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<4>;
  cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r2}];
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r0], [%rd1, {%r1, %r2}], [%r3];
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2}], [%r0];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd1], %r2, [%r3];
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, 1, 1, 1, 0, 0;
  mbarrier.arrive.shared::cta.b64 _, [%r0];
  fma.rn.f32 %f0, %f1, %f2, %f3;
  ret;
}
)";

class CensusTest : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = ptx::parse_module(kModule, "census.ptx");
    ASSERT_TRUE(parsed) << parsed.error().message;
    module_ = std::make_shared<const ptx::Module>(std::move(*parsed));
  }
  emulator::LaunchReport report(std::initializer_list<std::uint32_t> instructions) const {
    emulator::LaunchReport out;
    out.module = module_;
    for (const std::uint32_t instruction : instructions) out.counts.push_back({instruction, 0, 4, 100});
    return out;
  }
  static const FamilyCount* family(const InstructionEvidence& evidence, std::string_view name) {
    for (const FamilyCount& count : evidence.families) {
      if (count.family == name) return &count;
    }
    return nullptr;
  }

  std::shared_ptr<const ptx::Module> module_;
};

TEST_F(CensusTest, FamiliesOfTensorCopies) {
  const auto& code = module_->functions[0].instructions;
  EXPECT_EQ(instruction_family(code[0]), "tma.prefetch");
  EXPECT_EQ(instruction_family(code[1]), "tma.load");
  EXPECT_EQ(instruction_family(code[2]), "tma.store");
  EXPECT_EQ(instruction_family(code[3]), "bulk.copy");
  EXPECT_EQ(instruction_family(code[4]), "wgmma.sync");
  EXPECT_EQ(instruction_family(code[5]), "wgmma");
  EXPECT_EQ(instruction_family(code[6]), "mbarrier");
  EXPECT_EQ(instruction_family(code[7]), "fma");
}

TEST_F(CensusTest, PrefetchesAndBulkCopiesAreNoEvidenceOfTma) {
  Census census;
  census.add(report({0, 3, 4, 6}));
  const InstructionEvidence evidence = census.evidence({});
  EXPECT_FALSE(evidence.tma_executed);
  EXPECT_FALSE(evidence.wgmma_executed);
  EXPECT_FALSE(evidence.compat_target);
}

TEST_F(CensusTest, OneDeadTmaLoadSatisfiesTheReferenceRuleOnly) {
  Census census;
  census.add(report({1, 7}));
  const InstructionEvidence evidence = census.evidence({1e6, 1000, 1, false});
  EXPECT_TRUE(evidence.compat_target);
  ASSERT_TRUE(evidence.mac_share);
  EXPECT_EQ(*evidence.mac_share, 0.0);
  EXPECT_EQ(evidence.threshold, Status::failed);
  EXPECT_EQ(evidence.strict, Status::failed);
}

TEST_F(CensusTest, SharesReferToThePartThatRan) {
  emulator::LaunchReport launch = report({1, 5});
  launch.tensor_core_macs = 900;
  launch.legacy_mma_macs = 250;
  launch.tma_bytes = 50;
  Census census;
  census.add(launch);
  const InstructionEvidence evidence = census.evidence({4000.0, 400, 0.25, true});
  EXPECT_DOUBLE_EQ(*evidence.mac_share, 0.9);
  EXPECT_DOUBLE_EQ(*evidence.legacy_mma_share, 0.25);
  EXPECT_FALSE(evidence.tma_byte_share);
  EXPECT_TRUE(evidence.scaled);
  EXPECT_EQ(evidence.threshold, Status::passed);
  EXPECT_EQ(evidence.strict, Status::unknown);
}

TEST_F(CensusTest, TmaBytesAreComparedWithWhatMustMove) {
  emulator::LaunchReport launch = report({1});
  launch.tma_bytes = 600;
  Census census;
  census.add(launch);
  const InstructionEvidence evidence = census.evidence({4000.0, 400, 1, false});
  ASSERT_TRUE(evidence.tma_byte_share);
  EXPECT_DOUBLE_EQ(*evidence.tma_byte_share, 1.5);
}

TEST_F(CensusTest, AnUnknownRequirementLeavesTheRulesOpen) {
  Census census;
  census.add(report({5}));
  const InstructionEvidence evidence = census.evidence({});
  EXPECT_FALSE(evidence.mac_share);
  EXPECT_EQ(evidence.threshold, Status::unknown);
  EXPECT_EQ(evidence.strict, Status::unknown);
  EXPECT_TRUE(evidence.compat_target);
}

TEST_F(CensusTest, LaunchesAddUp) {
  Census census;
  census.add(report({7}));
  census.add(report({7, 6}));
  const InstructionEvidence evidence = census.evidence({});
  ASSERT_NE(family(evidence, "fma"), nullptr);
  EXPECT_EQ(family(evidence, "fma")->warps, 8u);
  EXPECT_EQ(family(evidence, "fma")->lanes, 200u);
  EXPECT_EQ(family(evidence, "mbarrier")->warps, 4u);
}

}  // namespace
}  // namespace ptxbench::evaluation

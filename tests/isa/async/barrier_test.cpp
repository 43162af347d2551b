#include "kernel_fixture.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;
using BarrierTest = KernelTest;
PTXBENCH_ALL_POLICIES(BarrierTest);

constexpr const char* kStoreResult = R"(
  mad.wide.u32 %rd10, %r0, 4, %rd0;
  st.global.u32 [%rd10], %r20;
)";

TEST_P(BarrierTest, SyncOrdersSharedMemory) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  .shared .b32 s[64];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  add.u32 %r4, %r0, 100;
  st.shared.u32 [%r3], %r4;
  bar.sync 0;
  sub.u32 %r5, 63, %r0;
  mad.lo.u32 %r6, %r5, 4, %r2;
  ld.shared.u32 %r20, [%r6];
)" + std::string(kStoreResult)),
      {.block = 64}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], 163 - i);
}

TEST_P(BarrierTest, NamedBarriersWithCounts) {
  // Warp 0 fills a buffer and arrives, warp 1 waits for it; warp 2 takes no part.
  const uint64_t out = zeros<uint32_t>(96);
  run(kernel(R"(
  .shared .b32 s[32];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r1, 4, %r2;
  shr.u32 %r4, %r0, 5;
  setp.eq.u32 %p1, %r4, 0;
  setp.eq.u32 %p2, %r4, 1;
  mov.u32 %r20, 7;
  @%p2 bra consumer;
  @!%p1 bra done;
  st.shared.u32 [%r3], %r0;
  mov.u32 %r5, 3;
  mov.u32 %r6, 64;
  barrier.cta.arrive.aligned %r5, %r6;
  bra done;
consumer:
  bar.sync 3, 64;
  ld.shared.u32 %r20, [%r3];
done:
)" + std::string(kStoreResult)),
      {.block = 96}, {out});
  const auto values = download<uint32_t>(out, 96);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], 7u);
    EXPECT_EQ(values[32 + i], i);
    EXPECT_EQ(values[64 + i], 7u);
  }
}

TEST_P(BarrierTest, ReductionsOverAllThreads) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  setp.lt.u32 %p1, %r0, 37;
  bar.red.popc.u32 %r5, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 1, 64, !%p1;
  setp.lt.u32 %p4, %r0, 64;
  barrier.red.and.pred %p5, 2, %p4;
  selp.u32 %r6, 256, 0, %p2;
  selp.u32 %r7, 512, 0, %p3;
  selp.u32 %r8, 1024, 0, %p5;
  add.u32 %r20, %r5, %r6;
  add.u32 %r20, %r20, %r7;
  add.u32 %r20, %r20, %r8;
)" + std::string(kStoreResult)),
      {.block = 64}, {out});
  for (uint32_t value : download<uint32_t>(out, 64)) EXPECT_EQ(value, 37u + 512u + 1024u);
}

TEST_P(BarrierTest, DivergedLanesArriveSeparately) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  .shared .b32 s[64];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  st.shared.u32 [%r3], %r0;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra low;
  barrier.sync 1;
  bra join;
low:
  barrier.sync 1;
join:
  xor.b32 %r5, %r0, 32;
  mad.lo.u32 %r6, %r5, 4, %r2;
  ld.shared.u32 %r20, [%r6];
)" + std::string(kStoreResult)),
      {.block = 64}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i ^ 32);
}

TEST_P(BarrierTest, ExitedWarpsAndLanesAreNotExpected) {
  const uint64_t out = zeros<uint32_t>(96);
  run(kernel(R"(
  setp.ge.u32 %p1, %r0, 60;
  @%p1 exit;
  bar.sync 0;
  mov.u32 %r20, 5;
)" + std::string(kStoreResult)),
      {.block = 96}, {out});
  const auto values = download<uint32_t>(out, 96);
  for (uint32_t i = 0; i < 96; ++i) EXPECT_EQ(values[i], i < 60 ? 5u : 0u);
}

TEST_P(BarrierTest, ManyPhasesOfOneBarrier) {
  const uint64_t out = zeros<uint32_t>(128);
  run(kernel(R"(
  .shared .b32 s[128];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mov.u32 %r20, %r0;
  mov.u32 %r9, 0;
loop:
  st.shared.u32 [%r3], %r20;
  bar.sync 0;
  add.u32 %r5, %r0, 33;
  and.b32 %r5, %r5, 127;
  mad.lo.u32 %r6, %r5, 4, %r2;
  ld.shared.u32 %r20, [%r6];
  bar.sync 0;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p1, %r9, 10;
  @%p1 bra loop;
)" + std::string(kStoreResult)),
      {.block = 128}, {out});
  const auto values = download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(values[i], (i + 330) % 128);
}

TEST_P(BarrierTest, Errors) {
  fault(kernel("mov.u32 %r2, 16;\nbarrier.sync %r2;"), {}, "sync.barrier-id");
  fault(kernel("mov.u32 %r2, 40;\nbarrier.sync 1, %r2;"), {}, "sync.barrier-count");
  EXPECT_THAT(fault(kernel(R"(
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bra first;
  bar.sync 1, 96;
  bra done;
first:
  bar.sync 1, 64;
done:
)"),
                    {.block = 96}, "sync.barrier-mismatch"),
              HasSubstr("64"));
}

TEST_P(BarrierTest, MissingWarpIsADeadlock) {
  const std::string message = fault(kernel(R"(
  setp.lt.u32 %p1, %r0, 32;
  @%p1 bra done;
  bar.sync 1, 96;
done:
)"),
                                    {.block = 96}, "sync.deadlock");
  EXPECT_THAT(message, HasSubstr("barrier 1"));
  EXPECT_THAT(message, HasSubstr("96 threads expected"));
}

TEST_P(BarrierTest, TwoPlacesOfOneWarpBarrier) {
  const uint64_t out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 4 .b8 words[128];
  mov.u32 %r10, words;
  shl.b32 %r11, %r1, 2;
  add.u32 %r11, %r11, %r10;
  setp.lt.u32 %p0, %r1, 16;
  @%p0 bra low;
  st.shared.u32 [%r11], %r1;
  bar.warp.sync -1;
  ld.shared.u32 %r2, [%r11+-64];
  bra done;
low:
  add.u32 %r3, %r1, 100;
  st.shared.u32 [%r11], %r3;
  bar.warp.sync -1;
  ld.shared.u32 %r2, [%r11+64];
done:
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd4, %rd4, %rd0;
  st.global.u32 [%rd4], %r2;
)"),
      {}, {out});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane < 16 ? lane + 16 : lane - 16 + 100);
}

TEST_P(BarrierTest, WarpBarriersOfOtherMembersDoNotMeet) {
  fault(kernel(R"(
  setp.lt.u32 %p0, %r1, 16;
  @%p0 bra low;
  bar.warp.sync -1;
  bra done;
low:
  bar.warp.sync 0x1ffff;
done:
)"),
        {}, "sync.deadlock");
}

TEST_P(BarrierTest, TwoPlacesOfOneGuardedWarpBarrier) {
  run(kernel(R"(
  setp.lt.u32 %p0, %r1, 16;
  @%p0 bar.warp.sync -1;
  @!%p0 bar.warp.sync -1;
)"),
      {});
}

}  // namespace
}  // namespace ptxbench::emulator

#include "kernel_fixture.h"

#include "emulator/isa/mbarrier.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;
using MbarrierTest = KernelTest;
PTXBENCH_ALL_POLICIES(MbarrierTest);

/// Thread 0 initialises `bar` with %r15 arrivals; %r10 is its address.
std::string with_barrier(unsigned count, const std::string& body) {
  return kernel(R"(
  .shared .align 8 .b64 bar;
  mov.u32 %r10, bar;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r10], )" +
                std::to_string(count) + R"(;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
)" + body);
}

constexpr const char* kStoreResult = R"(
  mad.wide.u32 %rd10, %r0, 4, %rd0;
  st.global.u32 [%rd10], %r20;
)";

TEST(MbarrierStateTest, WordRoundTrip) {
  MbarrierState state;
  state.pending = 3;
  state.expected = kMbarrierMaxCount;
  state.transactions = -static_cast<int32_t>(kMbarrierMaxCount);
  state.phase = 3;
  state.live = true;
  const MbarrierState back = MbarrierState::decode(state.encode());
  EXPECT_EQ(back.pending, 3u);
  EXPECT_EQ(back.expected, kMbarrierMaxCount);
  EXPECT_EQ(back.transactions, -1048575);
  EXPECT_EQ(back.phase, 3u);
  EXPECT_TRUE(back.live);
  EXPECT_FALSE(MbarrierState::decode(0).live);
}

TEST_P(MbarrierTest, ArriveAndWaitByParityOverManyPhases) {
  const uint64_t out = zeros<uint32_t>(64);
  run(with_barrier(64, R"(
  .shared .b32 s[64];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mov.u32 %r20, %r0;
  mov.u32 %r9, 0;
loop:
  st.shared.u32 [%r3], %r20;
  and.b32 %r11, %r9, 1;
  mbarrier.arrive.shared::cta.b64 %rd20, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], %r11;
  @!%p1 bra wait;
  xor.b32 %r5, %r0, 33;
  mad.lo.u32 %r6, %r5, 4, %r2;
  ld.shared.u32 %r20, [%r6];
  bar.sync 0;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p2, %r9, 5;
  @%p2 bra loop;
)" + std::string(kStoreResult)),
      {.block = 64}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i ^ 33);
}

TEST_P(MbarrierTest, TokenOfAnArrivalAndItsPendingCount) {
  // One warp: lane l arrives as number l, so its token says 32 - l arrivals were pending.
  const uint64_t out = zeros<uint32_t>(32);
  run(with_barrier(32, R"(
  mbarrier.arrive.shared::cta.b64 %rd20, [%r10];
  mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %rd20;
  mbarrier.pending_count.b64 %r20, %rd20;
  selp.u32 %r5, 100, 0, %p1;
  add.u32 %r20, %r20, %r5;
)" + std::string(kStoreResult)),
      {}, {out});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 132 - i);
}

TEST_P(MbarrierTest, TestWaitFailsBeforeThePhaseEndsAndPrecedingParityPasses) {
  const uint64_t out = zeros<uint32_t>(32);
  run(with_barrier(33, R"(
  mbarrier.arrive.shared::cta.b64 %rd20, [%r10];
  mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %rd20;
  mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 0;
  mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r10], 1;
  selp.u32 %r5, 1, 0, %p1;
  selp.u32 %r6, 2, 0, %p2;
  selp.u32 %r7, 4, 0, %p3;
  add.u32 %r20, %r5, %r6;
  add.u32 %r20, %r20, %r7;
)" + std::string(kStoreResult)),
      {}, {out});
  for (uint32_t value : download<uint32_t>(out, 32)) EXPECT_EQ(value, 4u);
}

TEST_P(MbarrierTest, CountsDropsAndNoComplete) {
  // Expected 8: 5 arrive without completing, 3 arrive and drop: phase 0 ends, phase 1 expects 5.
  const uint64_t out = zeros<uint32_t>(32);
  run(with_barrier(8, R"(
  @%p0 mbarrier.arrive.noComplete.shared::cta.b64 %rd20, [%r10], 5;
  @%p0 mbarrier.arrive_drop.shared::cta.b64 %rd21, [%r10], 3;
  @%p0 mbarrier.arrive.shared::cta.b64 %rd22, [%r10], 4;
  mbarrier.pending_count.b64 %r5, %rd20;
  mbarrier.pending_count.b64 %r6, %rd21;
  mbarrier.pending_count.b64 %r7, %rd22;
  mad.lo.u32 %r20, %r5, 100, %r6;
  mad.lo.u32 %r20, %r20, 100, %r7;
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], 1;
  selp.u32 %r8, 1000000, 0, %p1;
  add.u32 %r20, %r20, %r8;
)" + std::string(kStoreResult)),
      {}, {out});
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 80305u);
}

TEST_P(MbarrierTest, TransactionBytesHoldThePhase) {
  const uint64_t out = zeros<uint32_t>(32);
  run(with_barrier(1, R"(
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 48;
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @%p0 mbarrier.complete_tx.shared::cta.b64 [%r10], 32;
  mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 0;
  @%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], 16;
  @%p0 mbarrier.complete_tx.shared::cta.b64 [%r10], 32;
  mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r10], 0;
  selp.u32 %r5, 1, 0, %p1;
  selp.u32 %r6, 2, 0, %p2;
  selp.u32 %r7, 4, 0, %p3;
  add.u32 %r20, %r5, %r6;
  add.u32 %r20, %r20, %r7;
)" + std::string(kStoreResult)),
      {}, {out});
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 4u);
}

TEST_P(MbarrierTest, RemoteArrivalsReachTheOtherCta) {
  const uint64_t out = zeros<uint32_t>(2);
  run(with_barrier(2, R"(
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  mov.u32 %r2, 0;
  mapa.shared::cluster.u32 %r3, %r10, %r2;
  @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
  mov.u32 %r4, %cluster_ctarank;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra done;
wait:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r10], 0;
  @!%p2 bra wait;
  mov.u32 %r20, 9;
  @%p0 st.global.u32 [%rd0], %r20;
done:
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
      {.grid = 2, .block = 64, .cluster = 2}, {out});
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 9u);
}

TEST_P(MbarrierTest, InvalidatedMemoryCanBeReused) {
  const uint64_t out = zeros<uint32_t>(32);
  run(with_barrier(1, R"(
  @%p0 mbarrier.inval.shared::cta.b64 [%r10];
  mov.u64 %rd20, 77;
  @%p0 st.shared.u64 [%r10], %rd20;
  bar.sync 0;
  ld.shared.u32 %r20, [%r10];
  @%p0 mbarrier.init.shared::cta.b64 [%r10], 1;
  @%p0 mbarrier.arrive.shared::cta.b64 %rd21, [%r10];
)" + std::string(kStoreResult)),
      {}, {out});
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 77u);
}

TEST_P(MbarrierTest, Errors) {
  fault(kernel(".shared .align 8 .b64 bar;\nmov.u32 %r10, bar;\nmbarrier.arrive.shared::cta.b64 %rd20, [%r10];"), {},
        "mbarrier.uninitialised");
  fault(kernel(".shared .align 8 .b64 bar;\nmov.u32 %r10, bar;\nmbarrier.init.shared::cta.b64 [%r10], 0;"), {},
        "mbarrier.count");
  fault(kernel(".shared .align 8 .b64 bar[2];\nmov.u32 %r10, bar;\nmbarrier.init.shared::cta.b64 [%r10+4], 1;"), {},
        "memory.misaligned");
  fault(kernel("mov.u32 %r10, 0x100000;\nmbarrier.init.shared::cta.b64 [%r10], 1;"), {}, "memory.out-of-bounds");
  EXPECT_THAT(fault(with_barrier(16, "mbarrier.arrive.shared::cta.b64 %rd20, [%r10], 20;"), {}, "mbarrier.underflow"),
              HasSubstr("16 of 16"));
  fault(with_barrier(16, "mov.u32 %r2, 0;\nmbarrier.arrive.shared::cta.b64 %rd20, [%r10], %r2;"), {}, "mbarrier.count");
  fault(with_barrier(1, "mbarrier.arrive.noComplete.shared::cta.b64 %rd20, [%r10], 1;"), {}, "mbarrier.no-complete");
  fault(with_barrier(1, R"(
  mov.u32 %r2, 1048575;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r10], %r2;
)"),
        {}, "mbarrier.tx-overflow");
  fault(with_barrier(1, "st.shared.u32 [%r10], %r0;\nmbarrier.arrive.shared::cta.b64 %rd20, [%r10];"), {},
        "mbarrier.overwritten");
  fault(
      with_barrier(
          1, "@%p0 mbarrier.inval.shared::cta.b64 [%r10];\nmbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], 0;"),
      {}, "mbarrier.uninitialised");
  fault(kernel("mbarrier.test_wait.parity.b64 %p1, [%rd0], 0;"), {}, "mbarrier.space", {zeros<uint64_t>(1)});
  fault(with_barrier(1, R"(
  barrier.cluster.arrive;
  barrier.cluster.wait;
  mov.u32 %r2, 1;
  mapa.shared::cluster.u32 %r3, %r10, %r2;
  mov.u32 %r4, %cluster_ctarank;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0;
)"),
        {.grid = 2, .cluster = 2}, "mbarrier.remote");
}

TEST_P(MbarrierTest, ForgottenArrivalIsADeadlockWithTheCounts) {
  const std::string message = fault(with_barrier(33, R"(
  mbarrier.arrive.shared::cta.b64 %rd20, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
)"),
                                    {}, "sync.deadlock");
  EXPECT_THAT(message, HasSubstr("1 of 33 arrivals pending"));
}

TEST_P(MbarrierTest, MissingBytesAreADeadlockWithTheBytes) {
  const std::string message = fault(with_barrier(1, R"(
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 128;
wait:
  mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @%p1 bra done;
  nanosleep.u32 100;
  bra wait;
done:
)"),
                                    {}, "sync.deadlock");
  (void)message;
}

}  // namespace
}  // namespace ptxbench::emulator

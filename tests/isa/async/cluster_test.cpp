#include "kernel_fixture.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;
using ClusterTest = KernelTest;
PTXBENCH_ALL_POLICIES(ClusterTest);

TEST_P(ClusterTest, BarrierOrdersDistributedSharedMemory) {
  const uint64_t out = zeros<uint32_t>(128);
  run(kernel(R"(
  .shared .b32 s[64];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mov.u32 %r4, %cluster_ctarank;
  mad.lo.u32 %r5, %r4, 1000, %r0;
  st.shared.u32 [%r3], %r5;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  xor.b32 %r6, %r4, 1;
  mapa.shared::cluster.u32 %r7, %r3, %r6;
  ld.shared::cluster.u32 %r20, [%r7];
  mad.lo.u32 %r8, %r4, 64, %r0;
  mad.wide.u32 %rd10, %r8, 4, %rd0;
  st.global.u32 [%rd10], %r20;
  barrier.cluster.arrive.relaxed;
  barrier.cluster.wait;
)"),
      {.grid = 2, .block = 64, .cluster = 2}, {out});
  const auto values = download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(values[i], 1000 + i);
    EXPECT_EQ(values[64 + i], i);
  }
}

TEST_P(ClusterTest, ExitedThreadsAreNotExpectedAndPhasesRepeat) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  mov.u32 %r4, %cluster_ctarank;
  setp.ge.u32 %p1, %r0, 20;
  setp.eq.u32 %p2, %r4, 1;
  and.pred %p3, %p1, %p2;
  @%p3 exit;
  mov.u32 %r9, 0;
loop:
  barrier.cluster.arrive;
  barrier.cluster.wait;
  add.u32 %r9, %r9, 1;
  setp.lt.u32 %p4, %r9, 5;
  @%p4 bra loop;
  mad.lo.u32 %r8, %r4, 32, %r0;
  mad.wide.u32 %rd10, %r8, 4, %rd0;
  st.global.u32 [%rd10], %r9;
)"),
      {.grid = 2, .cluster = 2}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i < 52 ? 5u : 0u) << i;
}

TEST_P(ClusterTest, ArriveAndExitWithoutWaiting) {
  const uint64_t out = zeros<uint32_t>(1);
  run(kernel(R"(
  mov.u32 %r4, %cluster_ctarank;
  setp.eq.u32 %p1, %r4, 0;
  barrier.cluster.arrive;
  @%p1 exit;
  barrier.cluster.wait;
  mov.u32 %r5, 3;
  st.global.u32 [%rd0], %r5;
)"),
      {.grid = 2, .cluster = 2}, {out});
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 3u);
}

TEST_P(ClusterTest, Errors) {
  fault(kernel("barrier.cluster.arrive;\nbarrier.cluster.arrive;"), {.grid = 2, .cluster = 2}, "sync.cluster-barrier");
  fault(kernel("barrier.cluster.wait;"), {.grid = 2, .cluster = 2}, "sync.cluster-barrier");
}

TEST_P(ClusterTest, MissingCtaIsADeadlock) {
  EXPECT_THAT(fault(kernel(R"(
  .shared .align 8 .b64 bar;
  mov.u32 %r10, bar;
  mov.u32 %r4, %cluster_ctarank;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 bra other;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  bra done;
other:
  setp.eq.u32 %p2, %r0, 0;
  @%p2 mbarrier.init.shared::cta.b64 [%r10], 1;
  bar.sync 0;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0;
  @!%p3 bra wait;
done:
)"),
                    {.grid = 2, .cluster = 2}, "sync.deadlock"),
              HasSubstr("32 of 64 threads arrived"));
}

}  // namespace
}  // namespace ptxbench::emulator

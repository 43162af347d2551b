#include "kernel_fixture.h"

#include <numeric>

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;
using CopiesTest = KernelTest;
PTXBENCH_ALL_POLICIES(CopiesTest);

std::vector<uint32_t> counting(size_t count, uint32_t first = 1) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

constexpr const char* kStoreResult = R"(
  mad.wide.u32 %rd10, %r0, 4, %rd0;
  st.global.u32 [%rd10], %r20;
)";

// --- cp.async
// ---------------------------------------------------------------------------------------------------------

TEST_P(CopiesTest, CpAsyncOfSixteenBytesWithWaitAll) {
  const uint64_t in = upload(counting(128)), out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 16 .b8 s[512];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 16, %r2;
  mad.wide.u32 %rd11, %r0, 16, %rd1;
  cp.async.cg.shared.global [%r3], [%rd11], 16;
  cp.async.wait_all;
  ld.shared.u32 %r20, [%r3+8];
)" + std::string(kStoreResult)),
      {}, {out, in});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 4 * i + 3);
}

TEST_P(CopiesTest, CpAsyncZeroFillsAndIgnores) {
  const uint64_t in = upload(counting(64)), out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 16 .b8 s[256];
  .shared .align 16 .b8 t[256];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 8, %r2;
  mov.u32 %r4, t;
  mad.lo.u32 %r5, %r0, 8, %r4;
  mov.u64 %rd20, -1;
  st.shared.u64 [%r3], %rd20;
  st.shared.u64 [%r5], %rd20;
  mad.wide.u32 %rd11, %r0, 8, %rd1;
  and.b32 %r6, %r0, 1;
  shl.b32 %r6, %r6, 2;
  cp.async.ca.shared.global [%r3], [%rd11], 8, %r6;
  setp.lt.u32 %p1, %r0, 16;
  cp.async.ca.shared.global [%r5], [%rd11], 8, %p1;
  cp.async.commit_group;
  cp.async.wait_group 0;
  ld.shared.v2.u32 {%r7, %r8}, [%r3];
  ld.shared.v2.u32 {%r9, %r10}, [%r5];
  mad.lo.u32 %r20, %r7, 1000, %r8;
  add.u32 %r11, %r9, %r10;
  mad.lo.u32 %r20, %r11, 1000000, %r20;
)" + std::string(kStoreResult)),
      {}, {out, in});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t low = 2 * i + 1, high = 2 * i + 2;
    EXPECT_EQ(values[i], (i % 2 == 1 ? low : 0) * 1000 + (i < 16 ? 0 : low + high) * 1000000) << i;
  }
}

TEST_P(CopiesTest, CpAsyncGroupsCompleteInOrder) {
  const uint64_t in = upload(counting(96)), out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 16 .b8 s[384];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mad.wide.u32 %rd11, %r0, 4, %rd1;
  cp.async.ca.shared.global [%r3], [%rd11], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r3+128], [%rd11+128], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r3+256], [%rd11+256], 4;
  cp.async.commit_group;
  cp.async.wait_group 2;
  ld.shared.u32 %r4, [%r3];
  cp.async.wait_group 1;
  ld.shared.u32 %r5, [%r3+128];
  cp.async.wait_group 0;
  ld.shared.u32 %r6, [%r3+256];
  add.u32 %r20, %r4, %r5;
  add.u32 %r20, %r20, %r6;
)" + std::string(kStoreResult)),
      {}, {out, in});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 3 * i + 1 + 33 + 65);
}

TEST_P(CopiesTest, CpAsyncArrivesOnAnMbarrier) {
  // Two warps copy and arrive with .noinc (64 arrivals); a third pair of arrivals of lane 0 adds its own pending count.
  const uint64_t in = upload(counting(64)), out = zeros<uint32_t>(64);
  run(kernel(R"(
  .shared .align 16 .b8 s[256];
  .shared .align 8 .b64 bar;
  mov.u32 %r2, s;
  mov.u32 %r10, bar;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared.b64 [%r10], 64;
  bar.sync 0;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mad.wide.u32 %rd11, %r0, 4, %rd1;
  cp.async.ca.shared.global [%r3], [%rd11], 4;
  @%p0 cp.async.mbarrier.arrive.shared.b64 [%r10];
  cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];
wait:
  mbarrier.try_wait.parity.shared.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  xor.b32 %r4, %r0, 63;
  mad.lo.u32 %r5, %r4, 4, %r2;
  ld.shared.u32 %r20, [%r5];
)" + std::string(kStoreResult)),
      {.block = 64}, {out, in});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], 64 - i);
}

TEST_P(CopiesTest, UnwaitedCopyIsLateUnderTheLazyPolicy) {
  const uint64_t in = upload(counting(32)), out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 16 .b8 s[128];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 4, %r2;
  mad.wide.u32 %rd11, %r0, 4, %rd1;
  cp.async.ca.shared.global [%r3], [%rd11], 4;
  ld.shared.u32 %r20, [%r3];
)" + std::string(kStoreResult)),
      {}, {out, in});
  if (GetParam() == CompletionPolicy::random) return;
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], GetParam() == CompletionPolicy::eager ? i + 1 : 0);
}

TEST_P(CopiesTest, CpAsyncErrors) {
  const uint64_t in = zeros<uint32_t>(32);
  const std::string shared =
      ".shared .align 16 .b8 s[512];\nmov.u32 %r2, s;\nmad.lo.u32 %r3, %r0, 16, %r2;\n"
      "mad.wide.u32 %rd11, %r0, 16, %rd1;\n";
  fault(kernel(shared + "cp.async.cg.shared.global [%r3], [%rd11], 16;"), {}, "memory.out-of-bounds", {0, in});
  fault(kernel(shared + "cp.async.cg.shared.global [%r3], [%rd1+8], 16;"), {}, "memory.misaligned", {0, in});
  fault(kernel(shared + "mov.u32 %r4, 17;\ncp.async.cg.shared.global [%r3], [%rd1], 16, %r4;"), {}, "async.size",
        {0, in});
}

// --- linear bulk copies
// -------------------------------------------------------------------------------------------------

/// Barrier `bar` (%r10) with one arrival, buffer `buf` (%r11) of 1024 bytes; %p0 is thread 0.
std::string bulk_kernel(const std::string& body) {
  return kernel(R"(
  .shared .align 128 .b8 buf[1024];
  .shared .align 8 .b64 bar;
  mov.u32 %r10, bar;
  mov.u32 %r11, buf;
  setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared::cta.b64 [%r10], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
)" + body);
}

TEST_P(CopiesTest, BulkLoadSignalsItsMbarrier) {
  const uint64_t in = upload(counting(256)), out = zeros<uint32_t>(64);
  run(bulk_kernel(R"(
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 256, [%r10];
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r11+256], [%rd1+512], 256, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  mad.lo.u32 %r3, %r0, 4, %r11;
  ld.shared.u32 %r4, [%r3];
  ld.shared.u32 %r5, [%r3+256];
  mad.lo.u32 %r20, %r4, 1000, %r5;
)" + std::string(kStoreResult)),
      {.block = 64}, {out, in});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], (i + 1) * 1000 + i + 129);
}

TEST_P(CopiesTest, BulkStoreAndGroups) {
  const uint64_t out = zeros<uint32_t>(64);
  run(bulk_kernel(R"(
  mad.lo.u32 %r3, %r0, 4, %r11;
  add.u32 %r4, %r0, 500;
  st.shared.u32 [%r3], %r4;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p0 bra done;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r11], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0+128], [%r11+128], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  st.shared.u32 [%r11], %r0;
  cp.async.bulk.wait_group 0;
done:
)"),
      {.block = 64}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], 500 + i);
}

TEST_P(CopiesTest, ReadWaitDoesNotPublishTheStoreUnderTheLazyPolicy) {
  const uint64_t out = zeros<uint32_t>(64);
  run(bulk_kernel(R"(
  mad.lo.u32 %r3, %r0, 4, %r11;
  add.u32 %r4, %r0, 500;
  st.shared.u32 [%r3], %r4;
  fence.proxy.async;
  bar.sync 0;
  @!%p0 bra done;
  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r11], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  ld.global.u32 %r5, [%rd0];
  cp.async.bulk.wait_group 0;
  ld.global.u32 %r6, [%rd0];
  st.global.u32 [%rd0+128], %r5;
  st.global.u32 [%rd0+132], %r6;
done:
)"),
      {.block = 32}, {out});
  const auto values = download<uint32_t>(out, 64);
  if (GetParam() != CompletionPolicy::random) {
    EXPECT_EQ(values[32], GetParam() == CompletionPolicy::lazy ? 0u : 500u);
  }
  EXPECT_EQ(values[33], 500u);
}

TEST_P(CopiesTest, BulkCopyBetweenCtas) {
  // Each CTA sends 128 bytes to its neighbour's buffer and barrier.
  const uint64_t out = zeros<uint32_t>(64);
  run(bulk_kernel(R"(
  mov.u32 %r2, %cluster_ctarank;
  mad.lo.u32 %r3, %r0, 4, %r11;
  mad.lo.u32 %r4, %r2, 1000, %r0;
  st.shared.u32 [%r3], %r4;
  fence.proxy.async;
  bar.sync 0;
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 128;
  xor.b32 %r5, %r2, 1;
  mapa.shared::cluster.u32 %r6, %r11, %r5;
  mapa.shared::cluster.u32 %r7, %r10, %r5;
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6+512], [%r11], 128, [%r7];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  ld.shared.u32 %r20, [%r3+512];
  mov.u32 %r8, %ctaid.x;
  mad.lo.u32 %r9, %r8, 32, %r0;
  mad.wide.u32 %rd10, %r9, 4, %rd0;
  st.global.u32 [%rd10], %r20;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
      {.grid = 2, .cluster = 2}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], 1000 + i);
    EXPECT_EQ(values[32 + i], i);
  }
}

TEST_P(CopiesTest, MulticastReachesEveryCtaOfTheMask) {
  const uint64_t in = upload(counting(32)), out = zeros<uint32_t>(128);
  run(bulk_kernel(R"(
  mov.u32 %r2, %cluster_ctarank;
  setp.eq.u32 %p2, %r2, 1;
  and.pred %p3, %p2, %p0;
  setp.ne.u32 %p4, %r2, 2;
  and.pred %p5, %p4, %p0;
  @%p5 mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 128;
  mov.u16 %h1, 11;
  @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r11], [%rd1], 128, [%r10], %h1;
  @!%p4 bra store;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
store:
  mad.lo.u32 %r3, %r0, 4, %r11;
  ld.shared.u32 %r20, [%r3];
  mad.lo.u32 %r9, %r2, 32, %r0;
  mad.wide.u32 %rd10, %r9, 4, %rd0;
  st.global.u32 [%rd10], %r20;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
      {.grid = 4, .cluster = 4}, {out, in});
  const auto values = download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(values[i], i / 32 == 2 ? 0 : i % 32 + 1) << i;
}

TEST_P(CopiesTest, BulkReductions) {
  const uint64_t out = upload(counting(64, 10));
  run(bulk_kernel(R"(
  mad.lo.u32 %r3, %r0, 4, %r11;
  st.shared.u32 [%r3], %r0;
  add.u32 %r4, %r0, 20;
  st.shared.u32 [%r3+128], %r4;
  mov.u32 %r5, 1;
  st.shared.u32 [%r3+256], %r5;
  fence.proxy.async;
  bar.sync 0;
  @!%p0 bra done;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 128;
  cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r11], [%r11+256], 128, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r11], 128;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [%rd0+128], [%r11+128], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
)"),
      {}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], 10 + i + i + 1);
    EXPECT_EQ(values[32 + i], 42 + i);  // 42 + i beats 20 + i
  }
}

TEST_P(CopiesTest, StAsyncAndRedAsync) {
  const uint64_t out = zeros<uint32_t>(64);
  run(bulk_kernel(R"(
  mov.u32 %r2, %cluster_ctarank;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 640;
  xor.b32 %r5, %r2, 1;
  mapa.shared::cluster.u32 %r6, %r11, %r5;
  mapa.shared::cluster.u32 %r7, %r10, %r5;
  mad.lo.u32 %r8, %r0, 16, %r6;
  mad.lo.u32 %r9, %r2, 100, %r0;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r8], {%r9, %r9, %r0, %r2}, [%r7];
  mov.u32 %r12, 3;
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6+640], %r12, [%r7];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
  mad.lo.u32 %r3, %r0, 16, %r11;
  ld.shared.u32 %r20, [%r3+4];
  ld.shared.u32 %r13, [%r11+640];
  mad.lo.u32 %r20, %r13, 1000, %r20;
  mad.lo.u32 %r14, %r2, 32, %r0;
  mad.wide.u32 %rd10, %r14, 4, %rd0;
  st.global.u32 [%rd10], %r20;
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
      {.grid = 2, .cluster = 2}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], 96000 + 100 + i);
    EXPECT_EQ(values[32 + i], 96000 + i);
  }
}

TEST_P(CopiesTest, BulkErrors) {
  const uint64_t in = zeros<uint32_t>(64);
  auto load = [](const std::string& operands) {
    return bulk_kernel("@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " + operands + ";");
  };
  // An immediate size that is no multiple of 16 does not even parse.
  fault(bulk_kernel(R"(
  mov.u32 %r5, 24;
  @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], %r5, [%r10];
)"),
        {}, "tma.size", {0, in});
  fault(load("[%r11+8], [%rd1], 32, [%r10]"), {}, "memory.misaligned", {0, in});
  fault(load("[%r11], [%rd1+8], 32, [%r10]"), {}, "memory.misaligned", {0, in});
  fault(load("[%r11], [%rd1], 272, [%r10]"), {}, "memory.out-of-bounds", {0, in});
  fault(load("[%r11], [%rd1], 256, [%r11]"), {}, "mbarrier.uninitialised", {0, in});
  fault(bulk_kernel(R"(
  mov.u16 %h1, 6;
  @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r11], [%rd1], 128, [%r10], %h1;
)"),
        {.grid = 2, .cluster = 2}, "tma.multicast", {0, in});
  fault(bulk_kernel(R"(
  mov.u32 %r2, %cluster_ctarank;
  xor.b32 %r5, %r2, 1;
  mapa.shared::cluster.u32 %r6, %r11, %r5;
  @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r11], 128, [%r10];
  barrier.cluster.arrive;
  barrier.cluster.wait;
)"),
        {.grid = 2, .cluster = 2}, "tma.mbarrier", {0, in});
}

TEST_P(CopiesTest, TooManyExpectedBytesAreADeadlock) {
  const uint64_t in = zeros<uint32_t>(64);
  EXPECT_THAT(fault(bulk_kernel(R"(
  @!%p0 bra wait;
  mbarrier.arrive.expect_tx.shared::cta.b64 %rd20, [%r10], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 128, [%r10];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
  @!%p1 bra wait;
)"),
                    {}, "sync.deadlock", {0, in}),
              HasSubstr("128 bytes pending"));
}

TEST_P(CopiesTest, BulkPrefetchMovesNothing) {
  const uint64_t in = zeros<uint32_t>(64);
  run(bulk_kernel("@%p0 cp.async.bulk.prefetch.L2.global [%rd1], 128;"), {}, {0, in});
  fault(bulk_kernel("mov.u32 %r5, 24;\n@%p0 cp.async.bulk.prefetch.L2.global [%rd1], %r5;"), {}, "tma.size", {0, in});
}

}  // namespace
}  // namespace ptxbench::emulator

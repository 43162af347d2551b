#include "kernel_fixture.h"

#include "emulator/tensor/numeric_formats.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;

/// Matrices of small integers, so that every sum is exact. A is 64 x K, B is K x N, both stored K-major without
/// swizzle: core matrices of eight rows by 16 bytes, neighbours along k 128 bytes apart, along rows or columns 256
/// bytes apart.
int a_value(unsigned m, unsigned k) { return static_cast<int>((m + 2 * k) % 5) - 2; }
int b_value(unsigned k, unsigned n) { return static_cast<int>((k + 3 * n) % 7) - 3; }

float product(unsigned m, unsigned n, unsigned depth) {
  int sum = 0;
  for (unsigned k = 0; k < depth; ++k) sum += a_value(m, k) * b_value(k, n);
  return static_cast<float>(sum);
}

size_t core_offset(unsigned row, unsigned k_byte) {
  return row / 8 * 256 + row % 8 * 16 + k_byte / 16 * 128 + k_byte % 16;
}

/// The bytes of `rows` rows with 16-bit floats.
template <class Value>
std::vector<uint8_t> pack_half(unsigned rows, Value value) {
  std::vector<uint8_t> bytes(rows / 8 * 256);
  for (unsigned row = 0; row < rows; ++row) {
    for (unsigned k = 0; k < 16; ++k) {
      const uint16_t bits = f32_to_f16_rn(static_cast<float>(value(row, k)));
      std::memcpy(&bytes[core_offset(row, k * 2)], &bits, 2);
    }
  }
  return bytes;
}

class WgmmaTest : public KernelTest {
 protected:
  /// A (64 rows) then B (16 columns), as the kernels below expect them at %rd1.
  uint64_t operands() {
    std::vector<uint8_t> bytes = pack_half(64, a_value);
    const std::vector<uint8_t> b = pack_half(16, [](unsigned n, unsigned k) { return b_value(k, n); });
    bytes.insert(bytes.end(), b.begin(), b.end());
    return upload(bytes);
  }
};
PTXBENCH_ALL_POLICIES(WgmmaTest);

/// Copies 2560 bytes from %rd1 to shared memory, makes the descriptors %rd20 (A) and %rd21 (B), and a false %p0, true
/// %p1.
std::string wgmma_kernel(const std::string& body, const std::string& directives = "") {
  return kernel(R"(
  .shared .align 1024 .b8 buf[2560];
  mov.u32 %r10, buf;
  mov.u32 %r2, %r0;
fill:
  setp.ge.u32 %p2, %r2, 640;
  @%p2 bra filled;
  mad.wide.u32 %rd22, %r2, 4, %rd1;
  ld.global.u32 %r3, [%rd22];
  mad.lo.u32 %r4, %r2, 4, %r10;
  st.shared.u32 [%r4], %r3;
  mov.u32 %r5, %ntid.x;
  add.u32 %r2, %r2, %r5;
  bra fill;
filled:
  fence.proxy.async.shared::cta;
  bar.sync 0;
  and.b32 %r6, %r10, 0x3ffff;
  shr.u32 %r6, %r6, 4;
  cvt.u64.u32 %rd20, %r6;
  or.b64 %rd20, %rd20, 0x1000080000;
  add.u64 %rd21, %rd20, 128;
  setp.ne.u32 %p0, %r10, %r10;
  setp.eq.u32 %p1, %r10, %r10;
)" + body,
                "", directives);
}

/// Stores the four f32 accumulators %f<first>.. of a m64n8 tile to %rd0 + 4 * (8 * row + column).
std::string store_tile(unsigned first, unsigned tile = 0, const char* name = "f") {
  auto f = [&](unsigned i) { return std::string("%") + name + std::to_string(first + i); };
  return R"(
  and.b32 %r30, %r0, 127;
  shr.u32 %r31, %r30, 5;
  shr.u32 %r32, %r1, 2;
  mad.lo.u32 %r33, %r31, 16, %r32;
  and.b32 %r34, %r1, 3;
  shl.b32 %r34, %r34, 1;
  mad.lo.u32 %r35, %r33, 8, %r34;
  mad.wide.u32 %rd30, %r35, 4, %rd0;
)" + std::string("  st.global.v2.b32 [%rd30+") +
         std::to_string(tile * 2048) + "], {" + f(0) + ", " + f(1) + "};\n  st.global.v2.b32 [%rd30+" +
         std::to_string(tile * 2048 + 256) + "], {" + f(2) + ", " + f(3) + "};\n";
}

constexpr const char* kAccumulators =
    "mov.f32 %f0, 0f42280000;\nmov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n"
    "mov.f32 %f4, %f0;\nmov.f32 %f5, %f0;\nmov.f32 %f6, %f0;\nmov.f32 %f7, %f0;\n";

TEST_P(WgmmaTest, BothOperandsInSharedMemory) {
  const uint64_t out = zeros<float>(512);
  // The first operation ignores the 42 in the accumulators, the second adds to its result.
  const LaunchReport report = run(wgmma_kernel(std::string(kAccumulators) + R"(
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p0, 1, 1, 0, 0;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)" + store_tile(0)),
                                  {.block = 128}, {out, operands()});
  EXPECT_EQ(report.tensor_core_macs, 2u * 64 * 8 * 16);
  const auto values = download<float>(out, 512);
  for (unsigned m = 0; m < 64; ++m) {
    for (unsigned n = 0; n < 8; ++n) EXPECT_EQ(values[m * 8 + n], 2 * product(m, n, 16)) << m << " " << n;
  }
}

TEST_P(WgmmaTest, AFromRegistersAndNegatedB) {
  const uint64_t out = zeros<float>(1024);
  std::vector<uint32_t> fragments(512);
  for (unsigned thread = 0; thread < 128; ++thread) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned lane = thread % 32, row = thread / 32 * 16 + lane / 4 + 8 * (i % 2),
                     k = lane % 4 * 2 + 8 * (i / 2);
      fragments[thread * 4 + i] = f32_to_f16_rn(static_cast<float>(a_value(row, k))) |
                                  uint32_t{f32_to_f16_rn(static_cast<float>(a_value(row, k + 1)))} << 16;
    }
  }
  run(wgmma_kernel(std::string(kAccumulators) + R"(
  mad.wide.u32 %rd25, %r0, 16, %rd2;
  ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd25];
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, %rd21, %p1, 1, -1, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)" + store_tile(0) +
                   store_tile(4, 1)),
      {.block = 128}, {out, operands(), upload(fragments)});
  const auto values = download<float>(out, 1024);
  for (unsigned m = 0; m < 64; ++m) {
    for (unsigned n = 0; n < 16; ++n) {
      EXPECT_EQ(values[n / 8 * 512 + m * 8 + n % 8], 42 - product(m, n, 16)) << m << " " << n;
    }
  }
}

TEST_P(WgmmaTest, GroupsOfTwoWarpgroups) {
  // Two groups in flight; the second warpgroup computes the same tile into its own half of the output.
  const uint64_t out = zeros<float>(2048);
  run(wgmma_kernel(std::string(kAccumulators) + R"(
  shr.u32 %r7, %r0, 7;
  mad.wide.u32 %rd0, %r7, 4096, %rd0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f4, %f5, %f6, %f7}, %rd20, %rd21, %p0, -1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;
)" + store_tile(0) +
                   "wgmma.wait_group.sync.aligned 0;\n" + store_tile(4, 1)),
      {.block = 256}, {out, operands()});
  const auto values = download<float>(out, 2048);
  for (unsigned i = 0; i < 2048; ++i) {
    const unsigned m = i % 512 / 8, n = i % 8;
    EXPECT_EQ(values[i], (i / 512 % 2 != 0 ? -1 : 1) * product(m, n, 16)) << i;
  }
}

TEST_P(WgmmaTest, IntegersSaturateNothingSmall) {
  std::vector<uint8_t> bytes(2560);
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned k = 0; k < 32; ++k) bytes[core_offset(row, k)] = static_cast<uint8_t>(a_value(row, k));
  }
  for (unsigned column = 0; column < 16; ++column) {
    for (unsigned k = 0; k < 32; ++k) bytes[2048 + core_offset(column, k)] = static_cast<uint8_t>(b_value(k, column));
  }
  const uint64_t out = zeros<int32_t>(512);
  run(wgmma_kernel(R"(
  mov.u32 %r20, 1000;
  mov.u32 %r21, 1000;
  mov.u32 %r22, 1000;
  mov.u32 %r23, 1000;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.s8 {%r20, %r21, %r22, %r23}, %rd20, %rd21, 1;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)" + store_tile(20, 0, "r")),
      {.block = 128}, {out, upload(bytes)});
  const auto values = download<int32_t>(out, 512);
  for (unsigned m = 0; m < 64; ++m) {
    for (unsigned n = 0; n < 8; ++n) EXPECT_EQ(values[m * 8 + n], 1000 + static_cast<int32_t>(product(m, n, 32)));
  }
}

TEST_P(WgmmaTest, ChangedSharedMemoryIsReadAgain) {
  // B is doubled (f16 exponent + 1 is not needed: one column is set to zero) between two operations.
  const uint64_t out = zeros<float>(512);
  run(wgmma_kernel(std::string(kAccumulators) + R"(
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  bar.sync 0;
  setp.lt.u32 %p3, %r0, 4;
  mad.lo.u32 %r8, %r0, 4, %r10;
  mov.u32 %r9, 0;
  @%p3 st.shared.u32 [%r8+2096], %r9;
  @%p3 st.shared.u32 [%r8+2224], %r9;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)" + store_tile(0)),
      {.block = 128}, {out, operands()});
  const auto values = download<float>(out, 512);
  for (unsigned m = 0; m < 64; ++m) {
    // Column 3 lies at 2048 + 48 and 2048 + 128 + 48.
    for (unsigned n = 0; n < 8; ++n)
      EXPECT_EQ(values[m * 8 + n], (n == 3 ? 1 : 2) * product(m, n, 16)) << m << " " << n;
  }
}

TEST_P(WgmmaTest, ResultsAreLateUnderTheLazyPolicy) {
  const uint64_t out = zeros<float>(512);
  run(wgmma_kernel(std::string(kAccumulators) + R"(
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p0, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
)" + store_tile(0) +
                   "wgmma.wait_group.sync.aligned 0;"),
      {.block = 128}, {out, operands()});
  const auto values = download<float>(out, 512);
  if (GetParam() == CompletionPolicy::lazy) {
    EXPECT_EQ(values[9], 42.0f);
  } else if (GetParam() == CompletionPolicy::eager) {
    EXPECT_EQ(values[9], product(1, 1, 16));
  }
}

TEST_P(WgmmaTest, Errors) {
  const std::string multiply =
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd20, %rd21, %p0, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  const uint64_t data = operands();
  fault(wgmma_kernel(multiply), {.block = 64}, "wgmma.partial", {0, data});
  fault(wgmma_kernel("setp.ge.u32 %p3, %r0, 96;\n@%p3 exit;\n" + multiply), {.block = 128}, "wgmma.partial", {0, data});
  fault(wgmma_kernel("setp.ge.u32 %p3, %r0, 96;\n@%p3 bra other;\n" + multiply +
                     "bar.sync 1, 128;\nbra done;\nother:\nbar.sync 1, 128;\ndone:\n"),
        {.block = 128}, "wgmma.partial", {0, data});
  fault(wgmma_kernel("setp.ge.u32 %p3, %r0, 100;\n@%p3 exit;\n" + multiply), {.block = 128}, "wgmma.divergent",
        {0, data});
  fault(wgmma_kernel("cvt.u64.u32 %rd26, %r1;\nadd.u64 %rd20, %rd20, %rd26;\n" + multiply), {.block = 128},
        "wgmma.divergent", {0, data});
  fault(wgmma_kernel("shr.u32 %r7, %r0, 5;\ncvt.u64.u32 %rd26, %r7;\nadd.u64 %rd21, %rd21, %rd26;\n" + multiply),
        {.block = 128}, "wgmma.partial", {0, data});
  EXPECT_THAT(
      fault(wgmma_kernel("add.u64 %rd21, %rd21, 24;\n" + multiply), {.block = 128}, "memory.out-of-bounds", {0, data}),
      HasSubstr("operand B"));
  fault(wgmma_kernel("mov.u64 %rd20, 0x1000080000;\n" + multiply), {.block = 128}, "memory.out-of-bounds", {0, data});
}

}  // namespace
}  // namespace ptxbench::emulator

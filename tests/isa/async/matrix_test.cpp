#include "kernel_fixture.h"

namespace ptxbench::emulator {
namespace {

using MatrixTest = KernelTest;
PTXBENCH_ALL_POLICIES(MatrixTest);

/// Shared memory `s` holds 32 rows of eight 16-bit elements: element (row, column) = 16 * row + column. Row r is at 16
/// * r.
constexpr const char* kFill = R"(
  .shared .align 16 .b8 s[512];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 16, %r2;
  mad.lo.u32 %r4, %r0, 1048592, 65536;
  st.shared.u32 [%r3], %r4;
  add.u32 %r5, %r4, 131074;
  st.shared.u32 [%r3+4], %r5;
  add.u32 %r5, %r5, 131074;
  st.shared.u32 [%r3+8], %r5;
  add.u32 %r5, %r5, 131074;
  st.shared.u32 [%r3+12], %r5;
  bar.sync 0;
)";

uint32_t pair(uint32_t low, uint32_t high) { return low | high << 16; }
uint32_t element(uint32_t row, uint32_t column) { return 16 * row + column; }

TEST_P(MatrixTest, LoadFourMatrices) {
  const uint64_t out = zeros<uint32_t>(128);
  run(kernel(std::string(kFill) + R"(
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
  mad.wide.u32 %rd10, %r0, 16, %rd0;
  st.global.v4.u32 [%rd10], {%r10, %r11, %r12, %r13};
)"),
      {}, {out});
  const auto values = download<uint32_t>(out, 128);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t row = 8 * m + lane / 4, column = lane % 4 * 2;
      EXPECT_EQ(values[lane * 4 + m], pair(element(row, column), element(row, column + 1))) << lane << " " << m;
    }
  }
}

TEST_P(MatrixTest, LoadTransposedFromPermutedRows) {
  // Matrix rows in reverse order, through a generic address.
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(std::string(kFill) + R"(
  sub.u32 %r6, 31, %r0;
  mad.lo.u32 %r7, %r6, 16, %r2;
  cvt.u64.u32 %rd20, %r7;
  cvta.shared.u64 %rd21, %rd20;
  ldmatrix.sync.aligned.m8n8.x2.trans.b16 {%r10, %r11}, [%rd21];
  mad.wide.u32 %rd10, %r0, 8, %rd0;
  st.global.v2.u32 [%rd10], {%r10, %r11};
)"),
      {}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 2; ++m) {
      // Register element (i, j) is matrix element (j, i); matrix row r lies in shared row 31 - (8m + r).
      const uint32_t i = lane / 4, j = lane % 4 * 2;
      auto at = [&](uint32_t r, uint32_t c) { return element(31 - (8 * m + r), c); };
      EXPECT_EQ(values[lane * 2 + m], pair(at(j, i), at(j + 1, i)));
    }
  }
}

TEST_P(MatrixTest, StoreAndMove) {
  const uint64_t out = zeros<uint32_t>(128);
  run(kernel(R"(
  .shared .align 16 .b8 s[512];
  mov.u32 %r2, s;
  mad.lo.u32 %r3, %r0, 16, %r2;
  mad.lo.u32 %r10, %r0, 131074, 65536;
  add.u32 %r11, %r10, 6553700;
  stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r10, %r11};
  movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r10;
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3+256], {%r12};
  stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r3+384], {%r10};
  bar.sync 0;
  ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r3];
  mad.wide.u32 %rd10, %r0, 16, %rd0;
  st.global.v4.u32 [%rd10], {%r20, %r21, %r22, %r23};
)"),
      {}, {out});
  // Register element k of lane l is 2l + k (+100 for the second): element (i, j) of the tile is 8i + j.
  const auto bytes = download<uint16_t>(out, 256);
  for (uint32_t row = 0; row < 8; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      EXPECT_EQ(bytes[row * 8 + column], 8 * row + column);
      EXPECT_EQ(bytes[64 + row * 8 + column], 100 + 8 * row + column);
      EXPECT_EQ(bytes[128 + row * 8 + column], 8 * column + row);
      EXPECT_EQ(bytes[192 + row * 8 + column], 8 * column + row);
    }
  }
}

TEST_P(MatrixTest, Errors) {
  fault(kernel("mov.u32 %r3, 1032;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r3];"), {}, "memory.misaligned");
  fault(kernel("mov.u32 %r3, 0x30000;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r3];"), {},
        "memory.out-of-bounds");
  fault(kernel(".shared .align 16 .b8 s[512];\nmov.u32 %r2, s;\nsetp.gt.u32 %p1, %r0, 15;\n@%p1 exit;\n"
               "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];"),
        {}, "sync.divergent");
}

}  // namespace
}  // namespace ptxbench::emulator

#include "kernel_fixture.h"

#include "emulator/tensor/numeric_formats.h"

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

TEST_P(MatrixTest, MultiplyHalfIntoFloat) {
  // Small integers: A(m, k) = (m + 2k) % 5 - 2, B(k, n) = (k + 3n) % 7 - 3, C(m, n) = 8m + n.
  auto a = [](unsigned m, unsigned k) { return static_cast<int>((m + 2 * k) % 5) - 2; };
  auto b = [](unsigned k, unsigned n) { return static_cast<int>((k + 3 * n) % 7) - 3; };
  auto half = [](int value) { return uint32_t{f32_to_f16_rn(static_cast<float>(value))}; };
  std::vector<uint32_t> in(32 * 8);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned row = lane / 4, k = lane % 4 * 2;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned r = row + 8 * (i % 2), c = k + 8 * (i / 2);
      in[lane * 8 + i] = half(a(r, c)) | half(a(r, c + 1)) << 16;
    }
    for (unsigned i = 0; i < 2; ++i) {
      in[lane * 8 + 4 + i] = half(b(k + 8 * i, row)) | half(b(k + 8 * i + 1, row)) << 16;
    }
  }
  const uint64_t out = zeros<float>(128);
  const LaunchReport report = run(kernel(R"(
  mad.wide.u32 %rd11, %r0, 32, %rd1;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd11];
  ld.global.v2.u32 {%r14, %r15}, [%rd11+16];
  shr.u32 %r2, %r0, 2;
  and.b32 %r3, %r0, 3;
  shl.b32 %r3, %r3, 1;
  mad.lo.u32 %r4, %r2, 8, %r3;
  cvt.rn.f32.u32 %f0, %r4;
  add.f32 %f1, %f0, 0f3f800000;
  add.f32 %f2, %f0, 0f42800000;
  add.f32 %f3, %f1, 0f42800000;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f1, %f2, %f3};
  mad.wide.u32 %rd10, %r4, 4, %rd0;
  st.global.v2.f32 [%rd10], {%f4, %f5};
  st.global.v2.f32 [%rd10+256], {%f6, %f7};
)"),
                                  {}, {out, upload(in)});
  EXPECT_EQ(report.legacy_mma_macs, 16u * 8 * 16);
  const auto values = download<float>(out, 128);
  for (unsigned m = 0; m < 16; ++m) {
    for (unsigned n = 0; n < 8; ++n) {
      int sum = static_cast<int>(8 * m + n);
      for (unsigned k = 0; k < 16; ++k) sum += a(m, k) * b(k, n);
      EXPECT_EQ(values[m * 8 + n], static_cast<float>(sum)) << m << " " << n;
    }
  }
}

TEST_P(MatrixTest, MultiplyDouble) {
  // m8n8k4: A(m, k) in lane 4m + k, B(k, n) in lane 4n + k, C and D as two doubles per lane.
  std::vector<double> in(96);
  for (unsigned lane = 0; lane < 32; ++lane) {
    in[lane * 3] = lane / 4 + 10.0 * (lane % 4);
    in[lane * 3 + 1] = lane / 4 - 0.5 * (lane % 4);
    in[lane * 3 + 2] = 1000;
  }
  const uint64_t out = zeros<double>(64);
  run(kernel(R"(
  .reg .f64 %fd<8>;
  mad.wide.u32 %rd11, %r0, 24, %rd1;
  ld.global.f64 %fd0, [%rd11];
  ld.global.f64 %fd1, [%rd11+8];
  ld.global.f64 %fd2, [%rd11+16];
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd4, %fd5}, {%fd0}, {%fd1}, {%fd2, %fd2};
  mad.wide.u32 %rd10, %r0, 16, %rd0;
  st.global.v2.f64 [%rd10], {%fd4, %fd5};
)"),
      {}, {out, upload(in)});
  const auto values = download<double>(out, 64);
  for (unsigned m = 0; m < 8; ++m) {
    for (unsigned n = 0; n < 8; ++n) {
      double sum = 1000;
      for (unsigned k = 0; k < 4; ++k) sum += (m + 10.0 * k) * (n - 0.5 * k);
      EXPECT_EQ(values[m * 8 + n], sum);
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

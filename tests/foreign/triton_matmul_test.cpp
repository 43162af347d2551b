// GEMMs that Triton compiled: its software pipelines of cp.async or tensor copies around wgmma or mma.sync.
#include <gtest/gtest.h>

#include <cmath>

#include "triton_program.h"

namespace ptxbench::foreign {
namespace {

struct Shape {
  size_t m, n, k;
};

std::vector<double> rounded(std::vector<double> values, double (*round)(double)) {
  for (double& value : values) value = round(value);
  return values;
}
double through_bf16(double value) { return from_bf16(to_bf16(value)); }
double through_f16(double value) { return from_f16(to_f16(value)); }
double through_e4m3(double value) { return from_e4m3(to_e4m3(value)); }
/// Ten mantissa bits, so that TF32 loses nothing.
double through_tf32(double value) {
  const auto single = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &single, 4);
  bits &= 0xffffe000u;
  float cut = 0;
  std::memcpy(&cut, &bits, 4);
  return cut;
}

/// A [m, k] times B, which is [n, k] or [k, n].
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, Shape shape, bool b_is_nk) {
  std::vector<double> c(shape.m * shape.n);
  for (size_t i = 0; i < shape.m; ++i) {
    for (size_t l = 0; l < shape.k; ++l) {
      const double x = a[i * shape.k + l];
      for (size_t j = 0; j < shape.n; ++j) {
        c[i * shape.n + j] += x * (b_is_nk ? b[j * shape.k + l] : b[l * shape.n + j]);
      }
    }
  }
  return c;
}

template <class Element, class Output, class Encode, class Decode>
emulator::LaunchReport run_matmul(const char* name, Shape shape, Shape block, bool b_is_nk, double (*round)(double),
                                  Encode encode, Decode decode, double absolute, double relative,
                                  uint32_t split_k = 1) {
  const auto a = rounded(normal(shape.m * shape.k, 1), round), b = rounded(normal(shape.n * shape.k, 2), round);
  TritonProgram program(name);
  const uint64_t a_at = program.tensor(std::vector<Element>(converted(a, encode)));
  const uint64_t b_at = program.tensor(std::vector<Element>(converted(b, encode)));
  const uint64_t c_at = program.tensor(std::vector<Output>(shape.m * shape.n));
  const auto k = static_cast<int32_t>(shape.k), n = static_cast<int32_t>(shape.n);
  Arguments arguments;
  arguments << a_at << b_at << c_at << static_cast<int32_t>(shape.m) << n << k << k << (b_is_nk ? k : n) << n;
  auto report = program.run(static_cast<uint32_t>((shape.m + block.m - 1) / block.m),
                            static_cast<uint32_t>((shape.n + block.n - 1) / block.n), split_k, arguments);
  expect_close(converted(program.read<Output>(c_at, shape.m * shape.n), decode), product(a, b, shape, b_is_nk),
               absolute, relative);
  return report;
}

double from_single(float value) { return value; }
float to_single(double value) { return static_cast<float>(value); }

TEST(TritonMatmul, Bf16ThreeStagesEightWarps) {
  const auto report = run_matmul<uint16_t, uint16_t>("matmul_bf16", {200, 144, 256}, {128, 128, 64}, true, through_bf16,
                                                     to_bf16, from_bf16, 1e-3, 0x1p-8);
  EXPECT_EQ(report.tensor_core_macs, 256u * 256u * 256u);  // whole tiles
  EXPECT_EQ(report.legacy_mma_macs, 0u);
}

TEST(TritonMatmul, F16FourStagesBothMajors) {
  const auto report = run_matmul<uint16_t, float>("matmul_f16_4_stages", {96, 144, 320}, {64, 128, 64}, false,
                                                  through_f16, to_f16, from_single, 1e-3, 0);
  EXPECT_EQ(report.tensor_core_macs, 128u * 256u * 320u);
}

TEST(TritonMatmul, Tf32) {
  run_matmul<float, float>("matmul_tf32", {64, 128, 192}, {64, 64, 32}, true, through_tf32, to_single, from_single,
                           1e-3, 0);
}

TEST(TritonMatmul, Fp8) {
  // Hopper's FP8 tensor cores keep few fractional bits while they add: about 2^-13 of the largest product, per term.
  run_matmul<uint8_t, float>("matmul_fp8", {64, 144, 256}, {64, 128, 128}, true, through_e4m3, to_e4m3, from_single,
                             0.1, 0);
}

TEST(TritonMatmul, TileTooSmallForWgmma) {
  const auto report = run_matmul<uint16_t, float>("matmul_small_tile", {40, 48, 192}, {16, 32, 64}, false, through_bf16,
                                                  to_bf16, from_single, 1e-3, 0);
  EXPECT_EQ(report.tensor_core_macs, 0u);
  EXPECT_EQ(report.legacy_mma_macs, 48u * 64u * 192u);
}

TEST(TritonMatmul, SplitKByAtomics) {
  run_matmul<uint16_t, float>("matmul_split_k", {64, 112, 512}, {64, 64, 64}, true, through_bf16, to_bf16, from_single,
                              1e-3, 0, 4);
}

TEST(TritonMatmul, TensorMapsWrittenByTheKernel) {
  const Shape shape{200, 144, 192};
  const auto a = rounded(normal(shape.m * shape.k, 3), through_f16);
  const auto b = rounded(normal(shape.n * shape.k, 4), through_f16);
  TritonProgram program("matmul_device_descriptors");
  const uint64_t c_at = program.tensor(std::vector<uint16_t>(shape.m * shape.n));
  Arguments arguments;
  arguments << program.tensor(converted(a, to_f16)) << program.tensor(converted(b, to_f16)) << c_at;
  arguments << 200 << 144 << 192;
  const auto report = program.run(2, 2, 1, arguments);
  EXPECT_GT(report.tma_bytes, 0u);
  expect_close(converted(program.read<uint16_t>(c_at, shape.m * shape.n), from_f16), product(a, b, shape, true), 1e-3,
               0x1p-11);
}

void with_host_descriptors(const char* name) {
  const Shape shape{200, 144, 320};
  const auto a = rounded(normal(shape.m * shape.k, 5), through_bf16);
  const auto b = rounded(normal(shape.n * shape.k, 6), through_bf16);
  TritonProgram program(name);
  const uint64_t c_at = program.tensor(std::vector<uint16_t>(shape.m * shape.n));
  Arguments arguments;
  program.add_descriptor(arguments, 0, program.tensor(converted(a, to_bf16)), shape.m, shape.k);
  program.add_descriptor(arguments, 1, program.tensor(converted(b, to_bf16)), shape.n, shape.k);
  program.add_descriptor(arguments, 2, c_at, shape.m, shape.n);
  arguments << 320;
  const auto report = program.run(2, 2, 1, arguments);
  EXPECT_GT(report.tma_bytes, 0u);
  expect_close(converted(program.read<uint16_t>(c_at, shape.m * shape.n), from_bf16), product(a, b, shape, true), 1e-3,
               0x1p-8);
}

TEST(TritonMatmul, TensorMapsFromTheHost) { with_host_descriptors("matmul_host_descriptors"); }

}  // namespace
}  // namespace ptxbench::foreign

// The example kernels give on the emulator what they gave on an H200 (tests/gpu/recorded).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/files.h"
#include "evaluation/device_run.h"
#include "evaluator_fixture.h"
#include "problem/dtype.h"
#include "problem/random_element.h"

namespace ptxbench::evaluation {
namespace {

constexpr std::int64_t kM = 65, kN = 712, kK = 328;

/// The recipe of tests/gpu/recorded/README.md.
std::uint16_t input_element(std::uint32_t tensor, std::uint64_t element) {
  const problem::PhiloxBlock words = problem::philox(
      {{static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32), 0, 0}}, 20261129u, tensor);
  int sum = -262140;
  for (const std::uint32_t word : words.word) sum += static_cast<int>(word & 0xffffu) + static_cast<int>(word >> 16);
  return problem::to_bfloat16(static_cast<float>(sum) * (1.0f / 53510.0f));
}

problem::Tensor input_tensor(const char* name, std::uint32_t index, std::int64_t rows, std::int64_t columns) {
  auto tensor = problem::Tensor::create(name, problem::Dtype::bfloat16, {rows, columns});
  if (!tensor) throw std::runtime_error(tensor.error().message);
  const auto elements = tensor->as<std::uint16_t>();
  for (std::int64_t e = 0; e < rows * columns; ++e)
    elements[static_cast<std::size_t>(e)] = input_element(index, static_cast<std::uint64_t>(e));
  return std::move(*tensor);
}

std::vector<std::uint16_t> recorded(const char* file) {
  const auto bytes = base::read_file(std::string("tests/gpu/recorded/") + file);
  if (!bytes || bytes->size() != static_cast<std::size_t>(kM * kN * 2)) throw std::runtime_error(file);
  std::vector<std::uint16_t> out(bytes->size() / 2);
  std::memcpy(out.data(), bytes->data(), bytes->size());
  return out;
}

std::vector<std::uint16_t> run_example(const char* file, const problem::Tensor& a, const problem::Tensor& b,
                                       bool exact = false) {
  const auto compilation = evaluator().compiler().compile(example_source(file));
  if (!compilation || !compilation->artifact) throw std::runtime_error("does not compile");
  std::vector<DeviceArgument> arguments(3);
  const char* const names[] = {"A", "B", "C"};
  const problem::Shape shapes[] = {{kM, kK}, {kN, kK}, {kM, kN}};
  for (std::size_t i = 0; i < 3; ++i) {
    arguments[i].name = names[i];
    arguments[i].dtype = problem::Dtype::bfloat16;
    arguments[i].shape = shapes[i];
  }
  arguments[0].input = &a;
  arguments[1].input = &b;
  arguments[2].output = true;
  DeviceRunOptions options;
  options.instruction_budget = 50'000'000;
  options.exact_tensor_cores = exact;
  auto seen = run_on_device(compilation->artifact->library(), evaluator().compiler().toolchain().ffi_runtime, arguments,
                            options);
  if (!seen) throw std::runtime_error(seen.error().message);
  if (seen->shim.fault) throw std::runtime_error(seen->shim.fault->message);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(kM * kN));
  std::memcpy(out.data(), seen->outputs.at(0).data(), out.size() * 2);
  return out;
}

class SameAsHardware : public testing::Test {
 protected:
  const problem::Tensor a_ = input_tensor("A", 0, kM, kK), b_ = input_tensor("B", 1, kN, kK);

  /// Sum over k of |a b| of one element: the scale of its rounding errors.
  double magnitude(std::int64_t row, std::int64_t column) const {
    const auto a = a_.as<std::uint16_t>();
    const auto b = b_.as<std::uint16_t>();
    double sum = 0;
    for (std::int64_t k = 0; k < kK; ++k) {
      sum += std::fabs(double{problem::from_bfloat16(a[static_cast<std::size_t>(row * kK + k)])} *
                       double{problem::from_bfloat16(b[static_cast<std::size_t>(column * kK + k)])});
    }
    return sum;
  }
};

// Scalar IEEE arithmetic in the same order: every bit agrees.
TEST_F(SameAsHardware, SimtGemmIsBitEqual) {
  EXPECT_EQ(run_example("gemm_simt.cu", a_, b_), recorded("h200-simt-m65-n712-k328.bf16"));
}

// Tensor cores add the products of a step with about 25 bits below the largest, the emulator's fast mode rounds each
// addition to fp32. Stated bound: |difference| <= one bf16 step of the result + 2 K 2^-24 sum |a b|.
TEST_F(SameAsHardware, TensorCoreGemmsStayWithinTheStatedBound) {
  const auto truth = recorded("h200-tensor-core-m65-n712-k328.bf16");
  for (const char* file :
       {"gemm_mma_cp_async.cu", "gemm_tma_wgmma.cu", "gemm_warp_specialized.cu", "gemm_persistent_cluster.cu"}) {
    const auto ours = run_example(file, a_, b_);
    std::size_t different = 0;
    for (std::size_t e = 0; e < truth.size(); ++e) {
      if (ours[e] == truth[e]) continue;
      ++different;
      const double x = problem::from_bfloat16(ours[e]), y = problem::from_bfloat16(truth[e]);
      const auto row = static_cast<std::int64_t>(e) / kN, column = static_cast<std::int64_t>(e) % kN;
      const double step = std::ldexp(1.0, std::ilogb(std::max(std::fabs(x), std::fabs(y))) - 7);
      const double bound = step + 2.0 * kK * 0x1p-24 * magnitude(row, column);
      ASSERT_LE(std::fabs(x - y), bound) << file << " element " << row << ", " << column;
    }
    // Different roundings of the last bit are rare.
    EXPECT_LT(different, truth.size() / 500) << file;
    RecordProperty(file, static_cast<int>(different));
  }
}

TEST_F(SameAsHardware, TensorCoreGemmsAreBitEqualWithExactSums) {
  const auto truth = recorded("h200-tensor-core-m65-n712-k328.bf16");
  for (const char* file :
       {"gemm_mma_cp_async.cu", "gemm_tma_wgmma.cu", "gemm_warp_specialized.cu", "gemm_persistent_cluster.cu"}) {
    EXPECT_EQ(run_example(file, a_, b_, true), truth) << file;
  }
}

}  // namespace
}  // namespace ptxbench::evaluation

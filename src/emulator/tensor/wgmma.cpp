#include "emulator/tensor/wgmma.h"

#include "emulator/tensor/exact_dot.h"
#include "emulator/tensor/exact_multiply.h"
#include "emulator/tensor/tensor_kernels.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace ptxbench::emulator {
namespace {

constexpr unsigned kWarpRows = 16;

const char* name(MmaType type) {
  constexpr std::array names = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  return names[static_cast<std::size_t>(type)];
}

bool is_sixteen_bit(MmaType type) { return element_bytes(type) == 2; }

/// Steps before the last D = A*B have no effect.
std::span<const WgmmaStep> effective_steps(std::span<const WgmmaStep> steps, std::size_t* skipped) {
  *skipped = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].scale_d) {
      *skipped = i;
    }
  }
  return steps.subspan(*skipped);
}

/// Whether every instruction's result is rounded in a way that the next one sees, so that steps cannot be fused.
bool rounds_every_step(const WgmmaShape& shape, MmaMode mode) {
  return shape.saturate || shape.accumulator == AccumulatorType::f16 || is_fp8(shape.a_type) ||
         (mode == MmaMode::exact && shape.accumulator == AccumulatorType::f32);
}

}  // namespace

Result<void> check_wgmma(const WgmmaShape& shape) {
  if (shape.n < 8 || shape.n > 256 || shape.n % 8 != 0) {
    return input_error("wgmma: n is {}: it must be a multiple of 8 from 8 to 256", shape.n);
  }
  const bool same = shape.a_type == shape.b_type;
  const bool integers = is_integer(shape.a_type) && is_integer(shape.b_type);
  const bool fp8 = is_fp8(shape.a_type) && is_fp8(shape.b_type);
  if (!same && !integers && !fp8) {
    return input_error("wgmma: operand types {} and {} cannot be combined", name(shape.a_type), name(shape.b_type));
  }
  if (integers && shape.n > 32 && shape.n % 16 != 0) {
    return input_error("wgmma: n is {}: integer shapes above 32 are multiples of 16", shape.n);
  }
  if (integers != (shape.accumulator == AccumulatorType::s32)) {
    return input_error("wgmma: s32 accumulators and integer operands belong together, the operands are {}",
                       name(shape.a_type));
  }
  if (shape.accumulator == AccumulatorType::f16 && shape.a_type != MmaType::f16 && !fp8) {
    return input_error("wgmma: f16 accumulators are defined for f16, e4m3 and e5m2 operands, not {}",
                       name(shape.a_type));
  }
  const bool transposed =
      (shape.a_major == MatrixMajor::mn_major && !shape.a_in_registers) || shape.b_major == MatrixMajor::mn_major;
  if (transposed && !is_sixteen_bit(shape.a_type)) {
    return input_error("wgmma: only f16 and bf16 operands may be MN-major (transposed), the operands are {}",
                       name(shape.a_type));
  }
  if (shape.saturate && !integers) {
    return input_error("wgmma: .satfinite is defined for integer operands only");
  }
  if ((shape.negate_a || shape.negate_b) && integers) {
    return input_error("wgmma: imm-scale operands do not exist for integer types");
  }
  return {};
}

MatrixLayout a_layout(const WgmmaShape& shape, std::uint64_t descriptor) {
  return {MatrixDescriptor::decode(descriptor), shape.a_major, element_bytes(shape.a_type)};
}

MatrixLayout b_layout(const WgmmaShape& shape, std::uint64_t descriptor) {
  return {MatrixDescriptor::decode(descriptor), shape.b_major, element_bytes(shape.b_type)};
}

void WgmmaEngine::execute(const WgmmaShape& shape, std::span<const WgmmaStep> all_steps,
                          std::span<const WgmmaWarp> warps, const std::byte* shared_base,
                          std::uint64_t shared_generation, MmaMode mode) {
  assert(check_wgmma(shape).has_value());
  std::size_t skipped = 0;
  const std::span<const WgmmaStep> steps = effective_steps(all_steps, &skipped);
  bool accumulate = !steps.empty() && steps.front().scale_d;
  const std::size_t chunk_steps = rounds_every_step(shape, mode) ? 1 : packed_steps(shape.a_type);
  for (std::size_t first = 0; first < steps.size(); first += chunk_steps, accumulate = true) {
    const auto chunk = steps.subspan(first, std::min(chunk_steps, steps.size() - first));
    PackedBCache::Key key{
        shared_base,   shared_generation, {}, static_cast<unsigned>(chunk.size()), shape.n, shape.b_type,
        shape.b_major, shape.negate_b};
    std::array<std::uint64_t, kMaxPackedSteps> a_descriptors{};
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      key.descriptors[i] = chunk[i].b_descriptor;
      a_descriptors[i] = chunk[i].a_descriptor;
    }
    PackedB& b = b_.get(key);
    for (const WgmmaWarp& warp : warps) {
      if (shape.a_in_registers) {
        a_.pack_registers(shape.a_type, warp.a + 4 * (skipped + first), static_cast<unsigned>(chunk.size()),
                          shape.negate_a);
      } else {
        a_.pack_shared(shape.a_type, shape.a_major, std::span(a_descriptors).first(chunk.size()),
                       kWarpRows * warp.index, shape.negate_a, shared_base);
      }
      multiply(shape, b, warp.d, accumulate, mode);
    }
  }
}

void WgmmaEngine::multiply(const WgmmaShape& shape, PackedB& b, std::uint32_t* const* d, bool accumulate,
                           MmaMode mode) {
  const TensorKernels& kernels = tensor_kernels();
  if (shape.accumulator == AccumulatorType::s32) {
    kernels.multiply_s32(a_.data(), b.data(), a_.words(), shape.n, d, accumulate, shape.saturate);
    return;
  }
  const bool fp8 = is_fp8(shape.a_type);
  if (fp8 || mode == MmaMode::exact) {
    const ExactMultiply job{a_, b, shape.a_type, shape.b_type, shape.n, fp8 ? kHopperFp8Model : kHopperModel};
    shape.accumulator == AccumulatorType::f32 ? job.run_f32(d, accumulate) : job.run_f16(d, accumulate);
  } else if (shape.accumulator == AccumulatorType::f32) {
    kernels.multiply_f32(a_.floats(), b.floats(), a_.words(), shape.n, d, accumulate);
  } else {
    multiply_f16_fast(a_, b, shape.n, d, accumulate, wide_);
  }
}

}  // namespace ptxbench::emulator

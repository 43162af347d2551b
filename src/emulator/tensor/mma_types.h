#pragma once

#include "emulator/tensor/numeric_formats.h"

#include <cstdint>

namespace ptxbench::emulator {

/// Multiplicand types of wgmma and mma.sync that go through the packed-word kernels.
enum class MmaType : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, s8, u8 };

enum class AccumulatorType : std::uint8_t { f32, f16, s32 };

/// How sums of 16-bit and tf32 products are formed. FP8 products always use the hardware model, because its error is
/// large enough to decide whether a kernel is right; integers are exact.
enum class MmaMode : std::uint8_t {
  fast,   ///< fp32 fused multiply-add in order of k: within a few units in the last place of the hardware
  exact,  ///< the hardware model of exact_dot.h, bit for bit
};

constexpr unsigned element_bytes(MmaType type) {
  switch (type) {
    case MmaType::f16:
    case MmaType::bf16:
      return 2;
    case MmaType::tf32:
      return 4;
    default:
      return 1;
  }
}

constexpr bool is_integer(MmaType type) { return type == MmaType::s8 || type == MmaType::u8; }
constexpr bool is_fp8(MmaType type) { return type == MmaType::e4m3 || type == MmaType::e5m2; }

/// Exponent of the smallest normal number: what subnormal operands align to.
constexpr int smallest_exponent(MmaType type) {
  switch (type) {
    case MmaType::f16:
    case MmaType::e5m2:
      return -14;
    case MmaType::e4m3:
      return -6;
    default:
      return -126;
  }
}

}  // namespace ptxbench::emulator

#pragma once

#include <cstddef>
#include <cstdint>

namespace ptxbench::emulator {

/// The arithmetic of one tensor-core instruction: D = A*B + C for one element, all products of the instruction at once.
///
/// Each product and C is cut (toward zero) to `fraction_bits` below the largest exponent among them, where a product's
/// exponent is the sum of its operands' exponents (not renormalised, subnormals count as the smallest normal). The
/// terms are then added exactly and the sum is cut toward zero to `result_bits` of significand fraction; f16 results
/// are rounded to nearest even instead.
///
/// The form is the published one (MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004); the parameters
/// below were confirmed bit for bit on an H200 for wgmma and mma.sync with random operands of several exponent ranges.
/// Subnormal f16 accumulators align like the smallest normal f16.
struct TensorCoreModel {
  int fraction_bits;
  int result_bits;
};
inline constexpr int kSmallestF32Exponent = -126;
inline constexpr int kSmallestF16Exponent = -14;
inline constexpr TensorCoreModel kHopperModel{25, 23};     ///< f16, bf16, tf32; and f16 accumulators
inline constexpr TensorCoreModel kHopperFp8Model{13, 13};  ///< e4m3 and e5m2 of wgmma

/// One operand sequence: element i at `values[i * stride]`, each an exact value of a type whose smallest normal number
/// is 2^smallest_exponent.
struct DotOperand {
  const float* values;
  std::size_t stride;
  int smallest_exponent;
};

/// The exact sum of the aligned, cut terms, before the final rounding. NaN and infinity follow IEEE rules: a NaN
/// operand, inf*0 or inf-inf give NaN.
double aligned_sum(const DotOperand& a, const DotOperand& b, std::size_t count, float c, const TensorCoreModel& model,
                   int smallest_c_exponent = kSmallestF32Exponent);

/// `aligned_sum` cut to an f32 of `result_bits`; NaN becomes 0x7fffffff.
float fused_dot(const DotOperand& a, const DotOperand& b, std::size_t count, float c, const TensorCoreModel& model);

/// `aligned_sum` rounded to f16; what rounds to zero becomes +0.
std::uint16_t fused_dot_f16(const DotOperand& a, const DotOperand& b, std::size_t count, float c,
                            const TensorCoreModel& model);

std::uint16_t round_to_f16_accumulator(double sum);

/// Cuts `value` toward zero to an f32 with `bits` fraction bits; magnitudes above the largest f32 become infinity.
float cut_to_f32(double value, int bits);

}  // namespace ptxbench::emulator

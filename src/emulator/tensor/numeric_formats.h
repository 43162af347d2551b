#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

namespace ptxbench::emulator {

/// Floating-point formats of PTX that fit in 32 bits. Encodings sit in the low bits of an uint32_t; tf32 is stored as
/// a 32-bit word whose low 13 bits are zero (PTX ISA, "Alternate Floating-Point Data Formats").
enum class FloatFormat : std::uint8_t { f32, tf32, f16, bf16, e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0 };

/// PTX rounding: nearest even, toward zero, toward -inf, toward +inf, nearest with ties away from zero.
enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna };

struct ConvertOptions {
  Rounding rounding = Rounding::rn;
  bool satfinite = false;  ///< magnitudes above the largest finite value (infinity included) become that value
  bool relu = false;       ///< negative results become +0; NaN stays the canonical NaN
};

/// Static facts of a format. `max_finite` and `canonical_nan` are encodings without sign.
struct FormatTraits {
  int exponent_bits;
  int mantissa_bits;  ///< explicit ones
  int bias;
  std::uint32_t max_finite;
  std::uint32_t infinity;       ///< 0 when the format has none
  std::uint32_t canonical_nan;  ///< what `cvt` returns for NaN; formats without NaN return max_finite
  int width;                    ///< bits, sign included
};

constexpr FormatTraits format_traits(FloatFormat format) {
  switch (format) {
    case FloatFormat::f32:
      return {8, 23, 127, 0x7f7fffffU, 0x7f800000U, 0x7fffffffU, 32};
    case FloatFormat::tf32:
      return {8, 10, 127, 0x3fbffU, 0x3fc00U, 0x3ffffU, 19};
    case FloatFormat::f16:
      return {5, 10, 15, 0x7bffU, 0x7c00U, 0x7fffU, 16};
    case FloatFormat::bf16:
      return {8, 7, 127, 0x7f7fU, 0x7f80U, 0x7fffU, 16};
    case FloatFormat::e4m3:
      return {4, 3, 7, 0x7eU, 0, 0x7fU, 8};
    case FloatFormat::e5m2:
      return {5, 2, 15, 0x7bU, 0x7cU, 0x7fU, 8};
    case FloatFormat::e2m3:
      return {2, 3, 1, 0x1fU, 0, 0x1fU, 6};
    case FloatFormat::e3m2:
      return {3, 2, 3, 0x1fU, 0, 0x1fU, 6};
    case FloatFormat::e2m1:
      return {2, 1, 1, 0x7U, 0, 0x7U, 4};
    case FloatFormat::ue8m0:
      return {8, 0, 127, 0xfeU, 0, 0xffU, 8};
  }
  return {};
}

/// The value of an encoding as a double (exact). NaN encodings give a quiet NaN. For tf32 the low 13 bits are ignored.
double decode_float(FloatFormat format, std::uint32_t bits);

/// Rounds `value` to `format` once (exact for every f32 and f64 source), following the PTX ISA `cvt` section:
/// canonical NaN, subnormal results kept, overflow by rounding mode unless `satfinite`.
/// For a format without infinity, overflow without `satfinite` gives its NaN (PTX requires `satfinite` there).
/// `ue8m0` cannot be a destination (assertion): its `cvt` exists for Blackwell only.
std::uint32_t encode_float(FloatFormat format, double value, ConvertOptions options = {});

inline float bits_to_f32(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t f32_to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

/// bf16 is the upper half of a binary32, so widening is a shift and keeps NaN payloads.
inline float bf16_to_f32(std::uint16_t bits) { return bits_to_f32(static_cast<std::uint32_t>(bits) << 16); }

/// Nearest-even with canonical NaN 0x7fff; branch-free so that loops over lanes vectorise.
inline std::uint16_t f32_to_bf16_rn(float value) {
  const std::uint32_t bits = f32_to_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : rounded);
}

inline std::uint16_t f32_to_bf16_rz(float value) {
  const std::uint32_t bits = f32_to_bits(value);
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : bits >> 16);
}

/// `cvt.rn.satfinite.{e4m3,e5m2}.f32`, branch-free. Below the smallest normal, adding a power of two whose spacing is
/// the subnormal spacing lets the adder do the rounding.
inline std::uint8_t f32_to_e4m3_rn_satfinite(float value) {
  const std::uint32_t bits = f32_to_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t clamped = magnitude < 0x43e00000U ? magnitude : 0x43e00000U;  // 448
  const std::uint32_t normal = ((clamped + 0x7ffffU + ((clamped >> 20) & 1U)) >> 20) - (120U << 3);
  const std::uint32_t subnormal = f32_to_bits(bits_to_f32(clamped) + 16384.0F) - f32_to_bits(16384.0F);
  const std::uint32_t finite = (clamped < 0x3c800000U ? subnormal : normal) | ((bits >> 24) & 0x80U);  // 2^-6
  return static_cast<std::uint8_t>(magnitude > 0x7f800000U ? 0x7fU : finite);
}

inline std::uint8_t f32_to_e5m2_rn_satfinite(float value) {
  const std::uint32_t bits = f32_to_bits(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t clamped = magnitude < 0x47600000U ? magnitude : 0x47600000U;  // 57344
  const std::uint32_t normal = ((clamped + 0xfffffU + ((clamped >> 21) & 1U)) >> 21) - (112U << 2);
  const std::uint32_t subnormal = f32_to_bits(bits_to_f32(clamped) + 128.0F) - f32_to_bits(128.0F);
  const std::uint32_t finite = (clamped < 0x38800000U ? subnormal : normal) | ((bits >> 24) & 0x80U);  // 2^-14
  return static_cast<std::uint8_t>(magnitude > 0x7f800000U ? 0x7fU : finite);
}

/// What a tensor core reads of a tf32 operand: the upper 19 bits of the register.
inline float truncate_to_tf32(float value) { return bits_to_f32(f32_to_bits(value) & 0xffffe000U); }

/// `cvt.rna.tf32.f32`. Unlike the other conversions it keeps a NaN, cut to 19 bits (observed on an H200).
inline std::uint32_t f32_to_tf32_rna(float value) {
  const std::uint32_t bits = f32_to_bits(value);
  const bool special = (bits & 0x7f800000U) == 0x7f800000U;
  return (special ? bits : bits + 0x1000U) & 0xffffe000U;
}

/// NaN becomes 0x7fffffff, as `cvt.f32.f16` does.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16_rn(float value);
float e4m3_to_f32(std::uint8_t bits);
float e5m2_to_f32(std::uint8_t bits);

// Whole spans; source and destination have the same length (assertion) and may not overlap.
void bf16_to_f32(std::span<const std::uint16_t> source, std::span<float> destination);
void f16_to_f32(std::span<const std::uint16_t> source, std::span<float> destination);
void e4m3_to_f32(std::span<const std::uint8_t> source, std::span<float> destination);
void e5m2_to_f32(std::span<const std::uint8_t> source, std::span<float> destination);
void f32_to_bf16_rn(std::span<const float> source, std::span<std::uint16_t> destination);
void f32_to_f16_rn(std::span<const float> source, std::span<std::uint16_t> destination);

}  // namespace ptxbench::emulator

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Branch-free f16 and bf16 arithmetic on encodings, written so that lane loops vectorise. Exact conversions of every
/// format and rounding live in emulator/tensor/numeric_formats.h; these are the round-to-nearest-even ones.
namespace ptxbench::emulator {

inline constexpr uint32_t kCanonicalNan32 = 0x7fffffffu;
inline constexpr uint16_t kCanonicalNan16 = 0x7fff;  ///< f16 and bf16

inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline double double_of(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

inline bool is_nan(float value) { return value != value; }
inline bool is_nan(double value) { return value != value; }

/// Arithmetic instructions on f32 return one NaN whatever the operands' payloads.
inline float canonical(float value) { return value == value ? value : float_of(kCanonicalNan32); }

/// Subnormals become zero of the same sign.
inline float flush(float value) {
  const uint32_t bits = bits_of(value);
  return float_of((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
/// `.sat`: [0, 1], NaN becomes +0, and so does -0.
inline float saturate(float value) { return value > 0.0f ? (value < 1.0f ? value : 1.0f) : 0.0f; }

inline float f16_value(uint16_t bits) {
  // Scaling by 2^112 moves f16's exponent bias to f32's and normalises subnormals.
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const uint32_t finite = bits_of(float_of(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return float_of((magnitude >= 0x0f800000u ? special : finite) | (static_cast<uint32_t>(bits & 0x8000) << 16));
}
inline uint16_t f16_bits(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 adding 0.5, whose spacing is 2^-24, rounds to a multiple of the smallest f16 subnormal.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal - (112u << 10);
  const uint32_t bounded = magnitude >= 0x47800000u ? 0x7c00u : finite;
  const uint32_t result = bounded | ((bits >> 16) & 0x8000u);
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? kCanonicalNan16 : result);
}

inline float bf16_value(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }
inline uint16_t bf16_bits(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? kCanonicalNan16 : rounded);
}

struct F16 {
  static float value(uint16_t bits) { return f16_value(bits); }
  static uint16_t encode(float value) { return f16_bits(value); }
  static uint16_t flush(uint16_t bits) { return static_cast<uint16_t>((bits & 0x7c00) == 0 ? bits & 0x8000 : bits); }
  /// `.ftz`: zero if the value rounded to 11 bits with an unbounded exponent is below the normal range.
  static uint16_t encode_flushed(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = ((bits & 0x7fffffffu) + 0xfffu + ((bits >> 13) & 1)) & 0xffffe000u;
    return rounded < 0x38800000u ? static_cast<uint16_t>((bits >> 16) & 0x8000) : f16_bits(value);
  }
  /// a * b + c, to be rounded by encode. The product is exact in f32; the sum is rounded to odd there, so that rounding
  /// it again to 11 bits is as good as rounding the exact sum.
  static float fma(uint16_t a, uint16_t b, uint16_t c) {
    const float product = value(a) * value(b);
    const float addend = value(c);
    const float sum = product + addend;
    const float back = sum - product;
    const float error = (product - (sum - back)) + (addend - back);
    const uint32_t bits = bits_of(sum);
    const bool inexact = (error > 0 || error < 0) && (bits & 1) == 0;
    const uint32_t toward = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
    return float_of(inexact ? toward : bits);
  }
};

struct BF16 {
  static float value(uint16_t bits) { return bf16_value(bits); }
  static uint16_t encode(float value) { return bf16_bits(value); }
  static uint16_t flush(uint16_t bits) { return static_cast<uint16_t>((bits & 0x7f80) == 0 ? bits & 0x8000 : bits); }
  /// As F16::fma, in f64: products of bf16 values overflow f32.
  static float fma(uint16_t a, uint16_t b, uint16_t c) {
    const double product = static_cast<double>(value(a)) * static_cast<double>(value(b));
    const double addend = static_cast<double>(value(c));
    const double sum = product + addend;
    const double back = sum - product;
    const double error = (product - (sum - back)) + (addend - back);
    const uint64_t bits = bits_of(sum);
    const bool inexact = (error > 0 || error < 0) && (bits & 1) == 0;
    const uint64_t toward = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
    return round_to_odd(double_of(inexact ? toward : bits));
  }

 private:
  static float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    const auto back = static_cast<double>(nearest);
    const uint32_t bits = bits_of(nearest);
    const bool inexact = (back < value || back > value) && (bits & 1) == 0;
    const bool below = value < 0 ? back > value : back < value;  // the magnitude was rounded down
    return float_of(inexact ? (below ? bits + 1 : bits - 1) : bits);
  }
};

}  // namespace ptxbench::emulator

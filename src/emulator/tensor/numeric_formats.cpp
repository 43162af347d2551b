#include "emulator/tensor/numeric_formats.h"

#include <immintrin.h>

#include <array>
#include <cassert>
#include <limits>

namespace ptxbench::emulator {
namespace {

constexpr std::uint64_t kDoubleHiddenBit = 1ULL << 52;
constexpr std::uint32_t kCanonicalNan = 0x7fffffffU;

std::uint32_t from_storage(FloatFormat format, std::uint32_t bits) {
  return format == FloatFormat::tf32 ? bits >> 13 : bits;
}

std::uint32_t to_storage(FloatFormat format, std::uint32_t bits) {
  return format == FloatFormat::tf32 ? bits << 13 : bits;
}

// Whether discarding `remainder` of a unit of 2^shift rounds the kept magnitude `kept` up.
bool rounds_up(Rounding rounding, bool negative, std::uint64_t kept, std::uint64_t remainder, std::uint64_t half) {
  if (remainder == 0) {
    return false;
  }
  switch (rounding) {
    case Rounding::rn:
      return remainder > half || (remainder == half && (kept & 1U) != 0);
    case Rounding::rna:
      return remainder >= half;
    case Rounding::rz:
      return false;
    case Rounding::rm:
      return negative;
    case Rounding::rp:
      return !negative;
  }
  return false;
}

template <FloatFormat format>
std::array<float, 256> make_table() {
  std::array<float, 256> table{};
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    table[bits] = static_cast<float>(decode_float(format, bits));
  }
  return table;
}

const std::array<float, 256>& e4m3_table() {
  static const std::array<float, 256> table = make_table<FloatFormat::e4m3>();
  return table;
}

const std::array<float, 256>& e5m2_table() {
  static const std::array<float, 256> table = make_table<FloatFormat::e5m2>();
  return table;
}

void widen_with_table(const std::array<float, 256>& table, std::span<const std::uint8_t> source,
                      std::span<float> destination) {
  assert(source.size() == destination.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    destination[i] = table[source[i]];
  }
}

}  // namespace

double decode_float(FloatFormat format, std::uint32_t bits) {
  const FormatTraits traits = format_traits(format);
  const std::uint32_t word = from_storage(format, bits);
  if (format == FloatFormat::ue8m0) {
    return word == 0xffU ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(word) - 127);
  }
  const std::uint32_t magnitude = word & ((1U << (traits.width - 1)) - 1U);
  const bool negative = ((word >> (traits.width - 1)) & 1U) != 0;
  double value = 0;
  if (magnitude > traits.max_finite) {
    value = magnitude == traits.infinity && traits.infinity != 0 ? std::numeric_limits<double>::infinity()
                                                                 : std::numeric_limits<double>::quiet_NaN();
  } else {
    const auto exponent = static_cast<int>(magnitude >> traits.mantissa_bits);
    const std::uint32_t fraction = magnitude & ((1U << traits.mantissa_bits) - 1U);
    const std::uint32_t significand = exponent == 0 ? fraction : fraction | (1U << traits.mantissa_bits);
    value = std::ldexp(static_cast<double>(significand),
                       (exponent == 0 ? 1 : exponent) - traits.bias - traits.mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint32_t encode_float(FloatFormat format, double value, ConvertOptions options) {
  assert(format != FloatFormat::ue8m0);
  const FormatTraits traits = format_traits(format);
  if (std::isnan(value)) {
    return to_storage(format, traits.canonical_nan);
  }
  const auto source = std::bit_cast<std::uint64_t>(value);
  const bool negative = (source >> 63) != 0;
  if (negative && options.relu) {
    return 0;
  }
  const std::uint32_t sign = negative ? 1U << (traits.width - 1) : 0U;

  // Magnitude in units of the destination's spacing; the encodings of a format are ordered like its magnitudes, so a
  // carry out of the fraction lands in the exponent by itself.
  std::uint32_t magnitude = 0;
  bool overflow = std::isinf(value);
  const int source_exponent = static_cast<int>((source >> 52) & 0x7ffU) - 1023;
  if (!overflow && (source << 1) != 0) {
    const std::uint64_t significand = source_exponent == -1023 ? (source & (kDoubleHiddenBit - 1)) << 1
                                                               : (source & (kDoubleHiddenBit - 1)) | kDoubleHiddenBit;
    const int smallest_exponent = 1 - traits.bias;
    const bool subnormal = source_exponent < smallest_exponent;
    int shift = 52 - traits.mantissa_bits + (subnormal ? smallest_exponent - source_exponent : 0);
    std::uint64_t kept = 0;
    std::uint64_t remainder = significand;
    std::uint64_t half = 1ULL << 62;  // shifts beyond 54 leave less than half a unit whatever the significand
    if (shift <= 54) {
      kept = significand >> shift;
      remainder = significand & ((1ULL << shift) - 1);
      half = 1ULL << (shift - 1);
    }
    kept += rounds_up(options.rounding, negative, kept, remainder, half) ? 1U : 0U;
    const std::int64_t exponent_field = subnormal ? 0 : source_exponent + traits.bias - 1;
    const std::int64_t encoded = (exponent_field << traits.mantissa_bits) + static_cast<std::int64_t>(kept);
    overflow = encoded > static_cast<std::int64_t>(traits.max_finite);
    magnitude = overflow ? 0 : static_cast<std::uint32_t>(encoded);
  }
  if (overflow) {
    const bool stays_finite =
        !std::isinf(value) && (options.rounding == Rounding::rz || (options.rounding == Rounding::rm && !negative) ||
                               (options.rounding == Rounding::rp && negative));
    if (options.satfinite || stays_finite) {
      magnitude = traits.max_finite;
    } else if (traits.infinity != 0) {
      magnitude = traits.infinity;
    } else {
      return to_storage(format, traits.canonical_nan);
    }
  }
  return to_storage(format, sign | magnitude);
}

float f16_to_f32(std::uint16_t bits) {
  const float value = _cvtsh_ss(bits);
  return value != value ? bits_to_f32(kCanonicalNan) : value;
}

std::uint16_t f32_to_f16_rn(float value) {
  if (value != value) return 0x7fff;
  const __m128i halves = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT);
  return static_cast<std::uint16_t>(_mm_extract_epi16(halves, 0));
}

float e4m3_to_f32(std::uint8_t bits) { return e4m3_table()[bits]; }
float e5m2_to_f32(std::uint8_t bits) { return e5m2_table()[bits]; }

void bf16_to_f32(std::span<const std::uint16_t> source, std::span<float> destination) {
  assert(source.size() == destination.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    destination[i] = bf16_to_f32(source[i]);
  }
}

void f16_to_f32(std::span<const std::uint16_t> source, std::span<float> destination) {
  assert(source.size() == destination.size());
  const __m256 canonical = _mm256_set1_ps(bits_to_f32(kCanonicalNan));
  std::size_t i = 0;
  for (; i + 8 <= source.size(); i += 8) {
    __m128i halves;
    std::memcpy(&halves, source.data() + i, sizeof halves);
    const __m256 values = _mm256_cvtph_ps(halves);
    const __m256 nan_lanes = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    _mm256_storeu_ps(destination.data() + i, _mm256_blendv_ps(values, canonical, nan_lanes));
  }
  for (; i < source.size(); ++i) {
    destination[i] = f16_to_f32(source[i]);
  }
}

void e4m3_to_f32(std::span<const std::uint8_t> source, std::span<float> destination) {
  widen_with_table(e4m3_table(), source, destination);
}

void e5m2_to_f32(std::span<const std::uint8_t> source, std::span<float> destination) {
  widen_with_table(e5m2_table(), source, destination);
}

void f32_to_bf16_rn(std::span<const float> source, std::span<std::uint16_t> destination) {
  assert(source.size() == destination.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    destination[i] = f32_to_bf16_rn(source[i]);
  }
}

void f32_to_f16_rn(std::span<const float> source, std::span<std::uint16_t> destination) {
  assert(source.size() == destination.size());
  std::size_t i = 0;
  for (; i + 8 <= source.size(); i += 8) {
    const __m256 values = _mm256_loadu_ps(source.data() + i);
    const __m128i rounded = _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
    const __m256i nan_lanes = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    const __m128i nan_halves =
        _mm_packs_epi32(_mm256_castsi256_si128(nan_lanes), _mm256_extracti128_si256(nan_lanes, 1));
    const __m128i result = _mm_blendv_epi8(rounded, _mm_set1_epi16(0x7fff), nan_halves);
    std::memcpy(destination.data() + i, &result, sizeof result);
  }
  for (; i < source.size(); ++i) {
    destination[i] = f32_to_f16_rn(source[i]);
  }
}

}  // namespace ptxbench::emulator

#include "problem/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"

namespace ptxbench::problem {
namespace {

struct Entry {
  Dtype dtype;
  std::string_view name;
  int bits;
  bool floating;
  double roundoff;
};

constexpr std::array<Entry, 11> kTable = {{
    {Dtype::float32, "float32", 32, true, 0x1p-24},
    {Dtype::float16, "float16", 16, true, 0x1p-11},
    {Dtype::bfloat16, "bfloat16", 16, true, 0x1p-8},
    {Dtype::float8_e4m3fn, "float8_e4m3fn", 8, true, 0x1p-4},
    {Dtype::float8_e5m2, "float8_e5m2", 8, true, 0x1p-3},
    {Dtype::float4_e2m1, "float4_e2m1", 4, true, 0x1p-2},
    {Dtype::int64, "int64", 64, false, 0},
    {Dtype::int32, "int32", 32, false, 0},
    {Dtype::int16, "int16", 16, false, 0},
    {Dtype::int8, "int8", 8, false, 0},
    {Dtype::boolean, "bool", 8, false, 0},
}};

const Entry& entry(Dtype dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

/// A small format by its parameters. Widening is exact, so one slow routine serves all.
struct SmallFormat {
  int exponent_bits, mantissa_bits, bias;
  std::uint32_t largest;  ///< bits of the largest finite value
};
constexpr SmallFormat kE4m3 = {4, 3, 7, 0x7e};
constexpr SmallFormat kE5m2 = {5, 2, 15, 0x7b};
constexpr SmallFormat kE2m1 = {2, 1, 1, 0x7};

float widen(const SmallFormat& format, std::uint32_t magnitude) {
  const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa | (1u << format.mantissa_bits)),
                    exponent - format.bias - format.mantissa_bits);
}

/// Round to nearest even by scaling to the spacing of the target, which nearbyint (in the default mode) then rounds to.
std::uint32_t narrow(const SmallFormat& format, float magnitude) {
  if (magnitude == 0) return 0;
  if (magnitude >= widen(format, format.largest)) return format.largest;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent-1), 2^exponent)
  const int lowest = 1 - format.bias;
  const int scale = std::max(exponent - 1, lowest) - format.mantissa_bits;
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -scale)));
  // `units` may have reached the next binade; adding to the exponent field does the right thing.
  const std::uint32_t field = static_cast<std::uint32_t>(scale + format.mantissa_bits - lowest);
  const std::uint32_t bits = (field << format.mantissa_bits) + units;
  return std::min(bits, format.largest);
}

template <class Bits, class Convert>
void widen_all(const void* data, std::uint64_t first, std::uint64_t count, float* out, Convert convert) {
  const char* bytes = static_cast<const char*>(data) + first * sizeof(Bits);
  for (std::uint64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    out[i] = convert(bits);
  }
}

template <class Bits, class Convert>
void narrow_all(const float* values, std::uint64_t first, std::uint64_t count, void* data, Convert convert) {
  char* bytes = static_cast<char*>(data) + first * sizeof(Bits);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bits bits = convert(values[i]);
    std::memcpy(bytes + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

template <class Int>
Int to_integer(float value) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (rounded <= static_cast<double>(std::numeric_limits<Int>::min())) return std::numeric_limits<Int>::min();
  if (rounded >= static_cast<double>(std::numeric_limits<Int>::max())) return std::numeric_limits<Int>::max();
  return static_cast<Int>(rounded);
}

}  // namespace

std::string_view to_string(Dtype dtype) { return entry(dtype).name; }

Result<Dtype> parse_dtype(std::string_view name, std::string_view where) {
  std::array<std::string_view, kTable.size()> names;
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == name) return kTable[i].dtype;
    names[i] = kTable[i].name;
  }
  return input_error(
      "{}: unknown dtype '{}'{}; the known ones are float32 float16 bfloat16 float8_e4m3fn float8_e5m2 "
      "float4_e2m1 int64 int32 int16 int8 bool",
      where, name, base::did_you_mean(name, names));
}

int bits_of(Dtype dtype) { return entry(dtype).bits; }
bool is_float(Dtype dtype) { return entry(dtype).floating; }
std::uint64_t bytes_of(Dtype dtype, std::uint64_t count) {
  return bits_of(dtype) == 4 ? (count + 1) / 2 : count * (static_cast<std::uint64_t>(bits_of(dtype)) / 8);
}
double unit_roundoff(Dtype dtype) { return entry(dtype).roundoff; }

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-24f
                                        : std::bit_cast<float>(((exponent + 112) << 23) | (mantissa << 13));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
}

std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, in units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(units)));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

namespace {

float widen_e4m3(std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7fu;
  const float value = magnitude == 0x7f ? std::numeric_limits<float>::quiet_NaN() : widen(kE4m3, magnitude);
  return (bits & 0x80u) != 0 ? -value : value;
}

}  // namespace

float from_e4m3(std::uint8_t bits) {
  // Hundreds of millions of them are widened for one problem.
  static const std::array<float, 256> kValues = [] {
    std::array<float, 256> values{};
    for (unsigned i = 0; i < 256; ++i) values[i] = widen_e4m3(static_cast<std::uint8_t>(i));
    return values;
  }();
  return kValues[bits];
}

std::uint8_t to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  // Below 2^-6 all values are multiples of 2^-9, which adding 2^14 rounds to; above, four bits of significand remain.
  const std::uint32_t rounded =
      magnitude < 0x3c800000u ? std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u
                              : ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  return static_cast<std::uint8_t>(sign | std::min(rounded, kE4m3.largest));
}

float from_e5m2(std::uint8_t bits) {
  const std::uint32_t magnitude = bits & 0x7fu;
  float value = 0;
  if (magnitude > 0x7c) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude == 0x7c) {
    value = std::numeric_limits<float>::infinity();
  } else {
    value = widen(kE5m2, magnitude);
  }
  return (bits & 0x80u) != 0 ? -value : value;
}

std::uint8_t to_e5m2(float value) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80u : 0u);
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (std::isinf(value)) return static_cast<std::uint8_t>(sign | 0x7cu);
  return static_cast<std::uint8_t>(sign | narrow(kE5m2, std::fabs(value)));
}

float from_e2m1(std::uint8_t bits) {
  const float value = widen(kE2m1, bits & 0x7u);
  return (bits & 0x8u) != 0 ? -value : value;
}

std::uint8_t to_e2m1(float value) {
  if (std::isnan(value)) return 0x7;  // the format has no NaN; the largest value at least is no zero
  return static_cast<std::uint8_t>((std::signbit(value) ? 0x8u : 0u) | narrow(kE2m1, std::fabs(value)));
}

void to_float(Dtype dtype, const void* data, std::uint64_t first, std::uint64_t count, float* out) {
  switch (dtype) {
    case Dtype::float32:
      std::memcpy(out, static_cast<const float*>(data) + first, count * sizeof(float));
      return;
    case Dtype::float16:
      return widen_all<std::uint16_t>(data, first, count, out, from_float16);
    case Dtype::bfloat16:
      return widen_all<std::uint16_t>(data, first, count, out, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
    case Dtype::float8_e4m3fn:
      return widen_all<std::uint8_t>(data, first, count, out, from_e4m3);
    case Dtype::float8_e5m2:
      return widen_all<std::uint8_t>(data, first, count, out, from_e5m2);
    case Dtype::float4_e2m1:
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint8_t byte = static_cast<const std::uint8_t*>(data)[(first + i) / 2];
        out[i] = from_e2m1(static_cast<std::uint8_t>(byte >> (4 * ((first + i) % 2))));
      }
      return;
    case Dtype::int64:
      return widen_all<std::int64_t>(data, first, count, out, [](auto v) { return static_cast<float>(v); });
    case Dtype::int32:
      return widen_all<std::int32_t>(data, first, count, out, [](auto v) { return static_cast<float>(v); });
    case Dtype::int16:
      return widen_all<std::int16_t>(data, first, count, out, [](auto v) { return static_cast<float>(v); });
    case Dtype::int8:
      return widen_all<std::int8_t>(data, first, count, out, [](auto v) { return static_cast<float>(v); });
    case Dtype::boolean:
      return widen_all<std::uint8_t>(data, first, count, out, [](auto v) { return v != 0 ? 1.0f : 0.0f; });
  }
}

void from_float(Dtype dtype, const float* values, std::uint64_t first, std::uint64_t count, void* data) {
  switch (dtype) {
    case Dtype::float32:
      std::memcpy(static_cast<float*>(data) + first, values, count * sizeof(float));
      return;
    case Dtype::float16:
      return narrow_all<std::uint16_t>(values, first, count, data, to_float16);
    case Dtype::bfloat16:
      return narrow_all<std::uint16_t>(values, first, count, data, [](float v) { return to_bfloat16(v); });
    case Dtype::float8_e4m3fn:
      return narrow_all<std::uint8_t>(values, first, count, data, to_e4m3);
    case Dtype::float8_e5m2:
      return narrow_all<std::uint8_t>(values, first, count, data, to_e5m2);
    case Dtype::float4_e2m1:
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint8_t& byte = static_cast<std::uint8_t*>(data)[(first + i) / 2];
        const int shift = 4 * static_cast<int>((first + i) % 2);
        byte = static_cast<std::uint8_t>((byte & ~(0xf << shift)) | (to_e2m1(values[i]) << shift));
      }
      return;
    case Dtype::int64:
      return narrow_all<std::int64_t>(values, first, count, data, to_integer<std::int64_t>);
    case Dtype::int32:
      return narrow_all<std::int32_t>(values, first, count, data, to_integer<std::int32_t>);
    case Dtype::int16:
      return narrow_all<std::int16_t>(values, first, count, data, to_integer<std::int16_t>);
    case Dtype::int8:
      return narrow_all<std::int8_t>(values, first, count, data, to_integer<std::int8_t>);
    case Dtype::boolean:
      return narrow_all<std::uint8_t>(values, first, count, data,
                                      [](float v) { return static_cast<std::uint8_t>(v != 0 ? 1 : 0); });
  }
}

}  // namespace ptxbench::problem

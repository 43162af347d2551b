#include "emulator/isa/convert_scalar.h"

#include <bit>
#include <cmath>

#include "emulator/isa/alu.h"
#include "emulator/isa/half_float.h"
#include "emulator/tensor/numeric_formats.h"

namespace ptxbench::emulator {
namespace {

FloatFormat format_of(Type type) {
  switch (type) {
    case Type::f16:
      return FloatFormat::f16;
    case Type::bf16:
      return FloatFormat::bf16;
    case Type::tf32:
      return FloatFormat::tf32;
    default:
      return FloatFormat::f32;
  }
}

int significant_bits(Type type) {
  switch (type) {
    case Type::f64:
      return 53;
    case Type::f16:
      return 11;
    case Type::bf16:
      return 8;
    default:
      return 24;
  }
}

Rounding format_rounding(CvtRounding rounding) {
  switch (rounding) {
    case CvtRounding::rz:
      return Rounding::rz;
    case CvtRounding::rm:
      return Rounding::rm;
    case CvtRounding::rp:
      return Rounding::rp;
    case CvtRounding::rna:
      return Rounding::rna;
    default:
      return Rounding::rn;
  }
}

struct Integer {
  bool negative = false;
  uint64_t magnitude = 0;
};

Integer read_integer(uint64_t source, Type type) {
  const unsigned bits = type_bits(type);
  if (!is_signed(type)) return {false, zero_extend(source, bits)};
  const int64_t value = sign_extend(source, bits);
  return {value < 0, value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)};
}

uint64_t clamp_integer(Integer value, Type type) {
  const unsigned bits = type_bits(type);
  if (is_signed(type)) {
    const uint64_t limit = (uint64_t{1} << (bits - 1)) - (value.negative ? 0 : 1);
    const uint64_t magnitude = value.magnitude < limit ? value.magnitude : limit;
    return value.negative ? 0 - magnitude : magnitude;
  }
  if (value.negative) return 0;
  const uint64_t limit = zero_extend(~uint64_t{0}, bits);
  return value.magnitude < limit ? value.magnitude : limit;
}

/// Rounds a magnitude to `precision` significant bits; the result is exact as a double.
double round_integer(Integer value, int precision, CvtRounding rounding) {
  const int excess = static_cast<int>(std::bit_width(value.magnitude)) - precision;
  uint64_t kept = value.magnitude;
  if (excess > 0) {
    kept = value.magnitude >> excess;
    const uint64_t rest = value.magnitude & ((uint64_t{1} << excess) - 1), half = uint64_t{1} << (excess - 1);
    bool up = false;
    switch (rounding) {
      case CvtRounding::rz:
        break;
      case CvtRounding::rm:
        up = value.negative && rest != 0;
        break;
      case CvtRounding::rp:
        up = !value.negative && rest != 0;
        break;
      default:
        up = rest > half || (rest == half && (kept & 1) != 0);
    }
    kept += up ? 1 : 0;
  }
  const double magnitude = std::ldexp(static_cast<double>(kept), excess > 0 ? excess : 0);
  return value.negative ? -magnitude : magnitude;
}

double read_float(uint64_t source, const Conversion& conversion) {
  switch (conversion.from) {
    case Type::f16:
      return static_cast<double>(f16_value(static_cast<uint16_t>(source)));
    case Type::bf16:
      return static_cast<double>(bf16_value(static_cast<uint16_t>(source)));
    case Type::f64:
      return double_of(source);
    default: {
      const float value = float_of(static_cast<uint32_t>(source));
      return static_cast<double>(conversion.ftz ? flush(value) : value);
    }
  }
}

double round_to_integer(double value, CvtRounding rounding) {
  switch (rounding) {
    case CvtRounding::rni:
      return std::nearbyint(value);
    case CvtRounding::rzi:
      return std::trunc(value);
    case CvtRounding::rmi:
      return std::floor(value);
    case CvtRounding::rpi:
      return std::ceil(value);
    default:
      return value;
  }
}

uint64_t float_to_integer(double value, const Conversion& conversion) {
  const unsigned bits = type_bits(conversion.to);
  if (is_nan(value)) {
    return conversion.from != Type::f64 && bits != 64 ? 0 : uint64_t{1} << (bits - 1);
  }
  const double rounded = round_to_integer(value, conversion.rounding);
  const double magnitude = std::fabs(rounded);
  return clamp_integer({rounded < 0, magnitude >= 0x1p64 ? ~uint64_t{0} : static_cast<uint64_t>(magnitude)},
                       conversion.to);
}

/// A NaN of f64 keeps its sign and the upper part of its payload in a narrower format.
uint64_t narrow_nan(double value, Type to) {
  const uint64_t bits = bits_of(value) | 0x0008000000000000ull;
  const auto sign = static_cast<uint32_t>(bits >> 63);
  const auto payload = [&](int fraction_bits) {
    return static_cast<uint32_t>((bits & 0xfffffffffffffull) >> (52 - fraction_bits));
  };
  switch (to) {
    case Type::f16:
      return sign << 15 | 0x7c00u | payload(10);
    case Type::bf16:
      return sign << 15 | 0x7f80u | payload(7);
    default:
      return sign << 31 | 0x7f800000u | payload(23);
  }
}

/// Whether the value, rounded to 24 bits with an unbounded exponent, lies below the normal range of f32.
bool is_tiny(double value, const ConvertOptions& options) {
  const uint32_t scaled = encode_float(FloatFormat::f32, value * 0x1p64, options);
  return std::fabs(value) < 1.0 && std::fabs(float_of(scaled)) < 0x1p-62f;
}

uint64_t write_float(double value, const Conversion& conversion) {
  if (conversion.sat) value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  if (conversion.to == Type::f64) {
    return is_nan(value) ? bits_of(value) | 0x0008000000000000ull : bits_of(value);
  }
  if (is_nan(value) && conversion.from == Type::f64 && !conversion.relu) return narrow_nan(value, conversion.to);
  ConvertOptions options;
  options.rounding = format_rounding(conversion.rounding);
  options.satfinite = conversion.satfinite;
  options.relu = conversion.relu;
  const uint32_t bits = encode_float(format_of(conversion.to), value, options);
  if (conversion.to == Type::f32 && conversion.ftz && is_tiny(value, options)) return bits & 0x80000000u;
  return bits;
}

uint64_t extend(uint64_t bits, const Conversion& conversion) {
  const unsigned width = type_bits(conversion.to);
  if (is_signed(conversion.to)) {
    return zero_extend(static_cast<uint64_t>(sign_extend(bits, width)), conversion.register_bits);
  }
  return zero_extend(bits, width);
}

}  // namespace

uint64_t Conversion::pack() const {
  return static_cast<uint64_t>(to) | static_cast<uint64_t>(from) << 8 | static_cast<uint64_t>(rounding) << 16 |
         uint64_t{ftz} << 24 | uint64_t{sat} << 25 | uint64_t{relu} << 26 | uint64_t{satfinite} << 27 |
         uint64_t{register_bits} << 32;
}

Conversion Conversion::unpack(uint64_t bits) {
  Conversion conversion;
  conversion.to = static_cast<Type>(bits & 0xff);
  conversion.from = static_cast<Type>((bits >> 8) & 0xff);
  conversion.rounding = static_cast<CvtRounding>((bits >> 16) & 0xff);
  conversion.ftz = ((bits >> 24) & 1) != 0;
  conversion.sat = ((bits >> 25) & 1) != 0;
  conversion.relu = ((bits >> 26) & 1) != 0;
  conversion.satfinite = ((bits >> 27) & 1) != 0;
  conversion.register_bits = static_cast<uint8_t>(bits >> 32);
  return conversion;
}

uint64_t convert_value(uint64_t source, const Conversion& conversion) {
  if (is_integer(conversion.from)) {
    const Integer value = read_integer(source, conversion.from);
    if (is_integer(conversion.to)) {
      const uint64_t bits = value.negative ? 0 - value.magnitude : value.magnitude;
      return extend(conversion.sat ? clamp_integer(value, conversion.to) : bits, conversion);
    }
    return write_float(round_integer(value, significant_bits(conversion.to), conversion.rounding), conversion);
  }
  const double value = read_float(source, conversion);
  if (is_integer(conversion.to)) return extend(float_to_integer(value, conversion), conversion);
  return write_float(round_to_integer(value, conversion.rounding), conversion);
}

}  // namespace ptxbench::emulator

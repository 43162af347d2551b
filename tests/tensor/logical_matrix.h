#pragma once

#include "emulator/tensor/mma_types.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace ptxbench::emulator {

/// Reproducible 32-bit numbers.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

/// A matrix as its values and as the bits that shared memory or registers hold.
struct LogicalMatrix {
  unsigned rows;
  unsigned columns;
  std::vector<double> values;
  std::vector<std::uint32_t> bits;

  LogicalMatrix(unsigned row_count, unsigned column_count)
      : rows(row_count), columns(column_count), values(std::size_t{row_count} * column_count), bits(values.size()) {}
  double& value(unsigned row, unsigned column) { return values[std::size_t{row} * columns + column]; }
  double value(unsigned row, unsigned column) const { return values[std::size_t{row} * columns + column]; }
  std::uint32_t& bit(unsigned row, unsigned column) { return bits[std::size_t{row} * columns + column]; }
  std::uint32_t bit(unsigned row, unsigned column) const { return bits[std::size_t{row} * columns + column]; }
};

inline std::uint32_t encode_operand(MmaType type, double value) {
  switch (type) {
    case MmaType::f16:
      return encode_float(FloatFormat::f16, value);
    case MmaType::bf16:
      return encode_float(FloatFormat::bf16, value);
    // Garbage below the 19 bits that the hardware reads.
    case MmaType::tf32:
      return encode_float(FloatFormat::tf32, value) | 0x0a5aU;
    case MmaType::e4m3:
      return encode_float(FloatFormat::e4m3, value, {.satfinite = true});
    case MmaType::e5m2:
      return encode_float(FloatFormat::e5m2, value, {.satfinite = true});
    default:
      return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) & 0xffU;
  }
}

inline double decode_operand(MmaType type, std::uint32_t bits) {
  switch (type) {
    case MmaType::f16:
      return decode_float(FloatFormat::f16, bits);
    case MmaType::bf16:
      return decode_float(FloatFormat::bf16, bits);
    case MmaType::tf32:
      return decode_float(FloatFormat::tf32, bits);
    case MmaType::e4m3:
      return decode_float(FloatFormat::e4m3, bits);
    case MmaType::e5m2:
      return decode_float(FloatFormat::e5m2, bits);
    case MmaType::s8:
      return static_cast<std::int8_t>(bits);
    case MmaType::u8:
      return bits;
  }
  return 0;
}

/// Small integers, exactly representable in every type, so that every summation order gives the same result.
inline LogicalMatrix small_integers(MmaType type, unsigned rows, unsigned columns, Random& random) {
  LogicalMatrix matrix(rows, columns);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    matrix.values[i] =
        type == MmaType::u8 ? static_cast<double>(random() % 8) : static_cast<double>(random() % 9) - 4.0;
    matrix.bits[i] = encode_operand(type, matrix.values[i]);
  }
  return matrix;
}

/// Values spread over `binades` powers of two; large and small terms cancel.
inline LogicalMatrix spread_values(MmaType type, unsigned rows, unsigned columns, int binades, Random& random) {
  LogicalMatrix matrix(rows, columns);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    const double magnitude = std::ldexp(1.0 + static_cast<double>(random() % 1024) / 1024,
                                        static_cast<int>(random() % static_cast<unsigned>(binades)) - binades / 2);
    const double value = is_integer(type) ? static_cast<double>(random() % 256) - (type == MmaType::s8 ? 128 : 0)
                                          : (random() % 2 ? magnitude : -magnitude);
    matrix.bits[i] = encode_operand(type, value);
    matrix.values[i] = decode_operand(type, matrix.bits[i]);
  }
  return matrix;
}

/// The tensor-core rule in integers: every term cut to `fraction_bits` below the largest exponent, the sum cut to an
/// f32 with `result_bits`. Written apart from exact_dot.cpp: operands are split into integer significand and exponent.
inline float aligned_dot(MmaType a_type, const std::vector<std::uint32_t>& a, MmaType b_type,
                         const std::vector<std::uint32_t>& b, float c, int fraction_bits, int result_bits) {
  struct Parts {
    bool negative;
    std::int64_t significand;
    int exponent;  // of the significand's leading position, subnormals at the smallest exponent
    int fraction;
  };
  const auto split = [](MmaType type, std::uint32_t bits) {
    const int mantissa = type == MmaType::f16 || type == MmaType::tf32 ? 10
                         : type == MmaType::bf16                       ? 7
                         : type == MmaType::e4m3                       ? 3
                                                                       : 2;
    const int exponent_bits = type == MmaType::e4m3 ? 4 : type == MmaType::f16 || type == MmaType::e5m2 ? 5 : 8;
    const std::uint32_t word = type == MmaType::tf32 ? bits >> 13 : bits;
    const int field = static_cast<int>(word >> mantissa) & ((1 << exponent_bits) - 1);
    const std::int64_t fraction = word & ((1U << mantissa) - 1);
    return Parts{((word >> (mantissa + exponent_bits)) & 1U) != 0, field == 0 ? fraction : fraction + (1 << mantissa),
                 std::max(field, 1) - ((1 << (exponent_bits - 1)) - 1), mantissa};
  };
  std::vector<Parts> terms;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Parts x = split(a_type, a[i]);
    const Parts y = split(b_type, b[i]);
    terms.push_back(
        {x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent, x.fraction + y.fraction});
  }
  const std::uint32_t c_bits = f32_to_bits(c);
  const int c_field = static_cast<int>(c_bits >> 23) & 0xff;
  terms.push_back(
      {(c_bits >> 31) != 0, (c_bits & 0x7fffff) + (c_field == 0 ? 0 : 0x800000), std::max(c_field, 1) - 127, 23});
  int largest = -100000;
  for (const Parts& term : terms) {
    largest = term.significand != 0 ? std::max(largest, term.exponent) : largest;
  }
  std::int64_t sum = 0;
  for (const Parts& term : terms) {
    const int shift = term.exponent - term.fraction - (largest - fraction_bits);
    const std::int64_t cut = term.significand == 0 ? 0
                             : shift >= 0          ? term.significand << shift
                             : shift < -62         ? 0
                                                   : term.significand >> -shift;
    sum += term.negative ? -cut : cut;
  }
  std::int64_t magnitude = sum < 0 ? -sum : sum;
  int unit = largest - fraction_bits;
  while (magnitude >= (std::int64_t{1} << (result_bits + 1)) || (magnitude != 0 && unit < -126 - result_bits)) {
    magnitude >>= 1;
    ++unit;
  }
  const double result = std::ldexp(static_cast<double>(magnitude), unit);
  return static_cast<float>(sum < 0 ? -result : result);
}

}  // namespace ptxbench::emulator

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ptxbench::problem {

/// The element types of FlashInfer-Trace.
enum class Dtype {
  float32,
  float16,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  float4_e2m1,  ///< two elements in a byte, the first in the low half
  int64,
  int32,
  int16,
  int8,
  boolean,
};

/// The name in the files: "bfloat16", "bool", ...
std::string_view to_string(Dtype dtype);
/// `where` opens the error message, which lists the known names.
Result<Dtype> parse_dtype(std::string_view name, std::string_view where);

int bits_of(Dtype dtype);
bool is_float(Dtype dtype);
/// Bytes of `count` packed elements, rounded up.
std::uint64_t bytes_of(Dtype dtype, std::uint64_t count);
/// Unit round-off: half the distance from 1 to the next number; 0 for integers.
double unit_roundoff(Dtype dtype);

// Conversions. From float: round to nearest, ties to even; a finite value beyond the largest one becomes infinity where
// the format has one (float16, bfloat16), else the largest finite one (float8, float4). NaN stays NaN where there is
// one.
float from_bfloat16(std::uint16_t bits);
std::uint16_t to_bfloat16(float value);
float from_float16(std::uint16_t bits);
std::uint16_t to_float16(float value);
float from_e4m3(std::uint8_t bits);
std::uint8_t to_e4m3(float value);
float from_e5m2(std::uint8_t bits);
std::uint8_t to_e5m2(float value);
float from_e2m1(std::uint8_t bits);  ///< low four bits
std::uint8_t to_e2m1(float value);

/// Widens elements [first, first + count) of packed `data` to float (integers beyond 2^24 are rounded).
void to_float(Dtype dtype, const void* data, std::uint64_t first, std::uint64_t count, float* out);
/// Rounds floats into elements [first, first + count) of packed `data`.
void from_float(Dtype dtype, const float* values, std::uint64_t first, std::uint64_t count, void* data);

}  // namespace ptxbench::problem

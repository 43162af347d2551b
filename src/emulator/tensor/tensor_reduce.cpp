#include "emulator/tensor/numeric_formats.h"
#include "emulator/tensor/tensor_box.h"

#include <algorithm>
#include <cassert>
#include <concepts>
#include <cstring>

namespace ptxbench::emulator {
namespace {

template <class Element, class Combine>
void combine_all(std::byte* destination, const std::byte* source, std::size_t count, Combine combine) {
  for (std::size_t i = 0; i < count; ++i) {
    Element left;
    Element right;
    std::memcpy(&left, destination + i * sizeof(Element), sizeof(Element));
    std::memcpy(&right, source + i * sizeof(Element), sizeof(Element));
    const Element result = combine(left, right);
    std::memcpy(destination + i * sizeof(Element), &result, sizeof(Element));
  }
}

template <std::integral Element>
void reduce_integers(BulkReduction operation, std::byte* destination, const std::byte* source, std::size_t count) {
  using Unsigned = std::make_unsigned_t<Element>;
  const auto run = [&](auto combine) { combine_all<Element>(destination, source, count, combine); };
  switch (operation) {
    case BulkReduction::add:
      run([](Element a, Element b) {
        return static_cast<Element>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
      });
      return;
    case BulkReduction::min:
      run([](Element a, Element b) { return std::min(a, b); });
      return;
    case BulkReduction::max:
      run([](Element a, Element b) { return std::max(a, b); });
      return;
    case BulkReduction::inc:
      run([](Element a, Element b) { return a >= b ? Element{0} : static_cast<Element>(a + 1); });
      return;
    case BulkReduction::dec:
      run([](Element a, Element b) { return a == 0 || a > b ? b : static_cast<Element>(a - 1); });
      return;
    case BulkReduction::bit_and:
      run([](Element a, Element b) { return static_cast<Element>(a & b); });
      return;
    case BulkReduction::bit_or:
      run([](Element a, Element b) { return static_cast<Element>(a | b); });
      return;
    case BulkReduction::bit_xor:
      run([](Element a, Element b) { return static_cast<Element>(a ^ b); });
      return;
  }
}

float flush_subnormal(float value) {
  return (f32_to_bits(value) & 0x7f800000U) == 0 ? std::copysign(0.0F, value) : value;
}

float add_f32(float a, float b) {
  const float sum = a + b;
  return std::isnan(sum) ? bits_to_f32(0x7fffffffU) : sum;
}

// A NaN operand passes through unchanged, the new value's first (observed; x86 would quiet it).
std::uint64_t add_f64(std::uint64_t a, std::uint64_t b) {
  const auto is_nan = [](std::uint64_t bits) { return (bits << 1) > 0xffe0'0000'0000'0000ULL; };
  if (is_nan(a) || is_nan(b)) {
    return is_nan(b) ? b : a;
  }
  return std::bit_cast<std::uint64_t>(std::bit_cast<double>(a) + std::bit_cast<double>(b));
}

// PTX min/max: a NaN operand gives the other one, -0 is below +0.
double ptx_min(double a, double b) {
  if (std::isnan(a)) {
    return b;
  }
  return std::isnan(b) || a < b || (a == b && std::signbit(a)) ? a : b;
}

double ptx_max(double a, double b) {
  if (std::isnan(a)) {
    return b;
  }
  return std::isnan(b) || a > b || (a == b && !std::signbit(a)) ? a : b;
}

template <FloatFormat format>
void reduce_halves(BulkReduction operation, std::byte* destination, const std::byte* source, std::size_t count) {
  combine_all<std::uint16_t>(destination, source, count, [&](std::uint16_t a, std::uint16_t b) {
    const double left = decode_float(format, a);
    const double right = decode_float(format, b);
    // The sum of two halves is exact in double (bf16: rounding to double never moves it across a half-way point, as
    // the discarded operand is then more than 40 binades smaller), so one rounding follows.
    const double result = operation == BulkReduction::add   ? left + right
                          : operation == BulkReduction::min ? ptx_min(left, right)
                                                            : ptx_max(left, right);
    return static_cast<std::uint16_t>(encode_float(format, result));
  });
}

bool is_bitwise(BulkReduction operation) {
  return operation == BulkReduction::bit_and || operation == BulkReduction::bit_or ||
         operation == BulkReduction::bit_xor;
}

}  // namespace

const char* to_string(BulkReduction operation) {
  constexpr std::array names = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names[static_cast<std::size_t>(operation)];
}

Result<void> check_reduction(BulkReduction operation, TensorDataType type) {
  bool allowed = false;
  switch (type) {
    case TensorDataType::u32:
      allowed = true;
      break;
    case TensorDataType::s32:
      allowed = operation != BulkReduction::inc && operation != BulkReduction::dec;
      break;
    case TensorDataType::u64:
      allowed = operation != BulkReduction::inc && operation != BulkReduction::dec;
      break;
    case TensorDataType::s64:
      allowed = operation == BulkReduction::min || operation == BulkReduction::max || is_bitwise(operation);
      break;
    case TensorDataType::f16:
    case TensorDataType::bf16:
      allowed = operation == BulkReduction::add || operation == BulkReduction::min || operation == BulkReduction::max;
      break;
    case TensorDataType::f32:
    case TensorDataType::f32_ftz:
    case TensorDataType::tf32:
    case TensorDataType::tf32_ftz:
    case TensorDataType::f64:
      allowed = operation == BulkReduction::add;
      break;
    default:
      break;
  }
  if (!allowed) {
    return input_error("cp.reduce.async.bulk: operation .{} is not defined for element type {}", to_string(operation),
                       to_string(type));
  }
  return {};
}

void reduce_elements(BulkReduction operation, TensorDataType type, std::byte* destination, const std::byte* source,
                     std::size_t count) {
  assert(check_reduction(operation, type).has_value());
  switch (type) {
    case TensorDataType::u32:
      reduce_integers<std::uint32_t>(operation, destination, source, count);
      return;
    case TensorDataType::s32:
      reduce_integers<std::int32_t>(operation, destination, source, count);
      return;
    case TensorDataType::u64:
      reduce_integers<std::uint64_t>(operation, destination, source, count);
      return;
    case TensorDataType::s64:
      reduce_integers<std::int64_t>(operation, destination, source, count);
      return;
    case TensorDataType::f16:
      reduce_halves<FloatFormat::f16>(operation, destination, source, count);
      return;
    case TensorDataType::bf16:
      reduce_halves<FloatFormat::bf16>(operation, destination, source, count);
      return;
    case TensorDataType::f32:
    case TensorDataType::tf32:
      combine_all<float>(destination, source, count, add_f32);
      return;
    case TensorDataType::f32_ftz:
    case TensorDataType::tf32_ftz:
      combine_all<float>(destination, source, count, [](float a, float b) {
        return flush_subnormal(add_f32(flush_subnormal(a), flush_subnormal(b)));
      });
      return;
    case TensorDataType::f64:
      combine_all<std::uint64_t>(destination, source, count, add_f64);
      return;
    default:
      assert(false && "check_reduction refuses this type");
      return;
  }
}

}  // namespace ptxbench::emulator

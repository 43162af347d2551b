#include "launch/elements.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/tensor/numeric_formats.h"

namespace ptxbench::launch {
namespace {

using emulator::FloatFormat;
using emulator::TensorDataType;

constexpr std::array<std::string_view, 14> kNames = {"u8",  "s8",  "u16",  "s16", "u32", "s32",  "u64",
                                                     "s64", "f16", "bf16", "f32", "f64", "e4m3", "e5m2"};

template <class T>
T load(const std::byte* data, uint64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void store(std::byte* data, uint64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

/// Calls `body` with a value of the C++ type that holds an integer or f32/f64 element.
template <class Body>
void with_native(ElementType type, Body&& body) {
  switch (type) {
    case ElementType::u8:
      return body(uint8_t{});
    case ElementType::s8:
      return body(int8_t{});
    case ElementType::u16:
      return body(uint16_t{});
    case ElementType::s16:
      return body(int16_t{});
    case ElementType::u32:
      return body(uint32_t{});
    case ElementType::s32:
      return body(int32_t{});
    case ElementType::u64:
      return body(uint64_t{});
    case ElementType::s64:
      return body(int64_t{});
    case ElementType::f32:
      return body(float{});
    case ElementType::f64:
      return body(double{});
    default:
      return;
  }
}

std::optional<FloatFormat> small_format(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return FloatFormat::f16;
    case ElementType::bf16:
      return FloatFormat::bf16;
    case ElementType::e4m3:
      return FloatFormat::e4m3;
    case ElementType::e5m2:
      return FloatFormat::e5m2;
    default:
      return std::nullopt;
  }
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
uint64_t mix(uint64_t word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

bool is_signed(ElementType type) {
  return type != ElementType::u8 && type != ElementType::u16 && type != ElementType::u32 && type != ElementType::u64;
}

}  // namespace

std::string_view to_string(ElementType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<ElementType> parse_element_type(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

std::span<const std::string_view> element_type_names() { return kNames; }

unsigned bytes_of(ElementType type) {
  if (const auto format = small_format(type)) {
    return *format == FloatFormat::f16 || *format == FloatFormat::bf16 ? 2 : 1;
  }
  unsigned bytes = 0;
  with_native(type, [&](auto value) { bytes = sizeof value; });
  return bytes;
}

bool is_float(ElementType type) { return small_format(type) || type == ElementType::f32 || type == ElementType::f64; }

uint64_t index_limit(ElementType type) {
  switch (type) {
    case ElementType::e5m2:
      return 8;
    case ElementType::e4m3:
      return 16;
    case ElementType::s8:
      return 128;
    case ElementType::u8:
    case ElementType::bf16:
      return 256;
    case ElementType::f16:
      return 2048;
    case ElementType::s16:
      return 32768;
    case ElementType::u16:
      return 65536;
    case ElementType::f32:
      return 1ULL << 24;
    case ElementType::s32:
      return 1ULL << 31;
    default:
      return 1ULL << 32;
  }
}

TensorDataType tensor_type(ElementType type) {
  switch (type) {
    case ElementType::u16:
    case ElementType::s16:
      return TensorDataType::u16;
    case ElementType::u32:
      return TensorDataType::u32;
    case ElementType::s32:
      return TensorDataType::s32;
    case ElementType::u64:
      return TensorDataType::u64;
    case ElementType::s64:
      return TensorDataType::s64;
    case ElementType::f16:
      return TensorDataType::f16;
    case ElementType::bf16:
      return TensorDataType::bf16;
    case ElementType::f32:
      return TensorDataType::f32;
    case ElementType::f64:
      return TensorDataType::f64;
    default:
      return TensorDataType::u8;
  }
}

bool representable(ElementType type, double value) {
  if (const auto format = small_format(type)) {
    const double rounded = emulator::decode_float(*format, emulator::encode_float(*format, value));
    return rounded == value || (std::isnan(rounded) && std::isnan(value));
  }
  bool exact = false;
  with_native(type, [&](auto native) {
    using T = decltype(native);
    if constexpr (std::is_floating_point_v<T>) {
      exact = std::isnan(value) || std::isinf(value) ||
              (std::abs(value) <= double{std::numeric_limits<T>::max()} &&
               static_cast<double>(static_cast<T>(value)) == value);
    } else {
      // 2^bits is exact as a double, the largest value of a 64-bit type is not.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      exact = std::trunc(value) == value && value < end && value >= (std::is_signed_v<T> ? -end : 0.0);
    }
  });
  return exact;
}

double element(ElementType type, const std::byte* data, uint64_t index) {
  if (const auto format = small_format(type)) {
    const uint32_t bits = bytes_of(type) == 2 ? load<uint16_t>(data, index) : load<uint8_t>(data, index);
    return emulator::decode_float(*format, bits);
  }
  double result = 0;
  with_native(type, [&](auto native) { result = static_cast<double>(load<decltype(native)>(data, index)); });
  return result;
}

void set_element(ElementType type, std::byte* data, uint64_t index, double value) {
  if (const auto format = small_format(type)) {
    const uint32_t bits = emulator::encode_float(*format, value);
    if (bytes_of(type) == 2) {
      store(data, index, static_cast<uint16_t>(bits));
    } else {
      store(data, index, static_cast<uint8_t>(bits));
    }
    return;
  }
  with_native(type, [&](auto native) { store(data, index, static_cast<decltype(native)>(value)); });
}

std::vector<std::byte> filled(ElementType type, const Fill& fill, uint64_t count, uint64_t rows, uint64_t columns,
                              uint32_t argument) {
  std::vector<std::byte> bytes(count * bytes_of(type));
  switch (fill.kind) {
    case Fill::Kind::zero:
      break;
    case Fill::Kind::poison:
      std::memset(bytes.data(), 0xff, bytes.size());
      break;
    case Fill::Kind::index:
      for (uint64_t i = 0; i < count; ++i)
        set_element(type, bytes.data(), i, static_cast<double>(i % index_limit(type)));
      break;
    case Fill::Kind::identity:
      for (uint64_t i = 0; i < count; ++i)
        set_element(type, bytes.data(), i, i % columns == i / columns % rows ? 1.0 : 0.0);
      break;
    case Fill::Kind::random:
      for (uint64_t i = 0; i < count; ++i) {
        const auto word = static_cast<double>(mix(uint64_t{argument} << 40 ^ i) >> 60);
        set_element(type, bytes.data(), i, is_signed(type) ? word - 8 : word);
      }
      break;
    case Fill::Kind::value:
      for (uint64_t i = 0; i < count; ++i) set_element(type, bytes.data(), i, fill.value);
      break;
  }
  return bytes;
}

}  // namespace ptxbench::launch

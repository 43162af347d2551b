#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/tensor/tensor_map.h"

namespace ptxbench::launch {

/// Element types of arguments, under their PTX names.
enum class ElementType : uint8_t { u8, s8, u16, s16, u32, s32, u64, s64, f16, bf16, f32, f64, e4m3, e5m2 };

std::string_view to_string(ElementType type);
std::optional<ElementType> parse_element_type(std::string_view name);
/// All names, to list in messages.
std::span<const std::string_view> element_type_names();

unsigned bytes_of(ElementType type);
bool is_float(ElementType type);
/// Integers 0 .. limit-1 are exact in the type; what `fill = "index"` counts modulo.
uint64_t index_limit(ElementType type);
/// The tensor-map type that moves such elements. Eight-bit types travel as bytes.
emulator::TensorDataType tensor_type(ElementType type);

/// Contents of memory, or of one scalar.
struct Fill {
  enum class Kind : uint8_t {
    zero,
    index,     ///< element i (row-major) holds i modulo index_limit
    identity,  ///< one where the last two coordinates are equal, else zero
    poison,    ///< bytes 0xff: NaN, or -1
    random,    ///< integers -8 .. 7 (0 .. 15 for unsigned types), a function of the argument's place and the element
    value,     ///< all elements hold `value`
  };
  Kind kind = Kind::zero;
  double value = 0;
};

/// Whether `value` rounds to itself in the type (NaN and infinities where the type has them).
bool representable(ElementType type, double value);
/// Element `index` of packed `data` as a number. 64-bit integers beyond 2^53 are rounded.
double element(ElementType type, const std::byte* data, uint64_t index);
void set_element(ElementType type, std::byte* data, uint64_t index, double value);

/// `count` packed elements; `columns` is the extent of the last dimension and `rows` that of the one before it.
std::vector<std::byte> filled(ElementType type, const Fill& fill, uint64_t count, uint64_t rows, uint64_t columns,
                              uint32_t argument);

}  // namespace ptxbench::launch

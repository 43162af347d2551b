#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace ptxbench::base {

/// Keeps the order of keys: the order of a definition's tensors is the order of the call's arguments.
using Json = nlohmann::ordered_json;

/// Never throws. `what` names the text in the message (a path, "reply of ..."). Nesting beyond 256 levels is an error:
/// printing and comparing such values would overflow the stack.
Result<Json> parse_json(std::string_view text, std::string_view what);

/// The same, and a key that an object has twice is an error instead of the first one's silent loss: for files that
/// people write and for formats that forbid it.
Result<Json> parse_json_unique(std::string_view text, std::string_view what);

/// "object", "array", "string", "number", "boolean", "null".
std::string_view json_type_name(const Json& value);

/// The member `key` of `object`; `path` names the object in the message, as in "gemm.json: axes.M".
Result<const Json*> required_member(const Json& object, std::string_view key, std::string_view path);
/// The member, or null when it is absent or JSON null.
const Json* optional_member(const Json& object, std::string_view key);

namespace detail {
template <class T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

template <class T>
constexpr std::string_view wanted() {
  if constexpr (std::is_same_v<T, bool>) return "a boolean";
  if constexpr (kIsInteger<T> && std::is_unsigned_v<T>) return "a non-negative integer";
  if constexpr (kIsInteger<T>) return "an integer";
  if constexpr (std::is_floating_point_v<T>) return "a number";
  return "a string";
}

template <class T>
bool fits(const Json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean();
  } else if constexpr (kIsInteger<T>) {
    if (value.is_number_unsigned()) {
      return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    }
    if (!value.is_number_integer()) return false;
    const auto number = value.get<std::int64_t>();
    if constexpr (std::is_unsigned_v<T>) {
      return number >= 0 && static_cast<std::uint64_t>(number) <= std::numeric_limits<T>::max();
    } else {
      return number >= std::numeric_limits<T>::min() && number <= std::numeric_limits<T>::max();
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else {
    static_assert(std::is_same_v<T, std::string>, "bool, integers, floating point and std::string only");
    return value.is_string();
  }
}
}  // namespace detail

/// `value` as a T without any silent conversion: 1.5 is no integer, "1" no number, 300 no uint8_t.
template <class T>
Result<T> json_as(const Json& value, std::string_view path) {
  if (!detail::fits<T>(value)) {
    return input_error(
        "{}: {} is needed, found {} {}", path, detail::wanted<T>(), json_type_name(value),
        value.is_structured() ? std::string() : value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return value.get<T>();
}

template <class T>
Result<T> required(const Json& object, std::string_view key, std::string_view path) {
  const auto member = required_member(object, key, path);
  if (!member) return tl::unexpected<Error>(member.error());
  return json_as<T>(**member, fmt::format("{}.{}", path, key));
}

/// Nothing when absent or null; an error when present with another type.
template <class T>
Result<std::optional<T>> optional_field(const Json& object, std::string_view key, std::string_view path) {
  const Json* member = optional_member(object, key);
  if (member == nullptr) return std::optional<T>();
  auto value = json_as<T>(*member, fmt::format("{}.{}", path, key));
  if (!value) return tl::unexpected<Error>(value.error());
  return std::optional<T>(std::move(*value));
}

}  // namespace ptxbench::base

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace ptxbench::knowledge {

struct TomlItem;

/// A value of a TOML file, with its line for messages. The TOML library's headers stay in one source file.
struct TomlValue {
  using Array = std::vector<TomlValue>;
  struct Table {
    std::vector<std::string> keys;  ///< in the order of the file
    std::vector<TomlValue> values;  ///< of the keys

    std::vector<TomlItem> items() const;
  };
  struct Other {};  ///< floating-point numbers, dates, times
  std::variant<Other, bool, std::int64_t, std::string, Array, Table> value;
  std::uint32_t line = 0;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
};

/// A member of a table.
struct TomlItem {
  const std::string& key;
  const TomlValue& value;
};

/// The top table. Errors read "NAME:LINE: ...".
Result<TomlValue> read_toml(std::string_view text, std::string_view name);

/// A string, or a list of strings; anything else is an error that names the place.
Result<std::string> toml_string(const TomlValue& value, std::string_view name, std::string_view key);
Result<std::vector<std::string>> toml_strings(const TomlValue& value, std::string_view name, std::string_view key);

}  // namespace ptxbench::knowledge

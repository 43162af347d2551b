#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"

namespace ptxbench::launch {

/// A TOML value reduced to what launch descriptions use. The TOML library's headers are slow to compile and stay in
/// one file.
struct TomlValue {
  struct Array {
    std::vector<TomlValue> items;
  };
  struct Table {
    std::vector<std::string> keys;  ///< in the order of the file
    std::vector<TomlValue> values;  ///< of the keys
  };
  struct Other {};  ///< dates and times
  std::variant<Other, bool, int64_t, double, std::string, Array, Table> value;
  uint32_t line = 0;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
  /// "a string", "an integer", ... for messages.
  std::string_view kind() const;
};

/// The top table. Errors read "name:line: ...".
Result<TomlValue> read_toml(std::string_view text, std::string_view name, uint32_t first_line);

}  // namespace ptxbench::launch

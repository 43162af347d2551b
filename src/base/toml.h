#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace ptxbench::base {

/// A TOML value. The TOML library's headers are slow to compile and stay in one file.
struct TomlValue {
  struct Array {
    std::vector<TomlValue> items;
  };
  struct Item;
  struct Table {
    std::vector<std::string> keys;  ///< in the order of the file
    std::vector<TomlValue> values;  ///< of the keys
    /// For tables whose keys are names.
    std::vector<Item> items() const;
  };
  struct Other {};  ///< dates and times
  std::variant<Other, bool, std::int64_t, double, std::string, Array, Table> value;
  std::uint32_t line = 0;

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
  /// "a string", "an integer", ... for messages.
  std::string_view kind() const;
};

struct TomlValue::Item {
  const std::string& key;
  const TomlValue& value;
};

/// A string, or a list of strings; anything else is an error that names the place. For members of a table whose keys
/// are names; TomlReader does the same for known keys.
Result<std::string> toml_text(const TomlValue& value, std::string_view file, std::string_view key);
Result<std::vector<std::string>> toml_texts(const TomlValue& value, std::string_view file, std::string_view key);

/// The top table. Errors read "name:line: not <what>: ...".
Result<TomlValue> read_toml(std::string_view text, std::string_view name, std::string_view what = "a TOML file",
                            std::uint32_t first_line = 1);

/// The same value as JSON. A date has no counterpart and is an error that names `file` and the line.
Result<Json> toml_to_json(const TomlValue& value, std::string_view file);

/// Takes a table apart. Every key is asked for by name; `finish` refuses the keys that nobody asked for, and suggests
/// what was probably meant. The first error is kept, and later calls give defaults.
class TomlReader {
 public:
  /// `path` is the table's own name for messages, as in "models.fast"; empty for the top table. A value that is no
  /// table is an error that `finish` reports.
  TomlReader(const TomlValue& table, std::string file, std::string path);

  const TomlValue* find(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  /// Integers count as numbers too. Neither NaN nor infinite.
  std::optional<double> number(std::string_view key, double least, double most);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  /// A table as a JSON object.
  std::optional<Json> object(std::string_view key);

  /// Keeps an error about `key`'s value, with its line.
  void fail(std::string_view key, const std::string& message);
  void fail_at(std::uint32_t line, const std::string& message);
  void keep(const Error& error);

  Result<void> finish();
  const std::string& file() const { return file_; }
  std::uint32_t line() const { return line_; }
  /// "models.fast.price", for a member.
  std::string path_of(std::string_view key) const;

 private:
  void wrong_kind(std::string_view key, const TomlValue& value, std::string_view wanted);
  const TomlValue::Table* table_ = nullptr;
  std::string file_, path_;
  std::uint32_t line_ = 0;
  std::vector<std::string> asked_;
  std::optional<Error> error_;
};

}  // namespace ptxbench::base

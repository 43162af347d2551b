#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::knowledge {

/// One fact of numbers.toml.
struct Number {
  std::string group, key;
  std::string label;       ///< its row in a table
  std::string text;        ///< as documents print it, "227 KiB"
  std::int64_t value = 0;  ///< in units of one
  std::string equals;      ///< an expression over other facts that must give `value`, or empty
  std::string attribute;   ///< the device attribute that has this value, or empty
  std::uint32_t line = 0;

  std::string name() const { return group + "." + key; }
};

/// The data file that every number of the documents comes from: facts by scope ("common" or a target), group and key.
class Numbers {
 public:
  static Result<Numbers> load(const std::filesystem::path& file);

  /// The fact of that target, or the one for all. The error suggests the nearest name.
  Result<const Number*> find(std::string_view target, std::string_view name) const;
  /// A Markdown table of a group, in the order of the file.
  Result<std::string> table(std::string_view target, std::string_view group) const;
  /// All facts that hold for a target.
  std::vector<const Number*> of(std::string_view target) const;

  /// What is wrong: texts that do not say the value, and expressions that give another one.
  std::vector<std::string> contradictions() const;

 private:
  std::string file_;
  std::map<std::string, std::vector<Number>, std::less<>> scopes_;
};

/// The value of "a.b * 2 - (c.d + 16) / 8"; integers, where division must leave nothing. `find` gives names a value.
Result<std::int64_t> evaluate(std::string_view expression, const Numbers& numbers, std::string_view target);

}  // namespace ptxbench::knowledge

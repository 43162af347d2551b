#include "launch/toml_reader.h"

#include <algorithm>
#include <utility>

// The library asserts what hostile text breaks, and without assertions assumes it, which is worse: neither is wanted.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace ptxbench::launch {
namespace {

TomlValue convert(const toml::node& node, uint32_t line_offset) {
  TomlValue result;
  result.line = node.source().begin.line + line_offset;
  if (const auto* text = node.as_string()) {
    result.value = text->get();
  } else if (const auto* integer = node.as_integer()) {
    result.value = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    result.value = number->get();
  } else if (const auto* truth = node.as_boolean()) {
    result.value = truth->get();
  } else if (const auto* array = node.as_array()) {
    TomlValue::Array items;
    for (const toml::node& item : *array) items.items.push_back(convert(item, line_offset));
    result.value = std::move(items);
  } else if (const auto* table = node.as_table()) {
    // The library sorts by key; messages should come in the order of the file.
    std::vector<std::pair<std::string_view, const toml::node*>> members;
    for (const auto& [key, value] : *table) members.emplace_back(key.str(), &value);
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      return a.second->source().begin.line < b.second->source().begin.line;
    });
    TomlValue::Table sorted;
    for (const auto& [key, value] : members) {
      sorted.keys.emplace_back(key);
      sorted.values.push_back(convert(*value, line_offset));
    }
    result.value = std::move(sorted);
  }
  return result;
}

}  // namespace

std::string_view TomlValue::kind() const {
  constexpr std::string_view names[] = {"a date or time", "true or false", "an integer", "a floating-point number",
                                        "a string",       "a list",        "a table"};
  return names[value.index()];
}

Result<TomlValue> read_toml(std::string_view text, std::string_view name, uint32_t first_line) {
  const uint32_t offset = first_line - 1;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return input_error("{}:{}: not a launch description: {}", name, error.source().begin.line + offset,
                       error.description());
  }
  return convert(parsed.table(), offset);
}

}  // namespace ptxbench::launch

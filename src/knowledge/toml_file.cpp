#include "knowledge/toml_file.h"

#include <algorithm>
#include <utility>

// The library asserts what hostile text breaks, and without assertions assumes it, which is worse: neither is wanted.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace ptxbench::knowledge {
namespace {

TomlValue convert(const toml::node& node) {
  TomlValue result;
  result.line = node.source().begin.line;
  if (const auto* text = node.as_string()) {
    result.value = text->get();
  } else if (const auto* integer = node.as_integer()) {
    result.value = integer->get();
  } else if (const auto* truth = node.as_boolean()) {
    result.value = truth->get();
  } else if (const auto* array = node.as_array()) {
    TomlValue::Array items;
    for (const toml::node& item : *array) items.push_back(convert(item));
    result.value = std::move(items);
  } else if (const auto* table = node.as_table()) {
    // The library sorts by key.
    std::vector<std::pair<std::string_view, const toml::node*>> members;
    for (const auto& [key, value] : *table) members.emplace_back(key.str(), &value);
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
      return a.second->source().begin.line < b.second->source().begin.line;
    });
    TomlValue::Table sorted;
    for (const auto& [key, value] : members) {
      sorted.keys.emplace_back(key);
      sorted.values.push_back(convert(*value));
    }
    result.value = std::move(sorted);
  }
  return result;
}

}  // namespace

std::vector<TomlItem> TomlValue::Table::items() const {
  std::vector<TomlItem> items;
  for (std::size_t i = 0; i < keys.size(); ++i) items.push_back({keys[i], values[i]});
  return items;
}

Result<TomlValue> read_toml(std::string_view text, std::string_view name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return input_error("{}:{}: {}", name, parsed.error().source().begin.line, parsed.error().description());
  }
  return convert(parsed.table());
}

Result<std::string> toml_string(const TomlValue& value, std::string_view name, std::string_view key) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  return input_error("{}:{}: {} must be a string", name, value.line, key);
}

Result<std::vector<std::string>> toml_strings(const TomlValue& value, std::string_view name, std::string_view key) {
  const auto* items = value.get_if<TomlValue::Array>();
  if (items == nullptr) return input_error("{}:{}: {} must be a list of strings", name, value.line, key);
  std::vector<std::string> strings;
  for (const TomlValue& item : *items) {
    auto text = toml_string(item, name, fmt::format("each item of {}", key));
    if (!text) return tl::unexpected(text.error());
    strings.push_back(std::move(*text));
  }
  return strings;
}

}  // namespace ptxbench::knowledge

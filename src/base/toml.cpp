#include "base/toml.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

// The library asserts what hostile text breaks, and without assertions assumes it, which is worse: neither is wanted.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace ptxbench::base {
namespace {

TomlValue convert(const toml::node& node, std::uint32_t line_offset) {
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

std::vector<TomlValue::Item> TomlValue::Table::items() const {
  std::vector<Item> out;
  for (std::size_t i = 0; i < keys.size(); ++i) out.push_back({keys[i], values[i]});
  return out;
}

Result<std::string> toml_text(const TomlValue& value, std::string_view file, std::string_view key) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  return input_error("{}:{}: '{}' is {}; it must be a string", file, value.line, key, value.kind());
}

Result<std::vector<std::string>> toml_texts(const TomlValue& value, std::string_view file, std::string_view key) {
  const auto* array = value.get_if<TomlValue::Array>();
  if (array == nullptr)
    return input_error("{}:{}: '{}' is {}; it must be a list of strings", file, value.line, key, value.kind());
  std::vector<std::string> out;
  for (const TomlValue& item : array->items) {
    const auto* text = item.get_if<std::string>();
    if (text == nullptr)
      return input_error("{}:{}: '{}' holds {}; it must hold strings", file, item.line, key, item.kind());
    out.push_back(*text);
  }
  return out;
}

std::string_view TomlValue::kind() const {
  constexpr std::string_view names[] = {"a date or time", "true or false", "an integer", "a floating-point number",
                                        "a string",       "a list",        "a table"};
  return names[value.index()];
}

Result<TomlValue> read_toml(std::string_view text, std::string_view name, std::string_view what,
                            std::uint32_t first_line) {
  const std::uint32_t offset = first_line - 1;
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return input_error("{}:{}: not {}: {}", name, error.source().begin.line + offset, what, error.description());
  }
  return convert(parsed.table(), offset);
}

Result<Json> toml_to_json(const TomlValue& value, std::string_view file) {
  if (const auto* truth = value.get_if<bool>()) return Json(*truth);
  if (const auto* integer = value.get_if<std::int64_t>()) {
    return *integer >= 0 ? Json(static_cast<std::uint64_t>(*integer)) : Json(*integer);
  }
  if (const auto* number = value.get_if<double>()) {
    if (!std::isfinite(*number)) return input_error("{}:{}: the number is not finite", file, value.line);
    return Json(*number);
  }
  if (const auto* text = value.get_if<std::string>()) return Json(*text);
  if (const auto* array = value.get_if<TomlValue::Array>()) {
    Json out = Json::array();
    for (const TomlValue& item : array->items) {
      auto json = toml_to_json(item, file);
      if (!json) return json;
      out.push_back(std::move(*json));
    }
    return out;
  }
  if (const auto* table = value.get_if<TomlValue::Table>()) {
    Json out = Json::object();
    for (std::size_t i = 0; i < table->keys.size(); ++i) {
      auto json = toml_to_json(table->values[i], file);
      if (!json) return json;
      out[table->keys[i]] = std::move(*json);
    }
    return out;
  }
  return input_error("{}:{}: a date or time has no place here; write it as a string", file, value.line);
}

TomlReader::TomlReader(const TomlValue& table, std::string file, std::string path)
    : table_(table.get_if<TomlValue::Table>()), file_(std::move(file)), path_(std::move(path)), line_(table.line) {
  if (table_ == nullptr) fail_at(line_, fmt::format("'{}' is {}; it must be a table", path_, table.kind()));
}

std::string TomlReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const TomlValue* TomlReader::find(std::string_view key) {
  asked_.emplace_back(key);
  if (table_ == nullptr) return nullptr;
  const auto at = std::find(table_->keys.begin(), table_->keys.end(), key);
  return at == table_->keys.end() ? nullptr : &table_->values[static_cast<std::size_t>(at - table_->keys.begin())];
}

void TomlReader::keep(const Error& error) {
  if (!error_) error_ = error;
}

void TomlReader::fail_at(std::uint32_t line, const std::string& message) {
  keep(Error{ErrorKind::input, fmt::format("{}:{}: {}", file_, line, message)});
}

void TomlReader::fail(std::string_view key, const std::string& message) {
  std::uint32_t line = line_;
  if (table_ != nullptr) {
    const auto at = std::find(table_->keys.begin(), table_->keys.end(), key);
    if (at != table_->keys.end()) line = table_->values[static_cast<std::size_t>(at - table_->keys.begin())].line;
  }
  fail_at(line, fmt::format("'{}' {}", path_of(key), message));
}

void TomlReader::wrong_kind(std::string_view key, const TomlValue& value, std::string_view wanted) {
  fail_at(value.line, fmt::format("'{}' is {}; it must be {}", path_of(key), value.kind(), wanted));
}

std::optional<std::string> TomlReader::text(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto text = toml_text(*value, file_, path_of(key));
  if (text) return std::move(*text);
  keep(text.error());
  return std::nullopt;
}

std::optional<bool> TomlReader::flag(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* truth = value->get_if<bool>()) return *truth;
  wrong_kind(key, *value, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> TomlReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* integer = value->get_if<std::int64_t>();
  if (integer == nullptr) {
    wrong_kind(key, *value, "an integer");
    return std::nullopt;
  }
  if (*integer < least || *integer > most) {
    fail_at(value->line, fmt::format("'{}' is {}; it must be {} to {}", path_of(key), *integer, least, most));
    return std::nullopt;
  }
  return *integer;
}

std::optional<double> TomlReader::number(std::string_view key, double least, double most) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  double number = std::numeric_limits<double>::quiet_NaN();
  if (const auto* integer = value->get_if<std::int64_t>()) {
    number = static_cast<double>(*integer);
  } else if (const auto* floating = value->get_if<double>()) {
    number = *floating;
  } else {
    wrong_kind(key, *value, "a number");
    return std::nullopt;
  }
  if (!(number >= least && number <= most)) {
    fail_at(value->line, fmt::format("'{}' is {}; it must be {} to {}", path_of(key), number, least, most));
    return std::nullopt;
  }
  return number;
}

std::optional<std::vector<std::string>> TomlReader::texts(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  auto texts = toml_texts(*value, file_, path_of(key));
  if (texts) return std::move(*texts);
  keep(texts.error());
  return std::nullopt;
}

std::optional<Json> TomlReader::object(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->get_if<TomlValue::Table>() == nullptr) {
    wrong_kind(key, *value, "a table");
    return std::nullopt;
  }
  auto json = toml_to_json(*value, file_);
  if (!json) {
    keep(json.error());
    return std::nullopt;
  }
  return std::move(*json);
}

Result<void> TomlReader::finish() {
  if (table_ != nullptr) {
    for (std::size_t i = 0; i < table_->keys.size(); ++i) {
      const std::string& key = table_->keys[i];
      if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
      fail_at(table_->values[i].line, fmt::format("unknown key '{}'{}; known are {}", path_of(key),
                                                  did_you_mean(key, asked_), fmt::join(asked_, ", ")));
      break;
    }
  }
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

}  // namespace ptxbench::base

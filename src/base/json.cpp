#include "base/json.h"

#include <vector>

#include "base/text.h"

namespace ptxbench::base {

Result<Json> parse_json(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    std::size_t at = error.byte == 0 ? 0 : error.byte - 1;
    if (at > text.size()) at = text.size();
    const std::string_view before = text.substr(0, at);
    std::size_t line = 1;
    std::size_t column = 1;
    for (const char c : before) {
      ++column;
      if (c == '\n') {
        ++line;
        column = 1;
      }
    }
    return input_error("{} is not valid JSON at line {}, column {}: {}", what, line, column, error.what());
  } catch (const nlohmann::json::exception& error) {
    return input_error("{} is not valid JSON: {}", what, error.what());
  }
}

std::string_view json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "object";
    case Json::value_t::array:
      return "array";
    case Json::value_t::string:
      return "string";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::null:
      return "null";
    default:
      return "number";
  }
}

Result<const Json*> required_member(const Json& object, std::string_view key, std::string_view path) {
  if (!object.is_object()) return input_error("{}: an object is needed, found {}", path, json_type_name(object));
  const auto found = object.find(key);
  if (found != object.end()) return &*found;
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return input_error("{}: the field \"{}\" is missing{}", path, key, did_you_mean(key, keys));
}

const Json* optional_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace ptxbench::base

#include "base/json.h"

#include <set>
#include <vector>

#include "base/text.h"

namespace ptxbench::base {
namespace {

constexpr int kMaxDepth = 256;
constexpr std::size_t kMostKeys = 4096;  ///< of one object: they are found, and inserted, by looking at each

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<Json> parse(std::string_view text, std::string_view what, const Json::parser_callback_t& callback) {
  if (is_too_deep(text)) return input_error("{}: nested more than {} levels deep", what, kMaxDepth);
  try {
    return Json::parse(text, callback);
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

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) { return parse(text, what, nullptr); }

Result<Json> parse_json_unique(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> open_objects;
  std::string twice;
  bool too_many = false;
  auto json = parse(text, what, [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second && twice.empty()) twice = key;
      if (open_objects.back().size() > kMostKeys) {
        too_many = true;
        return false;
      }
    }
    return true;
  });
  if (json && too_many) return input_error("{}: an object has more than {} keys", what, kMostKeys);
  if (json && !twice.empty()) return input_error("{}: an object has the key \"{}\" twice", what, twice);
  return json;
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

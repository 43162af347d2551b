#include "base/json.h"

#include <set>
#include <vector>

#include "base/text.h"

namespace ptxbench::base {
namespace {

constexpr int kMaxDepth = 256;
constexpr std::size_t kMostKeys = 16384;  ///< of one object: they are found, and inserted, by looking at each

constexpr std::size_t kShortestMember = 5;  ///< bytes: "":0,

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

/// Looks at keys only. Not as a callback of the parser: with one, that searches a whole list after each of its objects.
class KeyChecker : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second && twice.empty()) twice = name;
    too_many = open_.back().size() > kMostKeys;
    return !too_many;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  std::string twice;
  bool too_many = false;

 private:
  std::vector<std::set<std::string>> open_;
};

Result<Json> parse(std::string_view text, std::string_view what) {
  if (is_too_deep(text)) return input_error("{}: nested more than {} levels deep", what, kMaxDepth);
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

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  // Short texts have no room for too many.
  if (text.size() > kMostKeys * kShortestMember) {
    KeyChecker keys;
    Json::sax_parse(text, &keys);
    if (keys.too_many) return input_error("{}: an object has more than {} keys", what, kMostKeys);
  }
  return parse(text, what);
}

Result<Json> parse_json_unique(std::string_view text, std::string_view what) {
  KeyChecker keys;
  Json::sax_parse(text, &keys);
  if (keys.too_many) return input_error("{}: an object has more than {} keys", what, kMostKeys);
  auto json = parse(text, what);
  if (json && !keys.twice.empty()) return input_error("{}: an object has the key \"{}\" twice", what, keys.twice);
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
